#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A switch dies. Of the addresses that may take over, some are silent, refuse, are far
# away, are full, or get no packets. The job continues with the switch that can serve it,
# and nobody is blamed. Needs root.
#
#	tests/job/failover-hosts.sh build/switchml
#
#	ranks 0, 1, 2     .1 switch     .2 standby     .3 third     .4 silent
#	  10.77.0.1x         |             |              |             |     drops all that comes
#	-----+---------------+-------------+--(2 ms)------+-------------+----  the bridge of hosts.sh
#
# third is behind a cable with a delay of 2 ms, so a connection to it always takes time.
switchml=$(realpath "$1")
support=$(dirname "$0")/../support
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"
export SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=5

# One end is `eth0` of a namespace, and the other is in the bridge.
add_far_host() {
	ip netns add "$name-third" || return 1
	ip netns exec "$name-net" "$support/slow-link" far-bridge far-host 2 >"$work/cable" &
	cable=$!
	await grep -q ready "$work/cable" || return 1
	ip -n "$name-net" link set far-bridge master bridge up &&
		ip -n "$name-net" link set far-host netns "$name-third" name eth0 &&
		ip -n "$name-third" link set lo up &&
		ip -n "$name-third" address add 10.77.0.3/24 dev eth0 &&
		ip -n "$name-third" link set eth0 up
}

add_other_hosts() {
	add_host standby 10.77.0.2/24 && add_host silent 10.77.0.4/24 && add_far_host &&
		on silent iptables -A INPUT -j DROP
}

# Host, switch's options: the output goes to $work/HOST.
start_on() {
	: >"$work/$1"
	(on_host "$1" "$switchml" switch --listen 0.0.0.0 "${@:2}") >"$work/$1" 2>&1 &
	servers[$1]=$!
	await says "$work/$1" 'ready on'
}

end_servers() {
	for host in "${!servers[@]}"; do
		ip netns pids "$name-$host" | xargs -r kill -9
		wait "${servers[$host]}" 2>/dev/null
	done
	servers=()
}

kill_switch() {
	kill_all_of switch
}

# Host: nothing runs there any more.
kill_all_of() {
	ip netns pids "$name-$1" | xargs -r kill -9
	await runs_nothing "$1"
}

runs_nothing() {
	[ -z "$(ip netns pids "$name-$1")" ]
}

cut_switch() {
	ip -n "$name-net" link set port-switch down
}

# Title, list after the switch, where the job continues, how the switch ends: three ranks,
# every result checked.
takes_over() {
	local title=$1 next=$3 rank before=$failures
	switch="10.77.0.1|$2"
	start_on switch
	in_the_middle under-way 10.77.0.1 "${4:-kill_switch}" -b 256K -e 256K -d int32
	expect_success "$title" "${pids[@]}"
	for rank in 0 1 2; do
		[ $failures = "$before" ] || break
		says "$work/under-way.$rank" "at $next.*takes over" ||
			fail "$title: rank $rank did not go on at $next"
	done
	kill_all_of switch
	wait "${servers[switch]}" 2>/dev/null
}

# A job with another name that runs, so that a switch with --jobs 1 is full: a job that has not begun
# would make room.
fill() {
	RANK=0 WORLD_SIZE=1 SWITCHML_SWITCH=$1 SWITCHML_JOB=squatter \
		ip netns exec "$name-1" timeout 600 "$switchml" bench -n 1 -b 4 -e 4 --seconds 1000 >"$work/squatter" 2>&1 &
	squatter=$!
	await job_is "$1" squatter running
}

nobody_is_blamed() {
	local rank
	for rank in 0 1 2; do
		! grep -q 'rank [0-9].* died' "$work/under-way.$rank" || fail "$1: a rank was blamed"
	done
}

silent_then_far() {
	start_on third
	takes_over "past a silent address to one 2 ms away" "10.77.0.4|10.77.0.3" 10.77.0.3
	takes_over "past one that refuses" "10.77.0.2|10.77.0.3" 10.77.0.3
	takes_over "from a host that is gone, past a silent one" "10.77.0.4|10.77.0.3" 10.77.0.3 \
		cut_switch
	ip -n "$name-net" link set port-switch up
	end_servers
}

no_udp() {
	start_on standby
	start_on third
	on standby iptables -A INPUT -p udp -j DROP
	takes_over "past a switch whose UDP is blocked" "10.77.0.2|10.77.0.3" 10.77.0.3
	nobody_is_blamed "a switch whose UDP is blocked"
	on standby iptables -F INPUT
	on standby iptables -A INPUT -p udp -s 10.77.0.11 -j DROP
	end_servers
	start_on standby
	start_on third
	takes_over "past a switch that one rank has no UDP to" "10.77.0.2|10.77.0.3" 10.77.0.3
	nobody_is_blamed "a switch that one rank has no UDP to"
	on standby iptables -F INPUT
	end_servers
}

full() {
	start_on standby --jobs 1
	start_on third
	fill 10.77.0.2
	takes_over "past a switch that takes no more jobs" "10.77.0.2|10.77.0.3" 10.77.0.3
	kill "$squatter"
	wait "$squatter" 2>/dev/null
	end_servers
}

narrow() {
	start_on standby
	start_on third
	on standby iptables -A INPUT -p udp -m length --length 1000: -j DROP
	takes_over "past a switch whose path is too narrow" "10.77.0.2|10.77.0.3" 10.77.0.3
	nobody_is_blamed "a switch whose path is too narrow"
	on standby iptables -F INPUT
	end_servers
}

# All of them fail: every rank's error gives the reason for each.
none_can() {
	local rank
	start_on standby
	on standby iptables -A INPUT -p udp -j DROP
	start_on switch
	switch="10.77.0.1|10.77.0.2|10.77.0.4" SWITCHML_TIMEOUT=30 \
		start_job under-way -b 256K -e 256K -d int32 -n 1000000
	await is_under_way 10.77.0.1 under-way
	kill_all_of switch
	for rank in 0 1 2; do
		wait "${pids[$rank]}" && fail "rank $rank went on without a switch"
		grep -q 'no switch has taken over.*10.77.0.2:28500: .*10.77.0.4:28500: no answer.*10.77.0.1:28500: ' \
			"$work/under-way.$rank" || fail "rank $rank does not list all switches"
	done
	nobody_is_blamed "no switch can"
	[ $failures = 0 ] && echo "ok: where none can, each is listed with its reason"
	on standby iptables -F INPUT
	end_servers
}

set_up_hosts
command -v python3 >/dev/null || skip "the slow cable needs Python"
declare -A servers=()
add_other_hosts 2>"$work/why" || skip "no such network here: $(tail -n 1 "$work/why")"
for what in ${2:-silent_then_far no_udp full narrow none_can}; do
	$what
done
kill "$cable"
[ $failures = 0 ]
