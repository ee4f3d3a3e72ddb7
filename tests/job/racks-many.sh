#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Jobs of more ranks than one switch takes, on this host's loopback interface: 104 processes behind
# two leaves. Their sums, their status, the deaths of a leaf and of a rank, and what is refused without
# a switch.
# Usage: racks-many.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
cd "$work" || exit 1
# Longer than the switches of a tree take to come back, one after the other, on a busy machine.
export SWITCHML_SHARED_MEMORY=0 SWITCHML_TIMEOUT=60 SWITCHML_HEARTBEAT=20

rack=52
declare -A parent=([a]=root [b]=root)
switch root
leaf a root
leaf b root
racks=()
for ((i = 0; i < rack; i++)); do racks[i]=a racks[rack + i]=b; done

# ---- sums ----

start sums -b 4 -e 4K -f 32 -n 1 -w 0 -- "${racks[@]}"
ends_well "two leaves with $rack ranks each: float sum" sums
grep -q ' 104 ranks' sums.0
say $? "they are one job" sums.0
for what in "int32 max" "double sum"; do
	start "sums-${what% *}" -b 64 -e 64 -n 1 -w 0 -d "${what% *}" -o "${what#* }" -- "${racks[@]}"
	ends_well "the same: $what" "sums-${what% *}"
done

# ---- what is shown ----

start goes-on -b 4K -e 4K -w 0 -n 1 -c 1 --seconds 1000 -- "${racks[@]}"
await is_over_or job_is "${at[root]}" goes-on running
await is_over_or moves "${at[root]}" goes-on
"$switchml" status --switch "${at[root]}" >text.status
[ "$(grep -c "$rack ranks at the leaf" text.status)" = 2 ] && says text.status 'and 40 more ranks'
say $? "status counts the ranks at each leaf, and lists the first" text.status
"$switchml" status --json --switch "${at[root]}" >json.status
[ "$(grep -o '"last_seen_ms"' json.status | wc -l)" -ge 104 ]
say $? "its JSON has all of them" json.status

# ---- deaths ----

survives "a leaf with $rack ranks dies and comes back: all ranks go on" goes-on b
began=$(date +%s%N)
kill -9 "${pids[77]}"
named=0 silent=()
for rank in "${!pids[@]}"; do
	[ "$rank" = 77 ] && continue
	wait "${pids[$rank]}"
	if says "goes-on.$rank" "rank $rank: rank 77 .*died.*at the leaf"; then
		named=$((named + 1))
	else
		silent+=("goes-on.$rank")
	fi
done
took=$((($(date +%s%N) - began) / 1000000))
wait "${pids[77]}" 2>/dev/null
[ $named = 103 ]
say $? "all $named other ranks name the one that was killed; that took $took ms" "${silent[@]}"

# ---- without a switch ----

RANK=0 WORLD_SIZE=65 SWITCHML_SWITCH='' "$switchml" bench -b 4 -e 4 -n 1 >none 2>&1
expect "65 ranks without a switch are told" none 'a job without a switch has at most 64 ranks, not 65: .*--parent'

for pid in "${process[@]}"; do kill "$pid" 2>/dev/null; done
wait
exit $((failures > 0))
