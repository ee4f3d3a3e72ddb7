# SPDX-License-Identifier: BSD-3-Clause
# To be sourced, after report.sh: simple_switch in a network namespace. Its Thrift
# server listens on all addresses, so it must not run outside one. Needs root.
# shellcheck shell=bash

p4_switch=simple_switch
p4_target=127.0.0.1:9090

# Say that the test is skipped, and why.
skip_p4() {
	echo "skipped: P4 was not tested: $1"
	exit 77
}

# Program (JSON): is everything here that the P4 switch needs?
need_p4() {
	[ "$(id -u)" = 0 ] || skip_p4 "network namespaces need root"
	command -v ip >/dev/null || skip_p4 "there is no ip (Debian: iproute2)"
	command -v ethtool >/dev/null || skip_p4 "there is no ethtool"
	command -v "$p4_switch" >/dev/null ||
		skip_p4 "there is no $p4_switch (BMv2: docs/p4.md says where p4lang publishes it)"
	[ -s "$1" ] || skip_p4 "the P4 program is not built: p4c-bm2-ss was not found (docs/p4.md)"
}

# Namespace of the P4 switch and of its daemon: the kernel does not answer at the switch's ports for the
# daemon's address, or hosts would send to the daemon past the switch.
p4_hides_daemon() {
	ip netns exec "$1" sysctl -qw net.ipv4.conf.all.arp_ignore=1
}

# Namespace, interface, its peer, the peer's namespace: a cable that BMv2 can have an end of. BMv2
# reads frames as they are, so nothing may be left to hardware: checksums, segmentation, tags.
p4_cable() {
	ip -n "$1" link add "$2" type veth peer name "$3" netns "$4" &&
		for end in "$1 $2" "$4 $3"; do
			# shellcheck disable=SC2086
			set -- $end
			ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=${P4_NO_IPV6:-0}" \
				"net.ipv6.conf.$2.accept_dad=0" &&
				ip netns exec "$1" ethtool -K "$2" rx off tx off sg off gso off tso off \
					gro off txvlan off rxvlan off >/dev/null 2>&1
			ip -n "$1" link set "$2" up || return 1
		done
}

# Namespace, program, interfaces (port 0 first): start the P4 switch there, and wait until it can be
# controlled. $p4_pid is its process. Its notifications would have one place on each machine.
start_simple_switch() {
	local namespace=$1 program=$2 port=0 ports=()
	shift 2
	for interface; do
		ports+=(-i "$port@$interface")
		port=$((port + 1))
	done
	ip netns exec "$namespace" "$p4_switch" "${ports[@]}" --thrift-port "${p4_target#*:}" \
		--notifications-addr "ipc://${work:?}/.notifications" --log-level error "$program" \
		>>"$work/simple_switch" 2>&1 &
	p4_pid=$!
	await p4_answers "$namespace"
}

p4_answers() {
	kill -0 "$p4_pid" 2>/dev/null || give_up "$p4_switch has ended"
	ip netns exec "$1" bash -c ": </dev/tcp/${p4_target%:*}/${p4_target#*:}" 2>/dev/null
}
