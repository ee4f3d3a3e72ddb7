#!/bin/bash
# Real ranks in network namespaces, with packets lost on the way: what arrives over
# UDP is lost at random. Losing what arrives at both ends loses packets both ways.
# Needs root.
#
#	tests/integration/netns.sh build/switchml
switchml=$(realpath "$1")
. "$(dirname "$0")/hosts.sh"

# Probability: so many of the UDP packets that arrive anywhere are lost.
lose() {
	for host in switch $(seq 0 $((ranks - 1))); do
		ip netns exec "$name-$host" iptables -F INPUT || return 1
		[ "$1" = 0 ] || ip netns exec "$name-$host" iptables -A INPUT -p udp \
			-m statistic --mode random --probability "$1" -j DROP || return 1
	done
}

# Job, switchml bench's options: start its ranks; `pids` has them, by rank.
start_job() {
	local job=$1
	shift
	pids=()
	for ((rank = 0; rank < ranks; rank++)); do
		ip netns exec "$name-$rank" env RANK=$rank WORLD_SIZE=$ranks timeout 100 \
			"$switchml" bench --switch 10.77.0.1 --job "$job" "$@" \
			>"$work/$job.$rank" 2>&1 &
		pids+=($!)
	done
}

# Title, pids: all of them end well.
expect_success() {
	local title=$1 bad=0
	shift
	for pid in "$@"; do
		wait "$pid" || bad=1
	done
	if [ $bad = 0 ]; then
		echo "ok: $title"
	else
		echo "FAILED: $title"
		tail -n 20 "$work"/*
		failures=$((failures + 1))
	fi
}

exact_sums() {
	local type wire job=0
	for type in float int32; do
		for wire in int32 int16; do
			job=$((job + 1))
			start_job "exact$job" -b 4 -e "$2" -f 16 -n 2 -w 1 -d $type --wire $wire
			expect_success "$1: $type, $wire wire" "${pids[@]}"
		done
	done
}

two_jobs() {
	start_job one -b 4 -e 1M -f 16 -n 5 -d float
	local first=("${pids[@]}")
	start_job two -b 4 -e 1M -f 16 -n 5 -d int32 -o all
	expect_success "two jobs at once" "${first[@]}" "${pids[@]}"
}

killed_worker_is_named() {
	start_job killed -b 1M -e 1M -n 1000000
	sleep 2
	ip netns pids "$name-2" | xargs -r kill -9
	local began=$SECONDS
	for rank in 0 1; do
		wait "${pids[$rank]}"
		local status=$?
		if [ $status = 1 ] && grep -q "rank $rank: .*rank 2" "$work/killed.$rank"; then
			echo "ok: rank $rank names the dead rank 2: $(tail -n 1 "$work/killed.$rank")"
		else
			echo "FAILED: rank $rank names the dead rank 2 (exit status $status)"
			tail -n 20 "$work/killed.$rank"
			failures=$((failures + 1))
		fi
	done
	[ $((SECONDS - began)) -le 10 ] || {
		echo "FAILED: that took $((SECONDS - began)) s"
		failures=$((failures + 1))
	}
}

set_up_hosts
lose 0.5 2>"$work/why" || skip "iptables cannot drop here: $(tail -n 1 "$work/why")"
lose 0
start_switch

exact_sums "no loss" 4M
lose 0.01
exact_sums "1 % lost each way" 1M
two_jobs
lose 0.1
exact_sums "10 % lost each way" 256K
lose 0
killed_worker_is_named
[ $failures = 0 ]
