#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Results by multicast, on hosts behind a bridge that knows the receivers (IGMP and MLD
# snooping; the bridge itself sends the queries). Covers exact sums, loss, hosts that the
# group never reaches or no longer reaches, several jobs, ranks that share a host, a
# switch that comes back, and strangers who send to the group. Needs root.
#
#	tests/integration/multicast.sh build/switchml
#
# The network is that of hosts.sh, with IPv6 in addition: fd77::1 is the switch, fd77::10
# rank 0's host.
switchml=$(realpath "$1")
. "$(dirname "$0")/../support/hosts.sh"
. "$(dirname "$0")/../support/jobs.sh"
export SWITCHML_HOST_GROUP=0 # each rank sends its own packets
group=239.77.0.0

# A bridge whose querier has answered once. Until then, it floods.
know_listeners() {
	for host in switch 0 1 2; do
		local end=1$host
		[ "$host" != switch ] || end=1
		ip -n "$name-$host" address add "fd77::$end/64" dev eth0 nodad || return 1
	done
	ip -n "$name-net" link set bridge type bridge mcast_snooping 1 mcast_querier 1 \
		mcast_startup_query_interval 10 mcast_query_response_interval 10
}

status() {
	on 0 "$switchml" status --switch 10.77.0.1 "$@"
}

counter() {
	status --json | python3 -c "import json,sys; print(json.load(sys.stdin)[0]['counters']['$1'])"
}

check() {
	if eval "$2"; then echo "ok: $1"; else fail "$1"; fi
}

# Title, pattern: the switch has said it.
switch_says() {
	check "$1" "await says '$work/switch' '$2'"
}

# Title, the jobs since the last such check: multicast has reached their ranks, in at
# least three of four jobs. A rank or a switch that stalls for a second as its job begins
# counts as not reached.
nobody_is_missed() {
	local before=${missed:-0}
	missed=$(grep -c 'does not reach' "$work/switch")
	check "$1 ($((missed - before)) of $2 jobs had one who was)" "[ $((4 * (missed - before))) -le $2 ]"
}

# Every result was sent once: the packets are those of the results, plus only probes.
one_packet_a_result() {
	local completed sent
	completed=$(counter completed) sent=$(counter packets-multicast)
	check "each of $completed results went out once" \
		"[ $completed -gt 1000 ] && [ $sent -ge $completed ] && [ $sent -le $((completed + 200)) ]"
}

# Job, pattern, bench's options: it runs, and `switchml status` shows the pattern. Repeat
# it if not: a rank that stalls for a second as its job begins counts as not reached.
start_job_that() {
	local job=$1 pattern=$2
	shift 2
	for _ in 1 2 3 4 5; do
		start_job "$job" "$@" -w 0 -n 1 -c 1 --seconds 1000 --pause 20
		await_under_way "$job" 10.77.0.1
		status >"$work/status"
		! says "$work/status" "$pattern" || return
		end_job KILL
	done
	give_up "of none of five jobs status says '$pattern'"
}

# Signal: sent to all ranks at once.
end_job() {
	for host in 0 1 2; do
		ip netns pids "$name-$host" | xargs -r kill "-$1"
	done
	wait "${pids[@]}" 2>/dev/null
}

# A host whose firewall drops the group's packets from the beginning.
blocked_host_is_named() {
	on 1 iptables -A INPUT -d 239.0.0.0/8 -j DROP
	SWITCHML_DEBUG=info start_job_that blocked \
		"multicast to 2 (group $group port 28600) and one by one to rank 1," -b 1M -e 1M
	echo "ok: status names the rank that multicast does not reach"
	switch_says "the switch names it" 'does not reach rank 1 (host '
	check "the rank says so" "await says $work/blocked.1 'sends results to this rank by unicast'"
	check "the others do not" "! grep -q 'by unicast' $work/blocked.0 $work/blocked.2"
	end_job KILL
	exact_sums "one host without the group" -b 4 -e 1M -f 16
	on 1 iptables -F INPUT
}

# The group reaches only one host. Results go there by unicast, and this is not the host's
# fault.
one_is_left() {
	on 1 iptables -A INPUT -d 239.0.0.0/8 -j DROP
	on 2 iptables -A INPUT -d 239.0.0.0/8 -j DROP
	start_job_that left 'multicast to 0 .* one by one to ranks 0 1 2,' -b 64K -e 64K
	echo "ok: results go to all one by one"
	switch_says "the switch names the two that the group does not reach" \
		'\"left\".* does not reach ranks 1 (host [^)]*), 2 (host'
	end_job KILL
	on 1 iptables -F INPUT
	on 2 iptables -F INPUT
}

