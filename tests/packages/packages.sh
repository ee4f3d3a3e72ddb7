#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Debian packages: they are built from the tree, lintian finds no error in them, and
# what they promise (debian/tests/installed) works in a chroot that has nothing else. Their
# removal leaves nothing behind. The chroot comes from the archives that this machine's apt
# uses. Needs root, and the packages that tools/install-dependencies calls "package".
#
#	tests/packages/packages.sh
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || skip "a chroot needs root"
	need dpkg-buildpackage:dpkg-dev dh:debhelper dh_python3:dh-python lintian:lintian mmdebstrap:mmdebstrap ip:iproute2
	missing=$("$root/tools/build-packages" --missing)
	[ -z "$missing" ] || skip "the build needs $missing"
	seal
fi
work=$2
chroot=$work/chroot
export LC_ALL=C.UTF-8
mkdir "$work/debs"

"$root/tools/build-packages" "$work/debs" >"$work/out" 2>&1 || fail "tools/build-packages"
for package in switchml libswitchml0 libswitchml-dev python3-switchml switchml-mpi; do
	ls "$work/debs/${package}_"*.deb >/dev/null 2>"$work/out" || fail "there is no package $package"
done
[ "$(dpkg-parsechangelog -l "$root/debian/changelog" -S Version)" = \
	"$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")" ] || fail "debian/changelog has another version"
echo "ok: tools/build-packages"

lintian --allow-root --fail-on error "$work"/debs/*.changes >"$work/out" 2>&1 || fail "lintian"
echo "ok: lintian finds no error$(grep -c '^W:' "$work/out" | sed 's/^/; warnings: /')"

make_chroot build-essential cmake openmpi-bin pkg-config

# Packages that another one needs exist; they can be fetched; they are installed.
cp -r "$work/debs" "$chroot/debs"
files=("$chroot"/debs/*.deb)
in_chroot apt-get install -s "${files[@]#"$chroot"}" || fail "the packages cannot be installed"
in_chroot apt-get install -y --no-install-recommends --download-only "${files[@]#"$chroot"}" ||
	skip "the archives cannot be reached: $(tail -n 1 "$work/out")"
in_chroot apt-get install -y --no-install-recommends "${files[@]#"$chroot"}" || fail "apt-get install"
echo "ok: the packages are installed in a clean chroot of $(sed -n 's/^PRETTY_NAME=//p' "$chroot/etc/os-release")"

for file in /etc/switchml/switch.conf '/*lib/systemd/system/switchml-switch.service' /usr/share/man/man1/switchml.1.gz \
	/usr/share/man/man7/switchml.7.gz /usr/share/bash-completion/completions/switchml /usr/share/zsh/vendor-completions/_switchml; do
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
