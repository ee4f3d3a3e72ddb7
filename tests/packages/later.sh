#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What was installed after the first configuration is in the next build, with the pages' commands:
# Gloo by `make bench`; and the P4 programs by `make`, where their compiler came as a package, or after
# --reconfigure, where it did not (docs/p4.md). The compiler is a stand-in, because no Debian has it.
#
#	tests/packages/later.sh
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 1
unset DESTDIR PREFIX MAKEFLAGS SUDO_UID SUDO_GID CFLAGS LDFLAGS

skip() {
	echo "$1"
	exit 77
}

fail() {
	echo "FAILED: $1"
	tail -n 30 "$work/out"
	exit 1
}

command -v dpkg-query >/dev/null || skip "no dpkg-query: without packages, nothing is configured afresh"
headers=$(dpkg-query -L libgloo-dev 2>/dev/null | grep -m 1 '/gloo$')
[ -d "$headers" ] || skip "there is no Gloo (Debian: libgloo-dev)"
! command -v p4c-bm2-ss >/dev/null || skip "there is a P4 compiler already"
hidden=(unshare --mount)
[ "$(id -u)" = 0 ] || hidden=(unshare --user --map-root-user --mount)
hidden+=(sh -c "mount -t tmpfs tmpfs '$headers' && exec \"\$@\"" sh)
"${hidden[@]}" true 2>/dev/null || skip "no namespace of mounts may be made here"

ninja=$(command -v ninja)
mkdir "$work/bin" "$work/p4"
# The packages of this machine: Gloo's and p4lang's from when they are installed.
cat >"$work/bin/dpkg-query" <<END
#!/bin/sh
"$(command -v dpkg-query)" "\$@" | if [ -e "$work/gloo" ]; then cat; else grep -v libgloo; fi
case "\$* " in
*" p4lang-p4c "*) [ ! -e "$work/p4lang" ] || echo "ii  p4lang-p4c 1.2.5" ;;
esac
END
# This test installs nothing.
printf '#!/bin/sh\nexit 1\n' >"$work/bin/apt-get"
# Parts that are not tested need not be built.
cat >"$work/bin/meson" <<END
#!/bin/sh
[ "\$1" = setup ] && set -- "\$@" -Dtests=disabled -Ddemo=disabled -Dxdp=disabled -Dmpi=disabled
exec "$(command -v meson)" "\$@"
END
# `make bench` builds everything, and measures for half a minute.
cat >"$work/bin/ninja" <<END
#!/bin/sh
[ "\$1" = -C ] || exec "$ninja" "\$@"
"$ninja" "\$@" bench/gloo_allreduce || exit
ln -sf /bin/true "$work/build/bench/micro_worker"
END
cat >"$work/compiler" <<'END'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo compiled >"$2"
END
chmod +x "$work"/bin/* "$work/compiler"
export PATH=$work/p4:$work/bin:$PATH
make="make --no-print-directory BUILD=$work/build MESON=$work/bin/meson"

# Target.
has() {
	"$ninja" -C "$work/build" -t query "$1" >/dev/null 2>&1
}

"${hidden[@]}" $make configure >"$work/out" 2>&1 || fail "make configure"
grep -q 'Gloo, to compare.*: no: tools/install-dependencies' "$work/out" || fail "it does not say what adds Gloo"
! has bench/gloo_allreduce || fail "it has what is not there"
touch "$work/gloo"
$make bench ARGS=--list >"$work/out" 2>&1 && [ -x "$work/build/bench/gloo_allreduce" ] ||
	fail "make bench does not bring Gloo into a build that was configured without"
echo "ok: make bench brings Gloo into a build that was configured without"

# Title, command: after it, the build compiles the P4 programs.
compiles() {
	! has src/p4/switchml-256.json || fail "$1: there is a P4 program already"
	cp "$work/compiler" "$work/p4/p4c-bm2-ss"
	$2 >"$work/out" 2>&1 || fail "$1: $2"
	"$ninja" -C "$work/build" src/p4/switchml-256.json >"$work/out" 2>&1 || fail "$1: no P4 program after $2"
	echo "ok: $1"
}

touch "$work/p4lang"
compiles "make compiles the P4 programs after their compiler came as a package" "$make configure"
rm "$work/p4lang" "$work/p4/p4c-bm2-ss"
$make configure >"$work/out" 2>&1 || fail "make configure, without the compiler"
reconfigure=$(grep -o '`meson setup --reconfigure build`' docs/p4.md | tr -d '`')
compiles "after an installation from source, $reconfigure does" "${reconfigure% build} $work/build"
