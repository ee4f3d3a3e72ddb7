#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The manifests for Kubernetes against published schemas, which packages of PyPI have. No
# cluster is needed, and none is tried.
#
#	tests/packages/kubernetes.sh
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
	echo "skipped: $1"
	exit 77
}

{ python3 -m venv "$work/venv" &&
	timeout 300 "$work/venv/bin/pip" install -q kubernetes-validate==1.37.0 kubeflow-training==1.9.4 PyYAML; } >"$work/out" 2>&1 ||
	skip "kubernetes-validate and kubeflow-training cannot be installed: $(grep -i error "$work/out" | tail -n 1)"
"$work/venv/bin/python" "$root/tests/packages/kubernetes-schemas" "$root"/packaging/kubernetes/*.yaml
