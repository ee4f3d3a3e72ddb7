#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Tests what is specific to workers with AF_XDP sockets, between network namespaces.
# netns.sh and xdp.sh, with SWITCHML_TRANSPORT set, test what AF_XDP and UDP sockets have
# in common. Needs root and BPF.
#
#	tests/integration/afxdp.sh build/switchml build/bpf/switchml.bpf.o
switchml=$(realpath "$1")
foreign=$(realpath "$2") # a program that is not the worker's
export SWITCHML_TRANSPORT=afxdp SWITCHML_DEBUG=info
# shellcheck source=tests/support/hosts.sh
. "$(dirname "$0")/../support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$(dirname "$0")/../support/jobs.sh"

# Title, words that ranks (files of the job) must have written, and the job.
expect_words() {
	if grep -q "$2" "$work/$3".*; then
		echo "ok: $1: $(grep -h "$2" "$work/$3".* | head -n 1 | cut -c 1-200)"
	else
		fail "$1"
	fi
}

no_program() {
	for host in 0 1 2; do
		on $host ip link show eth0
	done >"$work/links"
	! says "$work/links" xdp
}

# Title: no program remains on a rank's interface (the kernel removes it a little later).
no_trace() {
	if await no_program; then
		echo "ok: $1: no program is left on an interface"
	else
		fail "$1: no program is left on an interface"
	fi
}

udp_received() {
	on 0 awk '/^Udp: [0-9]/ { print $2 }' /proc/net/snmp
}

# The results bypass the stack: of thousands, its UDP sees only the first few.
past_the_stack() {
	local before after
	before=$(udp_received)
	start_job fast -b 1M -e 1M -n 10
	expect_success "a job over AF_XDP" "${pids[@]}"
	after=$(udp_received)
	grep -q "Operation not permitted\|does not permit" "$work"/fast.* && skip "XDP is not permitted here"
	expect_words "the log says how" "AF_XDP on eth0, queue 0, copying, native mode" fast
	if [ $((after - before)) -lt 200 ]; then
		echo "ok: results pass by the stack ($((after - before)) datagrams came through it)"
	else
		fail "results pass by the stack: $((after - before)) datagrams came through it"
	fi
	no_trace "the end of a job"
}

many_ways() {
	SWITCHML_THREADS=2 start_job shards -b 4 -e 64K -f 16 -n 2 -d all -o all
	expect_success "all types and operations, two sockets on one queue" "${pids[@]}"
	for host in 0 1 2; do
		on $host ip address add "fd77::1$host/64" dev eth0 nodad
	done
	on switch ip address add fd77::1/64 dev eth0 nodad
	switch=[fd77::1] start_job six -b 4 -e 256K -f 16 -n 2 --drop 1%
	expect_success "IPv6, with losses" "${pids[@]}"
	expect_words "that is AF_XDP, too" "AF_XDP on eth0, queue" six
	start_job faults -b 4 -e 256K -f 16 -n 5 --drop 2% --duplicate 1% --reorder 1%
	expect_success "packets lost, duplicated and late, both ways" "${pids[@]}"
}

# Each process can have a different queue of an interface.
several_queues() {
	for host in 0 1 2; do
		ip -n "$name-net" link delete port-$host
		ip link add eth0 netns "$name-$host" numrxqueues 8 numtxqueues 8 type veth \
			peer name port-$host netns "$name-net" numrxqueues 8 numtxqueues 8
		ip -n "$name-net" link set port-$host master bridge up
		ip -n "$name-$host" address add 10.77.0.1$host/24 dev eth0
		ip -n "$name-$host" link set eth0 up
	done
	two_jobs
	expect_words "one of them" "AF_XDP on eth0, queue" one
	expect_words "and the other" "AF_XDP on eth0, queue" two
	SWITCHML_THREADS=4 start_job queues -b 4 -e 1M -f 16 -n 3
	expect_success "four sockets on queues of one interface" "${pids[@]}"
}

