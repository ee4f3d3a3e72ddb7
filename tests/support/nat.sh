# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after hosts.sh: UDP flows get other ports in the middle of a job, as a NAT gives them
# after an idle time or a restart. `asking` is a host that reaches the switch.
# shellcheck shell=bash

# Host, interface: UDP packets that leave there get random ports.
masquerade() {
	# Only masquerading forgets its ports when the interface goes down.
	on "$1" iptables -t nat -A POSTROUTING -o "$2" -p udp -j MASQUERADE --random
}

# Host: how often it has chosen a port for a UDP flow.
ports_chosen() {
	on "$1" iptables -t nat -L POSTROUTING -v -x -n | awk '$3 == "MASQUERADE" { print $1 }'
}

has_chosen() {
	[ "$(ports_chosen "$1")" -ge "$2" ]
}

# Switch: its results so far.
completed() {
	$asking "$switchml" status --switch "$1" --json |
		python3 -c "import json, sys; print(json.load(sys.stdin)[0]['counters']['completed'])"
}

has_completed() {
	[ "$(completed "$1")" -ge "$2" ] || ! all_run
}

# Host, interface, how many UDP flows leave there, switch: all of them get other ports, and the job
# goes on.
new_ports() {
	local before
	before=$(ports_chosen "$1")
	ip -n "$name-$1" link set "$2" down
	ip -n "$name-$1" link set "$2" up
	await has_chosen "$1" $((before + $3))
	await has_completed "$4" $(($(completed "$4") + 200))
}
