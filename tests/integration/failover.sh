#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A switch dies in the middle of all-reduces (kill -9, or frozen), and another
# one, or the same one started again, goes on where it was: every result is
# right, and no call fails. Usage: failover.sh SWITCHML
set -u

switchml=$1
work=$(mktemp -d)
failures=0
switches=()

clean_up() {
	kill -9 "${switches[@]}" 2>/dev/null
	wait 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT

# Start a switch; $address and $pid say where it is. Argument: address, or none.
start_switch() {
	: >"$work/switch" # or the one before would be read
	"$switchml" switch --listen "${1:-127.0.0.1:0}" >"$work/switch" 2>&1 &
	pid=$!
	switches+=("$pid")
	for _ in $(seq 100); do
		address=$(sed -n 's/.*ready on \([^ ]*\) .*/\1/p' "$work/switch")
		[ -n "$address" ] && return
		sleep 0.05
	done
	echo "FAILED: no switch: $(cat "$work/switch")"
	exit 1
}

# Sets $calls to as many calls as take a few seconds here: sanitizers are slow.
calibrate() {
	local us
	us=$("$switchml" bench --local-workers 3 -b 1M -e 1M -n 20 -w 3 |
		awk '$1 == 1048576 { print int($5) }')
	calls=$((6000000 / (2 * ${us:-20000} + 1) + 20))
}

# Switches' addresses, bench's options: all-reduces under way, every result checked.
start_bench() {
	SWITCHML_TIMEOUT=30 SWITCHML_HEARTBEAT=1 timeout 100 "$switchml" bench --local-workers 3 \
		--switch "$1" -b 1M -e 1M -w 1 "${@:2}" >"$work/bench" 2>&1 &
	bench=$!
	sleep 0.7
}

# Title, text that the ranks must have written.
expect_success() {
	if wait "$bench" && grep -q "$2" "$work/bench"; then
		echo "ok: $1"
	else
		echo "FAILED: $1"
		cat "$work/bench"
		failures=$((failures + 1))
	fi
}

started_again() {
	start_switch
	start_bench "$address" -n "$calls" --drop 0.1%
	for _ in 1 2 3; do
		kill -9 "$pid"
		sleep 0.3
		start_switch "$address"
		sleep 0.4
	done
	expect_success "a switch that is killed and started again, three times" "epoch 4"
	kill "$pid"
}

next_address() {
	start_switch
	local first=$address first_pid=$pid
	start_switch
	start_bench "$first|$address" -n "$calls" --wire int16
	kill -9 "$first_pid"
	expect_success "the next address takes over" "$address goes on in its place"
	kill "$pid"
}

frozen() {
	start_switch
	local first=$address first_pid=$pid
	start_switch
	start_bench "$first|$address" -n "$calls" -d int32
	kill -STOP "$first_pid"
	expect_success "the next address takes over from a frozen switch" "has been silent"
	kill "$pid"
}

# Two stripes; the second one's switch dies, and another takes over for it alone.
one_of_two() {
	local first second other first_pid second_pid
	start_switch
	first=$address first_pid=$pid
	start_switch
	second=$address second_pid=$pid
	start_switch
	other=$address
	start_bench "$first,$second|$first,$other" -n "$calls" --drop 0.1%
	kill -9 "$second_pid"
	expect_success "another switch takes over one of two stripes" \
		"$second closed the connection; the switch at $other goes on in its place (epoch 2)"
	kill "$pid" "$first_pid"
}

# Two stripes on two switches; the one that lives takes over both.
survivor() {
	local first first_pid
	start_switch
	first=$address first_pid=$pid
	start_switch
	start_bench "$first,$address|$address,$first" -n "$calls"
	kill -9 "$first_pid"
	expect_success "the survivor of two switches takes over the other's stripe" \
		"$address goes on in its place"
	"$switchml" status --switch "$address" >/dev/null || failures=$((failures + 1))
	kill "$pid"
}

# Both are started again where they were, one after the other.
both_again() {
	local first first_pid second second_pid
	start_switch
	first=$address first_pid=$pid
	start_switch
	second=$address second_pid=$pid
	start_bench "$first,$second" -n "$calls" -d int32 --drop 0.1%
	kill -9 "$first_pid" "$second_pid"
	sleep 0.3
	start_switch "$second"
	sleep 0.5
	start_switch "$first"
	expect_success "both of two switches are killed and started again" \
		"$first goes on in its place"
	grep -q "$second goes on in its place" "$work/bench" || failures=$((failures + 1))
	kill "${switches[@]}" 2>/dev/null
}

none() {
	local began=$SECONDS
	start_switch
	SWITCHML_TIMEOUT=2 timeout 100 "$switchml" bench --local-workers 3 --switch "$address" \
		-b 1M -e 1M -n 100000 >"$work/bench" 2>&1 &
	bench=$!
	sleep 1
	kill -9 "$pid"
	if ! wait "$bench" && [ $((SECONDS - began)) -lt 15 ] &&
		grep -q "no switch has taken over" "$work/bench"; then
		echo "ok: where no switch comes back, calls fail at their deadline and say so"
	else
		echo "FAILED: no switch comes back ($((SECONDS - began)) s)"
		cat "$work/bench"
		failures=$((failures + 1))
	fi
}

calibrate
started_again
next_address
frozen
one_of_two
survivor
both_again
none
exit $((failures > 0))
