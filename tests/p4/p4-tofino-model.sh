#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whole jobs through the program for Tofino in the vendor's model of Tofino 1, with the vendor's driver: the
# daemon controls it through BF Runtime. The model passes some hundred packets a second, so jobs are small.
#
#	tests/p4/p4-tofino-model.sh build/switchml src/p4/tna/compile BUILD-DIRECTORY/src/p4 \
#		build/tests/rank-of-bits build/tests/rank-of-slots [LANES]
#
# Needs root, 192 free huge pages of 2 MiB in a hugetlbfs, the compilers, the vendor's two programs (their paths in
# $TOFINO_MODEL and $BF_SWITCHD, or found by name), and in $SDE_INSTALL the folder with the files of both.
switchml=$(realpath "$1")
compile=$2
constants=$3
rank_of_bits=$(realpath "$4")
rank_of_slots=$(realpath "$5")
lanes=${6:-32}
ranks=4 # the hosts; most jobs have fewer
model=${TOFINO_MODEL:-tofino-model}
driver=${BF_SWITCHD:-bf_switchd}
support=$(dirname "$0")/../support
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"
# shellcheck source=tests/support/p4.sh
. "$support/p4.sh"
# shellcheck source=tests/support/p4_jobs.sh
. "$support/p4_jobs.sh"
# The model is slow.
# shellcheck disable=SC2034 # of await.sh
longest=600
export SWITCHML_TIMEOUT=200 SWITCHML_HEARTBEAT=60 SWITCHML_SLOTS=2
export bits_seconds=1000
p4_target=bfrt://127.0.0.1:50052

for tool in p4c-barefoot bfas "$model" "$driver" ethtool; do
	command -v "$tool" >/dev/null ||
		skip "Tofino's model was not tested: there is no $tool (the head of this script)"
done
[ -d "$SDE_INSTALL" ] || skip "Tofino's model was not tested: SDE_INSTALL is no folder (the head of this script)"
grep -q ' hugetlbfs ' /proc/mounts || skip "Tofino's model was not tested: no hugetlbfs is mounted"
[ "$(awk '$1 == "HugePages_Free:" { print $2 }' /proc/meminfo)" -ge 192 ] ||
	skip "Tofino's model was not tested: fewer than 192 huge pages are free (sysctl vm.nr_hugepages)"

# What the model's ports are, and which program the driver loads.
write_settings() {
	local port list=
	for port in "${!interfaces[@]}"; do
		list=$list${list:+,}"{\"device_port\":$port,\"if\":\"${interfaces[port]}\"}"
	done
	echo "{\"PortToIf\":[$list]}" >"$work/ports.json"
	cat >"$work/driver.json" <<-END
		{"chip_list": [{"chip_family": "tofino", "instance": 0}],
		 "p4_devices": [{"device-id": 0, "p4_programs": [{
		   "program-name": "switchml", "bfrt-config": "$work/tofino/bf-rt.json",
		   "p4_pipelines": [{"p4_pipeline_name": "pipe", "pipe_scope": [0, 1, 2, 3],
		     "context": "$work/tofino/pipe/context.json", "config": "$work/tofino/pipe/tofino.bin",
		     "path": "$work/tofino"}]}]}]}
	END
}

# Name of its output, program, arguments: one of the vendor's programs, beside the daemon. On a busy machine
# it goes first: ranks send again what a switch is too slow to answer.
start_vendors() {
	(cd "$work" && exec nice -n -15 ip netns exec "$name-net" env LD_LIBRARY_PATH="$SDE_INSTALL/lib" "${@:2}" \
		--install-dir "$SDE_INSTALL") >"$work/$1" 2>&1 &
}

# The chip type is Tofino 1's, in its second version.
start_model() {
	start_vendors model "$model" -d 1 -f "$work/ports.json" --no-cli --logs-disable --chip-type 2
	start_vendors driver "$driver" --conf-file "$work/driver.json" --background --server-listen-local-only
	p4_pid=$!
	await serves
}

