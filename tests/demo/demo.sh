#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `make demo`: on emulated links with a table at the end, as root and, in a user namespace, as anybody;
# where the kernel allows no user namespaces, on this machine with a line that says what is missing.
# Whatever ends it, no namespace and no file is left. Needs root for most of it.
#
#	tests/demo/demo.sh BUILD-DIRECTORY
build=$(realpath "$1")
run=$(realpath "$(dirname "$0")/../../demo/run")
work=$(mktemp -d)
pid=
# shellcheck source=tests/support/await.sh
. "$(dirname "$0")/../support/await.sh"
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$work"' EXIT
[ -x "$build/demo/switchml-demo" ] || { echo "skipped: this build has no demo"; exit 77; }
mkdir "$work/tmp"
export TMPDIR=$work/tmp # of nobody, too
chmod 755 "$work"
chmod 1777 "$TMPDIR"
unset SWITCHML_SWITCH WORLD_SIZE RANK

fail() {
	echo "FAILED: $1"
	cat "$work/out"
	exit 1
}

# Title, what is missing, what to do, command: the demo on this machine, which ends with one line about that.
on_this_machine() {
	"${@:4}" "$run" --build "$build" --workers 2 --steps 10 >"$work/out" 2>&1 || fail "$1: it ended with $?"
	[ "$(grep -c '^  ok  .* bit for bit$' "$work/out")" = 2 ] || fail "$1: a proof is missing"
	tail -n 1 "$work/out" | grep -q "^Not shown: speed.*($2; in a user namespace: .*)\\. $3\$" ||
		fail "$1: it does not say what is missing"
	! grep -q '┌' "$work/out" || fail "$1: it has a table"
	echo "ok: $1"
}

# Title, command: the whole table, in a user namespace, of which nothing is left.
in_a_user_namespace() {
	"${@:2}" "$run" --build "$build" --link 400 --workers 2 --steps 10 >"$work/out" 2>&1 ||
		fail "$1: it ended with $?"
	grep -q '│ SwitchML .*│ *[0-9]* ms │' "$work/out" || fail "$1: it has no table"
	! grep -q 'has no effect' "$work/out" || fail "$1: it sets a variable that is not known"
	[ -z "$(ls "$TMPDIR")" ] || fail "$1: it leaves $(ls "$TMPDIR")"
	! ip netns list | grep -q '^smllinks' || fail "$1: it leaves a namespace"
	echo "ok: $1"
}