# Title, process: programs that it starts inherit none of its descriptors (flag
# O_CLOEXEC).
keeps_descriptors() {
	local fd kept=0 given=""
	for fd in /proc/"$2"/fdinfo/*; do
		[ "${fd##*/}" -gt 2 ] || continue
		# Ignore descriptors that this test itself inherited.
		[ "/proc/$2/fd/${fd##*/}" -ef "/proc/$$/fd/${fd##*/}" ] && continue
		if (($(awk '/^flags:/ { print $2 }' "$fd") & 02000000)); then
			kept=$((kept + 1))
		else
			given="$given $(readlink "/proc/$2/fd/${fd##*/}")"
		fi
	done
	if [ $kept -gt 5 ] && [ -z "$given" ]; then
		echo "ok: $1: all $kept descriptors are its own"
	else
		fail "$1: of $kept descriptors beside, programs that it starts get$given"
	fi
}

# kill -9 of all ranks at once: nothing has time to clean up.
killed() {
	start_job killed-all -b 1M -e 1M -n 100000
	await is_under_way 10.77.0.1 killed-all
	keeps_descriptors "a worker with AF_XDP sockets" "$(pgrep -P "${pids[0]}")"
	on 0 ip link show eth0 | grep -q xdp || fail "a program is on the interface while a job runs"
	for host in 0 1 2; do
		ip netns pids "$name-$host" | xargs -r kill -9
	done
	wait "${pids[@]}" 2>/dev/null
	no_trace "kill -9 of all ranks"
}

# Flows of killed processes stay as long as the program does, until the table is full.
full_table() {
	local program map
	command -v bpftool >/dev/null || { echo "left out: a full table of flows (there is no bpftool)"; return; }
	start_job first -b 1M -e 1M -n 100000
	local first=("${pids[@]}")
	await is_under_way 10.77.0.1 first
	for host in 0 1 2; do
		program=$(on $host bpftool net show dev eth0 | sed -n 's/.*eth0.* id \([0-9]*\).*/\1/p' | head -n 1)
		for map in $(bpftool prog show id "$program" | sed -n 's/.*map_ids \([0-9,]*\).*/\1/p' | tr , ' '); do
			bpftool map show id "$map" | grep -q 'name sml_wflows' || continue
			python3 -c "for i in range(4096):
	print('map update id $map key', *(j >> 8 * k & 255 for j in (i,) + 8 * (0,) for k in range(4)), 'value', *24 * (0,))" >"$work/flows"
			bpftool batch file "$work/flows" >/dev/null 2>&1 # until it is full
		done
	done
	start_job second -b 4 -e 64K -f 16 -n 2
	expect_success "no room for another flow" "${pids[@]}"
	expect_words "no room for another flow" "the table of flows is full; using the UDP" second
	for host in 0 1 2; do
		ip netns pids "$name-$host" | xargs -r kill -9
	done
	wait "${first[@]}" 2>/dev/null
}

# A process with several jobs is easiest to write in Python. $why is set if that is
# impossible.
python_loads_it() {
	why="there is no numpy"
	python3 -c "import numpy" 2>/dev/null || return
	why="a sanitizer's library cannot be loaded by python3"
	! ldd "${switchml%/*}/lib/libswitchml.so" | grep -q 'lib[at]san'
}

# Job: its rank 0 is the program given by the other arguments.
in_python() {
	local root
	root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
	on 0 env PYTHONPATH="$root/bindings/python" SWITCHML_LIBRARY="${switchml%/*}/lib/libswitchml.so" \
		SWITCHML_SWITCH=10.77.0.1 timeout 60 python3 - >"$work/$1.0" 2>&1
}

# The parent owns what it shares with the kernel. A child made by fork() gets its own, or
# uses UDP.
forked() {
	python_loads_it || { echo "left out: fork(): $why"; return; }
	if in_python forked <<'PYTHON'; then
import os, numpy, switchml

def add_up(job):
    for i in range(100):
        mine = numpy.arange(100000, dtype=numpy.int32) + i
        assert (job.allreduce(mine) == numpy.arange(100000) + i).all()

def has_been_told():
    with open(os.readlink("/proc/self/fd/2")) as said:
        return "another process uses queue" in said.read()

with switchml.Job(job="parent", rank=0, world_size=1, timeout=10) as parent:
    add_up(parent)
    child = os.fork()
    if child == 0:
        try:
            with switchml.Job(job="child", rank=0, world_size=1, timeout=10) as own:
                add_up(own)
                while not has_been_told():  # it first waits for the queue
                    add_up(own)
            print("the child's sums are right", flush=True)
            os._exit(0)
        except Exception as error:
            print(error, flush=True)
        os._exit(1)
    add_up(parent)
    assert os.waitpid(child, 0)[1] == 0
    add_up(parent)
PYTHON
		echo "ok: a child made by fork() has a job of its own"
	else
		fail "a child made by fork() has a job of its own"
	fi
	expect_words "the parent is fast" "AF_XDP on eth0, queue 0, copying" forked
	expect_words "the child has none of it" "AF_XDP on eth0: another process uses queue 0" forked
	expect_words "and adds up" "the child's sums are right" forked
}