serves() {
	kill -0 "$p4_pid" 2>/dev/null || give_up "the driver has ended"
	says "$work/driver" 'server started'
}

# Ranks, elements of the longest sums. Later jobs have as many ranks, too.
gives_the_bits_of_a_udp_switch() {
	ranks=$1
	same_bits "$ranks ranks: sums of each type at the model" bits int32 "$2"
	start_udp_switch
	switch=10.77.0.12 same_bits "$ranks ranks: the same bits at a UDP switch" bits-udp int32 "$2"
	end_udp_switch
	grep ' of 1: ' "$work/bits.0" >"$work/bits-of-1"
}

# Title, file with the bits, jobs: their processes are in `pids`, and each rank gets these bits.
expect_bits() {
	local title=$1 job rank
	expect_success "$title" "${pids[@]}"
	for job in "${@:3}"; do
		for ((rank = 0; rank < ranks; rank++)); do
			cmp "$work/$2" "$work/$job.$rank" || fail "$title: the same bits"
		done
	done
}

default_wire_is_exact() {
	start_job floats -n 1 -w 0 -c 1 -b 400 -e 400
	expect_success "100 floats on the default wire" "${pids[@]}"
	grep -q 'Wrong elements: 0 OK' "$work/floats.0" || fail "no element is wrong"
}

# They have all slots between them.
two_jobs_give_these_bits() {
	local first
	SWITCHML_SLOTS=4032 start_bits one int32 1
	first=("${pids[@]}")
	SWITCHML_SLOTS=64 start_bits two int32 1
	pids+=("${first[@]}")
	expect_bits "two jobs at once" bits-of-1 one two
}

# Job, how many sums at once and of how many packets, inputs of its two ranks: at their end, the same sums again.
# A sum has a slot of the job's head stream, and each of its packets one of the data stream. $host: where both are.
start_full() {
	local rank
	for rank in 0 1; do
		ip netns exec "$name-${host:-$rank}" env RANK=$rank WORLD_SIZE=2 SWITCHML_JOB="$1" \
			SWITCHML_SLOTS=$(($2 * $3)) SWITCHML_HEARTBEAT=60 \
			SWITCHML_SWITCH="${switch:-10.77.0.1}" timeout "$bits_seconds" "$rank_of_slots" "$2" "$3" "$lanes" \
			<"${@:$((rank + 4)):1}" >"$work/$1.$rank" 2>"$work/said-$1.$rank" &
		pids+=($!)
	done
}

# Job: have both ranks made the sums once?
were_made_once() {
	says "$work/said-$1.0" '^waits' && says "$work/said-$1.1" '^waits'
}

