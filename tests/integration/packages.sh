#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Debian packages: they are built from the tree, lintian finds no error in them, and
# what they promise (debian/tests/installed) works in a chroot that has nothing else. Their
# removal leaves nothing behind. The chroot comes from the archives that this machine's apt
# uses. Needs root, and the packages that tools/install-dependencies calls "package".
#
#	tests/integration/packages.sh
#
# All runs in its own namespaces of mounts and processes, which end with this script,
# whatever ends it. Then all files are removed, by a process that waits for that end.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)

skip() {
	echo "skipped: $1"
	exit 77
}

fail() {
	echo "FAILED: $1"
	tail -n 30 "$work/out"
	exit 1
}

# ---- outside ----

outside() {
	[ "$(id -u)" = 0 ] || skip "a chroot needs root"
	for tool in dpkg-buildpackage:dpkg-dev dh:debhelper dh_python3:dh-python lintian:lintian \
		mmdebstrap:mmdebstrap unshare:util-linux ip:iproute2; do
		command -v "${tool%:*}" >/dev/null || skip "there is no ${tool%:*} (Debian: ${tool#*:})"
	done
	missing=$("$root/tools/build-packages" --missing)
	[ -z "$missing" ] || skip "the build needs $missing"
	unshare --mount --pid --fork --net true 2>/dev/null || skip "no namespaces may be made here"
	work=$(mktemp -d) || exit 1
	chmod 755 "$work"
	# Ends when the last process that could write there has.
	mkfifo "$work/alive" || exit 1
	# shellcheck disable=SC2016 # for that shell
	setsid bash -c 'trap "" INT TERM HUP; cat "$0/alive"; rm -rf "$0"' "$work" >/dev/null 2>&1 &
	exec 9>"$work/alive"
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
		"$0" inside "$work" &
	trap 'kill -9 $! 2>/dev/null' EXIT
	wait $!
	status=$?
	trap - EXIT
	exec 9>&-
	while [ -e "$work" ]; do sleep 0.1; done
	exit $status
}

[ "${1:-}" = inside ] || outside

# ---- inside ----

work=$2
chroot=$work/chroot
export TMPDIR=$work/tmp LC_ALL=C.UTF-8
mkdir "$TMPDIR" "$work/debs"
chmod 1777 "$TMPDIR"

in_chroot() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
		http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" chroot "$chroot" "$@" >"$work/out" 2>&1
}

"$root/tools/build-packages" "$work/debs" >"$work/out" 2>&1 || fail "tools/build-packages"
for package in switchml libswitchml0 libswitchml-dev python3-switchml switchml-mpi; do
	ls "$work/debs/${package}_"*.deb >/dev/null 2>"$work/out" || fail "there is no package $package"
done
[ "$(dpkg-parsechangelog -l "$root/debian/changelog" -S Version)" = \
	"$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")" ] || fail "debian/changelog has another version"
echo "ok: tools/build-packages"

lintian --allow-root --fail-on error "$work"/debs/*.changes >"$work/out" 2>&1 || fail "lintian"
echo "ok: lintian finds no error$(grep -c '^W:' "$work/out" | sed 's/^/; warnings: /')"

# Debian's archives, as apt has them here, with its proxies and their like.
# shellcheck disable=SC2016 # apt's words
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
	sort -u >"$work/sources"
[ -s "$work/sources" ] || skip "apt knows no archive of Debian here; apt-get update helps"
options=(--variant=apt --skip=cleanup/apt/lists "--include=build-essential cmake openmpi-bin pkg-config")
! grep -q https: "$work/sources" || options+=(--include=ca-certificates)
[ ! -d /usr/share/keyrings ] || options+=(--keyring=/usr/share/keyrings)
while IFS= read -r option; do
	options+=("--aptopt=$option")
done < <(apt-config dump | grep -E '^Acquire::(https?|Retries|Check-Valid-Until|ForceIPv)')
mmdebstrap "${options[@]}" "" "$chroot" - <"$work/sources" >"$work/out" 2>&1 ||
	skip "no chroot can be made here: $(grep '^E:' "$work/out" | tail -n 1)"
mount -t proc proc "$chroot/proc" || skip "no /proc can be mounted in a chroot here"
[ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$chroot/etc/"

# Packages that another one needs exist; they can be fetched; they are installed.
cp -r "$work/debs" "$chroot/debs"
files=("$chroot"/debs/*.deb)
in_chroot apt-get install -s "${files[@]#"$chroot"}" || fail "the packages cannot be installed"
in_chroot apt-get install -y --no-install-recommends --download-only "${files[@]#"$chroot"}" ||
	skip "the archives cannot be reached: $(tail -n 1 "$work/out")"
in_chroot apt-get install -y --no-install-recommends "${files[@]#"$chroot"}" || fail "apt-get install"
echo "ok: the packages are installed in a clean chroot of $(sed -n 's/^PRETTY_NAME=//p' "$chroot/etc/os-release")"

for file in /etc/switchml/switch.conf '/*lib/systemd/system/switchml-switch.service' /usr/share/man/man1/switchml.1.gz \
	/usr/share/bash-completion/completions/switchml /usr/share/zsh/vendor-completions/_switchml; do
	in_chroot sh -c "dpkg -L switchml | grep -x '${file/\*/.*}'" || fail "package switchml has no $file"
done

# A network of its own: no port of this machine is taken.
cp "$root/debian/tests/installed" "$chroot/debs/"
unshare --net sh -c 'ip link set lo up && exec "$@"' sh \
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$chroot" /debs/installed >"$work/out" 2>&1 ||
	fail "debian/tests/installed"
sed 's/^ok: /ok: installed: /' "$work/out"

in_chroot dpkg --purge switchml libswitchml0 libswitchml-dev python3-switchml switchml-mpi || fail "dpkg --purge"
in_chroot find /etc /usr -iname '*switchml*'
[ ! -s "$work/out" ] || fail "files are left after a removal"
echo "ok: their removal leaves nothing behind"
