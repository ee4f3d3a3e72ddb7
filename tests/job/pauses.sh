#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A switch, a leaf, a root, or rank 0 does not run for longer than the heartbeat (SIGSTOP, as a
# machine that is paused), and goes on when the ranks have given it up. The ranks resume there, or
# rank 0 names itself: no rank that lives is blamed. Needs the command ss.
# Usage: pauses.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
command -v ss >/dev/null || { echo "the command ss (iproute2) is missing"; exit 77; }
export SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=5

# Switch, number: have so many peers closed their connections, while it does not read?
is_given_up() {
	[ "$(ss -Htn state close-wait "src ${at[$1]}" | wc -l)" -ge "$2" ]
}

# Title, job, then switches, each as NAME:PEERS, which do not run until so many peers gave them up.
goes_on() {
	local title=$1 job=$2 each rank
	shift 2
	for rank in "${!pids[@]}"; do before[rank]=$(grep -c 'it is back' "$job.$rank"); done
	for each; do kill -STOP "${process[${each%:*}]}"; done
	for each; do await stands_still "${process[${each%:*}]}"; done
	for each; do await is_over_or is_given_up "${each%:*}" "${each#*:}"; done
	for each; do kill -CONT "${process[${each%:*}]}"; done
	for rank in "${!pids[@]}"; do
		await is_over_or has_more "$job.$rank" "${before[$rank]}"
	done
	all_run && ! grep -q 'rank [0-9]* .*died' "$job".* ./*.switch
	say $? "$title" "$job".* ./*.switch
}

before=()
switch root
leaf a root
export SWITCHML_SHARED_MEMORY
for SWITCHML_SHARED_MEMORY in 0 1; do
	job=one-$SWITCHML_SHARED_MEMORY
	under_way "$job" root root
	goes_on "a paused switch: SWITCHML_SHARED_MEMORY=$SWITCHML_SHARED_MEMORY" "$job" root:2
	kill "${pids[0]}"
	ends_well "all of its sums were right" "$job"
done
under_way tree a a root
goes_on "a paused leaf" tree a:2
goes_on "a paused root" tree root:2
goes_on "a leaf and its root, paused together" tree a:2 root:1
kill "${pids[0]}"
ends_well "all sums of the tree were right" tree

# ---- without a switch ----

SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_ADDR=127.0.0.1 SWITCHML_MASTER_PORT SWITCHML_SHARED_MEMORY=0
begin_ranks 3 none "$switchml" bench --job none -b 64K -e 64K -w 0 -n 1 -c 1 --seconds 1000 --pause 20
await is_over_or job_is "127.0.0.1:$SWITCHML_MASTER_PORT" none running
all_run || give_up "the job without a switch is over already"
kill -STOP "${pids[0]}"
wait "${pids[1]}" "${pids[2]}"
says none.1 'rank 0 .*has been silent' && says none.2 'rank 0 .*has been silent'
say $? "ranks of a paused rank 0 name it" none.1 none.2
kill -CONT "${pids[0]}"
wait "${pids[0]}"
says none.0 "rank 0, whose process has the job's control port, did not run for" &&
	! grep -q 'rank [12] .*died' none.0
say $? "a paused rank 0 names itself" none.0

exit $((failures > 0))
