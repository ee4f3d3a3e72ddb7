#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks and a leaf behind a router that gives their UDP packets other ports in the middle of a job,
# as a NAT does after an idle time or a restart. The switch is outside. Needs root.
#
#	tests/net/nat.sh build/switchml
#
#	host 0 192.168.0.2 ---+
#	host 1 192.168.1.2 ---+ router 10.97.0.2 --- switch 10.97.0.1
#	host 2 192.168.2.2 ---+
switchml=$(realpath "$1")
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$(dirname "$0")/../support/jobs.sh"
# shellcheck source=tests/support/nat.sh
. "$(dirname "$0")/../support/nat.sh"
export SWITCHML_TIMEOUT=120
root=10.97.0.1
leaf=192.168.2.2

# Host, its address and the router's, the router's interface.
plug() {
	ip netns add "$name-$1" && ip -n "$name-$1" link set lo up &&
		ip -n "$name-$1" link add eth0 type veth peer name "$4" netns "$name-net" &&
		ip -n "$name-$1" address add "$2/24" dev eth0 && ip -n "$name-$1" link set eth0 up &&
		ip -n "$name-net" address add "$3/24" dev "$4" && ip -n "$name-net" link set "$4" up
}

build_network() {
	ip netns add "$name-net" && on net sysctl -qw net.ipv4.ip_forward=1 &&
		plug switch $root 10.97.0.2 out || return 1
	for host in 0 1 2; do
		plug $host 192.168.$host.2 192.168.$host.1 in$host &&
			ip -n "$name-$host" route add default via 192.168.$host.1 || return 1
	done
	masquerade net out &&
		on net iptables -t nat -A POSTROUTING -o out -p tcp -j SNAT --to-source 10.97.0.2
}

# Title, how many UDP flows pass the router, job, options and places as above: ports change twice.
goes_on() {
	local title=$1 flows=$2 job=$3
	shift 3
	start "$job" -b 64K -e 64K -w 0 -n 1 -c 1 --seconds 1000 --pause 20 "$@"
	await_under_way "$job" $root
	new_ports net out "$flows" $root
	new_ports net out "$flows" $root
	kill "${pids[0]}" # rank 0 decides when to end
	expect_success "$title" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/$job.0" || fail "$title: no element is wrong"
}

start_leaf() {
	: >"$work/leaf"
	ip netns exec "$name-2" "$switchml" switch --parent $root "$@" >"$work/leaf" 2>&1 &
	leaf_pid=$!
	await says "$work/leaf" 'ready on'
}

end_all() {
	end_switch TERM
	[ -z "$leaf_pid" ] || { kill "$leaf_pid" && wait "$leaf_pid"; } 2>/dev/null
	leaf_pid=
}

# The root's options: ranks and a leaf behind the router.
all_forms() {
	local second
	ip netns exec "$name-switch" "$switchml" switch --listen :28501 >"$work/second" 2>&1 &
	second=$!
	await says "$work/second" 'ready on'
	start_switch "$@"
	export SWITCHML_SHARED_MEMORY=0
	goes_on "$*: two ranks" 2 two -- 0=$root 1=$root
	SWITCHML_THREADS=2 goes_on "$*: two sockets a rank" 4 shards -- 0=$root 1=$root
	goes_on "$*: two stripes" 4 stripes -- "0=$root,$root:28501" "1=$root,$root:28501"
	goes_on "$*: two ranks of one host" 3 neighbors -- 0=$root 0=$root 1=$root
	SWITCHML_SHARED_MEMORY=1 goes_on "$*: ranks that share memory" 2 shared -- 0=$root 0=$root 1=$root
	end_all
	kill "$second"
	wait "$second" 2>/dev/null
}

# The leaf's options.
leaf_forms() {
	start_switch
	start_leaf "$@"
	goes_on "a leaf ($*)" 1 leaf -- 0=$leaf 1=$leaf
	goes_on "a leaf ($*) and a rank" 2 mixed -- 0=$leaf 1=$root
	# All its threads have one port.
	SWITCHML_THREADS=2 goes_on "a leaf ($*), two sockets" 1 leafs -- 0=$leaf 1=$leaf
	end_all
}

# The router forwards the switch's ports, TCP and UDP, to host 0.
switch_behind_the_router() {
	local protocol
	for protocol in tcp udp; do
		on net iptables -t nat -A PREROUTING -i out -p $protocol --dport 28500 -j DNAT \
			--to-destination 192.168.0.2
	done
	ip netns exec "$name-0" "$switchml" switch >"$work/inside" 2>&1 &
	local pid=$!
	await says "$work/inside" 'ready on'
	start inside -b 4 -e 256K -f 16 -n 2 -c 1 -- switch=10.97.0.2 1=192.168.0.2
	expect_success "a switch whose ports the router forwards" "${pids[@]}"
	kill "$pid"
	wait "$pid" 2>/dev/null
}

# In the kernel, on both ends of the way. The ports can transmit for XDP only if their peers have GRO.
xdp_works() {
	on net ethtool -K out gro on >/dev/null && on net ethtool -K in2 gro on >/dev/null
	ip netns exec "$name-switch" "$switchml" switch --dataplane xdp --iface eth0 >"$work/tried" 2>&1 &
	tried_pid=$!
	await is_ready_or_gone "$work/tried" "$tried_pid"
	kill "$tried_pid" 2>/dev/null
	wait "$tried_pid" 2>/dev/null
	says "$work/tried" 'ready on'
}

set_up_hosts
all_forms --threads 2
leaf_forms --threads 2
switch_behind_the_router
if xdp_works; then
	all_forms --dataplane xdp --iface eth0
	leaf_forms --dataplane xdp --iface eth0
else
	echo "left out: XDP: $(tail -n 1 "$work/tried")"
fi
[ $failures = 0 ]
