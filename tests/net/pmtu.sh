#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A stranger sends ICMP "fragmentation needed" to the ranks of a job. Their packets keep
# the length that the probes found, they are not fragmented, segmentation stays on, and
# the job continues. Needs root.
#
#	tests/net/pmtu.sh build/switchml
switchml=$(realpath "$1")
forge=$(realpath "$(dirname "$0")/forge-too-big")
export SWITCHML_DEBUG=info
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$(dirname "$0")/../support/jobs.sh"

# Every rank receives it for every port, three times.
sweep() {
	local rank sweeps=()
	for ((rank = 0; rank < ranks; rank++)); do
		on stranger "$forge" "$prefix$rank" "$peer" 28500 3 &
		sweeps+=($!)
	done
	wait "${sweeps[@]}"
}

fragments() {
	on 0 awk '/^Ip: [0-9]/ { n += $20 } $1 == "Ip6FragCreates" { n += $2 } END { print n }' \
		/proc/net/snmp /proc/net/snmp6
}

# Title, an address of the switch, the ranks' addresses without their number: a job under
# this attack, and a job after it.
swept() {
	local before job="swept-$1" lanes=358 # of 1500 bytes
	[ "$1" != six ] || lanes=352
	peer=$2 prefix=$3
	before=$(fragments)
	switch=$4 in_the_middle "$job" "$4" sweep -b 256K -e 256K
	expect_success "$1: a job goes on" "${pids[@]}"
	if grep -h "segment datagrams\|fragment" "$work/$job".*; then
		fail "$1: ICMP changes how ranks send"
	else
		echo "ok: $1: ICMP does not change how ranks send"
	fi
	[ "$(fragments)" = "$before" ] || fail "$1: rank 0 has cut packets into fragments"
	# The kernel may believe the message, but the next job's packets have full length.
	switch=$4 start_job "after-$1" -b 256K -e 256K -n 5
	expect_success "$1: the next job" "${pids[@]}"
	grep -q "$lanes lanes per packet" "$work/after-$1.0"
	holds $? "$1: its packets are full"
}

# The interface itself gets a smaller MTU: an error says so, and the job continues after a
# reset.
shrink() {
	ip -n "$name-0" link set eth0 mtu 1400
	is_told() {
		says "$work/narrow.0" "no longer takes packets of 1472 bytes"
	}
	await is_told
	ip -n "$name-0" link set eth0 mtu 1500
}

# A port of the network between them has a smaller MTU than the interfaces: long packets are lost
# on their way to the switch, or back. Ranks say so and use shorter ones; doctor finds the former.
narrow() {
	local at=$1 title="a narrow path to $1" rank why
	ip -n "$name-net" link set "port-$at" mtu 1400
	switch=10.77.0.1 start_job "narrow-$at" -b 256K -e 256K -n 5
	expect_success "$title: a job" "${pids[@]}"
	for ((rank = 0; rank < ranks; rank++)); do
		if [ "$at" = switch ] || [ "$at" = $rank ]; then
			why="of the interface: the path's is smaller"
			says "$work/narrow-$at.$rank" "packets of 1472 bytes do not come back from 10.77.0.1:28500, but" ||
				fail "$title: rank $rank does not name its path"
		else
			why="others' are narrower"
			! says "$work/narrow-$at.$rank" "do not come back" || fail "$title: rank $rank names its path"
		fi
		says "$work/narrow-$at.$rank" "lanes per packet (path MTU 1500, $why)" || fail "$title: rank $rank, $why"
	done
	(on_host 0 "$switchml" doctor --switch 10.77.0.1) >"$work/doctor" 2>&1
	[ "$at" != switch ] ||
		says "$work/doctor" 'path mtu *the interface has 1500 bytes, but of UDP packets of 1472 bytes, none arrives' ||
		fail "$title: doctor"
	ip -n "$name-net" link set "port-$at" mtu 1500
}

# -A or -D: the other hosts lose long packets of rank 1 without a word, as a tunnel would.
lose_long() {
	local host
	for host in switch 0 2; do
		ip netns exec "$name-$host" iptables "$1" INPUT -s 10.77.0.11 -p udp -m length --length 1200:65535 -j DROP ||
			return 1
	done
}

# Title, a switch or "embedded": in the middle of a job; the calls end when the path is as it was.
narrows() {
	local told="those of 1064 bytes pass, and full ones of 1472 do not: the path's MTU has become smaller: restore it, or set SWITCHML_MTU=1112"
	SWITCHML_MASTER_ADDR=10.77.0.10 switch=$2 start_job "silent-$1" -b 256K -e 256K -w 0 -n 1 -c 1 --seconds 1000 --pause 10
	await says "$work/silent-$1.1" "lanes per packet"
	lose_long -A
	# Without a switch, the other end of the path may be the one that waits.
	if [ "$2" = embedded ]; then
		await grep -qs "between this rank and rank [012] at .*$told" "$work/silent-$1."[012]
	else
		await says "$work/silent-$1.1" "$told"
	fi
	lose_long -D
	kill "${pids[0]}" # rank 0 decides when to end
	expect_success "$1: a path that narrows is named, and the job goes on when it is as it was" "${pids[@]}"
}

six() {
	local last
	for host in switch 0 1 2; do
		last=1$host
		[ $host != switch ] || last=1
		on $host ip address add "fd77::$last/64" dev eth0 nodad
	done
	on stranger ip address add fd77::99/64 dev eth0 nodad
}

set_up_hosts
add_host stranger 10.77.0.99/24 || skip "no host for a stranger"
six
start_switch
narrow switch
narrow 1
ip -n "$name-net" link set port-1 mtu 1400
switch=embedded SWITCHML_MASTER_ADDR=10.77.0.10 start_job embedded -b 256K -e 256K -n 5
expect_success "a narrow path to rank 1, without a switch: a job" "${pids[@]}"
says "$work/embedded.0" "packets of 1472 bytes do not come back from rank 1 at 10.77.0.11:" ||
	fail "without a switch, rank 0 does not name the path"
ip -n "$name-net" link set port-1 mtu 1500
swept udp 10.77.0.1 10.77.0.1 10.77.0.1
in_the_middle narrow 10.77.0.1 shrink -b 256K -e 256K
expect_success "a narrower interface: the job goes on when it is as it was" "${pids[@]}"
swept six fd77::1 fd77::1 "[fd77::1]"
# Each packet by itself: no host sees several as one.
if lose_long -A 2>/dev/null && lose_long -D && on 1 ethtool -K eth0 tx-udp-segmentation off gso off >/dev/null; then
	narrows switch 10.77.0.1
	narrows embedded embedded
else
	echo "left out: paths that narrow (iptables has no match for lengths)"
fi
end_switch TERM
on net ethtool -K port-switch gro on >/dev/null 2>&1
: >"$work/switch"
(on_host switch "$switchml" switch --dataplane xdp --iface eth0) >"$work/switch" 2>&1 &
switch_pid=$!
await is_ready_or_gone "$work/switch" "$switch_pid"
if says "$work/switch" 'ready on'; then
	swept xdp 10.77.0.1 10.77.0.1 10.77.0.1
else
	echo "left out: a switch in the kernel: $(tail -n 1 "$work/switch")"
fi
[ $failures = 0 ]
