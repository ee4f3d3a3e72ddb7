#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A fresh machine, in a root made from packages, which has nothing of what the README needs. The
# README's commands, as they stand there, end with the table that has Gloo in it, and the first
# snippet of docs/python.md sums through a switch that runs there. Needs root and mmdebstrap.
#
#	tests/integration/fresh.sh bookworm|trixie [--torch]
#
# --torch: also the PyTorch snippet of the README, with a wheel from PyPI. Some minutes; `make fresh`.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || skip "a fresh root needs root"
	need mmdebstrap:mmdebstrap
	suite=$1 torch=${2:-}
	export suite torch
	seal
fi
work=$2
machine=$work/root

# shellcheck disable=SC2034 # sealed.sh reads it
debian_suite=$suite
debian "$machine"
# What a running machine has; a root that is no mount cannot be made private (unshare --mount).
mount --bind "$machine" "$machine" || skip "nothing can be mounted in a chroot here"
for place in proc sys dev; do
	mkdir -p "$machine/$place"
	mount --rbind "/$place" "$machine/$place" && mount --make-rslave "$machine/$place" ||
		skip "nothing can be mounted in a chroot here"
done
mount -t tmpfs run "$machine/run" && mount -t tmpfs tmp "$machine/tmp" -o mode=1777 || skip "no tmpfs in a chroot here"
cp /etc/resolv.conf /etc/hosts "$machine/etc/"
mkdir "$machine/switchml"
(cd "$root" && tools/list-files | tar --null --no-recursion -T - -c) | tar -xC "$machine/switchml" || fail "a copy of the tree"

# Command: as root, in the tree. A machine behind a proxy knows it.
on_machine() {
	local variable known=()
	for variable in http_proxy https_proxy no_proxy; do
		[ -z "${!variable:-}" ] || known+=("$variable=${!variable}")
	done
	env -i "${known[@]}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		chroot "$machine" bash -c "cd /switchml && $1" >"$work/out" 2>&1
}

# Document, pattern: the document's only line with this command, without `sudo`, which root need not have.
line_of() {
	local lines
	lines=$(sed -n "s/^    \(sudo \)\?\($2\)/\2/p" "$root/$1" | sed 's/  *#.*//')
	[ "$(wc -l <<<"$lines")" = 1 ] && [ -n "$lines" ] || fail "$1 has not one line of '$2'"
	echo "$lines"
}

# Document, number: its n-th Python block.
snippet_of() {
	awk -v wanted="$2" '/^```python/ { n++; inside = n == wanted; next } /^```/ { inside = 0 } inside' "$root/$1"
}

name=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' "$machine/etc/os-release")
make=$(line_of README.md 'apt-get install') || { echo "$make"; exit 1; }
on_machine "$make" || skip "Debian cannot be fetched here"
demo=$(line_of README.md 'make demo') || { echo "$demo"; exit 1; }
if ! on_machine "$demo"; then
	! grep -Eq 'Failed to fetch|Unable to fetch|Could not resolve' "$work/out" || skip "Debian cannot be fetched here"
	fail "$demo on a fresh $name"
fi
grep -q "│ Gloo's ring .*│ *[0-9]* ms │.*yes │" "$work/out" ||
	{ ! grep -q 'no emulated links' "$work/out" || skip "$(grep 'no emulated links' "$work/out")"
	fail "$demo on a fresh $name shows no table with Gloo in it"; }
grep '│' "$work/out"
echo "ok: $demo on a fresh $name"

# Two ranks of /program.py through a switch of that machine.
two_ranks() {
	cat >"$machine/two-ranks" <<-END
		[ "$1" != python3 ] || { $library; }
		export MASTER_ADDR=127.0.0.1 MASTER_PORT=29512 WORLD_SIZE=2
		build/switchml switch --listen 127.0.0.1:28512 >/switch 2>&1 &
		switch=\$!
		until grep -q 'ready on' /switch || ! kill -0 \$switch; do sleep 0.1; done
		export SWITCHML_SWITCH=127.0.0.1:28512
		RANK=1 $1 /program.py & RANK=0 $1 /program.py && wait \$!
		status=\$?
		kill \$switch
		exit \$status
	END
	on_machine "unshare --net sh -c 'ip link set lo up && . /two-ranks'" || fail "$2 on a fresh $name"
	grep -q 'has ended: [1-9].* through the switch at 127.0.0.1:28512' "$work/out" || fail "$2: not through the switch"
	echo "ok: $2 on a fresh $name: $(grep -m 1 -o 'has ended: .* through the switch' "$work/out")"
}

library=$(line_of docs/python.md 'make && export PYTHONPATH') || { echo "$library"; exit 1; }
on_machine "apt-get install -y --no-install-recommends python3-numpy && $library" || fail "$library on a fresh $name"
snippet_of docs/python.md 1 >"$machine/program.py"
two_ranks python3 "the snippet of docs/python.md"

[ "$torch" = --torch ] || exit 0
install=$(sed -n '/^    /!d; s/^    //; s/^sudo //; s/  *#.*//; /venv\|pip install/p' "$root/docs/pytorch.md")
[ "$(grep -c 'pip install' <<<"$install")" = 2 ] || fail "docs/pytorch.md has other commands: $install"
on_machine "set -e; $install" ||
	{ grep -q 'ERROR: .*\(No matching\|Could not find\|HTTP\)' "$work/out" || fail "docs/pytorch.md: $install"
	echo "left out: PyTorch ($(grep -m 1 ERROR "$work/out"))"; exit 0; }
snippet_of README.md 1 >"$machine/program.py"
two_ranks /switchml/venv/bin/python "the snippet of the README"
