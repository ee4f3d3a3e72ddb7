#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Cables are cut, firewalls block packets. Every rank gets an error in time:
# one line that names the rank or place and the remedy. The job can be formed again at
# once, under its name. Needs root.
#
#	tests/job/outages.sh build/switchml [WHAT]
switchml=$(realpath "$1")
. "$(dirname "$0")/../support/hosts.sh"
. "$(dirname "$0")/../support/jobs.sh"

export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
export SWITCHML_HEARTBEAT=5 SWITCHML_TIMEOUT=10

# With stripes in ranks, the rank with the control port knows little more.
runs() {
	job_is "$1" "$2" running
}

now_ms() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# Under the host's own name.
at_rank() {
	echo "on_host $1"
}

# The ranks' setting of the switch, bench's options: one rank on every host.
start_job() {
	# shellcheck disable=SC2086 # $1 is an assignment or two
	begin_ranks $ranks rank $1 timeout 60 "$switchml" bench --job outage -w 1 "${@:2}"
}

# The ranks' setting of the switch, and the address to ask about the job: the job runs
# until something happens to it.
start_endless_job() {
	start_job "$1" -b 1M -e 1M -n 1000000
	await "${3:-is_under_way}" "$2" outage || fail "the job does not run"
	happened=$(now_ms)
}

# Title, rank, milliseconds, text: the rank ends with this error within that time.
expect_error() {
	local status took
	wait "${pids[$2]}"
	status=$?
	took=$(($(now_ms) - happened))
	if [ $status != 1 ]; then
		fail "$1: rank $2 ends with status $status after $took ms"
	elif [ $took -gt "$3" ]; then
		fail "$1: rank $2 was told after $took ms, not $3"
	elif ! grep -Eq "$4" "$work/rank.$2"; then
		fail "$1: rank $2 does not say '$4'"
	else
		echo "ok: $1: rank $2, $took ms: $(grep -Eo -m 1 "$4" "$work/rank.$2")"
	fi
}

# Title, the ranks' setting of the switch: from now on, the same job runs well.
expect_job_again() {
	start_job "$2 SWITCHML_TIMEOUT=20" -b 64K -e 64K -n 3
	expect_success "$1: the job is formed again under its name" "${pids[@]}"
}

# Title, variables, text: a single rank cannot open, and gets one line of error text.
expect_no_way() {
	local lines
	happened=$(now_ms)
	# shellcheck disable=SC2086 # variables are words
	(on_host 0 env SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=1 SWITCHML_JOB=outage SWITCHML_HEARTBEAT=20 $2 timeout 30 \
		"$switchml" bench -b 4 -e 4 -n 1) >"$work/rank.0" 2>&1 &
	pids=($!)
	expect_error "$1" 0 $deadline "$3"
	lines=$(grep -c . "$work/rank.0")
	[ "$lines" -le 2 ] || fail "$1: $lines lines"
}

