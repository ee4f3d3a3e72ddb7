#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Trees whose leaves are in the kernel, between network namespaces. Needs root and BPF.
#
#	tests/xdp/racks-xdp.sh build/switchml build/demo/switchml-demo
#
#	rank 0 --+ port-0                 port-c              port-a
#	         |   box c +--- uplink ---+ box a +-- uplink --+ box (the root)
#	rank 1 --+ port-1            rank 2 --+ port-2             +-- port-3 -- rank 3
#	                                                           +-- port-nic -- nic
#
# All boxes are bridges, so each rank reaches each of them, and each can be a switch or not. So can
# nic, a host with one interface.
switchml=$(realpath "$1")
demo=$2
network=10.77.0
ranks=4
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$(dirname "$0")/../support/jobs.sh"
# shellcheck source=tests/support/boxes.sh
. "$(dirname "$0")/../support/boxes.sh"
# On a busy machine, each of three switches takes six seconds to load its program: so long, a rank is seen by none.
export SWITCHML_SHARED_MEMORY=0 SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=20

declare -A address=([box]=$network.1 [a]=$network.21 [c]=$network.22 [nic]=$network.30)
declare -A parent=([a]=box [c]=a [nic]=box)
declare -A interfaces=([box]=port-a,port-3 [a]=port-c,port-2,uplink [c]=port-0,port-1,uplink [nic]=eth0)
declare -A daemon options

build_network() {
	add_box box 1 && add_box a 21 && add_box c 22 && join_boxes a box && join_boxes c a &&
		plug 0 c 10 && plug 1 c 11 && plug 2 a 12 && plug 3 box 13 && plug nic box 30 || return 1
	for end in "0 eth0" "1 eth0" "2 eth0" "3 eth0" "c uplink" "a port-c" "a uplink" "box port-a" \
		"box port-nic"; do
		# shellcheck disable=SC2086 # two words
		gro $end on || return 1
	done
}

# Box, options: start its switch; again with the same options if there are none.
serve() {
	local box=$1
	shift
	[ $# -gt 0 ] && options[$box]=$*
	: >"$work/$box.switch"
	# Not with `on`, whose process would be a shell.
	# shellcheck disable=SC2086 # words
	ip netns exec "$name-$box" "$switchml" switch -v ${options[$box]} >"$work/$box.switch" 2>&1 &
	daemon[$box]=$!
	await_xdp "$work/$box.switch" "${daemon[$box]}" || give_up "the switch of $box does not start"
	case ${options[$box]} in
	*--parent*) await says "$work/$box.switch" 'attached to the parent' ;;
	esac
}

# Box, options: a switch in the kernel; a leaf, if the box has a parent.
serve_xdp() {
	local box=$1 up=()
	shift
	[ "$box" = box ] || up=(--parent "${address[${parent[$box]}]}")
	serve "$box" --dataplane xdp --iface "${interfaces[$box]}" "${up[@]}" "$@"
}

# Boxes: their switches end, by this signal.
end() {
	local box signal=$1
	for box in "${@:2}"; do
		kill "-$signal" "${daemon[$box]}"
		wait "${daemon[$box]}" 2>/dev/null
	done
}

# For start(): a place is a box, whose switch is asked from the rank's own host, or from ${hosts[rank]}.
at_place() {
	echo "ip netns exec $name-${hosts[rank]:-$rank} env SWITCHML_SWITCH=${address[$1]}"
}

# Title, the ranks' switches: all kinds of sums.
sums() {
	local title=$1 what
	shift
	for what in "float sum int32" "float avg int16" "float sum int8" "int32 max int32" "double sum int32" "uint8 sum int32"; do
		# shellcheck disable=SC2086 # three words
		set -- "$what" "${@:1}"
		local words=($what)
		shift
		start "sums-${words[0]}" -b 4 -e 256K -f 16 -n 2 -w 1 -d "${words[0]}" -o "${words[1]}" \
			--wire "${words[2]}" -- "$@"
		expect_success "$title: $what" "${pids[@]}"
	done
	SWITCHML_THREADS=2 start shards -b 4 -e 256K -f 64 -n 2 -- "$@"
	expect_success "$title: two sockets a rank" "${pids[@]}"
	start faults -b 256K -e 256K -n 5 --drop 2% --duplicate 2% --reorder 2% -- "$@"
	expect_success "$title: packets lost, duplicated and late" "${pids[@]}"
}

# Job, its ranks' switches: a job in the middle of it, until rank 0 is told to end.
under_way() {
	start "$1" -b 256K -e 256K -w 0 -n 1 -c 1 --seconds 1000 -- "${@:2}"
	asking="on box" await is_over_or moves 127.0.0.1 "$1"
	all_run || give_up "job $1 is over already"
}

