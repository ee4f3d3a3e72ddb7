#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whole jobs through our P4 program in BMv2's simple_switch, which is all that connects the hosts.
# Needs root, BMv2 and p4c.
#
#	tests/p4/p4.sh build/switchml build/demo/switchml-demo BUILD-DIRECTORY/src/p4 \
#		build/tests/rank-of-bits
#
#	rank 0 --- port 1 +---------------+ port 0 --- daemon 10.77.0.1
#	rank 1 --- port 2 | simple_switch |            (switchml switch --dataplane p4)
#	rank 2 --- port 3 +---------------+            both in one namespace
switchml=$(realpath "$1")
demo=$2
programs=$3
rank_of_bits=$4
support=$(dirname "$0")/../support
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"
# shellcheck source=tests/support/p4.sh
. "$support/p4.sh"
# shellcheck source=tests/support/p4_jobs.sh
. "$support/p4_jobs.sh"
# shellcheck source=tests/support/nat.sh
. "$support/nat.sh"
export SWITCHML_TIMEOUT=120 SWITCHML_HEARTBEAT=20
program=switchml-256

stop_all() {
	kill "$daemon_pid" "$p4_pid" 2>/dev/null
	wait "$daemon_pid" "$p4_pid" 2>/dev/null
}

start_all() {
	start_simple_switch "$name-net" "$programs/$program.json" "${interfaces[@]}"
	start_daemon "${1:-10.77.0.1}"
}

# The hosts reach each other only through the program, which forwards what is not ours.
other_traffic_is_forwarded() {
	on 1 python3 -m http.server --bind 10.77.0.11 8077 >"$work/http" 2>&1 &
	local server=$!
	await on 0 python3 -c 'import urllib.request as u; u.urlopen("http://10.77.0.11:8077/", timeout=5).read()' \
		2>"$work/get"
	echo "ok: a TCP connection between two hosts works through the program"
	kill "$server"
	wait "$server" 2>/dev/null
}

counters_are_shown() {
	start_job shown -b 64K -e 64K -n 1000000
	await is_under_way 10.77.0.1 shown
	$asking "$switchml" status --switch 10.77.0.1 >"$work/status" 2>&1
	grep -q 'p4' "$work/status" && grep -Eq 'completed +[1-9]' "$work/status"
	holds $? "status shows the program's counters: $(grep -E 'completed +[1-9]' "$work/status" | head -n 1)"
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
}

# Both the program and the daemon die in the middle of a job, and come back.
restart_in_the_middle() {
	start_job restarted -b 256K -e 256K --seconds 20 -c 1
	await is_over_or is_under_way 10.77.0.1 restarted
	all_run || { fail "the job ended before the restart"; return; }
	kill -9 "$p4_pid"
	wait "$p4_pid" 2>/dev/null
	wait "$daemon_pid"
	local status=$?
	[ $status = 1 ] && grep -q 'this switch ends' "$work/switch" ||
		fail "the daemon ends when simple_switch is gone (status $status)"
	start_all
	expect_success "a job resumes after a restart of simple_switch and its daemon" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/restarted.0" || fail "its results are right"
}

# The program keeps its state when its daemon dies. The next daemon removes it, and begins again.
daemon_alone_restarts() {
	start_job again -b 256K -e 256K --seconds 20 -c 1
	await is_over_or is_under_way 10.77.0.1 again
	all_run || { fail "the job ended before the daemon died"; return; }
	signal_daemon 9 "$daemon_pid"
	wait "$daemon_pid" 2>/dev/null
	start_daemon 10.77.0.1
	expect_success "a job resumes after its daemon alone has died and come back" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/again.0" || fail "its results are right"
}

int8_sums() {
	start_job exact-int8 -n 2 -w 1 -c 1 --wire int8 -b 4 -e 64K -f 16
	expect_success "$1: float, int8 wire" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/exact-int8.0" || fail "no element is wrong"
}

# The stripe's packets have as many lanes as the program's.
gives_the_bits_of_a_udp_switch() {
	start_udp_switch
	same_bits "sums of each type and wire at the P4 switch" bits int8
	switch=10.77.0.1,10.77.0.12 same_bits "the same bits from both as stripes" bits-both int8
	switch=10.77.0.12 same_bits "the same bits at a UDP switch" bits-udp int8
	switch=10.77.0.1,10.77.0.12 exact_sums "beside a stripe at a UDP switch" -b 4 -e 64K -f 16
	end_udp_switch
}

