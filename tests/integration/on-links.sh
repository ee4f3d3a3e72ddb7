#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/on-links: a program on emulated links ends well, a rank that is killed is named by the
# others and by it, and nothing is left behind. Needs root.
#
#	tests/integration/on-links.sh BUILD-DIRECTORY
build=$(realpath "$1")
links=$(realpath "$(dirname "$0")/../../bench/on-links")
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $1"
	cat "$work/out"
	exit 1
}

# Pid: are namespaces of that bench/on-links left?
nothing_left() {
	! ip netns list | grep "^smllinks$1-" >"$work/left"
}

# What it should say at its end, options: it ends with 0 and says so.
run() {
	"$links" --build "$build" "${@:2}" >"$work/out" 2>&1 &
	pid=$!
	wait $pid
	status=$?
	[ $status != 77 ] || { cat "$work/out"; exit 77; }
	[ $status = 0 ] || fail "${*:2}: it ended with $status"
	grep -q "$1" "$work/out" || fail "${*:2}: it does not say '$1'"
	nothing_left $pid || fail "${*:2}: namespaces are left"
	echo "ok: ${*:2}"
}

run 'Wrong elements: 0 OK' --workers 3 --rate 500 "$build/switchml" bench -b 1M -e 1M -n 5
run 'Wrong elements: 0 OK' --workers 2 --rate 100 --no-switch "$build/switchml" bench -b 1M -e 1M -n 2
run 'Wrong elements: 0 OK' --workers 2 --loss 1 "$build/switchml" bench -b 64K -e 64K -n 20
if [ -x "$build/demo/switchml-demo" ]; then
	run '^  link .*% of what 500 Mbit/s' --rate 500 "$build/demo/switchml-demo" --link 500 --steps 20
fi

"$links" --build "$build" --workers 3 "$build/switchml" bench -b 1M -e 1M -n 100000 \
	>"$work/out" 2>&1 &
pid=$!
for ((i = 0; i < 100; i++)); do
	victim=$(ip netns pids "smllinks$pid-1" 2>/dev/null | head -n 1)
	[ -z "$victim" ] || break
	sleep 0.1
done
[ -n "$victim" ] || fail "no rank 1 has come within 10 s"
sleep 2
kill -9 "$victim"
began=$SECONDS
wait $pid
status=$?
[ $status = 1 ] || fail "a rank was killed, and it ended with $status"
[ $((SECONDS - began)) -le 5 ] || fail "it took $((SECONDS - began)) s to end"
grep -q 'on-links: rank 1 was killed by signal 9' "$work/out" || fail "it does not name the killed rank"
grep -q 'on-links: rank 2 ended with .*rank 1' "$work/out" || fail "rank 2 does not name rank 1"
nothing_left $pid || fail "namespaces are left"
echo "ok: a killed rank is named at once"
