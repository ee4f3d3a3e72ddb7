#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A switch dies in the middle of all-reduces (kill -9, or frozen). Another one, or the
# same one started again, continues from there: every result is correct, and no call
# fails. Usage: failover.sh SWITCHML
set -u

switchml=$1
. "$(dirname "$0")/../support/report.sh"
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
switches=()
with_names=() # a program that gives the ranks an /etc/hosts of their own

trap 'kill -9 "${switches[@]}" 2>/dev/null; clean_up' EXIT

# Start a switch; sets $address and $pid. Argument: address, or none: one that stays its own.
start_switch() {
	local_switch "$work/switch" --listen "${1:-$(steady_address ${#switches[@]})}"
	pid=$switch
	switches+=("$pid")
}

# Addresses of switches, bench's options: run all-reduces until end_bench.
start_bench() {
	local one
	SWITCHML_TIMEOUT=60 timeout 230 "${with_names[@]}" "$switchml" bench --local-workers 3 --job under-way \
		--switch "$1" -b 1M -e 1M -w 0 -n 1 -c 1 --seconds 1000 "${@:2}" >"$work/bench" 2>&1 &
	pids=($!)
	for one in $(echo "${1%%|*}" | tr , ' '); do
		await_under_way under-way "${one/#moves:/127.0.0.2:}"
	done
}

# Title, texts that the ranks must have written: the benchmark ends after a few more
# calls.
expect_success() {
	local title=$1 text bad=0
	kill "${pids[0]}"
	wait "${pids[0]}" || bad=1
	for text in "${@:2}"; do
		says "$work/bench" "$text" || bad="'$text' was not said"
	done
	say "$bad" "$title" "$work/bench"
}

end_switches() {
	kill -9 "${switches[@]}" 2>/dev/null
	wait
	switches=()
}

# Processes: kill them, and wait until they are gone.
kill_switches() {
	kill -KILL "$@"
	wait "$@" 2>/dev/null
}

# Two stripes, whose switches die one after the other: each has its own memory.
shared_by_two() {
	local first first_pid second second_pid
	start_switch
	first=$address first_pid=$pid
	start_switch
	second=$address second_pid=$pid
	start_switch
	SWITCHML_SHARED_MEMORY=1 SWITCHML_DEBUG=info \
		start_bench "$first,$second|$address,$address" --drop 0.1%
	kill_switches "$first_pid"
	await is_over_or says "$work/bench" "$first $died; .*$address takes over"
	kill_switches "$second_pid"
	expect_success "the next address takes over both stripes of ranks that share memory" \
		"share this host's memory" "$second $died; the switch at $address takes over (epoch 2)"
}

frozen() {
	start_switch
	local first=$address first_pid=$pid
	start_switch
	SWITCHML_HEARTBEAT=6 start_bench "$first|$address" -d int32
	kill -STOP "$first_pid"
	await stands_still "$first_pid"
	expect_success "the next address takes over from a frozen switch" \
		"has been silent.*$address takes over"
}

# Two stripes on two switches. The surviving switch takes over both.
survivor() {
	local first first_pid
	start_switch
	first=$address first_pid=$pid
	start_switch
	start_bench "$first,$address|$address,$first" --wire int16
	kill_switches "$first_pid"
	expect_success "the survivor of two switches takes over the other's stripe" \
		"$address takes over"
	"$switchml" status --switch "$address" >/dev/null || failures=$((failures + 1))
}

# Both are restarted at the same addresses, one after the other.
both_again() {
	local first first_pid second second_pid
	start_switch
	first=$address first_pid=$pid
	start_switch
	second=$address second_pid=$pid
	start_bench "$first,$second" -d int32 --drop 0.1%
	kill_switches "$first_pid" "$second_pid"
	start_switch "$second"
	await is_over_or says "$work/bench" "$second .*; it is back"
	start_switch "$first"
	expect_success "both of two switches are killed and started again" \
		"$first $died; it is back, and the job goes on there (epoch 2)" \
		"$second $died; it is back, and the job goes on there (epoch 2)"
}

# A pod comes back elsewhere, and the name says so later than the ranks begin to look.
moved() {
	local port
	port=$(steady_address)
	port=${port##*:}
	echo "127.0.0.2 moves" >"$work/hosts"
	# shellcheck disable=SC2016
	with_names=(unshare -Urm sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts")
	"${with_names[@]}" true 2>/dev/null || {
		echo "left out: a name that moves (no mount namespaces)"
		return
	}
	start_switch "127.0.0.2:$port"
	with_names+=(env SWITCHML_WAIT_NOTICE=0.1)
	start_bench "moves:$port"
	kill_switches "$pid"
	await is_over_or says "$work/bench" "waiting .* for a switch to take over"
	start_switch "127.0.0.3:$port"
	echo "127.0.0.3 moves" >"$work/hosts"
	with_names=()
	expect_success "a switch whose name means another address is found there" \
		"the switch at moves:$port (127.0.0.3) takes over (epoch 2)"
}

none() {
	local began status
	start_switch
	SWITCHML_TIMEOUT=10 timeout 100 "$switchml" bench --local-workers 3 --job under-way \
		--switch "$address" -b 1M -e 1M -n 100000 >"$work/bench" 2>&1 &
	pids=($!)
	await is_under_way "$address" under-way
	began=$SECONDS
	kill -9 "$pid"
	wait "${pids[0]}"
	status=$?
	[ $status = 1 ] && [ $((SECONDS - began)) -lt 30 ] && says "$work/bench" "no switch has taken over"
	say $? "where no switch comes back, calls fail at their deadline ($((SECONDS - began)) s) and say so" "$work/bench"
}

for what in moved shared_by_two frozen survivor both_again; do
	$what
	end_switches
done
none
exit $((failures > 0))
