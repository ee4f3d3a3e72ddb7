#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A fresh machine, in a root made from packages, which has nothing of what the README needs, and what
# the pages tell a new user to type there, as it stands there:
#
#	README.md           the demo, which ends with the table that has Gloo in it; `make test`
#	docs/python.md      its first snippet, through a switch that runs there
#	docs/pytorch.md     PyTorch in a virtual environment, and the README's snippet
#	docs/xdp.md         a build that has no XDP gets it, and ranks sum in the kernel
#	docs/tutorial.md    every command, on hosts that are network namespaces
#	all pages           every snippet
#
# Each part has a line when it begins, and one when it has passed. The last line of a failure says
# which part failed; before it are the last lines that the part printed. Needs root and mmdebstrap.
#
#	tests/packages/fresh.sh bookworm|trixie     half an hour on two cores; `make fresh` does both
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/support/sealed.sh
. "$root/tests/support/sealed.sh"

[ "${1:-}" = inside ] || export suite=$1 began=$EPOCHSECONDS
seal_a_root "$@"
failures=0

step() {
	echo "== $1 (after $((EPOCHSECONDS - began)) s)"
}

# Title: what is in $work/out is why. Other parts may go on.
failed() {
	tail -n 40 "$work/out"
	echo "FAILED: $1"
	failures=$((failures + 1))
}

give_up() {
	failed "$1"
	exit 1
}

step "a root of Debian's $suite from packages"
# The packages that every Debian has, not only those that a package may assume.
# shellcheck disable=SC2034 # sealed.sh reads both
debian_suite=$suite debian_options=(--variant=minbase)
debian "$machine"
name=$(release_of_root)
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
(cd "$root" && tools/list-files | tar --null --no-recursion -T - -c) | tar -xC "$machine/switchml" ||
	give_up "a copy of the tree"

# A machine behind a proxy, or with a mirror of Python's packages, knows it. Files and directories that
# pip's settings name are in /host there.
known=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8)
for variable in http_proxy https_proxy no_proxy; do
	[ -z "${!variable:-}" ] || known+=("$variable=${!variable}")