# The tables still have the job, and the program still adds, when the ranks have left for the next switch.
goes_on_at_a_udp_switch() {
	local wire=$1
	start_udp_switch
	switch='10.77.0.1|10.77.0.12' start_job "moved-$wire" -b 256K -e 256K --seconds 20 -c 1 --wire "$wire"
	await is_over_or is_under_way 10.77.0.1 "moved-$wire"
	all_run || fail "the job ended before the daemon died"
	signal_daemon 9 "$daemon_pid"
	wait "$daemon_pid" 2>/dev/null
	await is_over_or is_under_way 10.77.0.12 "moved-$wire"
	all_run || fail "the job ended before it was at the UDP switch"
	expect_success "$wire wire: a job goes on at a UDP switch after the P4 switch's daemon has died" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/moved-$wire.0" || fail "its results are right"
	end_udp_switch
	start_daemon 10.77.0.1
}

# BMv2 obeys every client, so the daemons see to it that only one of them controls it.
second_daemon_is_refused() {
	start_job only -b 256K -e 256K --seconds 8 -c 1
	await is_over_or is_under_way 10.77.0.1 only
	start_other_daemon second 28510
	await has_begun_or_ended second "$other_pid"
	all_run || fail "the job ended before the second daemon did"
	if was_refused second "$other_pid"; then
		echo "ok: a second daemon is refused: $(tail -n 1 "$work/second" | cut -c 1-200)"
	else
		fail "a second daemon is refused"
		signal_daemon 9 "$other_pid"
	fi
	expect_success "a job runs on while a second daemon is refused" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/only.0" || fail "its results are right"
}

# simple_switch runs a program whose tables have other names.
another_program_is_refused() {
	stop_all
	sed 's/Sml\(Ingress\|Egress\)/Other\1/g' "$programs/$program.json" >"$work/other.json"
	start_simple_switch "$name-net" "$work/other.json" "${interfaces[@]}"
	start_other_daemon stranger 28510
	wait "$other_pid" # the service manager tries again after 1
	[ $? = 1 ] && says "$work/stranger" 'runs another program: start simple_switch with'
	holds $? "another program is told: $(tail -n 1 "$work/stranger" | cut -c 1-200)"
	kill "$p4_pid"
	wait "$p4_pid" 2>/dev/null
	start_all
}

# The daemon is dead, and two start at the same moment.
one_of_two_successors_controls() {
	local left right
	signal_daemon 9 "$daemon_pid"
	wait "$daemon_pid" 2>/dev/null
	start_other_daemon left 28510
	left=$other_pid
	start_other_daemon right 28520
	right=$other_pid
	await has_begun_or_ended left "$left"
	await has_begun_or_ended right "$right"
	if { was_refused left "$left" && says "$work/right" 'ready on'; } ||
		{ was_refused right "$right" && says "$work/left" 'ready on'; }; then
		echo "ok: of two daemons that start at once, one is refused"
	else
		fail "of two daemons that start at once, one is refused"
	fi
	signal_daemon TERM "$left"
	signal_daemon TERM "$right"
	wait "$left" "$right" 2>/dev/null
	start_daemon 10.77.0.1
}

# A daemon that does not run for seconds has lost the P4 switch to the next one, and leaves it alone.
stopped_daemon_ends_when_it_has_a_successor() {
	signal_daemon STOP "$daemon_pid"
	start_other_daemon successor 28510
	await says "$work/successor" 'ready on'
	signal_daemon CONT "$daemon_pid"
	wait "$daemon_pid"
	[ $? = 1 ] && says "$work/switch" 'another switchml switch has taken over the P4 switch'
	holds $? "a stopped daemon ends when it has a successor: $(grep 'has taken over' "$work/switch" | cut -c 1-200)"
	kill -0 "$other_pid" || fail "the successor goes on"
	signal_daemon TERM "$other_pid"
	wait "$other_pid" 2>/dev/null
	start_daemon 10.77.0.1
}

# The packets of rank 1 pass a NAT in its own host.
nat_gives_other_ports() {
	if ! masquerade 1 eth0 2>"$work/nat"; then
		echo "left out: a NAT: $(tail -n 1 "$work/nat")"
		return
	fi
	on 1 sysctl -qw net.ipv6.conf.eth0.keep_addr_on_down=1
	start_job nat -b 64K -e 64K -w 0 -n 1 -c 1 --seconds 1000
	await_under_way nat 10.77.0.1
	new_ports 1 eth0 1 10.77.0.1
	new_ports 1 eth0 1 10.77.0.1
	kill "${pids[0]}" # rank 0 decides when to end
	expect_success "a job goes on when a NAT gives a rank's packets other ports" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/nat.0" || fail "its results are right"
	on 1 iptables -t nat -F
}

