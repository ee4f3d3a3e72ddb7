#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# arm64, on another machine: everything is built by a cross compiler with the libraries of Debian's
# arm64 packages, and qemu-user runs it. The unit tests pass, the simulator's worlds go as they do
# here, and jobs with ranks of both architectures have the bits that jobs of one have.
#
#	tests/packages/arm64.sh SWITCHML RANK_OF_BITS
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

[ "$(uname -m)" = x86_64 ] || skip "this machine is no x86-64"
need ip:iproute2 aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user mmdebstrap:mmdebstrap meson:meson \
	ninja:ninja-build pkg-config:pkg-config protoc-c:protobuf-c-compiler
if [ "${1:-}" != inside ] && [ "${1:-}" != alone ]; then
	[ "$(id -u)" = 0 ] || skip "the libraries of arm64 are unpacked by root"
	SWITCHML=$1 RANK_OF_BITS=$2
	export SWITCHML RANK_OF_BITS
	seal
fi
work=$2
. "$root/tests/support/await.sh"
sysroot=$work/sysroot build=$work/build switchml=$SWITCHML

if [ "$1" = inside ]; then
	# Only unpacked: no program of another architecture runs for that.
	debian_options=(--architectures=arm64 --variant=extract --skip=check/qemu)
	debian "$sysroot" libevent-dev libssl-dev libprotobuf-c-dev libjansson-dev libcap-ng-dev libseccomp-dev \
		libinih-dev libcmocka-dev libmpfr-dev
	# A network of its own: no port of this machine is taken.
	exec unshare --net "$0" alone "$work"
fi
ip link set lo up || fail "the loopback device"
"$root/tools/cross-file" "$sysroot" >"$work/cross.ini" || fail "tools/cross-file"
meson setup "$build" "$root" --cross-file "$work/cross.ini" --buildtype=release -Dtests=enabled -Dwerror=true \
	>"$work/out" 2>&1 || fail "meson setup for arm64"
# test_sim and test_properties search for minutes; parts of both run below. test_turns measures how
# long this machine takes, which an emulated one does not.
mapfile -t tests < <(meson test -C "$build" --no-rebuild --list --suite unit 2>/dev/null |
	sed -n 's/.*\(test_[a-z0-9_]*\)$/\1/p' | grep -Evx 'test_sim|test_properties|test_turns|test_p4.*')
[ "${#tests[@]}" -gt 40 ] || fail "there are only ${#tests[@]} unit tests"
ninja -C "$build" switchml tests/sim tests/rank-of-bits "${tests[@]/#/tests/}" >"$work/out" 2>&1 || fail "the build for arm64"
echo "ok: everything is built for arm64 without a warning"

meson test -C "$build" --no-rebuild -t 5 "${tests[@]}" >"$work/out" 2>&1 || fail "unit tests on arm64"
echo "ok: $(sed -n 's/^Ok: *//p' "$work/out") unit tests pass on arm64"

on_arm64=(qemu-aarch64 -L "$sysroot")
for worlds in "--seeds 150" "--trees --seeds 100" "--control --seeds 150"; do
	# shellcheck disable=SC2086
	"$(dirname "$switchml")/tests/sim" --quiet $worlds 2>&1 | sed 's/, [0-9.]* s,/,/' >"$work/here"
	# shellcheck disable=SC2086
	"${on_arm64[@]}" "$build/tests/sim" --quiet $worlds 2>&1 | sed 's/, [0-9.]* s,/,/' >"$work/out"
	grep -q ' 0 failed' "$work/out" && cmp -s "$work/here" "$work/out" || fail "sim $worlds: here: $(cat "$work/here")"
done
echo "ok: simulated worlds go the same way: $(cat "$work/out")"

# ---- jobs of both ----

# Architecture, command: what runs a program of this build.
of() {
	local arch=$1
	shift
	if [ "$arch" = arm64 ]; then
		"${on_arm64[@]}" "$build/$1" "${@:2}"
	else
		"$([ "$1" = switchml ] && echo "$switchml" || echo "$RANK_OF_BITS")" "${@:2}"
	fi
}

# Architecture: what a rank runs.
rank_on() {
	of "$1" tests/rank-of-bits
}

# shellcheck source=tests/support/architectures.sh
. "$root/tests/support/architectures.sh"
for arch in x86-64 arm64; do
	of $arch switchml switch --listen 127.0.0.1:0 >"$work/switch-$arch" 2>&1 &
	await_switch "$work/switch-$arch"
	SWITCHML_SWITCH=$address
	export SWITCHML_SWITCH
	SWITCHML_SHARED_MEMORY=0 job "a switch on $arch" x86-64 x86-64 x86-64
	SWITCHML_SHARED_MEMORY=0 job "a switch on $arch" arm64 x86-64 x86-64
	SWITCHML_SHARED_MEMORY=0 job "a switch on $arch" x86-64 arm64 arm64
done
SWITCHML_SHARED_MEMORY=1 job "a switch, and shared memory" x86-64 arm64 x86-64
unset SWITCHML_SWITCH
for group in 0 1; do
	for archs in "arm64 x86-64 x86-64" "x86-64 x86-64 arm64"; do
		# shellcheck disable=SC2086
		SWITCHML_SHARED_MEMORY=$group job "no switch, host group $group" $archs
	done
done
