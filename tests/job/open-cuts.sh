#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The control connections end at each message of a job's beginning, as they do when the switch dies
# at that moment: after all ranks, or only one of them, have sent or received it. The ranks must
# begin, or go on, at the next address. A proxy ends the connections (tests/support/cutting-proxy), and
# kills the switch in some cases.
# Usage: open-cuts.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
# A job that does not go on is told of within this time.
export SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=20

# Name, what it does (cutting-proxy): sets at[name] and process[name].
proxy() {
	: >"$1.proxy"
	"$here/../support/cutting-proxy" "${@:2}" >"$1.proxy" 2>&1 &
	process[$1]=$!
	await_switch "$1.proxy"
	at[$1]=$address
}

# Job, list of switches: both of its ranks.
ranks() {
	begin_ranks 2 "$1" "$switchml" bench --switch "$2" --job "$1" -b 4 -e 1K -n 5
}

switch one
switch two
switch three
switch four

export SWITCHML_SHARED_MEMORY
for SWITCHML_SHARED_MEMORY in 0 1; do
	for message in Join Waiting Admitted Ready Start; do
		for count in 1 2; do
			# Only one rank is told that it waits.
			case $message-$count in Waiting-2) continue ;; esac
			job=$message-$count-$SWITCHML_SHARED_MEMORY
			proxy "$job" "${at[one]}" "$message" "$count"
			ranks "$job" "${at[$job]}|${at[two]}"
			ends_well "the switch dies at $message, of $count of 2 ranks, host group $SWITCHML_SHARED_MEMORY" "$job"
			await says "$job.proxy" 'has ended all connections'
		done
	done

	# The data port is gone, too: before the ranks are there, while they probe it, and in the first call.
	for end in Waiting-1 Admitted-2 Ready-2 Start-2; do
		job=killed-$end-$SWITCHML_SHARED_MEMORY
		switch dying
		proxy "$job" "${at[dying]}" ${end/-/ } "${process[dying]}"
		ranks "$job" "${at[$job]}|${at[two]}"
		ends_well "the switch is killed at $end, host group $SWITCHML_SHARED_MEMORY" "$job"
		await says "$job.proxy" 'has ended all connections'
		wait "${process[dying]}" 2>/dev/null # its port is the next one's
	done

	# One stripe has started, and the other one has not. The switch that has started dies.
	job=stripes-$SWITCHML_SHARED_MEMORY
	proxy "$job-a" "${at[one]}" Start 2
	proxy "$job-b" "${at[two]}" Start 2 "$work/$job-may-start"
	ranks "$job" "${at[$job-a]},${at[$job-b]}|${at[three]},${at[four]}"
	await is_over_or says "$job-a.proxy" 'has ended all connections'
	# Long enough for the ranks to notice it, on most machines.
	sleep 0.3
	touch "$job-may-start"
	ends_well "a stripe's switch dies while the other one starts, host group $SWITCHML_SHARED_MEMORY" "$job"
	kill "${process[$job-b]}"

	# Both ranks have started one stripe, and only one of them has started the other one.
	job=half-$SWITCHML_SHARED_MEMORY
	proxy "$job" "${at[two]}" Start 1
	ranks "$job" "${at[one]},${at[$job]}|${at[three]},${at[four]}"
	ends_well "a stripe's switch dies between two starts, host group $SWITCHML_SHARED_MEMORY" "$job"
	await says "$job.proxy" 'has ended all connections'
done

exit $((failures > 0))
