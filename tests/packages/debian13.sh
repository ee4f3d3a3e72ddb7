#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The newer compilers of Debian 13, in a root that is made for that: the whole tree builds without a
# warning with its GCC, and the kernel's programs with its clang.
#
#	tests/packages/debian13.sh
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

seal_a_root "$@"

# The packages that tools/install-dependencies names, without those that no compiler needs, and without
# MPI and Fortran, which are large.
mapfile -t packages < <(sed -n 's/^\(build\|xdp\|test\)="\(.*\)"$/\2/p' "$root/tools/install-dependencies" |
	tr ' ' '\n' | grep -Ev '^(python3.*|.*openmpi.*|gfortran|openssl)$')
[ "${#packages[@]}" -gt 15 ] || fail "tools/install-dependencies names no packages"
# Only unpacked: that takes half the time, and compilers need little more.
debian_suite=trixie debian_options=(--variant=extract)
debian "$machine" "${packages[@]}" base-files coreutils dash grep sed meson ninja-build
mkdir "$machine/source" "$machine/build"
mount --bind "$root" "$machine/source" && mount -o remount,bind,ro "$machine/source" && mount -t proc proc "$machine/proc" ||
	skip "nothing can be mounted in a chroot here"

in_root() {
	env -i PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8 CC=gcc chroot "$machine" "$@"
}

{
	in_root meson setup /build /source --buildtype=release -Dtests=enabled -Dwerror=true -Dxdp=enabled &&
		in_root ninja -C /build
} >"$work/out" 2>&1 || fail "the build on $(release_of_root)"
! grep 'warning:' "$work/out" || fail "a warning that is no error"
echo "ok: $(in_root gcc --version | head -n 1) and, for the kernel's programs, $(in_root clang --version | head -n 1)"
