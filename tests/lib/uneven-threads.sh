#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks on machines with different numbers of cores all have as many threads as the
# smallest number among them, with a switch and without. Usage: uneven-threads.sh SWITCHML
# CORES-MODULE
set -u

switchml=$1
cores=$2
. "$(dirname "$0")/../support/report.sh"
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets

# A sanitizer's runtime must be the first library.
sanitizer=$(ldd "$switchml" | sed -n 's/.*=> \(.*lib[at]san[^ ]*\).*/\1/p')

# Rank, cores, variables: start it in the background.
rank() {
	env LD_PRELOAD="${sanitizer:+$sanitizer:}$cores" SML_CORES="$2" SWITCHML_RANK="$1" SWITCHML_WORLD_SIZE=2 SWITCHML_JOB=uneven \
		SWITCHML_TIMEOUT=60 SWITCHML_DEBUG=info "${@:3}" \
		"$switchml" bench -b 64K -e 64K -n 2 >"$work/$1" 2>&1 &
	pids[$1]=$!
}

# Title, each rank's text about its threads: both ranks end well.
expect_threads() {
	for i in 0 1; do
		wait "${pids[$i]}" && says "$work/$i" "$2"
		say $? "$1: rank $i" "$work/$i"
	done
}

declare -A pids
local_switch "$work/switch"

rank 0 32 SWITCHML_SWITCH="$address"
rank 1 2 SWITCHML_SWITCH="$address"
expect_threads "a switch" '; 1 thread (asked for'
rank 0 32 SWITCHML_SWITCH="$address"
rank 1 32 SWITCHML_SWITCH="$address" SWITCHML_THREADS=2
expect_threads "one rank's threads are set" '; 2 threads (asked for'

port=$(free_port)
rank 0 32 SWITCHML_MASTER_ADDR=127.0.0.1 SWITCHML_MASTER_PORT="$port"
rank 1 2 SWITCHML_MASTER_ADDR=127.0.0.1 SWITCHML_MASTER_PORT="$port"
expect_threads "stripes in the ranks" '; 1 thread (asked for'

[ "$failures" -eq 0 ]
