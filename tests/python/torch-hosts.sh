#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# torchrun starts four ranks on each of two hosts, which train the example through one switch, and
# without one. The ranks of a host share memory: the parameters have the same bits as through the
# switch with SWITCHML_SHARED_MEMORY=0, and the hosts send a quarter of the bytes (without a switch,
# 2(n-1)/n of the tensor for each of n hosts: as much). Needs root, and a Python with PyTorch.
#
#	tests/python/torch-hosts.sh build/switchml
switchml=$(realpath "$1")
ranks=2 # hosts
each=4
support=$(dirname "$0")/../support
root=$(realpath "$support/../..")
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"
example=$root/examples/torch_ddp.py

for place in "$root/build-python/venv/bin" "${SML_TORCH:-}"; do
	[ ! -x "$place/torchrun" ] || ! "$place/python3" -c "import numpy, torch" 2>/dev/null || torch=${torch:-$place}
done
[ -n "${torch:-}" ] || skip "build-python/venv has no PyTorch (make test-python)"

# How, settings: train, and count the bytes.
declare -A sent
train() {
	local how=$1 host before
	shift
	before=$(bytes_sent)
	pids=()
	for ((host = 0; host < ranks; host++)); do
		(on_host $host env PATH="$torch:$PATH" PYTHONPATH="$root/bindings/python" OMP_NUM_THREADS=1 \
			SWITCHML_TIMEOUT=300 SWITCHML_WIRE=int32 SWITCHML_DEBUG=info "$@" \
			timeout 500 torchrun --nnodes $ranks --nproc-per-node $each --node-rank $host \
			--master-addr 10.77.0.10 --master-port 29500 "$example" --width 512 --epochs 2 \
			>"$work/$how.$host" 2>&1) &
		pids+=($!)
	done
	expect_success "training, $how" "${pids[@]}"
	sent[$how]=$(($(bytes_sent) - before))
}

# How: what the sums decide.
facts() {
	grep -hoE 'epoch .*: loss .*|parameters, .*checksum [0-9a-f]+|accuracy [0-9.]+ %' "$work/$1.0"
}

# How, number: so many ranks of each host have said that they share memory.
expect_sharing() {
	local host n
	for ((host = 0; host < ranks; host++)); do
		n=$(grep -c "share this host's memory" "$work/$1.$host")
		if [ "$n" = "$2" ]; then
			echo "ok: $1: $n of the $each ranks of host $host share memory"
		else
			fail "$1: $n of the $each ranks of host $host share memory, not $2"
		fi
	done
}

set_up_hosts
start_switch
train flat SWITCHML_SWITCH=10.77.0.1 SWITCHML_SHARED_MEMORY=0
train grouped SWITCHML_SWITCH=10.77.0.1
train alone
expect_sharing flat 0
for how in flat grouped alone; do
	facts $how >"$work/$how.facts"
done
for how in grouped alone; do
	expect_sharing $how $each
	if grep -q 'the same on all ranks.*checksum' "$work/flat.facts" && cmp "$work/flat.facts" "$work/$how.facts"; then
		echo "ok: $how: the same bits: $(tr '\n' ' ' <"$work/$how.facts")"
	else
		fail "$how: the same bits"
	fi
	share=$((100 * sent[$how] / sent[flat]))
	if [ $share -lt 40 ]; then
		echo "ok: $how: the hosts send $share % of the bytes: ${sent[$how]} of ${sent[flat]}"
	else
		fail "$how: the hosts send $share % of the bytes: ${sent[$how]} of ${sent[flat]}"
	fi
done
[ $failures = 0 ]
