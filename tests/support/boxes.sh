# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after hosts.sh: hosts that are bridges, cables between them and other hosts, and switches in
# the kernel there.
# shellcheck shell=bash

command -v ethtool >/dev/null || skip "there is no ethtool"

# Host, the other host at the end of its cable, last number of its address.
plug() {
	ip netns add "$name-$1" && ip -n "$name-$1" link set lo up &&
		ip link add eth0 netns "$name-$1" type veth peer name "port-$1" netns "$name-$2" &&
		ip -n "$name-$1" address add "$network.$3/24" dev eth0 &&
		ip -n "$name-$1" address add "fd77::$3/64" dev eth0 nodad &&
		ip -n "$name-$1" link set eth0 up &&
		ip -n "$name-$2" link set "port-$1" master bridge up
}

# Host: it gets everything that is plugged into it as bridge ports.
add_bridge() {
	ip netns add "$name-$1" && ip -n "$name-$1" link set lo up &&
		ip -n "$name-$1" link add bridge type bridge &&
		ip -n "$name-$1" link set bridge up
}

# Host, last number of its address: such a host that has an address itself.
add_box() {
	add_bridge "$1" && ip -n "$name-$1" address add "$network.$2/24" dev bridge &&
		ip -n "$name-$1" address add "fd77::$2/64" dev bridge nodad
}

# Box, ranks: the ranks are plugged into it, and can get packets that XDP transmits there. $interfaces
# has the box's ends.
plug_ranks() {
	local rank
	interfaces=""
	for ((rank = 0; rank < $2; rank++)); do
		plug $rank "$1" 1$rank && gro $rank eth0 on || return 1
		interfaces=$interfaces${interfaces:+,}port-$rank
	done
}

# Two boxes: a cable between them, uplink at the first one.
join_boxes() {
	ip link add uplink netns "$name-$1" type veth peer name "port-$1" netns "$name-$2" &&
		ip -n "$name-$1" link set uplink master bridge up &&
		ip -n "$name-$2" link set "port-$1" master bridge up
}

gro() {
	on "$1" ethtool -K "$2" gro "$3" >/dev/null
}

# Box, counter: its value.
counter() {
	on "$1" "$switchml" status --switch 127.0.0.1 | awk -v name="$2" '$1 == name { print $2; exit }'
}

# Title, box, counter, minimum.
expect_counter() {
	local value
	value=$(counter "$2" "$3")
	[ "${value:-0}" -ge "$4" ]
	holds $? "$1 ($3 is ${value:-0}, $4 at least)"
}

# Title, words, the start of the names of $work's files that must have them.
expect_words() {
	grep -q "$2" "$work/$3"*
	holds $? "$1: $(grep -h "$2" "$work/$3"* | head -n 1)"
}

# A switch's output, its process: wait until it is ready. Where BPF is not permitted, the test is skipped.
await_xdp() {
	await is_ready_or_gone "$1" "$2"
	says "$1" 'ready on' && return
	! says "$1" 'not permitted\|Permission denied\|Function not implemented' ||
		skip "BPF is not permitted: $(tail -n 1 "$1")"
	return 1
}

# Job, each rank's switch: the demo trains, and $work/JOB.facts has of its summary what depends neither on time nor
# on the switches.
train() {
	local job=$1 rank=0 at
	pids=()
	for at in "${@:2}"; do
		on $rank env RANK=$rank WORLD_SIZE=$(($# - 1)) SWITCHML_JOB="$job" OPENBLAS_NUM_THREADS=1 \
			SWITCHML_SWITCH="$at" SWITCHML_WIRE=int32 "${demo:?}" --steps 20 \
			--json "$work/$job.json.$rank" >"$work/$job.$rank" 2>&1 &
		pids+=($!)
		rank=$((rank + 1))
	done
	expect_success "training: $job" "${pids[@]}"
	grep -E '"(loss|accuracy|drift|parameters_.*)"' "$work/$job.json.0" \
		>"$work/$job.facts"
}

# Title, two jobs that have trained: to the same bits?
expect_same_training() {
	[ -s "$work/$2.facts" ] && cmp "$work/$2.facts" "$work/$3.facts"
	holds $? "$1"
}

all_are_told() {
	[ "$(grep -l "made different calls" "$work"/mismatch.* | wc -l)" = 3 ]
}

# Each of three ranks' switch: rank 1 adds up more than the others.
mismatch() {
	local bytes=(64K 256K 64K) at=("$@") rank
	for rank in 0 1 2; do
		on $rank env RANK=$rank WORLD_SIZE=3 "$switchml" bench --switch "${at[rank]}" --job mismatch \
			-b "${bytes[rank]}" -e "${bytes[rank]}" >"$work/mismatch.$rank" 2>&1 &
	done
	await all_are_told
	expect_words "different calls are told" "rank . (host [^)]*) called" mismatch.
}
