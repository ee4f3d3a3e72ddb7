# SPDX-License-Identifier: BSD-3-Clause
# To be sourced: hosts in network namespaces, one bridge between them. Needs root.
#
#	   rank 0        rank 1        rank 2        switch
#	+---------+   +---------+   +---------+   +---------+
#	| 10.77.  |   | 10.77.  |   | 10.77.  |   | 10.77.  |     a namespace each,
#	|    0.10 |   |    0.11 |   |    0.12 |   |    0.1  |     and a host name: host0, …
#	+----+----+   +----+----+   +----+----+   +----+----+
#	     | veth        | veth        | veth        | veth     port-0, … in the bridge's
#	+----+-------------+-------------+-------------+----+
#	|                  bridge, MTU 1500                 |     a fifth namespace
#	+---------------------------------------------------+
#
# $name begins the names of everything created here, and $work is a directory. Both are
# removed at the script's end. For another network, a script sets $ranks before sourcing
# this file, or defines build_network() after it.
ranks=${ranks:-3}
name=sml$$
work=$(mktemp -d)
failures=0
# shellcheck source=tests/support/await.sh
. "$(dirname "${BASH_SOURCE[0]}")/await.sh"
asking="ip netns exec $name-1"

skip() {
	echo "skipped: $1"
	rm -rf "$work"
	exit 77
}

remove_hosts() {
	for namespace in $(ip netns list | awk '{ print $1 }' | grep "^$name-"); do
		ip netns pids "$namespace" | xargs -r kill -9
		ip netns delete "$namespace"
	done
	rm -rf "$work"
}

build_bridge() {
	ip netns add "$name-net" && ip -n "$name-net" link add bridge type bridge &&
		ip -n "$name-net" link set bridge up
}

# Host, address with prefix length: add a host to the bridge.
add_host() {
	ip netns add "$name-$1" &&
		ip -n "$name-$1" link set lo up &&
		ip link add eth0 netns "$name-$1" type veth peer name "port-$1" netns "$name-net" &&
		ip -n "$name-net" link set "port-$1" master bridge up &&
		ip -n "$name-$1" address add "$2" dev eth0 &&
		ip -n "$name-$1" link set eth0 up
}

build_network() {
	build_bridge && add_host switch 10.77.0.1/24 || return 1
	for ((rank = 0; rank < ranks; rank++)); do
		add_host $rank 10.77.0.1$rank/24 || return 1
	done
}

# Host, command: run it there, under the host's own name. Never returns.
on_host() {
	exec ip netns exec "$name-$1" unshare --uts sh -c \
		"hostname host$1 2>/dev/null; exec \"\$@\"" on_host "${@:2}"
}

at_rank() {
	echo "ip netns exec $name-$1"
}

# Host, command: run it there, and return.
on() {
	ip netns exec "$name-$1" "${@:2}"
}

# Create all hosts, or end the test and say what is missing.
set_up_hosts() {
	[ "$(id -u)" = 0 ] || skip "network namespaces need root"
	command -v ip >/dev/null || skip "there is no ip (Debian: iproute2)"
	command -v iptables >/dev/null || skip "there is no iptables"
	trap remove_hosts EXIT
	build_network 2>"$work/why" || skip "no network namespaces here: $(tail -n 1 "$work/why")"
	ip netns exec "$name-0" iptables -L >/dev/null 2>"$work/why" ||
		skip "iptables does not work here: $(tail -n 1 "$work/why")"
}

# The switch's options: start one, and wait until it is ready. $switch_pid is its process.
start_switch() {
	: >"$work/switch"
	(on_host switch "$switchml" switch "$@") >"$work/switch" 2>&1 &
	switch_pid=$!
	await_switch "$work/switch"
}

# Signal that ends the switch.
end_switch() {
	kill "-$1" "$switch_pid"
	wait "$switch_pid" 2>/dev/null
}
