# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after await.sh: workers of examples/elastic.c. $elastic is the program, $work a
# directory, and where_N, if it is set, a command in which worker N runs. If $switch_decides is set,
# the workers need no meeting.
# shellcheck shell=bash

declare -A worker
N_FIRST=4

# Title, worker, the fewest workers of a membership: start it. ${worker[N]} is its process.
start_worker() {
	local where=where_$2 meeting=("$work/$1.meeting") how=()
	if [ -n "${switch_decides:-}" ]; then
		meeting=()
		how=("SWITCHML_JOB=$1" SWITCHML_JOIN=1)
		[ "$2" -ge "$N_FIRST" ] || how=("SWITCHML_JOB=$1" "SWITCHML_RANK=$2" "SWITCHML_WORLD_SIZE=$N_FIRST")
	fi
	# shellcheck disable=SC2086 # words
	${!where:-} env SWITCHML_TIMEOUT=60 ELASTIC_UNTIL="$work/$1.enough" \
		"${how[@]}" "$elastic" "${meeting[@]}" "$3" >"$work/$1.$2" 2>&1 &
	worker[$2]=$!
}

# Title, worker, number of members: wait until it is in such a membership.
await_members() {
	await says "$work/$1.$2" "^membership .* of $3, from step"
}

# Title, workers: they may end now, end well, and print the same weights.
expect_same_end() {
	local title=$1 n
	shift
	touch "$work/$title.enough"
	for n in "$@"; do
		wait "${worker[$n]}" || give_up "$title: worker $n ended with status $?"
	done
	for n in "$@"; do
		sed -n 's/^rank [0-9]*: done, //p' "$work/$title.$n"
	done | sort | uniq -c >"$work/$title.ends"
	[ "$(awk '{ print $1 }' "$work/$title.ends")" = $# ] ||
		give_up "$title: not the same weights: $(cat "$work/$title.ends")"
}

# Title: one whose floats would travel differently is refused, and the others do not hear of it.
refuse_misfit() {
	SWITCHML_WIRE=exact start_worker "$1" 5 2
	! wait "${worker[5]}" || give_up "$1: a worker with another wire was taken in"
	says "$work/$1.5" "disagree about the wire: rank [0-9]* says exact, " || give_up "$1: $(cat "$work/$1.5")"
}

# Title: four workers train, two of which are killed, one after the other, and a fifth joins.
survive() {
	local n
	for n in 0 1 2 3; do
		start_worker "$1" $n 2
	done
	# Who comes late is in the second membership, or a later one.
	for n in 0 1 2 3; do
		await_members "$1" $n 4
	done
	[ -z "${switch_decides:-}" ] || refuse_misfit "$1"
	{ kill -9 "${worker[1]}" && wait "${worker[1]}"; } 2>/dev/null
	for n in 0 2 3; do
		await_members "$1" $n 3
	done
	{ kill -9 "${worker[0]}" && wait "${worker[0]}"; } 2>/dev/null
	for n in 2 3; do
		await_members "$1" $n 2
	done
	start_worker "$1" 4 2
	await_members "$1" 4 3
	expect_same_end "$1" 2 3 4
	echo "ok: $1: two of four workers were killed, and the others and a new one went on: $(
		cat "$work/$1.ends")"
}