# Title, job, boxes in the order of their return.
survives() {
	local title=$1 job=$2 box rank before=()
	shift 2
	for rank in "${!pids[@]}"; do before+=("$(grep -c 'it is back' "$work/$job.$rank")"); done
	end KILL "$@"
	for box; do serve "$box"; done
	for rank in "${!pids[@]}"; do
		await is_over_or has_more "$work/$job.$rank" "${before[$rank]}"
	done
	all_run
	holds $? "$title"
}

same_training() {
	[ -x "$demo" ] || { echo "left out: the demo is not built"; return; }
	train flat "${address[box]}" "${address[box]}" "${address[box]}" "${address[box]}"
	train tree "${address[c]}" "${address[c]}" "${address[a]}" "${address[box]}"
	expect_same_training "a tree trains to the same bits as one switch" flat tree
}

# A rank behind a leaf is killed.
killed_rank() {
	under_way killed c c a box
	ip netns pids "$name-1" | xargs -r kill -9
	for rank in 0 2 3; do
		wait "${pids[$rank]}"
		expect_words "rank $rank names the rank that was killed behind a leaf" \
			"rank $rank: rank 1 .*died.*at the leaf" killed.$rank
	done
	wait "${pids[1]}" 2>/dev/null
}

# Some of what the leaf and its parent send to each other is lost: the ranks ask again.
lossy_uplink() {
	local chain
	for chain in INPUT OUTPUT; do
		on box iptables -A $chain -p udp -m statistic --mode random --probability 0.05 -j DROP ||
			give_up "iptables does not work"
	done
	start uplink -b 256K -e 256K -n 20 -- a a a
	expect_success "packets lost between a leaf and its parent" "${pids[@]}"
	on box iptables -F
	expect_counter "a leaf asks its parent again" a resend-up 1
	expect_counter "the parent answers again" box resend 1
	expect_counter "sums of a leaf" a full 100
}

# Two ranks on each of the lowest leaf's hosts share memory, and are one child of it.
shared_hosts() {
	local hosts=(0 0 1 1 2 3)
	SWITCHML_SHARED_MEMORY=1 SWITCHML_DEBUG=info start shared -b 4 -e 256K -f 16 -n 2 --drop 1% -- c c c c a box
	expect_success "hosts whose ranks share memory, behind a leaf in the kernel" "${pids[@]}"
	expect_words "ranks of one host are one child" \
		"ranks 2 and 3 share this host's memory, and rank 2 sends" shared.3
}

six() {
	local -A address=([a]="[fd77::21]" [box]="[fd77::1]")
	serve_xdp a
	start six -b 4 -e 256K -f 16 -n 2 -- a a a box
	expect_success "a leaf in the kernel: IPv6" "${pids[@]}"
}

set_up_hosts

# ---- beneath a UDP switch ----

serve box --threads 2
serve_xdp a
sums "a leaf in the kernel" a a a box
lossy_uplink
mismatch "${address[a]}" "${address[a]}" "${address[box]}"
end TERM a
six
end TERM a
serve_xdp a --xdp-mode generic
start generic -b 4 -e 64K -f 16 -n 2 -- a a a box
expect_success "a leaf in generic mode" "${pids[@]}"
start generic-faults -b 64K -e 64K -n 5 --drop 2% --duplicate 2% --reorder 2% -- a a a box
expect_success "a leaf in generic mode, packets lost, duplicated and late" "${pids[@]}"
end TERM a
gro box port-a off
serve_xdp a
start weak -b 4 -e 256K -f 16 -n 2 -- a a a box
expect_success "an uplink that cannot transmit" "${pids[@]}"
expect_words "that is told" "uplink, which leads to the parent, cannot transmit for XDP" a.switch
end TERM a
gro box port-a on

# The parent's packets pass the program by.
up=${interfaces[a]}
interfaces[a]=port-c,port-2
serve_xdp a
start elsewhere -b 4 -e 4 -n 1 -- a a
wait "${pids[@]}"
expect_words "a parent on another interface is refused" \
	"the leaf .*: its parent $network.1.* sends packets that do not arrive at an interface" elsewhere.
end TERM a
interfaces[a]=$up

# Ranks and the parent are behind one interface.
serve_xdp nic
start one-port -b 4 -e 256K -f 16 -n 2 --drop 1% -- nic nic box nic
expect_success "ranks and the parent behind one interface" "${pids[@]}"
end TERM nic

# ---- beneath a switch in the kernel, and three levels ----

end TERM box
serve_xdp box
serve_xdp a
serve_xdp c
sums "three levels in the kernel" c c a box
same_training
shared_hosts
under_way deaths c c a box
survives "the lowest leaf dies and comes back" deaths c
survives "the leaf in the middle dies and comes back" deaths a
survives "the root dies and comes back" deaths box
survives "all switches die and come back" deaths box a c
kill "${pids[0]}"
expect_success "all sums were right" "${pids[@]}"
killed_rank
[ $failures = 0 ]
