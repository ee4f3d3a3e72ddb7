#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The C programs of examples/, as three ranks through a switch. Every rank must print what
# this test computes.
#
#	tests/lib/examples.sh SWITCHML ALLREDUCE OVERLAP
set -u

switchml=$1 allreduce=$2 overlap=$3
. "$(dirname "$0")/../support/report.sh"

local_switch "$work/switch"

# Job, program: its three ranks print into rank.0 to rank.2.
run_ranks() {
	local rank pids
	begin_ranks 3 rank SWITCHML_SWITCH="$address" SWITCHML_JOB="$1" timeout 100 "$2"
	for rank in 0 1 2; do
		wait "${pids[$rank]}" || give_up "rank $rank of $1 ended with status $?"
	done
}

# Rank, line.
expect_line() {
	grep -qx "$2" "$work/rank.$1"
	say $? "rank $1 prints: $2" "$work/rank.$1"
}

# Element 999 is 999 (rank + 1): 999 x 2 on average.
run_ranks allreduce "$allreduce"
for rank in 0 1 2; do
	expect_line $rank "rank $rank of 3: 1998"
done
# Ten steps of half the mean gradient, 2 (layer + 1).
run_ranks overlap "$overlap"
for rank in 0 1 2; do
	expect_line $rank "rank $rank: weights of the layers: -10 -20 -30 -40 -50 -60 -70 -80"
done
# They need that switch: without it, a rank says so and fails.
kill "$switch"
wait "$switch" 2>/dev/null
! SWITCHML_SWITCH=$address SWITCHML_TIMEOUT=5 RANK=0 WORLD_SIZE=1 timeout 100 "$allreduce" >"$work/alone" 2>&1 &&
	says "$work/alone" "cannot be reached"
say $? "without a switch, a rank says so and fails" "$work/alone"
[ $failures = 0 ]
