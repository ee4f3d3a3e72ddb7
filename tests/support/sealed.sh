# SPDX-License-Identifier: BSD-3-Clause
# To be sourced by a script that makes a chroot: the script runs again in its own namespaces
# of mounts and processes, which end with it, whatever ends it. Then a process that waits
# for that end removes all files. Needs root.
# shellcheck shell=bash

skip() {
	echo "skipped: $1"
	exit 77
}

fail() {
	echo "FAILED: $1"
	tail -n 30 "${work:?}/out"
	exit 1
}

# Words PROGRAM:PACKAGE: skip if one is not there.
need() {
	local tool
	for tool; do
		command -v "${tool%:*}" >/dev/null || skip "there is no ${tool%:*} (Debian: ${tool#*:})"
	done
}

# Runs the script again as `SCRIPT inside DIRECTORY`, and exits as that does. The directory
# has tmp/, and $TMPDIR is there.
seal() {
	need unshare:util-linux
	unshare --mount --pid --fork --net true 2>/dev/null || skip "no namespaces may be made here"
	work=$(mktemp -d) || exit 1
	mkdir "$work/tmp" && chmod 755 "$work" && chmod 1777 "$work/tmp" && mkfifo "$work/alive" || exit 1
	# cat ends when the last process that has the other end open has ended.
	# shellcheck disable=SC2016 # for that shell
	setsid bash -c 'trap "" INT TERM HUP; cat "$0/alive"; rm -rf "$0"' "$work" >/dev/null 2>&1 &
	exec 9>"$work/alive"
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	TMPDIR=$work/tmp setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc \
		"$0" inside "$work" &
	# shellcheck disable=SC2064 # this process
	trap "kill -9 $! 2>/dev/null" EXIT
	wait $!
	status=$?
	trap - EXIT
	exec 9>&-
	while [ -e "$work" ]; do sleep 0.1; done
	exit $status
}

# The script's arguments: the beginning of one that makes a root from packages. Run again in its
# namespaces, it has $work there and, for debian(), $machine.
seal_a_root() {
	if [ "${1:-}" != inside ]; then
		[ "$(id -u)" = 0 ] || skip "a root that is made from packages needs root"
		need mmdebstrap:mmdebstrap
		seal
	fi
	# shellcheck disable=SC2034 # the script reads both
	work=$2 machine=$2/root
}

# The release that is in $machine, in words.
release_of_root() {
	sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$machine/etc/os-release"
}

# Directory or FILE.tar, packages: Debian, from the archives that apt uses here, with its
# proxies and their like; its lists of packages stay. $debian_options: more for mmdebstrap;
# $debian_suite: another release.
debian() {
	local target=$1 option options
	shift
	need mmdebstrap:mmdebstrap
	# shellcheck disable=SC2016 # apt's words
	apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
		sort -u >"$work/sources"
	[ -z "${debian_suite:-}" ] || sed -Ei "s/ (bookworm|trixie)( |-)/ $debian_suite\\2/" "$work/sources"
	[ -s "$work/sources" ] || skip "apt knows no archive of Debian here; apt-get update helps"
	! grep -q https: "$work/sources" || set -- "$@" ca-certificates
	options=(--variant=apt --skip=cleanup/apt/lists --dpkgopt=force-unsafe-io "${debian_options[@]}" ${*:+"--include=$*"})
	[ ! -d /usr/share/keyrings ] || options+=(--keyring=/usr/share/keyrings)
	while IFS= read -r option; do
		options+=("--aptopt=$option")
	done < <(apt-config dump | grep -E '^Acquire::(https?|Retries|Check-Valid-Until|ForceIPv)')
	mmdebstrap "${options[@]}" "" "$target" - <"$work/sources" >"$work/out" 2>&1 ||
		skip "Debian cannot be fetched here: $(grep '^E:' "$work/out" | tail -n 1)"
}

# Packages: Debian at $chroot, for in_chroot, with this machine's network.
make_chroot() {
	debian "${chroot:?}" "$@"
	mount -t proc proc "$chroot/proc" || skip "no /proc can be mounted in a chroot here"
	[ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$chroot/etc/"
}

in_chroot() {
	env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 \
		http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" chroot "$chroot" "$@" >"$work/out" 2>&1
}