# One job after another in one process: a queue that was just released can be used again,
# and nothing is left of what was closed.
one_after_the_other() {
	python_loads_it || { echo "left out: jobs in turn: $why"; return; }
	if in_python turns <<'PYTHON'; then
import os, numpy, switchml

def held():
    return len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines())

# The kernel frees the queues of the turn before in its own time: until then, a job uses UDP.
def waits_for_queues(turn):
    with open(os.readlink("/proc/self/fd/2")) as file:
        said = file.read()
    return said.count("]: AF_XDP on eth0, queue") < 2 * (turn + 1) and "another process" not in said

for turn in range(16):
    with switchml.Job(job=f"turn-{turn}", rank=0, world_size=1, timeout=10, threads=2) as job:
        i = 0
        while i < 40 or waits_for_queues(turn):
            mine = numpy.arange(100000, dtype=numpy.int32) + i
            assert (job.allreduce(mine) == numpy.arange(100000) + i).all()
            i += 1
    if turn == 3:
        before = held()
after = held()
assert after[0] == before[0] and after[1] <= before[1] + 4, (before, after)
PYTHON
		echo "ok: one job after the other leaves nothing behind"
	else
		fail "one job after the other leaves nothing behind"
	fi
	if [ "$(grep -c "]: AF_XDP on eth0, queue" "$work/turns.0")" = 32 ]; then
		echo "ok: each of them had its queue"
	else
		fail "each of them had its queue"
	fi
}

kill_and_start_again() {
	end_switch KILL
	start_switch
}

# The switch is killed and started again.
resumed() {
	in_the_middle resumed 10.77.0.1 kill_and_start_again -b 256K -e 256K
	expect_success "the switch is killed and started again in the middle of a job" "${pids[@]}"
	expect_words "the job went on" "epoch 2" resumed
}

# A gateway's MAC address changes during the job: the kernel finds out, and so do the
# workers.
move() {
	on switch ip link set eth0 address 02:00:00:00:77:01
}

moved_neighbour() {
	on switch sysctl -qw net.ipv4.conf.all.arp_notify=1 # as a gateway that takes over says so
	in_the_middle moved 10.77.0.1 move -b 64K -e 64K
	expect_success "the next hop's MAC address changes in the middle of a job" "${pids[@]}"
}

# While a rank is frozen, the others wait: for a second, using little processor time.
waiting_costs_nothing() {
	local before after began
	SWITCHML_HEARTBEAT=30 start_job waiting -b 1M -e 1M -n 100000
	await is_under_way 10.77.0.1 waiting
	ip netns pids "$name-2" | xargs -r kill -STOP
	sleep 0.5
	began=${EPOCHREALTIME/[.,]/}
	before=$(ip netns pids "$name-0" | xargs -I{} awk '{ print $14 + $15 }' /proc/{}/stat | awk '{ n += $1 } END { print n }')
	sleep 2
	after=$(ip netns pids "$name-0" | xargs -I{} awk '{ print $14 + $15 }' /proc/{}/stat | awk '{ n += $1 } END { print n }')
	local ms=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
	for host in 0 1 2; do
		ip netns pids "$name-$host" | xargs -r kill -9
	done
	wait "${pids[@]}" 2>/dev/null
	if [ $((after - before)) -le $((ms / 100)) ]; then
		echo "ok: waiting costs nothing ($((after - before)) ticks in $ms ms)"
	else
		fail "waiting costs nothing: $((after - before)) ticks in $ms ms"
	fi
}

