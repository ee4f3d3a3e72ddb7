#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Containerfile: an image is built from it, and a switch in a container of that image sums
# a job of this machine. Where the base image cannot be pulled, Debian from the archives that
# apt uses here takes its place; all steps of the Containerfile run in any case. Needs root
# and buildah.
#
#	tests/packages/container.sh build/switchml
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"
# shellcheck source=tests/support/await.sh
. "$root/tests/support/await.sh"

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || skip "the chroot of a container needs root"
	need buildah:buildah mmdebstrap:mmdebstrap
	switchml=$(realpath "$1")
	export switchml
	seal
fi
work=$2
builder=(buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs)
export BUILDAH_ISOLATION=chroot

# The base image has the Containerfile's own name in any case: the command is the page's.
name=$(sed -n 's/^ARG BASE=//p' "$root/Containerfile")
build=$(sed -n 's/^    \(buildah build [^#]*[^ #]\) *#.*/\1/p' "$root/docs/installing.md")
[ "$build" = "buildah build -t switchml ." ] || fail "docs/installing.md has another command: '$build'"
if ! timeout 120 "${builder[@]}" pull -q "$name" >"$work/out" 2>&1; then
	debian "$work/base.tar"
	base=$("${builder[@]}" from scratch) && "${builder[@]}" add -q "$base" "$work/base.tar" >"$work/out" 2>&1 &&
		"${builder[@]}" commit -q --rm "$base" "$name" >>"$work/out" 2>&1 || fail "no image of Debian"
	rm "$work/base.tar"
	echo "left out: pulling $name (no such registry can be reached); Debian from apt's archives is the base"
fi

# shellcheck disable=SC2086 # words
(cd "$root" && "${builder[@]}" build --network host ${build#buildah build }) >"$work/out" 2>&1 ||
	{ ! grep -Eq 'E: (Failed to fetch|Unable to fetch)|Could not resolve' "$work/out" || skip "no network in a container"
	fail "$build"; }
echo "ok: the image is built"

"${builder[@]}" from --name switch switchml >"$work/out" 2>&1 || fail "buildah from"
[ "$("${builder[@]}" run switch -- switchml --version 2>&1)" = "$("$switchml" --version)" ] || fail "switchml --version"
"${builder[@]}" run --network host switch -- sh -c 'ls /usr/lib/*/libswitchml.so.0; id -u' >"$work/out" 2>&1 ||
	fail "there is no library"
[ "$(tail -n 1 "$work/out")" = 65534 ] || fail "it runs as another user"
! "${builder[@]}" run switch -- sh -c 'command -v cc' >/dev/null 2>&1 || fail "the image has a compiler"

# With the image's own command, but on a free port.
"${builder[@]}" inspect --type image --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' switchml >"$work/out" 2>&1
[ "$(cat "$work/out")" = "[switchml] [switch]" ] || fail "it starts another program"
"${builder[@]}" run --network host switch -- switchml switch --listen 127.0.0.1:0 >"$work/switch" 2>&1 &
await_switch "$work/switch"
"$switchml" bench --switch "$address" --local-workers 2 -b 1M -e 1M -n 5 >"$work/out" 2>&1 || fail "a job"
grep -q 'Wrong elements: 0 OK' "$work/out" || fail "a wrong sum"
echo "ok: a switch in a container sums a job"
