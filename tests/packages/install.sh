#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a new user does, with the README's own commands: the demo, its next line,
# installation into another directory than configured, and a program compiled with the
# installed files. As root, it also installs into /usr/local, which is an overlay for this
# test.
#
#	tests/packages/install.sh
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/await.sh
. "$root/tests/support/await.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root" || exit 1
command -v pkg-config >/dev/null || { echo "there is no pkg-config"; exit 77; }
unset DESTDIR PREFIX LD_LIBRARY_PATH PKG_CONFIG_PATH MAKEFLAGS SWITCHML_SWITCH
# Without sanitizers, even if the build that runs this test has them.
unset CFLAGS LDFLAGS

fail() {
	echo "FAILED: $1"
	tail -n 30 "$work/out"
	exit 1
}

# Document, pattern: the document's only line with this command.
line_of() {
	local lines
	lines=$(grep "^    $2" "$1" | sed 's/^    //; s/  *#.*//')
	[ "$(wc -l <<<"$lines")" = 1 ] && [ -n "$lines" ] || fail "$1 has not one line of '$2'"
	echo "$lines"
}

# Parts that are not tested need not be built.
cat >"$work/meson" <<'END'
#!/bin/sh
[ "$1" = setup ] && set -- "$@" --native-file "${0%/*}/no-cmake" -Dtests=disabled -Dbench=disabled -Dmpi=disabled
exec meson "$@"
END
# The build works on a machine without CMake.
printf "[binaries]\ncmake = '/nonexistent/cmake'\n" >"$work/no-cmake"
chmod +x "$work/meson"
make="make --no-print-directory BUILD=$work/build MESON=$work/meson"

# As `sudo` sets them: the README begins with `sudo make demo`, and goes on with `make`.
export SUDO_UID=65534 SUDO_GID=65534
# Command: afterwards, does the user own what was built?
owned() {
	[ "$(id -u)" != 0 ] || [ -z "$(find "$work/build" ! -user 65534)" ] || fail "after $1, root owns a part of the build"
}

$make demo ARGS="--steps 20" >"$work/out" 2>&1 || fail "make demo"
owned "sudo make demo"
bench=$(line_of README.md 'build/switchml bench' | sed 's/64M/1M/') || exit 1
(cd "$work" && bash -c "$bench") >"$work/out" 2>&1 || fail "after make demo: $bench"
echo "ok: make demo, and then $bench"

# Into another directory.
installed=$(stat -c %Y /usr/local/bin/switchml 2>/dev/null)
$make install PREFIX="$work/prefix" >"$work/out" 2>&1 || fail "make install PREFIX=…"
owned "sudo make install"
[ -x "$work/prefix/bin/switchml" ] || fail "make install PREFIX=… does not install there"
[ "$(stat -c %Y /usr/local/bin/switchml 2>/dev/null)" = "$installed" ] || fail "it installs into /usr/local"
settings=$(sed -n 's/^ *\(export [A-Z_]*=.*\)/\1/p' "$work/out")
cat >"$work/finds" <<END
$settings
[ "\$(command -v switchml)" = "$work/prefix/bin/switchml" ] || exit
! command -v man >/dev/null || man -w 3 sml_open | grep -F "$work/prefix/" || exit
pkg-config --libs switchml
END
env -u MANPATH bash "$work/finds" >"$work/finds.out" 2>&1 ||
	fail "what make install says to set is not enough: $settings $(cat "$work/finds.out")"
echo "ok: make install PREFIX=…, after make demo"

# docs/c.md shows the example, which compiles and runs with the commands there.
sed -n '/^```c$/,/^```$/{/^```/d;p}' docs/c.md >"$work/shown.c"
sed 1,2d examples/allreduce.c | diff - "$work/shown.c" >"$work/out" || fail "the program of docs/c.md is another"
compile=$(line_of docs/c.md 'cc ') && ranks=$(line_of docs/c.md 'RANK=1 ') || exit 1
cat >"$work/use" <<END
cd '$root' && cd "\$1" && ln -sf '$root/examples' . && $compile && ($ranks; wait)
END
SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_PORT SWITCHML_TIMEOUT=60
mkdir "$work/elsewhere"
bash -c "$settings
. '$work/use'" use "$work/elsewhere" >"$work/out" 2>&1 || fail "$compile; $ranks"
[ "$(grep -c '^rank [01] of 2: 1498.5$' "$work/out")" = 2 ] || fail "the program has other results"
echo "ok: $compile"

# CMake finds what was installed, and its program runs.
if command -v cmake >/dev/null; then
	mkdir "$work/cmake"
	cp examples/allreduce.c "$work/cmake"
	cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(user C)
find_package(switchml 0.1 REQUIRED)
add_executable(allreduce allreduce.c)
target_link_libraries(allreduce PRIVATE switchml::switchml)
END
	(eval "$(grep CMAKE_PREFIX_PATH <<<"$settings")"
		cd "$work/cmake" && cmake . && cmake --build . &&
		{ RANK=1 WORLD_SIZE=2 ./allreduce & RANK=0 WORLD_SIZE=2 ./allreduce && wait $!; }) >"$work/out" 2>&1 ||
		fail "a program of CMake's"
	[ "$(grep -c '^rank [01] of 2: 1498.5$' "$work/out")" = 2 ] || fail "CMake's program has other results"
	echo "ok: find_package(switchml)"
else
	echo "left out: CMake (there is no cmake)"
fi

# As root, into /usr/local: no message about the library's location is needed.
cat >"$work/as-root" <<END
for at in /usr/local /etc /var; do
	mkdir -p '$work/over/'\$at '$work/work/'\$at
	mount -t overlay -o "lowerdir=\$at,upperdir=$work/over/\$at,workdir=$work/work/\$at" overlay \$at || exit 77
done
$make install PREFIX=/usr/local || exit 1
. '$work/use'
END
if [ "$(id -u)" != 0 ]; then
	echo "left out: into /usr/local (needs root)"
	exit 0
fi
mkdir "$work/usr-local" "$work/tmpfs"
# An overlay's upper directory needs a file system that is no overlay.
unshare --mount bash -c "mount -t tmpfs tmpfs '$work/tmpfs' && mkdir '$work/tmpfs/over' '$work/tmpfs/work' &&
ln -sfn tmpfs/over '$work/over' && ln -sfn tmpfs/work '$work/work' || exit 77
. '$work/as-root'" use "$work/usr-local" >"$work/out" 2>&1
status=$?
case $status in
0) ;;
77) echo "left out: into /usr/local ($(tail -n 1 "$work/out"))"; exit 0 ;;
*) fail "make install into /usr/local, and a program" ;;
esac
[ "$(grep -c '^rank [01] of 2: 1498.5$' "$work/out")" = 2 ] || fail "the program has other results"
grep -q 'export ' "$work/out" && fail "it says that something is not found"
echo "ok: make install into /usr/local, and a program starts"