# Multicast ends in the middle of the job, at one host.
group_ends_in_the_middle() {
	start_job_that ends 'multicast to 3 ' -b 1M -e 1M -d int32
	on 2 iptables -A INPUT -d 239.0.0.0/8 -j DROP
	switch_says "the switch names the host" 'does not reach rank 2 (host '
	kill "${pids[0]}" # it ends when it is told to
	expect_success "a group that ceases to reach a host: exact sums" "${pids[@]}"
	on 2 iptables -F INPUT
}

# Two ranks on one host, three in all.
ranks_share_a_host() {
	pids=()
	for rank in 0 1 2; do
		on $((rank / 2)) env RANK=$rank WORLD_SIZE=3 timeout 100 "$switchml" bench \
			--switch 10.77.0.1 --job shared -b 4 -e 1M -f 16 -n 20 -d int32 \
			>"$work/shared.$rank" 2>&1 &
		pids+=($!)
	done
	expect_success "two ranks share a host" "${pids[@]}"
}

# Sends imitations of the switch's results to the group, from the switch's address but
# without the tag. The ranks' kernels accept them, and the ranks do not.
forge() {
	on 2 python3 - <<'PYTHON'
import socket, struct, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.77.0.12"))
bytes_ = 40 + 4 * 352
ends = struct.pack(">HHHH", 28500, 28600, 8 + bytes_, 0)
ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 1, 17, 0, socket.inet_aton("10.77.0.1"),
                 socket.inet_aton("239.77.0.0"))
end, use = time.time() + 2, 0
while time.time() < end:
    for slot in range(64):
        out.sendto(ip + ends + struct.pack(">HBBIQIIIIHBBBBH", 0x534d, 1, 1, use, 0, 1, use, use, 0,
                                           slot, 0, 0, 0, 0, 352) + bytes(4 * 352),
                   ("239.77.0.0", 0))
    use += 1
PYTHON
}

strangers_forge_nothing() {
	SWITCHML_DEBUG=info in_the_middle forged 10.77.0.1 forge -b 256K -e 256K -d int32
	expect_success "a stranger in the switch's name: exact sums" "${pids[@]}"
	for rank in 0 1; do
		check "rank $rank has ignored him" \
			"grep -Eq ', [0-9]{3,} ignored' $work/forged.$rank"
	done
}

kill_and_start_again() {
	end_switch KILL
	start_switch --multicast $group
	await uses_the_group # as the one before
}

uses_the_group() {
	[ "$(counter packets-multicast)" -gt 100 ]
}

switch_comes_back() {
	SWITCHML_DEBUG=info in_the_middle back 10.77.0.1 kill_and_start_again -b 256K -e 256K -d int32
	expect_success "the switch is killed and started again" "${pids[@]}"
	check "it was missed" "grep -q 'it is back.*(epoch 2)' $work/back.0"
}

# An address that is no group for results is refused with an error text.
bad_groups_are_refused() {
	local bad
	for bad in 10.0.0.1 224.0.0.5 239.255.255.255 ff02::1 group 239.77.0.0:65530; do
		timeout 10 "$switchml" switch --listen 127.0.0.1:0 --multicast "$bad" >"$work/bad" 2>&1
		check "--multicast $bad is refused" \
			"[ $? = 1 ] && grep -q 'is not the first of 64 multicast groups' $work/bad"
	done
}

set_up_hosts
bad_groups_are_refused
lose 0.5 switch 0 1 2 2>"$work/why" || skip "iptables cannot drop here: $(tail -n 1 "$work/why")"
lose 0 switch 0 1 2
know_listeners 2>"$work/why" || skip "no such bridge here: $(tail -n 1 "$work/why")"
start_switch --multicast $group

exact_sums "multicast" -b 4 -e 4M -f 16
one_packet_a_result
SWITCHML_THREADS=2 exact_sums "multicast, two threads" -b 4 -e 256K -f 16
SWITCHML_SOCKET_IFNAME=eth exact_sums "multicast, the interface chosen" -b 4 -e 64K -f 16
nobody_is_missed "nobody was missed so far" 12
lose 0.01 switch 0 1 2
exact_sums "multicast, 1 % lost each way" -b 4 -e 1M -f 16
two_jobs
lose 0 switch 0 1 2
ranks_share_a_host
strangers_forge_nothing
nobody_is_missed "loss alone makes nobody fall back" 8
blocked_host_is_named
one_is_left
group_ends_in_the_middle
switch_comes_back
killed_worker_is_named
end_switch TERM

start_switch --multicast '[ff15::77:0]:29000' --threads 2
switch='[fd77::1]' SWITCHML_THREADS=2 exact_sums "multicast by IPv6, two threads" -b 4 -e 256K -f 16
missed=0
nobody_is_missed "IPv6 reaches all" 4
uses_the_group || fail "IPv6 used the group"
SWITCHML_DEBUG=info exact_sums "ranks of IPv4, a group of IPv6" -b 4 -e 64K -f 16
check "they say so" "grep -q 'multicast group of the switch at .* is IPv6 only' $work/exact-float-int32.0"
[ $failures = 0 ]
