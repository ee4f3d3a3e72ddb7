# SPDX-License-Identifier: BSD-3-Clause
# To be sourced: a test waits for what it goes on from, never for a time. On a busy machine, and
# with sanitizers, any process may stand still for seconds.
# shellcheck shell=bash

# Command: until it succeeds. After a minute the test says so, and goes on.
await() {
	local end=$((SECONDS + 60))
	until "$@"; do
		if [ $SECONDS -ge $end ]; then
			echo "after a minute still not: $*"
			return 1
		fi
		sleep 0.05
	done
}

# File, pattern.
says() {
	grep -q "$2" "$1"
}

# A switch's output: until it listens; $address says where. The test ends where it does not.
await_switch() {
	await says "$1" 'ready on' || {
		echo "FAILED: no switch: $(cat "$1")"
		exit 1
	}
	# shellcheck disable=SC2034 # not everybody needs it
	address=$(sed -n 's/.*ready on \([^ ]*\) .*/\1/p' "$1")
}

# Switch, job, state: so says the switch. Who asks from another host sets $asking, a command.
job_is() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | grep -q "job \"$2\": $3"
}

# Switch, job: it runs, and every rank has sent a hundred packets there.
is_under_way() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | awk -v job="job \"$2\": running" '
		/^job / { here = index($0, job) == 1 }
		here && $6 == "ms" { ranks++; busy += $7 >= 100 }
		END { exit !(ranks && busy == ranks) }'
}

# $pids: the processes of a job. Do all of them run?
all_run() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# Command: it succeeds, or the job is over.
is_over_or() {
	"$@" || ! all_run
}

# Command: $over, unless it was done while the job ran.
strike() {
	over=
	"$@"
	all_run || over=yes
}

# Job, its switch, command that strikes, arguments of start_job: what happens while the job is under
# way. Again, with more calls, where the job was over before that had happened.
in_the_middle() {
	local job=$1 at=$2 what=$3 calls pid
	shift 3
	for calls in 400 2000 10000 50000; do
		start_job "$job" "$@" -n $calls -w 1
		await is_over_or is_under_way "$at" "$job"
		$what
		[ -n "$over" ] || return
		for pid in "${pids[@]}"; do
			wait "$pid" || return # whoever expects success will see it
		done
	done
}