# The error names missing capabilities, one at a time.
capabilities() {
	for missing in net_raw net_admin bpf; do
		on 0 env RANK=0 WORLD_SIZE=1 setpriv --bounding-set -$missing \
			timeout 60 "$switchml" bench --switch 10.77.0.1 -b 4 -e 4 >"$work/without.$missing" 2>&1
		expect_words "without CAP_${missing^^}" "afxdp needs CAP_${missing^^}, which" without
	done
	on 0 env RANK=0 WORLD_SIZE=1 SWITCHML_JOB=few setpriv --bounding-set -all,+net_raw,+net_admin,+bpf \
		timeout 60 "$switchml" bench --switch 10.77.0.1 -b 4 -e 64K -f 16 >"$work/few.0" 2>&1 ||
		fail "CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF are all that it needs"
	expect_words "these three are all that it needs" "AF_XDP on eth0, queue" few
}

# If AF_XDP is not possible, UDP sockets are used, and one line says so.
udp_instead() {
	on switch timeout 60 "$switchml" bench --local-workers 2 --switch 127.0.0.1 -b 4 -e 64K -f 16 \
		>"$work/local.0" 2>&1 || fail "ranks on the switch's host"
	expect_words "ranks on the switch's host" "the switch is on the same host; using the UDP" local
	pids=()
	for rank in 0 1; do
		on 0 env RANK=$rank WORLD_SIZE=2 SWITCHML_SWITCH=embedded timeout 60 "$switchml" bench -b 4 \
			-e 64K -f 16 >"$work/embedded.$rank" 2>&1 &
		pids+=($!)
	done
	expect_success "ranks that embed the switch" "${pids[@]}"
	expect_words "ranks that embed the switch" "afxdp needs dedicated switches" embedded
	if on 1 ip link set dev eth0 xdp obj "$foreign" sec xdp 2>"$work/foreign.why"; then
		start_job foreign -b 4 -e 64K -f 16 -n 2
		expect_success "another XDP program is there" "${pids[@]}"
		expect_words "it is left alone" "eth0 has another XDP program" foreign
		on 1 ip link show eth0 | grep -q xdp || fail "it is still there"
		on 1 ip link set dev eth0 xdp off
	else
		echo "left out: another XDP program ($(tail -n 1 "$work/foreign.why"))"
	fi
}

# Programs that libxdp's dispatcher runs: ours is added to them, and later removed.
dispatcher() {
	command -v xdp-filter >/dev/null || { echo "left out: the dispatcher (there is no xdp-filter: xdp-tools)"; return; }
	on 1 sh -c 'mount -t bpf bpf /sys/fs/bpf 2>/dev/null; xdp-filter load -f udp eth0 >"$1" 2>&1 || exit 77
		xdp-loader status eth0 | grep -q dispatcher || { xdp-filter unload eth0; echo "libxdp runs no dispatcher on this kernel" >"$1"; exit 77; }
		RANK=1 WORLD_SIZE=3 timeout 100 "$2" bench --switch 10.77.0.1 --job dispatched -b 4 -e 256K -f 16 -n 2 >"$3" 2>&1
		status=$?
		xdp-filter status >>"$1" 2>&1
		xdp-loader status eth0 >>"$1" 2>&1
		xdp-filter unload eth0 >>"$1" 2>&1
		exit $status' sh "$work/filter" "$switchml" "$work/dispatched.1" &
	local beside=$! others=()
	for rank in 0 2; do
		on $rank env RANK=$rank WORLD_SIZE=3 timeout 100 "$switchml" bench --switch 10.77.0.1 \
			--job dispatched -b 4 -e 256K -f 16 -n 2 >"$work/dispatched.$rank" 2>&1 &
		others+=($!)
	done
	wait $beside
	if [ $? = 77 ]; then
		echo "left out: the dispatcher ($(tail -n 1 "$work/filter"))"
		kill "${others[@]}"
		wait "${others[@]}"
		return
	fi
	wait "${others[@]}"
	if grep -q "AF_XDP on eth0, queue" "$work/dispatched.1" && grep -q "OK" "$work/dispatched.1" &&
		grep -q xdpfilt "$work/filter" && ! grep -q sml_worker "$work/filter"; then
		echo "ok: beside another program in libxdp's dispatcher: $(grep -m1 queue "$work/dispatched.1")"
	else
		fail "beside another program in libxdp's dispatcher"
	fi
}

set_up_hosts
start_switch
past_the_stack
many_ways
moved_neighbour
resumed
killed
full_table
forked
one_after_the_other
waiting_costs_nothing
capabilities
udp_instead
dispatcher
several_queues
no_trace "the end"
[ $failures = 0 ]
