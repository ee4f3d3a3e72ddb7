# SPDX-License-Identifier: BSD-3-Clause
# To be sourced by a script that has rank_on(), which runs one rank of tests/rank-of-bits on an
# architecture: jobs whose ranks are of several architectures.
# shellcheck shell=bash

# Nothing but the lines of the sums: those about the job are rank 0's alone.
export SWITCHML_TIMEOUT=120 SWITCHML_MTU=1500 SWITCHML_SUMMARY=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400

# Title, architectures of rank 0, 1, …; the job's settings come from the environment. Every rank's
# lines are those of the first job.
job() {
	local title=$1 rank=0 pids=() arch
	shift
	for arch; do
		RANK=$rank WORLD_SIZE=$# rank_on "$arch" >"${work:?}/rank-$rank" 2>&1 &
		pids+=($!)
		rank=$((rank + 1))
	done
	for rank in "${!pids[@]}"; do
		wait "${pids[rank]}" || { cp "$work/rank-$rank" "$work/out"; fail "$title ($*): rank $rank"; }
		[ -e "$work/bits" ] || cp "$work/rank-0" "$work/bits"
		diff "$work/bits" "$work/rank-$rank" >"$work/out" || fail "$title ($*): rank $rank has other bits"
	done
	[ "$(wc -l <"$work/bits")" -gt 100 ] || fail "$title: too few sums"
	echo "ok: $title ($*): the same bits"
}