# Signal: to ranks 0.
signal_first_ranks() {
	local i
	for ((i = 0; i < ${#pids[@]}; i += 2)); do
		pkill "-$1" -P "${pids[i]}"
	done
}

# In each slot of each job, a use waits for rank 1: the switch has counted that many packets more of rank 0.
# While ranks 0 send again, the model is too busy to tell.
all_slots_wait() {
	signal_first_ranks CONT
	sleep 20
	signal_first_ranks STOP
	ip netns exec "$name-net" "$switchml" status --switch 10.77.0.1 --json >"$work/status" 2>/dev/null &&
		python3 -c '
import json, sys

(switch,) = json.load(open(sys.argv[1]))
sent = [[worker["contributions"] for worker in job["workers"]] for job in switch["jobs"]]
busy, held = sum(first - second for first, second in sent), switch["slots_in_use"]
print(f"{busy} uses wait in {held} slots")
sys.exit(busy != 4096 or held != 4096)' "$work/status" >"$work/busy"
}

# Ten jobs have all slots. All ranks share the switch's queue, so each job's window is smaller than that of the
# job before: these are as many sums and packets as may be in flight.
full_jobs=("64 10" "64 10" "64 9" "64 6" "64 4" "64 4" "58 4" "51 4" "45 4" "38 4")

all_slots_are_busy_at_once() {
	local ranks=2 job sizes held=()
	replace_daemon TERM 10.77.0.1 --jobs "${#full_jobs[@]}"
	for rank in 0 1; do
		mkfifo "$work/hold-$rank"
		sleep infinity >"$work/hold-$rank" &
		held+=($!)
	done
	pids=()
	for job in "${!full_jobs[@]}"; do
		read -ra sizes <<<"${full_jobs[job]}"
		start_full "full-$job" "${sizes[@]}" "$work/hold-0" "$work/hold-1"
		await were_made_once "full-$job"
	done
	kill "${held[0]}"
	await all_slots_wait
	echo "ok: all slots are busy at once: $(cat "$work/busy")"
	kill "${held[1]}"
	signal_first_ranks CONT
	expect_success "${#full_jobs[@]} jobs that have all slots, all of them busy" "${pids[@]}"
	start_udp_switch
	pids=()
	for job in "${!full_jobs[@]}"; do
		read -ra sizes <<<"${full_jobs[job]}"
		host=2 switch=10.77.0.12 start_full "full-udp-$job" "${sizes[@]}" /dev/null /dev/null
	done
	expect_success "the same sums at a UDP switch" "${pids[@]}"
	end_udp_switch
	for job in "${!full_jobs[@]}"; do
		for rank in 0 1; do
			[ -s "$work/full-udp-$job.0" ] && cmp "$work/full-udp-$job.0" "$work/full-$job.$rank" ||
				fail "full-$job, rank $rank: the same bits as at a UDP switch"
		done
	done
}

# Signal, the next daemon's address, its options. The driver keeps what a daemon has told it.
replace_daemon() {
	signal_daemon "$1" "$daemon_pid"
	wait "$daemon_pid" 2>/dev/null
	start_daemon "$2" --slots 4096 "${@:3}"
}

killed_daemon_is_followed() {
	start_bits again int32 100
	await_under_way again 10.77.0.1
	replace_daemon 9 10.77.0.1
	expect_bits "a job goes on after the daemon was killed and started again" bits.0 again
}

# Registers keep what the mismatch and the killed rank have left in them.
registers_are_taken_over() {
	start_bits after int32 1
	expect_bits "a job after one whose rank was killed" bits-of-1 after
}

works_over_ipv6() {
	replace_daemon TERM fd77::1
	switch='[fd77::1]' start_bits six int32 1
	expect_bits "over IPv6" bits-of-1 six
}

# The driver refuses it.
second_daemon_is_refused() {
	start_other_daemon second 28510
	await has_begun_or_ended second "$other_pid"
	was_refused second "$other_pid"
	holds $? "a second daemon is refused: $(tail -n 1 "$work/second" | cut -c 1-250)"
}

daemon_ends_with_its_driver() {
	kill -9 "$p4_pid"
	wait "$daemon_pid"
	[ $? = 1 ] && says "$work/switch" 'this switch ends'
	holds $? "the daemon ends when the driver has: $(tail -n 1 "$work/switch" | cut -c 1-200)"
}

set_up_hosts
"$compile" "$constants" "$work/tofino" "$lanes" >"$work/compiler" 2>&1 || give_up "the program does not compile"
write_settings
start_model
start_daemon 10.77.0.1 --slots 4096
grep -q "$lanes lanes, only int32" "$work/switch" || fail "the daemon says what the program has"
gives_the_bits_of_a_udp_switch 2 1
gives_the_bits_of_a_udp_switch 4 1
gives_the_bits_of_a_udp_switch 3 100
SWITCHML_FAULTS=drop=20000,duplicate=20000,reorder=20000,seed=7 \
	same_bits "the same bits with 2 % lost, duplicated and reordered" bits-lossy int32 100
default_wire_is_exact
two_jobs_give_these_bits
all_slots_are_busy_at_once
killed_daemon_is_followed
different_calls_are_a_mismatch
killed_worker_is_named
registers_are_taken_over
works_over_ipv6
second_daemon_is_refused
daemon_ends_with_its_driver
[ $failures = 0 ]
