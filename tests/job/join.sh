#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What a switch refuses at join. Every rank learns which ranks and which values are the
# cause. Usage: join.sh SWITCHML
set -u

switchml=$1
. "$(dirname "$0")/../support/report.sh"

# Name of its output, job, variables: start one rank in the background.
rank() {
	env SWITCHML_SWITCH="$address" SWITCHML_JOB="$2" SWITCHML_TIMEOUT=30 "${@:3}" \
		timeout 90 "$switchml" bench -b 64K -e 64K -n "${N:-2}" >"$work/$1" 2>&1 &
	pids[$1]=$!
}

# Name of its output: this rank is gone, and its connection, too.
end_rank() {
	kill "${pids[$1]}"
	wait "${pids[$1]}" 2>/dev/null
}

# Title, then pairs of output and text: each rank fails and says the text.
expect_errors() {
	local title=$1
	shift
	while [ $# -gt 0 ]; do
		! wait "${pids[$1]}" && says "$work/$1" "$2"
		say $? "$title: rank $1 ends with an error: $2" "$work/$1"
		shift 2
	done
}

declare -A pids
local_switch "$work/switch"

# Several switches: each admits the job, or all ranks learn which one refused it.
roomy=$address
local_switch "$work/switch" --jobs 1
full=$address
N=1000000 rank a first SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=1
await job_is "$full" first running
address=$roomy,$full
rank b second SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2
rank c second SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=2
text="stripe 1 ($full): the switch is at its limit"
expect_errors "one of two switches refuses" b "$text" c "$text"
end_rank a
address=$roomy,$full rank a turned SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2
await job_is "$roomy" turned joining
address=$full,$roomy rank b turned SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=2
text="same switches in the same order (SWITCHML_SWITCH)"
expect_errors "switches in another order" a "$text" b "$text"
address=$roomy,$full rank a unequal SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2
await job_is "$roomy" unequal joining
address=$roomy rank b unequal SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=2
expect_errors "one switch and two" a "$text" b "$text"

# They wait at different switches for each other, and a third one with one of them.
address="$roomy|$full" rank a apart SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=4
await job_is "$roomy" apart joining
address="$full|$roomy" rank b apart SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=4
address="$full|$roomy" rank c apart SWITCHML_RANK=2 SWITCHML_WORLD_SIZE=4
text="wait at different switches of one list"
expect_errors "switches to fail over to in another order" a "$text" b "$text" c "$text"

# One switch for two stripes, under one name and under two.
address=$roomy,$roomy rank a same SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2
expect_errors "one switch for two stripes" a "for stripe 0 and for stripe 1: each stripe needs a switch of its own"
address=$roomy,localhost:${roomy##*:} rank a alias SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2
expect_errors "one switch for two stripes, under two names" a "each stripe needs a switch of its own (SWITCHML_SWITCH)"

# One rank without the switch, in both directions.
steady=$(steady_address)
export SWITCHML_MASTER_ADDR=${steady%:*} SWITCHML_MASTER_PORT=${steady##*:}
text="at a switch and rank 0 without one: set SWITCHML_SWITCH on all ranks, or on none"
for without in "" embedded; do
	address=$roomy rank b without SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=3
	address=$roomy rank c without SWITCHML_RANK=2 SWITCHML_WORLD_SIZE=3
	await job_is "$roomy" without joining
	address=$without rank a without SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=3
	expect_errors "rank 0 without the switch: '$without'" a "$text" b "$text" c "$text"
done
# The same, of another rank: also at the port that a launcher gave, and with a key.
text="rank 0 at a switch and rank 2 without one: set SWITCHML_SWITCH on all ranks, or on none"
only_some() {
	address=$roomy rank a some SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=3 "$@"
	address=$roomy rank b some SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=3 "$@"
	address=$without rank c some SWITCHML_RANK=2 SWITCHML_WORLD_SIZE=3 "$@"
	expect_errors "rank 2 without the switch: '$without' $*" a "$text" b "$text" c "$text"
}
only_some
without="" only_some SWITCHML_MASTER_ADDR= SWITCHML_MASTER_PORT= \
	MASTER_ADDR="$SWITCHML_MASTER_ADDR" MASTER_PORT="$SWITCHML_MASTER_PORT"
plain=$roomy
(umask 77 && echo "the key of a job, for this test" >"$work/key")
local_switch "$work/switch" --key-file "$work/key"
roomy=$address only_some "SWITCHML_JOB_KEY_FILE=$work/key"
roomy=$plain
text="at a switch and rank 0 without one: set SWITCHML_SWITCH on all ranks, or on none"
# By a name, and rank 0 comes last.
address=$roomy rank b without SWITCHML_RANK=1 SWITCHML_WORLD_SIZE=2 SWITCHML_MASTER_ADDR=localhost
await job_is "$roomy" without joining
address= rank a without SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=2 SWITCHML_MASTER_ADDR=localhost
expect_errors "rank 0 without the switch, and last" a "$text" b "$text"

exit $((failures > 0))