# Host, iptables' rule: insert it before all other rules. Without a rule: remove all.
firewall() {
	if [ $# = 1 ]; then
		ip netns exec "$name-$1" iptables -F
	else
		ip netns exec "$name-$1" iptables -I "${@:2}"
	fi
}

# Host, up or down. Also clears what hosts have stored about each other while the link was
# down.
cable() {
	ip -n "$name-net" link set "port-$1" "$2"
	[ "$2" = down ] || for host in switch 0 1 2; do
		ip -n "$name-$host" neighbour flush dev eth0
	done
}

switch=SWITCHML_SWITCH=10.77.0.1
# The heartbeat's silence, the switch's ticks, the time to tell all ranks, and a stall of
# the machine.
bound=10000
# A rank that has lost its switch looks for it until the deadline of its call.
deadline=16000

cut_worker() {
	start_endless_job $switch 10.77.0.1
	cable 2 down
	for rank in 0 1; do
		expect_error "a cut cable" $rank $bound \
			"rank 2 \(host host2, pid [0-9]+\) died: it was silent for [0-9.]+ s"
	done
	expect_error "a cut cable" 2 $deadline "the switch at 10.77.0.1:28500 has been silent"
	cable 2 up
	expect_job_again "a cut cable" $switch
}

cut_embedder() {
	start_endless_job SWITCHML_MASTER_ADDR=10.77.0.10 10.77.0.10 runs
	cable 0 down
	for rank in 1 2; do
		expect_error "the cable of rank 0 and its switch is cut" $rank $bound \
			"rank 0.* has been silent for 5000 ms"
	done
	expect_error "the cable of rank 0 and its switch is cut" 0 $bound "it was silent"
	cable 0 up
	expect_job_again "the cable of rank 0 and its switch is cut" SWITCHML_MASTER_ADDR=10.77.0.10
}

cut_switch() {
	start_endless_job $switch 10.77.0.1
	cable switch down
	for rank in 0 1 2; do
		expect_error "the switch's cable is cut" $rank $deadline \
			"has been silent for 5000 ms, and no switch has taken over"
	done
	cable switch up
	expect_job_again "the switch's cable is cut" $switch
}

# The control connection works, but the data path does not: the flight recorder knows
# which direction.
lost_data() {
	start_endless_job $switch 10.77.0.1
	firewall 2 OUTPUT -p udp -j DROP
	expect_error "a firewall drops what rank 2 sends" 2 $deadline \
		"packets of this rank did not reach the switch"
	expect_error "a firewall drops what rank 2 sends" 0 $deadline \
		"rank 2 \(host host2, pid [0-9]+\) has not contributed to [0-9]+ slots"
	wait "${pids[1]}"
	firewall 2
	start_endless_job $switch 10.77.0.1
	firewall 2 INPUT -p udp -j DROP
	expect_error "a firewall drops what rank 2 is sent" 2 $deadline \
		"results? from the switch did not reach this rank"
	wait "${pids[0]}" "${pids[1]}"
	firewall 2
	expect_job_again "a firewall that drops data" $switch
}

# UDP from one host is blocked before the job starts: all ranks learn which, and why.
blocked_data() {
	local list
	firewall switch INPUT -p udp -s 10.77.0.12 -j DROP
	for list in "$switch" "$switch|10.77.0.1:28999"; do
		happened=$(now_ms)
		start_job "$list SWITCHML_TIMEOUT=20" -b 64K -e 64K -n 3
		for rank in 0 1 2; do
			expect_error "a firewall drops rank 2's probes ($list)" $rank $deadline \
				"TCP to the switch at 10.77.0.1:28500 works, but UDP port 28500 there does not answer"
		done
		for rank in 0 1; do
			grep -q "rank 2 (host host2, pid [0-9]*) aborted the job: TCP" "$work/rank.$rank" ||
				fail "UDP is blocked for rank 2: rank $rank does not name it"
		done
	done
	firewall switch
	expect_job_again "a firewall that dropped probes" $switch
}

# Rank 0's address leads to nothing: the error speaks of rank 0, and not of a switch.
no_rank_0() {
	happened=$(now_ms)
	(on_host 1 env SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=2 SWITCHML_JOB=outage SWITCHML_TIMEOUT=4 \
		SWITCHML_MASTER_ADDR=10.77.0.10 timeout 30 "$switchml" bench -b 4 -e 4 -n 1) >"$work/rank.1" 2>&1 &
	pids=("" $!)
	expect_error "rank 0 has not been started" 1 $deadline \
		"rank 0 at 10.77.0.10:28500 cannot be reached: .*SWITCHML_MASTER_ADDR"
}

# A rank or a switch stalls while a job begins, for less than a heartbeat.
slow_data_path() {
	firewall switch INPUT -p udp --dport 28500 -j DROP
	start_job "$switch SWITCHML_HEARTBEAT=20 SWITCHML_TIMEOUT=20" -b 64K -e 64K -n 3
	await job_is 10.77.0.1 outage probing || fail "the job does not ask for its data path"
	sleep 2.5
	firewall switch
	expect_success "UDP that passes after 2.5 s is waited for" "${pids[@]}"
}

nothing_to_reach() {
	expect_no_way "no such host" SWITCHML_SWITCH=10.77.0.99 \
		"10.77.0.99:28500 cannot be reached: No route to host; check the address, the network"
	expect_no_way "no such port" SWITCHML_SWITCH=10.77.0.1:28999 \
		"nothing listens there: start .switchml switch., or check SWITCHML_SWITCH"
	firewall switch INPUT -p tcp --dport 28500 -j DROP
	expect_no_way "a firewall drops TCP" $switch "does a firewall let the TCP port pass"
	firewall switch
	firewall switch INPUT -p tcp --dport 28500 -j REJECT
	expect_no_way "a firewall rejects TCP" $switch "Connection refused; .*firewall"
	firewall switch
	firewall switch INPUT -p tcp --dport 28500 -j REJECT --reject-with icmp-admin-prohibited
	expect_no_way "a firewall prohibits TCP" $switch "No route to host; check the address, the network and its firewalls"
	firewall switch
	for way in DROP REJECT; do
		firewall switch INPUT -p udp --dport 28500 -j $way
		expect_no_way "a firewall's $way of UDP" "$switch SWITCHML_HEARTBEAT=4" \
			"TCP to the switch .* works, but UDP port 28500 there does not answer"
		firewall switch
		firewall 0 INPUT -p udp -j $way
		expect_no_way "a firewall's $way of UDP on the way back" "$switch SWITCHML_HEARTBEAT=4" \
			"TCP to the switch .* works, but UDP port 28500 there does not answer"
		firewall 0
	done
}

set_up_hosts
start_switch
for outage in ${2:-cut_worker cut_embedder cut_switch lost_data blocked_data no_rank_0 slow_data_path nothing_to_reach}; do
	$outage
done
[ $failures = 0 ]
