#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Another compiler than the one of the other tests: the whole tree builds without a warning with
# clang.
#
#	tests/packages/compilers.sh
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

need clang:clang meson:meson ninja:ninja-build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What builds a tree in which no warning is allowed: source, build.
warn_of_nothing='meson setup "$2" "$1" --buildtype=release -Dtests=enabled -Dwerror=true && ninja -C "$2"'

CC=clang bash -c "$warn_of_nothing" clang "$root" "$work/clang" >"$work/out" 2>&1 || fail "the build with clang"
meson test -C "$work/clang" --no-rebuild -t 5 test_worker test_pool test_vectors test_transport test_quantize \
	test_quantize_versions \
	>"$work/out" 2>&1 || fail "unit tests of the build with clang"
echo "ok: $(clang --version | head -n 1) has no warning, and $(sed -n 's/^Ok: *//p' "$work/out") unit tests pass"
