#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A tree of switches with three levels, each switch and each rank on a host of its own. The uplinks
# carry each tensor once; a path may be narrow, and the root may be in the kernel. Needs root.
#
#	tests/job/racks-hosts.sh build/switchml [part]
#
#	                 spine                      10.77.0.0/24, the ports of the spine
#	         up /             \
#	        pod                rank 4           10.77.1.0/24, the ports of the pod
#	    up /    \ up
#	  rack1      rack2                          10.77.2.0/24 and 10.77.3.0/24
#	 /     \    /     \
#	rank 0  1  rank 2  3
#
# No host forwards anything: a rank can reach only its own switch.
switchml=$(realpath "$1")
ranks=5
support=$(dirname "$0")/../support
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"
export SWITCHML_TIMEOUT=60 SWITCHML_SHARED_MEMORY=0
rank_at=(rack1 rack1 rack2 rack2 spine)
declare -A network=([spine]=0 [pod]=1 [rack1]=2 [rack2]=3)
declare -A parent=([pod]=spine [rack1]=pod [rack2]=pod)
declare -A process=()
uplink=100 # Mbit/s

# Host, its interface, a switch's network, last number of its address.
plug() {
	ip link add "$2" netns "$name-$1" type veth peer name "$3-$1" netns "$name-net" &&
		ip -n "$name-net" link set "$3-$1" master "$3" up &&
		ip -n "$name-$1" address add "10.77.${network[$3]}.$4/24" dev "$2" &&
		ip -n "$name-$1" link set "$2" up
}

build_network() {
	local host number=2
	ip netns add "$name-net" || return 1
	for host in "${!network[@]}"; do
		ip -n "$name-net" link add "$host" type bridge && ip -n "$name-net" link set "$host" up || return 1
	done
	for host in "${!network[@]}" 0 1 2 3 4; do
		ip netns add "$name-$host" && ip -n "$name-$host" link set lo up || return 1
	done
	for host in "${!network[@]}"; do plug "$host" eth0 "$host" 1 || return 1; done
	for host in "${!parent[@]}"; do
		plug "$host" eth1 "${parent[$host]}" $((number++)) && shape "$name-$host" eth1 &&
			shape "$name-net" "${parent[$host]}-$host" || return 1
	done
	for host in 0 1 2 3 4; do
		plug $host eth0 "${rank_at[$host]}" 1$host || return 1
	done
}

# Namespace, interface.
shape() {
	tc -n "$1" qdisc add dev "$2" root tbf rate ${uplink}mbit burst 72kb limit 2mb
}

address_of() {
	echo "10.77.${network[$1]}.1"
}

# Host, options: start its switch; a leaf is attached afterwards.
start_on() {
	local up=()
	[ -z "${parent[$1]}" ] || up=(--parent "$(address_of "${parent[$1]}")")
	: >"$work/$1"
	(on_host "$1" "$switchml" switch --listen 0.0.0.0 "${up[@]}" "${@:2}") >>"$work/$1" 2>&1 &
	process[$1]=$!
	await is_ready_or_gone "$work/$1" "${process[$1]}"
	says "$work/$1" 'ready on' || return 1
	[ -z "${parent[$1]}" ] || await says "$work/$1" 'attached to the parent'
}

all_die() {
	local host
	for host in "${!process[@]}"; do
		ip netns pids "$name-$host" | xargs -r kill -9
		wait "${process[$host]}" 2>/dev/null
	done
	process=()
}

start_tree() {
	start_on spine && start_on pod && start_on rack1 && start_on rack2
}

# For start(): a place is the host of a switch.
at_place() {
	echo "ip netns exec $name-$rank env SWITCHML_SWITCH=$(address_of "$1")"
}

# The bytes that have left a leaf for its parent, then those that came from there.
uplink_bytes() {
	on "$1" cat /sys/class/net/eth1/statistics/tx_bytes /sys/class/net/eth1/statistics/rx_bytes
}

# Calls of 4 MB: fill `before` and `after` with each leaf's bytes.
count_calls() {
	local host
	for host in pod rack1 rack2; do mapfile -t "from_$host" < <(uplink_bytes $host); done
	start "calls-$1" -b 4M -e 4M -w 0 -c 0 -n "$1" -- "${rank_at[@]}"
	expect_success "$1 calls" "${pids[@]}"
	moved=()
	for host in pod rack1 rack2; do
		declare -n from=from_$host
		mapfile -t now < <(uplink_bytes $host)
		moved+=($((now[0] - from[0])) $((now[1] - from[1])))
	done
}

# Twelve more calls of 4 MB, each once more in place: that many bytes and headers go up and down each uplink, not two or
# four times as many.
uplinks() {
	local few i names=("the pod's, up" "the pod's, down" "rack1's, up" "rack1's, down" "rack2's, up" "rack2's, down")
	start_tree
	count_calls 2
	few=("${moved[@]}")
	count_calls 14
	for i in "${!names[@]}"; do
		share=$(((moved[i] - few[i]) / (24 * 41943)))
		[ $share -ge 100 ] && [ $share -le 150 ]
		holds $? "the uplink carries $share % of the tensor: ${names[$i]}"
	done
	all_die
}

# Host, its interface, a switch's network, bytes: for both ends of the cable.
set_mtu() {
	ip -n "$name-$1" link set "$2" mtu "$4" && ip -n "$name-net" link set "$3-$1" mtu "$4"
}

sums() {
	start "$2" -b 4 -e 256K -f 16 -n 3 -w 1 -- "${rank_at[@]}"
	expect_success "$1" "${pids[@]}"
}

# rack1's ranks have jumbo frames, rack2's uplink has 1000 bytes, the rest has 1500.
narrow() {
	ip -n "$name-net" link set rack1 mtu 9000
	for host in rack1 0 1; do set_mtu $host eth0 rack1 9000; done
	start_tree
	sums "jumbo frames in one rack" jumbo
	set_mtu rack2 eth1 pod 1000
	sums "jumbo frames in one rack, an uplink of 1000 bytes in another" narrow
	all_die
	set_mtu rack2 eth1 pod 1500
}

# veths transmit for XDP when their other end has GRO.
kernel_root() {
	ip netns exec "$name-net" ethtool -K spine-spine gro on || { echo "left out: XDP (there is no ethtool)"; return; }
	start_on spine --dataplane xdp --iface eth0 || {
		grep -m 1 "not permitted\|Permission denied\|Function not implemented\|built without" "$work/spine" ||
			fail "the XDP switch does not start"
		echo "left out: XDP (the switch does not start)"
		return
	}
	start_on pod && start_on rack1 && start_on rack2
	sums "a root in the kernel" kernel
	on spine "$switchml" status --switch 127.0.0.1 >"$work/spine.status"
	grep -q 'xdp dataplane' "$work/spine.status" && grep -q 'completed *[1-9]' "$work/spine.status"
	holds $? "it was XDP: $(grep completed "$work/spine.status")"
	all_die
}

set_up_hosts
for what in ${2:-uplinks narrow kernel_root}; do
	$what
done
[ $failures = 0 ]
