#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Debian packages for arm64, built on another machine: a chroot with Debian's cross compiler and
# the arm64 libraries builds them, they have no program of another architecture, lintian finds no
# error in them, and their program and library, unpacked and run by qemu-user, sum with a rank of
# this machine to the same bits. The chroot comes from the archives that this machine's apt uses.
#
#	tests/packages/arm64-packages.sh RANK_OF_BITS
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

if [ "${1:-}" != inside ] && [ "${1:-}" != alone ]; then
	[ "$(uname -m)" = x86_64 ] || skip "this machine is no x86-64"
	[ "$(id -u)" = 0 ] || skip "a chroot needs root"
	need dpkg-deb:dpkg file:file lintian:lintian mmdebstrap:mmdebstrap ip:iproute2 qemu-aarch64:qemu-user
	RANK_OF_BITS=$1
	export RANK_OF_BITS
	seal
fi
work=$2
chroot=$work/chroot unpacked=$work/unpacked
export LC_ALL=C.UTF-8

build() {
	debian_options=(--architectures=amd64,arm64 --skip=check/qemu)
	make_chroot build-essential crossbuild-essential-arm64
	mkdir "$chroot/tree" "$chroot/debs"
	(cd "$root" && tools/list-files | tar --null --no-recursion -T - -c) | tar -xC "$chroot/tree"
	in_chroot sh -c 'cd /tree && apt-get build-dep -y --no-install-recommends --host-architecture arm64 \
		-P cross,nocheck --download-only ./' || skip "the archives cannot be reached: $(tail -n 1 "$work/out")"
	in_chroot sh -c 'cd /tree && apt-get build-dep -y --no-install-recommends --host-architecture arm64 \
		-P cross,nocheck ./' || fail "apt-get build-dep for arm64"
	in_chroot /tree/tools/build-packages --arch arm64 /debs || fail "tools/build-packages --arch arm64"
	for package in switchml libswitchml0 libswitchml-dev switchml-mpi; do
		ls "$chroot/debs/${package}_"*_arm64.deb >/dev/null 2>"$work/out" || fail "there is no package $package for arm64"
		dpkg-deb -x "$chroot/debs/${package}_"*_arm64.deb "$unpacked" 2>"$work/out" || fail "dpkg-deb -x of $package"
	done
	echo "ok: tools/build-packages --arch arm64"
	# A user's program, with the header and the library of the package for development.
	cp -r "$unpacked" "$chroot/unpacked"
	in_chroot sh -c 'aarch64-linux-gnu-gcc -std=c17 -D_GNU_SOURCE -I /unpacked/usr/include \
		-o /rank-of-bits /tree/tests/lib/rank_of_bits.c -L /unpacked/usr/lib/aarch64-linux-gnu -lswitchml -lm' ||
		fail "a program with libswitchml-dev"
	mv "$chroot/rank-of-bits" "$work/"
}

# Programs and shared libraries. BPF objects are inside of the program.
has_only_arm64() {
	local file n=0
	while IFS= read -r -d '' file; do
		file -b "$file" >"$work/out"
		grep -q '^ELF' "$work/out" || continue
		grep -q '^ELF 64-bit LSB .*ARM aarch64' "$work/out" || fail "${file#"$unpacked"} is for another architecture"
		n=$((n + 1))
	done < <(find "$unpacked" -type f -print0)
	[ $n -ge 3 ] || fail "there are only $n programs and libraries"
	echo "ok: $n programs and libraries, all for arm64"
}

if [ "$1" != alone ]; then
	build
	has_only_arm64
	# It reads the packages, and does not run them.
	lintian --allow-root --fail-on error "$chroot"/debs/*.changes >"$work/out" 2>&1 || fail "lintian"
	echo "ok: lintian finds no error$(grep -c '^W:' "$work/out" | sed 's/^/; warnings: /')"
	umount "$chroot/proc"
	# A network of its own: no port of this machine is taken.
	exec unshare --net "$0" alone "$work"
fi

# ---- jobs of both: what is installed there, as in a machine's root ----

. "$root/tests/support/await.sh"
ip link set lo up || fail "the loopback device"
folders=$(find "$unpacked/usr/lib" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
on_arm64=(qemu-aarch64 -L "$chroot" -E "LD_LIBRARY_PATH=$folders")
"${on_arm64[@]}" "$unpacked/usr/bin/switchml" --version >"$work/out" 2>&1 || fail "switchml --version"
echo "ok: on arm64: $(head -n 1 "$work/out")"

# Architecture: what a rank runs.
rank_on() {
	case $1 in
	arm64) "${on_arm64[@]}" "$work/rank-of-bits" ;;
	*) "$RANK_OF_BITS" ;;
	esac
}

# shellcheck source=tests/support/architectures.sh
. "$root/tests/support/architectures.sh"
"${on_arm64[@]}" "$unpacked/usr/bin/switchml" switch --listen 127.0.0.1:0 >"$work/switch-arm64" 2>&1 &
await_switch "$work/switch-arm64"
export SWITCHML_SWITCH=$address SWITCHML_SHARED_MEMORY=0
job "the package's switch" x86-64 x86-64
job "the package's switch" arm64 x86-64
job "the package's switch" x86-64 arm64
unset SWITCHML_SWITCH SWITCHML_SHARED_MEMORY
job "no switch" arm64 x86-64
