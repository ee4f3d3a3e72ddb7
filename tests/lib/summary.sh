#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The two lines of rank 0: when a job begins, and when it ends. They say whether a switch is used,
# and what that saves. Usage: summary.sh SWITCHML
set -u

switchml=$1
. "$(dirname "$0")/../support/report.sh"
export SWITCHML_SUMMARY=1

# What its first line says, what its last line says, environment of a job of four ranks.
lines() {
	local begin=$1 end=$2 bad=0
	shift 2
	env "$@" "$switchml" bench --local-workers 4 -b 1M -e 1M -n 10 -w 0 -c 0 >"$work/out" 2>&1 || bad=1
	grep -c '^switchml\[rank' "$work/out" | grep -qx 2 || bad=1
	says "$work/out" "^switchml\[rank 0\]: job \"default\": 4 ranks on 1 host, $begin\$" || bad=1
	says "$work/out" "^switchml\[rank 0\]: job \"default\" has ended: [0-9]* calls of [0-9.]* MB $end" || bad=1
	[ "$(grep '^switchml' "$work/out" | head -n 1 | wc -m)" -le 121 ] || bad=1
	say $bad "$*: $(grep 'has ended' "$work/out")" "$work/out"
}

local_switch "$work/switch"
lines "through the switch at $address (udp), default wire" \
	"through the switch at $address (udp); rank 0 sent .* (in a ring: .*); calls took .*; the others waited .* for rank [0-3] (.*)" \
	SWITCHML_SWITCH="$address" SWITCHML_SHARED_MEMORY=0
# The ranks of a host add in its memory: then a switch of one host adds nothing, and these lines say so.
lines "through memory and the switch at $address (udp), default wire" \
	"through memory and the switch at $address (udp); rank 0 sent" \
	SWITCHML_SWITCH="$address" SWITCHML_SHARED_MEMORY=1
# A name is whole, however long: it is what one looks for in logs.
long=$(printf 'n%.0s' {1..127})
SWITCHML_SWITCH=$address "$switchml" bench --job "$long" --local-workers 2 -b 4K -e 4K >"$work/out" 2>&1 &&
	says "$work/out" "^switchml\[rank 0\]: job \"$long\": 2 ranks on 1 host, through .* wire$"
say $? "the name of a job is never cut" "$work/out"
SWITCHML_SUMMARY=0 SWITCHML_SWITCH=$address "$switchml" bench --local-workers 4 -b 1M -e 1M >"$work/out" 2>&1 &&
	! says "$work/out" '^switchml\['
say $? "SWITCHML_SUMMARY=0: no lines" "$work/out"

# Without a switch, in memory, and with a part of it in every rank.
SWITCHML_MASTER_PORT=$(free_port)
export SWITCHML_MASTER_PORT
alone() {
	local rank pids bad=0 text=$1
	shift
	begin_ranks 2 rank "$@" "$switchml" bench -b 1M -e 1M -n 10
	for rank in 0 1; do wait "${pids[rank]}" || bad=1; done
	says "$work/rank.0" "^switchml\[rank 0\]: job \"default\" has ended: .* through $text" || bad=1
	! says "$work/rank.1" '^switchml\[' || bad=1
	say $bad "no switch, $*: $(grep 'has ended' "$work/rank.0")" "$work/rank.0" "$work/rank.1"
}
alone "this host's memory; no packets (in a ring, each rank sends .*)" SWITCHML_SHARED_MEMORY=1
alone "a part of the switch in each of 2 ranks; rank 0 sent" SWITCHML_SHARED_MEMORY=0 SWITCHML_SWITCH=embedded

# Names that nobody reads: the warning at the start may have scrolled away.
unknown() {
	local bad=0 text=$1
	shift
	env "$@" SWITCHML_SWITCH="$address" "$switchml" bench --local-workers 2 -b 1M -e 1M >"$work/out" 2>&1 || bad=1
	says "$work/out" "^switchml\[rank 0\]: job .* has ended: .*; $text had no effect\$" || bad=1
	say $bad "$*: $text had no effect" "$work/out"
}
unknown SWITCHML_SWTICH SWITCHML_SWTICH=box
unknown "SWITCHML_[A-Z]* and 1 other unknown name" SWITCHML_SWTICH=box SWITCHML_WIER=int16

# A rank is killed: the last line says which one.
killed() {
	local rank pids bad=0
	rm -f "$work"/rank.*
	begin_ranks 3 rank "$@" "$switchml" bench -b 1M -e 1M --seconds 600
	await says "$work/rank.0" 'job "default": 3 ranks' 2>/dev/null
	{ kill -9 "${pids[2]}" && wait "${pids[2]}"; } 2>/dev/null
	for rank in 0 1; do wait "${pids[rank]}" && bad=1; done
	says "$work/rank.0" "job \"default\" has failed: rank 2 (host .*, pid ${pids[2]}) died; [0-9]* calls* of .* through " ||
		bad=1
	say $bad "$*: $(grep 'has failed' "$work/rank.0")" "$work/rank.0"
}
killed SWITCHML_SWITCH="$address" SWITCHML_SHARED_MEMORY=0
killed SWITCHML_SWITCH="$address" SWITCHML_SHARED_MEMORY=1
killed SWITCHML_SHARED_MEMORY=1
killed SWITCHML_SHARED_MEMORY=0 SWITCHML_SWITCH=embedded
exit $((failures > 0))