done
while IFS== read -r key value; do
	value=${value#\'} value=${value%\'}
	words=()
	for word in $value; do
		path=${word#file://} place=$(dirname "${word#file://}")
		if [[ $path = /* && -e $path ]]; then
			word=${word%"$path"}/host$path
			if [ ! -d "$machine/host$place" ]; then
				mkdir -p "$machine/host$place"
				mount --bind -o ro "$place" "$machine/host$place" || skip "nothing can be mounted in a chroot here"
			fi
		fi
		words+=("$word")
	done
	key=${key##*.}
	key=${key//-/_}
	known+=("PIP_${key^^}=${words[*]}")
done < <(python3 -m pip config list 2>/dev/null)

# Command: as root, in the tree. What takes minutes shows each minute how far it is.
on_machine() {
	local command next=$((SECONDS + 60))
	# Nobody can make a user namespace in a chroot.
	# shellcheck disable=SC2016 # for that shell
	env -i "${known[@]}" unshare --mount sh -c 'cd "$0" && pivot_root . mnt && umount -l /mnt && cd /switchml && exec bash -c "$1"' \
		"$machine" "$1" >"$work/out" 2>&1 &
	command=$!
	while kill -0 $command 2>/dev/null; do
		sleep 0.2
		[ $SECONDS -ge $next ] || continue
		next=$((SECONDS + 60))
		echo "   … $(tail -n 1 "$work/out" | cut -c 1-100)"
	done
	wait $command
}

# Document, pattern: the document's only line with this command, without `sudo`, which root need not have.
line_of() {
	local lines
	lines=$(sed -n "s/^    \(sudo \)\?\($2\)/\2/p" "$root/$1" | sed 's/  *#.*//')
	[ "$(wc -l <<<"$lines")" = 1 ] && [ -n "$lines" ] || { echo "FAILED: $1 has not one line of '$2'" >&2; return 1; }
	echo "$lines"
}

# Document, number: its n-th Python block.
snippet_of() {
	awk -v wanted="$2" '/^```python/ { n++; inside = n == wanted; next } /^```/ { inside = 0 } inside' "$root/$1"
}

# Python, title: two ranks of /program.py through a switch of that machine.
two_ranks() {
	step "$2"
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
	on_machine "unshare --net sh -c 'ip link set lo up && . /two-ranks'" || { failed "$2 on $name"; return; }
	grep -aq 'has ended: [1-9].* through .*the switch at 127.0.0.1:28512' "$work/out" ||
		{ failed "$2 on $name: not through the switch"; return; }
	echo "ok: $2: $(grep -a -m 1 -o 'has ended: .* through .*the switch' "$work/out")"
}

make=$(line_of README.md 'apt-get install') && demo=$(line_of README.md 'make demo') &&
	tests=$(line_of README.md 'make test') &&
	xdp=$(line_of docs/xdp.md 'tools.install-dependencies xdp') &&
	serve=$(line_of docs/xdp.md 'build.switchml switch --dataplane xdp --iface lo') &&
	measure=$(line_of docs/xdp.md 'SWITCHML_SHARED_MEMORY=0 build.switchml bench') &&
	shown=$(line_of docs/xdp.md 'build.switchml status') &&
	library=$(line_of docs/python.md 'make && export PYTHONPATH') || exit 1

step "$demo on a fresh $name"
on_machine "$make" || skip "Debian cannot be fetched here"
if ! on_machine "$demo"; then
	! grep -aEq 'Failed to fetch|Unable to fetch|Could not resolve' "$work/out" || skip "Debian cannot be fetched here"
	give_up "$demo on a fresh $name"
fi
grep -aq "│ Gloo's ring .*│ *[0-9]* ms │.*yes │" "$work/out" ||
	{ ! grep -aq 'no emulated links' "$work/out" || skip "$(grep -a 'no emulated links' "$work/out")"
	give_up "$demo on a fresh $name shows no table with Gloo in it"; }
grep -a '│' "$work/out"
echo "ok: $demo"

if on_machine "apt-get install -y --no-install-recommends python3-numpy && $library"; then
	snippet_of docs/python.md 1 >"$machine/program.py"
	two_ranks python3 "the snippet of docs/python.md"
else
	failed "$library on $name"
fi

# Address: why pip could not fetch from there. What pip says last is only what it did not find elsewhere.
unreachable() {
	local why
	why=$(sed -n "s/.*HTTPSConnection.*\(Failed to establish a new connection: [^']*\).*/\1/p
		s/^ERROR: \(HTTP error [0-9]*\).*/\1/p" "$work/out" | head -n 1)
	[ -n "$why" ] && echo "$1: $why"
}

# The page's commands: its venv, PyTorch without CUDA, and ours, which gets PyTorch if there is none yet.
install_pytorch() {
	local commands why without_cuda ours enter='. venv/bin/activate'
	commands=$(sed -n '/^    /!d; s/^    //; s/^sudo //; s/  *#.*//; /venv\|pip install/p' "$root/docs/pytorch.md")
	without_cuda=$(grep 'pip install.*--index-url' <<<"$commands")
	ours=$(grep "pip install '" <<<"$commands")
	commands=$(grep -v 'pip install' <<<"$commands")
	[ "$(wc -l <<<"$commands$without_cuda$ours")" = 2 ] && [ -n "$without_cuda" ] && [ -n "$ours" ] ||
		{ echo "$commands" >"$work/out"; failed "docs/pytorch.md has other commands"; return 1; }
	on_machine "set -e; $commands" || { failed "$commands on $name"; return 1; }
	if ! on_machine "$enter && $without_cuda"; then
		why=$(unreachable "${without_cuda##*://}") || { failed "$without_cuda on $name"; return 1; }
		echo "in part: $why; the next line of the page brings PyTorch from PyPI"
	fi
	if ! on_machine "$enter && $ours"; then
		why=$(unreachable PyPI) && echo "left out: PyTorch ($why)" || failed "$ours on $name"
		return 1
	fi
	on_machine "$enter && pip list" && echo "ok: $(grep '^torch ' "$work/out" | tr -s ' ')"
}

step "PyTorch, as docs/pytorch.md installs it"
python=/usr/bin/python3
if install_pytorch; then
	python=/switchml/venv/bin/python
	snippet_of README.md 1 >"$machine/program.py"
	two_ranks "$python" "the PyTorch snippet of the README"
fi

step "the switch in the kernel, as docs/xdp.md tries it"
if ! on_machine "$xdp"; then
	failed "$xdp on $name"
elif ! on_machine "unshare --net sh -c 'ip link set lo up; $serve &
	switch=\$!
	for i in \$(seq 100); do build/switchml status --switch 127.0.0.1 >/dev/null 2>&1 && break; sleep 0.2; done
	$measure && $shown; status=\$?; kill \$switch; exit \$status'"; then
	! grep -aq 'Operation not permitted' "$work/out" || echo "left out: XDP ($(grep -a -m 1 'not permitted' "$work/out"))"
	grep -aq 'Operation not permitted' "$work/out" || failed "$measure on $name"
elif grep -aq 'ready on .* xdp (.*) on lo' "$work/out" && grep -aq 'Wrong elements: 0 OK' "$work/out" &&
	grep -aq 'absorbed *[1-9]' "$work/out"; then
	echo "ok: $measure"
else
	failed "$measure on $name: not through XDP"
fi

step "$tests"
if on_machine "$tests"; then
	grep -aE '^(skipped|in part) |passed, .* failed' "$work/out"
	echo "ok: $tests"
else
	failed "$tests on $name"
fi

step "every command of docs/tutorial.md"
on_machine "SML_TORCH=$(dirname "$python") SWITCHML_LIBRARY=\$PWD/build/lib/libswitchml.so.0 \
	tests/docs/tutorial build/switchml"
case $? in
0) grep -a '^left out' "$work/out"
	echo "ok: $(grep -ac '^ok' "$work/out") blocks of the tutorial" ;;
77) echo "left out: the tutorial ($(tail -n 1 "$work/out"))" ;;
*) failed "the tutorial on $name: $(grep -a -m 1 '^FAILED' "$work/out")" ;;
esac

step "every snippet of every page"
if on_machine "PATH=$(dirname "$python"):\$PATH $python tests/docs/snippets build"; then
	grep -a '^left out' "$work/out"
	echo "ok: $(grep -ac '^ok' "$work/out") snippets"
else
	failed "snippets on $name: $(grep -a -m 1 '^FAILED' "$work/out")"
fi

[ $failures = 0 ] || { echo "FAILED: $failures parts on $name, see above"; exit 1; }
echo "ok: all of it on $name, in $((EPOCHSECONDS - began)) s"
