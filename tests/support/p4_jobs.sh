# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after hosts.sh, jobs.sh and p4.sh: hosts that only a P4 switch connects, and its daemon.
# $p4_target is where it is controlled.
# shellcheck shell=bash

# Namespace, interface, last byte: its addresses.
give_addresses() {
	ip -n "$1" link set "$2" address "02:77:00:00:00:$3" &&
		ip -n "$1" address add "10.77.0.$3/24" dev "$2" &&
		ip -n "$1" address add "fd77::$3/64" dev "$2" nodad
}

build_network() {
	ip netns add "$name-net" && ip -n "$name-net" link set lo up &&
		p4_hides_daemon "$name-net" &&
		p4_cable "$name-net" daemon port-0 "$name-net" &&
		give_addresses "$name-net" daemon 1 || return 1
	hosts=02:77:00:00:00:1=0
	interfaces=(port-0)
	for ((rank = 0; rank < ranks; rank++)); do
		ip netns add "$name-$rank" && ip -n "$name-$rank" link set lo up &&
			p4_cable "$name-$rank" eth0 "port-$((rank + 1))" "$name-net" &&
			give_addresses "$name-$rank" eth0 1$rank || return 1
		hosts=$hosts,02:77:00:00:00:1$rank=$((rank + 1))
		interfaces+=("port-$((rank + 1))")
	done
}

# Options of a daemon beside --listen: run it here.
run_daemon() {
	ip netns exec "$name-net" "$switchml" switch --dataplane p4 --target "$p4_target" \
		--hosts "$hosts" -v "$@"
}

# Address to listen on, options: the daemon, ready.
start_daemon() {
	: >"$work/switch"
	run_daemon --listen "$@" >>"$work/switch" 2>&1 &
	daemon_pid=$!
	await_switch "$work/switch"
}

# Signal, a function's own shell: to the daemon that is its child.
signal_daemon() {
	pkill "-$1" -P "$2"
}

# Name, port: one more daemon, whose output is in the file $work/NAME; sets $other_pid.
start_other_daemon() {
	: >"$work/$1"
	run_daemon --listen "10.77.0.1:$2" >>"$work/$1" 2>&1 &
	other_pid=$!
}

# Name, process: has this daemon decided whether it controls the P4 switch?
has_begun_or_ended() {
	says "$work/$1" 'ready on' || ! kill -0 "$2" 2>/dev/null
}

# Name, process: was this daemon refused, because there is another one?
was_refused() {
	kill -0 "$2" 2>/dev/null && return 1
	wait "$2"
	[ $? = 1 ] && says "$work/$1" 'another \(switchml switch\|client\) controls the .*: end it first'
}

# On the host of rank 2: a switch of the UDP dataplane.
start_udp_switch() {
	: >"$work/udp"
	ip netns exec "$name-2" "$switchml" switch --dataplane udp --listen 10.77.0.12 -v >"$work/udp" 2>&1 &
	udp_pid=$!
	await_switch "$work/udp"
}

end_udp_switch() {
	kill "$udp_pid"
	wait "$udp_pid" 2>/dev/null
}

# Rank 1 adds up more than the others.
different_calls_are_a_mismatch() {
	pids=()
	for ((rank = 0; rank < ranks; rank++)); do
		ip netns exec "$name-$rank" env RANK=$rank WORLD_SIZE=$ranks timeout 250 "$switchml" bench \
			--switch 10.77.0.1 --job mismatch -n 3 -b $((4000 + 400 * (rank == 1))) \
			-e $((4000 + 400 * (rank == 1))) >"$work/mismatch.$rank" 2>&1 &
		pids+=($!)
	done
	wait "${pids[@]}"
	grep -q 'rank 1' "$work/mismatch.0" && grep -q '1000 float' "$work/mismatch.0" &&
		grep -q '1100 float' "$work/mismatch.0"
	holds $? "a mismatch is told in words: $(grep -h '1100 float' "$work/mismatch.0" | head -n 1 | cut -c 1-200)"
}
