# SPDX-License-Identifier: BSD-3-Clause
# Hosts as network namespaces: what netns.sh and xdp.sh share. To be sourced; it
# wants $switchml, $ranks and $network (the first three numbers of an address).
# shellcheck shell=bash
name=sml$$
work=$(mktemp -d)
failures=0

skip() {
	echo "skipped: $1"
	rm -rf "$work"
	exit 77
}

clean_up() {
	for namespace in $(ip netns list | awk '{ print $1 }' | grep "^$name-"); do
		ip netns pids "$namespace" | xargs -r kill -9
		ip netns delete "$namespace"
	done
	rm -rf "$work"
}

# Run a command on a host.
on() {
	ip netns exec "$name-$1" "${@:2}"
}

# Host, the other host that its cable ends in, last number of its address.
add_host() {
	ip netns add "$name-$1" && ip -n "$name-$1" link set lo up &&
		ip link add eth0 netns "$name-$1" type veth peer name "port-$1" netns "$name-$2" &&
		ip -n "$name-$1" address add "$network.$3/24" dev eth0 &&
		ip -n "$name-$1" address add "fd77::$3/64" dev eth0 nodad &&
		ip -n "$name-$1" link set eth0 up &&
		ip -n "$name-$2" link set "port-$1" master bridge up
}

# Host: it joins what is plugged into it.
add_bridge() {
	ip netns add "$name-$1" && ip -n "$name-$1" link set lo up &&
		ip -n "$name-$1" link add bridge type bridge &&
		ip -n "$name-$1" link set bridge up
}

# Probability, hosts: so many of the UDP packets that arrive there are lost.
lose() {
	for host in "${@:2}"; do
		on "$host" iptables -F INPUT || return 1
		[ "$1" = 0 ] || on "$host" iptables -A INPUT -p udp \
			-m statistic --mode random --probability "$1" -j DROP || return 1
	done
}

# Job, switchml bench's options: start its ranks; `pids` has them, by rank.
start_job() {
	local job=$1
	shift
	pids=()
	for ((rank = 0; rank < ranks; rank++)); do
		on $rank env RANK=$rank WORLD_SIZE=$ranks timeout 100 "$switchml" bench \
			--switch "${switch:-$network.1}" --job "$job" "$@" \
			>"$work/$job.$rank" 2>&1 &
		pids+=($!)
	done
}

fail() {
	echo "FAILED: $1"
	tail -n 20 "$work"/*
	failures=$((failures + 1))
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
		fail "$title"
	fi
}

# Title, options of switchml bench: each type and wire, every result checked.
exact_sums() {
	local title=$1 type wire
	for type in float int32; do
		for wire in int32 int16; do
			start_job "exact-$type-$wire" -n 2 -w 1 -d $type --wire $wire "${@:2}"
			expect_success "$title: $type, $wire wire" "${pids[@]}"
		done
	done
}

# Each with results checked.
two_jobs() {
	start_job one -b 4 -e 1M -f 16 -n 5 -d float
	local first=("${pids[@]}")
	start_job two -b 4 -e 1M -f 16 -n 5 -d int32 -o all
	expect_success "two jobs at once" "${first[@]}" "${pids[@]}"
}

# Of three ranks, the last.
killed_worker_is_named() {
	start_job killed -b 1M -e 1M -n 1000000
	sleep 2
	ip netns pids "$name-2" | xargs -r kill -9
	local began=$SECONDS
	wait "${pids[2]}" 2>/dev/null
	for rank in 0 1; do
		wait "${pids[$rank]}"
		local status=$?
		if [ $status = 1 ] && grep -q "rank $rank: .*rank 2" "$work/killed.$rank"; then
			echo "ok: rank $rank names the dead rank 2: $(tail -n 1 "$work/killed.$rank")"
		else
			fail "rank $rank names the dead rank 2 (exit status $status)"
		fi
	done
	[ $((SECONDS - began)) -le 10 ] || fail "that took $((SECONDS - began)) s"
}

# Needs root, ip and, if there is an argument, iptables with random losses.
check_hosts() {
	[ "$(id -u)" = 0 ] || skip "network namespaces need root"
	command -v ip >/dev/null || skip "there is no ip (Debian: iproute2)"
	ip netns add "$name-try" 2>"$work/why" ||
		skip "no network namespaces here: $(tail -n 1 "$work/why")"
	ip netns delete "$name-try"
	[ $# = 0 ] || command -v iptables >/dev/null || skip "there is no iptables"
}
