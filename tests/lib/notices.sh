#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A rank that waits says what for: for other ranks, in every form of a job and in its calls, for a
# switch that died, and for the others to leave. It says nothing when nobody waits, or when that is turned off.
# Usage: notices.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
export SWITCHML_TIMEOUT=60 SWITCHML_WAIT_NOTICE=0.3 SWITCHML_HEARTBEAT=60
# All of SWITCHML_TIMEOUT, or what was left when the wait began: an earlier wait, or a slow call, took the rest.
most='(of at most [1-6]\{0,1\}[0-9])'

# Rank, number of ranks, bench's options: the output goes to $job.RANK.
rank() {
	local rank=$1 n=$2
	shift 2
	: >"$job.$rank"
	env SWITCHML_RANK="$rank" SWITCHML_WORLD_SIZE="$n" SWITCHML_JOB="$job" \
		timeout 90 "$switchml" bench -b 4K -e 4K -n 2 -w 0 "$@" >"$job.$rank" 2>&1 &
	pids+=($!)
}

# Title, the missing rank, the number of ranks, the text: rank 0 and all but that one wait and say
# so; then it comes, and all end well.
expect_notice() {
	local title=$1 absent=$2 n=$3 text=$4
	pids=()
	for ((r = 0; r < n; r++)); do
		[ $r = "$absent" ] || rank $r "$n"
	done
	expect "$title" "$job.$((absent == 0 ? 1 : 0))" "$text"
	expect "$title, a second time" "$job.$((absent == 0 ? 1 : 0))" "waiting [1-9][0-9]* s $most .*"
	rank "$absent" "$n"
	wait "${pids[@]}"
	say $? "$title: it comes, and the job ends well" "$job".*
}

host=$(hostname)
SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_PORT
for SWITCHML_SHARED_MEMORY in 0 1; do
	export SWITCHML_SHARED_MEMORY
	job=own$SWITCHML_SHARED_MEMORY
	expect_notice "rank 0's own switch, SHARED_MEMORY=$SWITCHML_SHARED_MEMORY" 2 3 \
		"rank 0\]: waiting [0-9]* s $most for rank 2 of 3 to join job \"$job\" (rank 0 at 127.0.0.1:$SWITCHML_MASTER_PORT); 2 have joined: $host (2)"
done
job=late
expect_notice "rank 0 comes late" 0 2 \
	"rank 1\]: waiting [0-9]* s $most for rank 0 of job \"late\" to answer at 127.0.0.1:$SWITCHML_MASTER_PORT: Connection refused"

# shellcheck disable=SC2034 # trees.sh reads it
declare -A parent=([a]=root)
switch root
leaf a root
export SWITCHML_SWITCH=${at[root]}
job=dedicated
expect_notice "a dedicated switch" 1 2 \
	"for rank 1 of 2 to join job \"dedicated\" (the switch at ${at[root]}); 1 has joined: $host (1)"
export SWITCHML_SWITCH=${at[a]}
job=leaf
expect_notice "a leaf of a tree" 1 3 \
	"for rank 1 of 3 to join job \"leaf\" (the switch at ${at[a]}); 2 have joined: $host (2)"

# ---- a launcher's ranks: one of each host speaks, the lowest if the first one is missing ----
export SWITCHML_SWITCH=${at[root]}
job=launched
pids=()
launched() {
	RANK=$1 WORLD_SIZE=3 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=3 rank "$1" 3
}
launched 1
await job_is "${at[root]}" launched joining # while rank 1 is not there, rank 2 is the lowest
launched 2
expect "the lowest of a launcher's ranks speaks" launched.1 "for rank 0 of 3 to join"
launched 0
wait "${pids[@]}"
! grep -q 'waiting .* to join' launched.2
say $? "and the others do not" launched.2

# ---- turned off, and all is well ----
job=quiet
pids=()
SWITCHML_WAIT_NOTICE=0 rank 0 2
await job_is "${at[root]}" quiet joining
job=loud
rank 0 2
expect "one rank speaks" loud.0 "waiting [1-9] s"
job=loud rank 1 2
job=quiet rank 1 2
wait "${pids[@]}"
! grep -q waiting quiet.0
say $? "another one, which waits longer, does not: SWITCHML_WAIT_NOTICE=0" quiet.0
job=well
pids=()
SWITCHML_WAIT_NOTICE=30 rank 0 2 -n 200
SWITCHML_WAIT_NOTICE=30 rank 1 2 -n 200
wait "${pids[@]}"
! grep -q waiting well.*
say $? "a job that nobody waits in says nothing" well.*

# ---- a rank that has stopped in the middle of a job: the others wait in a call (test_late.c has each form) ----
# Where the ranks have the slots, rank 0 passes questions on: it cannot if it has stopped. What ranks of one host share,
# the others can see.
unset SWITCHML_SWITCH
for SWITCHML_SHARED_MEMORY in 0 1; do
	SWITCHML_MASTER_PORT=$(free_port)
	job=mute$SWITCHML_SHARED_MEMORY
	at[own]=
	start $job -b 1M -e 1M -w 0 -n 1 -c 1 --seconds 1000 -- own own
	await is_over_or job_is "127.0.0.1:$SWITCHML_MASTER_PORT" $job running
	kill -STOP "${pids[0]}"
	expect "rank 0, which is asked, has stopped" $job.1 \
		"waiting [0-9]* s $most for \(rank 0 of 2\|other ranks (rank 0 does not say which)\) in job \"$job\", [a-z-]* [0-9]*"
	kill -CONT "${pids[0]}"
	kill "${pids[0]}"
	ends_well "it goes on, and job $job ends well" $job
done
export SWITCHML_SWITCH=${at[root]}

# ---- a switch that is lost ----
job=lost
pids=()
rank 0 2 -n 1 -c 1 --seconds 1000 --pause 20
rank 1 2 -n 1 -c 1 --seconds 1000 --pause 20
await job_is "${at[root]}" lost running
await moves "${at[root]}" lost
dies root
expect "a lost switch" lost.0 \
	"waiting [0-9]* s $most for a switch to take over job \"lost\" (the switch at ${at[root]} .*); tried: ${at[root]}: Connection refused"
switch root
await job_is "${at[root]}" lost running
kill "${pids[0]}"
wait "${pids[@]}"
say $? "it comes back, and the job ends well" lost.*
[ $failures = 0 ]
