#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Ranks on machines with different numbers of cores all have as many threads as the
# smallest number among them, with a switch and without. Usage: uneven-threads.sh SWITCHML
# CORES-MODULE
set -u

switchml=$1
cores=$2
. "$(dirname "$0")/../support/await.sh"
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
		if wait "${pids[$i]}" && grep -q "$2" "$work/$i"; then
			echo "ok: $1: rank $i"
		else
			echo "FAILED: $1: rank $i: $(cat "$work/$i")"
			failures=$((failures + 1))
		fi
	done
}

declare -A pids
"$switchml" switch --listen 127.0.0.1:0 >"$work/switch" 2>&1 &
await_switch "$work/switch"

rank 0 32 SWITCHML_SWITCH="$address"
rank 1 2 SWITCHML_SWITCH="$address"
expect_threads "a switch" '; 1 thread (asked for'
rank 0 32 SWITCHML_SWITCH="$address"
rank 1 32 SWITCHML_SWITCH="$address" SWITCHML_THREADS=2
expect_threads "one rank's threads are set" '; 2 threads (asked for'

port=$((20000 + $$ % 10000))
rank 0 32 SWITCHML_MASTER_ADDR=127.0.0.1 SWITCHML_MASTER_PORT="$port"
rank 1 2 SWITCHML_MASTER_ADDR=127.0.0.1 SWITCHML_MASTER_PORT="$port"
expect_threads "stripes in the ranks" '; 1 thread (asked for'

[ "$failures" -eq 0 ]
