#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# bench/on-links: a program on emulated links succeeds, the other ranks and on-links name
# a rank that is killed, and nothing is left behind. Needs root.
#
#	tests/bench/on-links.sh BUILD-DIRECTORY
build=$(realpath "$1")
links=$(realpath "$(dirname "$0")/../../bench/on-links")
work=$(mktemp -d)
pid=
switchml=$build/switchml
# shellcheck source=tests/support/await.sh
. "$(dirname "$0")/../support/await.sh"
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT

fail() {
	echo "FAILED: $1"
	cat "$work/out"
	exit 1
}

# Pid: check that bench/on-links left no namespace and no directory.
nothing_left() {
	ip netns list >"$work/left" || fail "ip netns list"
	! grep "^smllinks$1-" "$work/left" && ! ls -d "${TMPDIR:-/tmp}/smllinks$1-"* 2>/dev/null
}

# Expected output, options: the program ends with 0 and has printed it.
run() {
	"$links" --build "$build" "${@:2}" >"$work/out" 2>&1 &
	pid=$!
	wait $pid
	status=$?
	[ $status != 77 ] || { cat "$work/out"; exit 77; }
	[ $status = 0 ] || fail "${*:2}: it ended with $status"
	grep -q "$1" "$work/out" || fail "${*:2}: it does not say '$1'"
	nothing_left $pid || fail "${*:2}: something is left"
	echo "ok: ${*:2}"
}

# Host: run a long benchmark, then kill -9 our program on that host. bench/on-links must fail.
run_and_kill() {
	SWITCHML_JOB=killed "$links" --build "$build" --workers 3 \
		"$build/switchml" bench -b 1M -e 1M --seconds 1000 \
		>"$work/out" 2>&1 &
	pid=$!
	asking="ip netns exec smllinks$pid-switch"
	await is_under_way 10.77.0.1 killed || fail "the ranks do not come to work"
	victim=
	for candidate in $(ip netns pids "smllinks$pid-$1"); do
		[ "$(readlink "/proc/$candidate/exe")" != "$build/switchml" ] || victim=$candidate
	done
	[ -n "$victim" ] || fail "host $1 has no program"
	kill -9 "$victim" || fail "$victim on host $1 is not there any more"
	wait $pid
	status=$?
	[ $status = 1 ] || fail "the program on host $1 was killed, and it ended with $status"
	nothing_left $pid || fail "something is left"
}

run 'Wrong elements: 0 OK' --workers 3 --rate 500 "$build/switchml" bench -b 1M -e 1M -n 5
run 'Wrong elements: 0 OK' --workers 2 --rate 100 --no-switch "$build/switchml" bench -b 1M -e 1M -n 2
run 'above 2 racks' --workers 4 --racks 2 --rate 500 "$build/switchml" bench -b 1M -e 1M -n 2
grep -q 'Wrong elements: 0 OK' "$work/out" || fail "wrong sums through two racks"
run '2 hosts with 2 ranks each' --workers 4 --per-host 2 --rate 500 "$build/switchml" bench -b 1M -e 1M -n 2
grep -q 'Wrong elements: 0 OK' "$work/out" || fail "wrong sums of two hosts with two ranks each"
run 'Wrong elements: 0 OK' --workers 2 --loss 1 "$build/switchml" bench -b 64K -e 64K -n 20
awk '$1 == 65536 && $NF > 0 { found = 1 } END { exit !found }' "$work/out" || fail "nothing was lost"
if [ -x "$build/demo/switchml-demo" ]; then
	run '^  all-reduce .* MB/s of gradients' --rate 500 "$build/demo/switchml-demo" --steps 20
fi

run_and_kill 1
! grep 'has not ended' "$work/out" || fail "a rank hangs"
grep -q 'on-links: rank 1 was killed by signal 9' "$work/out" || fail "it does not name the killed rank"
grep -q 'on-links: rank 2 ended with .*rank 1' "$work/out" || fail "rank 2 does not name rank 1"
echo "ok: a killed rank is named at once"
run_and_kill switch
grep -q 'on-links: the switch was killed by signal 9' "$work/out" || fail "it does not name the switch"
echo "ok: a killed switch is named"