# Where there are no user namespaces, because their number is 0: root without its capabilities, and a user.
plain=(setpriv --bounding-set -sys_admin --inh-caps -sys_admin)
root_alone=(unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"' sh "${plain[@]}")
user_alone=(unshare --user --map-user=1234 --keep-caps
	sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"' sh setpriv --ambient-caps -all --inh-caps -all)
nobody=(env TMPDIR="$TMPDIR")
[ "$(id -u)" != 0 ] || nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups env TMPDIR="$TMPDIR" PYTHONDONTWRITEBYTECODE=1)
if ! "${nobody[@]}" test -x "$build/demo/switchml-demo"; then
	echo "left out: without root (others may not read the build directory)"
elif ! "${nobody[@]}" unshare -Urnm true 2>/dev/null; then
	echo "left out: user namespaces (this kernel lets users make none)"
	on_this_machine "without root" 'network namespaces need root' 'As root, `make demo` shows them.' "${nobody[@]}"
else
	in_a_user_namespace "without root, in a user namespace" "${nobody[@]}"
	for alone in root_alone user_alone; do
		declare -n them=$alone
		"${nobody[@]}" "${them[@]}" true && ! "${nobody[@]}" "${them[@]}" unshare --user true 2>/dev/null ||
			fail "$alone: user namespaces cannot be taken away"
	done
	on_this_machine "a user where there are no user namespaces" \
		'network namespaces need root' 'As root, `make demo` shows them.' "${nobody[@]}" "${user_alone[@]}"
	on_this_machine "root in a container that allows no user namespaces" \
		'this root lacks CAP_SYS_ADMIN, as in a container' \
		'With CAP_NET_ADMIN and CAP_SYS_ADMIN (a container: `--privileged`), or on the host, `make demo` shows them.' \
		"${nobody[@]}" "${root_alone[@]}"
	"${nobody[@]}" "${root_alone[@]}" "$run" --build "$build" --link 100 --steps 10 >"$work/out" 2>&1
	[ $? = 77 ] && grep -q 'no emulated links: this root lacks CAP_SYS_ADMIN' "$work/out" || fail "LINK= in a container"
	echo "ok: links that are asked for and cannot be made are refused"
fi
"${nobody[@]}" "$run" --build "$build" --link none --workers 2 --steps 10 >"$work/out" 2>&1 || fail "LINK=none: $?"
tail -n 1 "$work/out" | grep -q '(LINK=none)\. Without LINK=none, ' || fail "LINK=none: it does not say what is missing"
echo "ok: without links, as asked"
[ "$(id -u)" = 0 ] || { echo "left out: on links (needs root)"; exit 0; }
if unshare -Urnm true 2>/dev/null; then
	in_a_user_namespace "root without CAP_SYS_ADMIN, in a user namespace" "${plain[@]}"
fi

# ---- on links ----

"$run" --build "$build" --link 400 --workers 3 --steps 12 --json "$work/json" >"$work/out" 2>&1
status=$?
grep '^bench/on-links: skipped' "$work/out" && { echo "left out: on links ($(grep -m 1 skipped "$work/out"))"; exit 0; }
[ $status = 0 ] || fail "on links: it ended with $status"
grep -q '│ SwitchML .*│ *[0-9]* ms │' "$work/out" || fail "the table has no row of SwitchML"
python3 - "$work/json" >"$work/found" 2>&1 <<'PYTHON' || fail "the numbers of the table: $(tail -n 1 "$work/found")"
import json, sys
runs = json.load(open(sys.argv[1]))
titles = [run["title"] for run in runs]
assert titles[:2] == ["SwitchML", "SwitchML, int16"], titles
for run, least in zip(runs, (1, 0.5, 4 / 3)):
    assert run["good"] and run["parameters_same"], run["title"]
    assert run["drift"] == 0 or run["title"] != "SwitchML", "one process has other bits"
    numbers = 4 * run["parameters"] * run["steps"]
    for way in ("sent", "received"):
        # At least the bare numbers. At most: headers, and packets that a busy machine repeats.
        share = run[f"link_bytes_{way}"] / numbers
        assert least < share < 3 * least, (run["title"], way, share)
print(", ".join(titles))
PYTHON
echo "ok: on links: $(cat "$work/found")"
grep -q "Gloo's ring" "$work/found" || echo "left out: Gloo's ring (not in this build)"

nothing_left() {
	ip netns list >"$work/left" && ! grep -q "^smllinks$1-" "$work/left" && [ -z "$(ls "$TMPDIR")" ]
}

has_ended() {
	[ "$(awk '{ print $3 }' "/proc/$1/stat" 2>/dev/null || echo Z)" = Z ]
}

# Signal, "run" or "links": a signal to this process of a demo that trains ends all of it.
interrupted() {
	: >"$work/out" # the process below empties it later than we may look
	# As from a terminal: a shell's background job would ignore SIGINT.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.execv(sys.argv[1], sys.argv[1:])' "$run" --build "$build" --link 100 --workers 2 --steps 100000 >"$work/out" 2>&1 &
	pid=$!
	await grep -q '^step 1/' "$work/out"
	links=$(pgrep -P $pid)
	[ -n "$links" ] && ip netns list | grep -q "^smllinks$links-" || fail "no namespaces while it runs"
	if [ "$2" = run ]; then kill "-$1" $pid; else kill "-$1" "$links"; fi
	await has_ended $pid
	wait $pid
	status=$?
	pid=
	[ $status != 0 ] || fail "SIG$1 to $2: it ended with 0"
	[ "$1 $2" != "KILL run" ] || rm -rf "$TMPDIR"/switchml-demo-* # nobody is left to do this
	await nothing_left "$links"
	echo "ok: SIG$1 to $2 leaves nothing behind"
}

interrupted INT run
interrupted TERM run
interrupted KILL run
interrupted KILL links