demo_trains() {
	begin_ranks $ranks demo SWITCHML_SWITCH=10.77.0.1 timeout 250 "$demo" --steps 40
	expect_success "the demo trains through the program" "${pids[@]}"
}

# Whole jobs of the slots as hardware has them: packets that complete a use pass the switch again, and
# uint8 takes whole lanes.
staged_form_sums() {
	local own type
	for own in none drop=20000,duplicate=20000,reorder=20000,seed=7; do
		[ $own = none ] || export SWITCHML_FAULTS=$own
		for type in "float sum" "int32 sum" "double sum" "int64 max" "uint8 sum"; do
			start_job staged -n 2 -w 1 -c 1 -d "${type% *}" -o "${type#* }" -b 4 -e 16K -f 16
			expect_success "staged form: $type, faults: $own" "${pids[@]}"
			grep -q 'Wrong elements: 0 OK' "$work/staged.0" || fail "no element is wrong"
		done
	done
	unset SWITCHML_FAULTS
}

# Title, words, file: the job that runs fails at each rank with these words in one line of $work/FILE.RANK,
# in a few seconds.
all_ranks_are_refused() {
	local title=$1 words=$2 file=$3 began=$SECONDS rank status bad=0
	for ((rank = 0; rank < ranks; rank++)); do
		wait "${pids[rank]}"
		status=$?
		[ $status = 1 ] && [ "$(grep -c -- "$words" "$work/$file.$rank")" = 1 ] || bad=1
	done
	[ $bad = 0 ] && [ $((SECONDS - began)) -le 10 ]
	holds $? "$title, at each rank and at once: $(grep -h -- "$words" "$work/$file.0" | cut -c 1-230)"
}

staged_form_refuses_narrow_wires() {
	grep -q 'only int32' "$work/switch" || fail "the daemon says what the staged form lacks"
	SWITCHML_WIRE=int8 start_bits refused
	all_ranks_are_refused "SWITCHML_WIRE=int8" "set SWITCHML_WIRE=int32 on all ranks" said-refused
	# switchml bench has a wire of its own.
	SWITCHML_WIRE=int16 start_bits refused
	all_ranks_are_refused "SWITCHML_WIRE=int16" "set SWITCHML_WIRE=int32 on all ranks" said-refused
	start_job refused -n 2 -b 4K -e 4K --wire int16
	all_ranks_are_refused "a call with the int16 wire" "the int16 wire is not for this job" refused
}

need_p4 "$programs/switchml-256.json"
need_p4 "$programs/switchml-64-staged.json"
asking="ip netns exec $name-0"
set_up_hosts
start_all
other_traffic_is_forwarded
start_job bench -b 4 -e 256K -f 16 -n 3 -c 1
expect_success "switchml bench -c 1" "${pids[@]}"
grep -h 'Wrong elements' "$work/bench.0"
grep -q 'Wrong elements: 0 OK' "$work/bench.0" || fail "no element is wrong"
exact_sums "no loss" -b 4 -e 64K -f 16
int8_sums "no loss"
export SWITCHML_FAULTS=drop=20000,duplicate=20000,reorder=20000,seed=7
exact_sums "2 % lost, duplicated and reordered each way" -b 4 -e 16K -f 16
int8_sums "2 % lost, duplicated and reordered each way"
unset SWITCHML_FAULTS
start_job one -b 4 -e 64K -f 16 -n 5 -d float
first=("${pids[@]}")
start_job two -b 4 -e 64K -f 16 -n 5 -d int32 -o all
expect_success "two jobs at once" "${first[@]}" "${pids[@]}"
counters_are_shown
different_calls_are_a_mismatch
killed_worker_is_named
nat_gives_other_ports
if [ -x "$demo" ]; then demo_trains; else echo "left out: the demo, which this build lacks"; fi
restart_in_the_middle
daemon_alone_restarts
gives_the_bits_of_a_udp_switch
goes_on_at_a_udp_switch int16
goes_on_at_a_udp_switch int8
second_daemon_is_refused
another_program_is_refused
one_of_two_successors_controls
stopped_daemon_ends_when_it_has_a_successor
stop_all
start_all fd77::1
switch='[fd77::1]' start_job ipv6 -b 4 -e 64K -f 16 -n 3 -c 1
expect_success "over IPv6" "${pids[@]}"
stop_all
program=switchml-64-staged
start_all
staged_form_refuses_narrow_wires
staged_form_sums
second_daemon_is_refused
stop_all
[ $failures = 0 ]
