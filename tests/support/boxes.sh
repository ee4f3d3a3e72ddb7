# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after hosts.sh: hosts that are bridges, and cables between them and other hosts.
# shellcheck shell=bash

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
	if [ "${value:-0}" -ge "$4" ]; then
		echo "ok: $1 ($3 $value)"
	else
		fail "$1: $3 is ${value:-0}, not $4 at least"
	fi
}

# Title, words, the start of the names of $work's files that must have them.
expect_words() {
	if grep -q "$2" "$work/$3"*; then
		echo "ok: $1: $(grep -h "$2" "$work/$3"* | head -n 1)"
	else
		fail "$1"
	fi
}
