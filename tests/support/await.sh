# SPDX-License-Identifier: BSD-3-Clause
# To be sourced. A test waits for a condition, never for a time: on a busy machine, and
# with sanitizers, any process may stall for seconds.
# shellcheck shell=bash

ports_of_tests=$(cd "$(dirname "${BASH_SOURCE[0]}")/../python" && pwd)/ports.py

# Command: wait until it succeeds. After a minute and 1000 tries (slow on a busy machine), or $longest seconds,
# the test ends.
await() {
	local end=$((SECONDS + 60)) last=$((SECONDS + ${longest:-100})) tries=0
	until "$@"; do
		[ $((++tries)) -lt 1000 ] || [ $SECONDS -lt $end ] || last=0
		[ $SECONDS -lt $last ] || give_up "after $tries tries still not: $*"
		sleep 0.05
	done
}

# Status (0: passed; else a number, or why not), what should be true, files whose last lines show why it is not.
# $failures counts what is not.
say() {
	if [ "$1" = 0 ]; then
		echo "ok: $2"
	else
		echo "FAILED: $2 ($1)"
		shift 2
		for file; do tail -n 50 "$file" | sed "s|^|    $file: |"; done
		failures=$((failures + 1))
	fi
}

# Reason: the test ends here and shows all output in $work.
give_up() {
	echo "FAILED: $1"
	show_output
	exit 1
}

# A pipe in $work would be read for ever.
show_output() {
	find "${work:?}" -maxdepth 1 -type f -exec tail -v -n 20 {} +
}

# What is said of a process that died: its kernel resets the connection, instead of closing it, if
# there were bytes that it had not read.
# shellcheck disable=SC2034 # not everybody needs it
died='\(closed the connection\|lost the connection (Connection reset by peer)\)'

# File, pattern.
says() {
	grep -q -e "$2" "$1"
}

# A switch's output, its process.
is_ready_or_gone() {
	says "$1" 'ready on' || ! kill -0 "$2" 2>/dev/null
}

# A switch's output: wait until it listens; sets $address.
await_switch() {
	await says "$1" 'ready on'
	# shellcheck disable=SC2034 # not everybody needs it
	address=$(sed -n 's/.*ready on \([^ ]*\) .*/\1/p' "$1")
}

# Switch, job, state: wait until the switch reports this state. To ask from another host,
# set $asking to a command.
job_is() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | grep -q "job \"$2\": $3"
}

# Switch, job: wait until it runs and every rank has sent a hundred packets there.
is_under_way() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | awk -v job="job \"$2\": running" '
		/^job / { here = index($0, job) == 1 }
		here && $6 == "ms" { ranks++; busy += $7 >= 100 }
		END { exit !(ranks && busy == ranks) }'
}

# Switch, job: has it completed slots?
moves() {
	${asking:-} "$switchml" status --switch "$1" 2>/dev/null | awk -v job="job \"$2\"" '
		index($0, job) == 1 { here = 1 }
		here && $1 == "completed" && $2 > 50 { found = 1 }
		END { exit !found }'
}

# File, number: has it more lines of a switch that came back than that?
has_more() {
	[ "$(grep -c 'it is back' "$1")" -gt "$2" ]
}

# $pids: the processes of a job. Are all of them running?
all_run() {
	local pid
	for pid in "${pids[@]}"; do
		kill -0 "$pid" 2>/dev/null || return 1
	done
}

# Command: wait until it succeeds or the job is over.
is_over_or() {
	"$@" || ! all_run
}

# Process: wait until it has stopped, with all its threads.
stands_still() {
	[ "$(awk '$1 == "State:" { print $2 }' "/proc/$1/task"/*/status | sort -u)" = T ]
}

# [Number]: an address whose server may go and return: nobody else takes it. The host is this process's
# own, and the system gives no one such a port unasked.
steady_address() {
	echo "127.$((64 + ($$ >> 16 & 63))).$(($$ >> 8 & 255)).$(($$ & 255)):$((21000 + $$ % 1000 + ${1:-0}))"
}

# A TCP port of 127.0.0.1 for a server of this test, and for nobody else until the test ends.
free_port() {
	python3 "$ports_of_tests" $$
}

# Output, options: start a switch on this host, and wait until it listens; sets $switch, its process, and $address.
# $under: a command that runs it.
local_switch() {
	: >"$1" # or the one before would be read
	# shellcheck disable=SC2086 # the command has words
	${under:-} "${switchml:?}" switch --listen 127.0.0.1:0 "${@:2}" >>"$1" 2>&1 &
	switch=$!
	await_switch "$1"
}

# Number, job, and what each rank runs, which may begin with variables. It prints to $work/JOB.RANK. `pids` are the
# processes, by rank, and at_rank() says where each of them is, or at_place() for start().
begin_ranks() {
	local rank
	pids=()
	for ((rank = 0; rank < $1; rank++)); do
		# shellcheck disable=SC2046
		$(if [ -v places ]; then at_place "${places[rank]}"; else at_rank $rank; fi) \
			env RANK=$rank WORLD_SIZE="$1" "${@:3}" >"$work/$2.$rank" 2>&1 &
		pids+=($!)
	done
}

at_rank() {
	: # on this host
}

# Job, switchml bench's options, then -- and each rank's place: start the ranks there, for $limit seconds at most.
start() {
	local job=$1 options=() places
	shift
	while [ "${1?start() needs --}" != -- ]; do
		options+=("$1")
		shift
	done
	places=("${@:2}")
	begin_ranks ${#places[@]} "$job" ${limit:+timeout $limit} "$switchml" bench --job "$job" "${options[@]}"
}

# Processes: wait for all of them, which must end well.
end_well() {
	local pid bad=0
	for pid; do wait "$pid" || bad=1; done
	return $bad
}

# Title, job: all of its ranks end well.
ends_well() {
	end_well "${pids[@]}"
	say $? "$1" "$work/$2".*
}

# Job, its switch: wait until it works; fail if it ended before anything could happen to
# it.
await_under_way() {
	await is_over_or is_under_way "$2" "$1"
	all_run || give_up "job $1 is over already"
}

# Job, its switch, command, arguments of start_job: run the command in the middle of the
# job. The job makes calls, and checks every second one, until the command is done. All
# later calls, at least one, see the command's effect.
in_the_middle() {
	local job=$1 at=$2 what=$3
	shift 3
	start_job "$job" "$@" -w 0 -n 1 -c 1 --seconds 1000 --pause 10
	await_under_way "$job" "$at"
	$what
	kill "${pids[0]}" # rank 0 decides when to end
}
