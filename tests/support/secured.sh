# SPDX-License-Identifier: BSD-3-Clause
# To be sourced after await.sh and report.sh: switches and ranks whose control connections are
# secured, or should be.
# shellcheck shell=bash

# Options of every switch.
switch_options=()

# Switch's output, and options: $address says where it is, $switch its process.
start_switch() {
	: >"$1"
	"${switchml:?}" switch --listen 127.0.0.1:0 "${switch_options[@]}" "${@:2}" >>"$1" 2>&1 &
	switch=$!
	await_switch "$1"
}

# Output, then variables: a job of one rank.
rank() {
	env SWITCHML_SWITCH="${address:?}" SWITCHML_RANK=0 SWITCHML_WORLD_SIZE=1 "${@:2}" \
		timeout 90 "$switchml" bench -b 4K -e 4K -n 2 >"$1" 2>&1
}

# What the switch says, variables: a rank fails, and the switch says so. It says one line a second: of
# the next one that fails it may say nothing.
is_told() {
	! rank rank.out "${@:2}" || give_up "the rank did not fail"
	says switch.out "$1" # anything, where that is empty
}

# Title, what the rank says, what the switch says ('': anything), then the rank's variables as words.
refused() {
	: >switch.out
	# shellcheck disable=SC2048,SC2086
	await is_told "$3" ${*:4}
	expect "$1, rank" rank.out "$2"
	[ -z "$3" ] || expect "$1, switch" switch.out "$3"
}

# Title, files that show why not: the processes in $jobs end well.
expect_jobs() {
	local bad=0 pid
	for pid in "${jobs[@]}"; do wait "$pid" || bad=1; done
	say $bad "$@"
	jobs=()
}
