#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Hosts of two ranks each, without a switch: the ranks of a host share memory, and each host has a
# stripe. Each host is a network namespace (support/hosts.sh). Needs root.
#
#	tests/job/stripes-hosts.sh build/switchml
switchml=$(realpath "$1")
ranks=3 # hosts
each=2
support=$(dirname "$0")/../support
# shellcheck source=tests/support/hosts.sh
. "$support/hosts.sh"
# shellcheck source=tests/support/jobs.sh
. "$support/jobs.sh"
asking="on 0"
world=$((ranks * each))
export SWITCHML_MASTER_ADDR=10.77.0.10 SWITCHML_DEBUG=info SWITCHML_TIMEOUT=100
# On a busy machine, one of six ranks was silent for 5 s. Ranks that are stopped below take as long.
export SWITCHML_HEARTBEAT=15

# Job, options of switchml bench: start its ranks; `pids` are their processes, by rank.
start_job() {
	begin_ranks $world "$1" timeout 200 "$switchml" bench --job "$1" "${@:2}"
}

at_rank() {
	echo "ip netns exec $name-$(($1 / each))"
}

# Job, form: the megabytes that its hosts send for 16 MiB.
count_megabytes() {
	local before form=$2
	before=$(bytes_sent)
	start_job "$1" -b 16M -e 16M -n 1 -w 0 -d int32
	expect_form "16 MiB, $1" "$1"
	megabytes=$((($(bytes_sent) - before) / 1000000))
}

hosts_send_once() {
	local alone
	SWITCHML_SHARED_MEMORY=0 count_megabytes apart "$world stripes, one in every rank"
	alone=$megabytes
	count_megabytes together "$form"
	[ "$megabytes" -lt $((alone * 6 / 10)) ]
	holds $? "the hosts send $megabytes MB, and $alone MB if their ranks share no memory"
}

shows_hosts() {
	on 0 "$switchml" status --switch 10.77.0.10 >"$work/status" 2>&1
	says "$work/status" "a stripe on every host" && says "$work/status" "2  rank 4 at 10.77.0.12, UDP port"
}

# Rank, signal, what is said of it: the signal ends or freezes it, and all others say so.
strike_rank() {
	local job="$2-$1" child
	start_job "$job" -b 1M -e 1M -n 1000000
	await job_is 10.77.0.10 "$job" running
	await shows_hosts || fail "status shows a stripe on every host"
	# Not `timeout', but the rank, which is its only child.
	read -r child <"/proc/${pids[$1]}/task/${pids[$1]}/children"
	kill "-$2" "$child"
	for ((rank = 0; rank < world; rank++)); do
		[ $rank = "$1" ] || wait "${pids[$rank]}" 2>/dev/null
	done
	kill -KILL "$child" 2>/dev/null
	wait "${pids[$1]}" 2>/dev/null
	for ((rank = 0; rank < world; rank++)); do
		[ $rank = "$1" ] || says "$work/$job.$rank" "rank $rank: rank $1 .*$3" ||
			fail "rank $rank does not say of rank $1, struck by SIG$2: $3"
	done
	echo "ok: rank $1 got SIG$2: $(grep -m 1 "rank $1 .*$3" "$work/$job.$(($1 == 1 ? 0 : 1))" | cut -c 1-160)"
}

set_up_hosts
form="$ranks stripes, one on every host"
exact_sums "hosts share memory" -b 4 -e 1M -f 16
if lose 0.01 0 1 2 2>"$work/why"; then
	exact_sums "hosts share memory, 1 % lost" -b 4 -e 64K -f 16
	lose 0 0 1 2
else
	echo "not run: 1 % lost: $(tail -n 1 "$work/why")"
fi
hosts_send_once
# Their memory would be a file that is too large: each rank sends packets.
ulimit -S -f 100
form="$world stripes, one in every rank"
start_job small -b 64K -e 64K -n 1
expect_form "memory that cannot be had is not needed" small
ulimit -S -f unlimited
strike_rank 2 KILL 'died, and stripe 1 of the job with it'
strike_rank 3 KILL 'died:'
# Both the one that sends for its host, and one that only shares memory.
strike_rank 2 STOP 'silent for'
strike_rank 3 STOP 'silent for'
[ $failures = 0 ]
