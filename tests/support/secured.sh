# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after report.sh: switches and ranks with secured control
# connections, and some without.
# shellcheck shell=bash

# Options of every switch.
switch_options=()

# Switch's output, and options: sets $address, and $switch to its process.
start_switch() {
	local_switch "$1" "${switch_options[@]}" "${@:2}"
}

# Output, then variables: run a job of one rank.
rank() {
	env SWITCHML_SWITCH="${address:?}" SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=1 "${@:2}" \
		timeout 90 "$switchml" bench -b 4K -e 4K -n 2 >"$1" 2>&1
}

# The switch's text, variables: a rank fails, and the switch prints the text. The switch
# prints one line per second, so it may not mention the next rank that fails.
is_told() {
	! rank rank.out "${@:2}" || give_up "the rank did not fail"
	says switch.out "$1" # any text, if it is empty
}

# Title, the rank's text, the switch's text ('': any), then the rank's variables as words.
refused() {
	: >switch.out
	# shellcheck disable=SC2048,SC2086
	await is_told "$3" ${*:4}
	expect "$1, rank" rank.out "$2"
	[ -z "$3" ] || expect "$1, switch" switch.out "$3"
}

# ${own[RANK]}: variables that only this rank has.
at_rank() {
	[ ! -v own ] || echo "env ${own[$1]}"
}

# Name, variables of both ranks, then of rank 1 only: `doctor --peers` of two ranks, which print to
# NAME.0 and NAME.1. Returns rank 0's status.
peers() {
	local pids own=("$2" "$2 ${3:-}")
	begin_ranks 2 "$1" SWITCHML_MASTER_PORT="$(free_port)" timeout 90 "$switchml" doctor --peers --wait 10
	wait "${pids[1]}"
	wait "${pids[0]}"
}

# Rank 0 of `doctor --peers` has a child with threads, which ThreadSanitizer's runtime does not survive.
has_peers() {
	! ldd "$switchml" | grep -q libtsan || ! echo "left out: doctor --peers with ThreadSanitizer"
}
