#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SWITCHML_RECORD=trace and `switchml trace merge`: files of the published format, clocks that are
# compared, and a rank that stood still, which the merged trace shows.
#
#	tests/cmd/trace.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
unset SWITCHML_SWITCH
switch=
pids=()
trap 'kill -9 $switch "${pids[@]}" 2>/dev/null; clean_up' EXIT

check() {
	"$here/../support/trace-check" "$@" || failures=$((failures + 1))
}

local_switch "$work/switch"

# Do ranks 0 and 2 wait for rank 1, with more contributions than it has sent?
both_wait() {
	"$switchml" status --switch "$address" 2>/dev/null | awk '
		$6 == "ms" { sent[$1] = $7 }
		END { exit !(sent[0] > sent[1] && sent[2] > sent[1]) }'
}

# Rank 1 stands still in the middle of the job, and the job ends soon after it goes on.
begin_ranks 3 rank SWITCHML_RECORD="trace:$work/trace.%r" SWITCHML_HEARTBEAT=60 SWITCHML_JOB=slow \
	SWITCHML_SWITCH="$address" timeout 200 "$switchml" bench \
	-b 64K -e 64K -w 0 -n 1 -c 1 --seconds 1000 --pause 20 --drop 0.1%
await_under_way slow "$address"
stopped=$(pgrep -P "${pids[1]}")
kill -STOP "$stopped"
await stands_still "$stopped"
await both_wait
sleep 1 # the least time that the others wait
kill "$(pgrep -P "${pids[0]}")"
kill -CONT "$stopped"
for rank in 0 1 2; do
	wait "${pids[$rank]}" || give_up "rank $rank ended with status $?"
done
check format "$work"/trace.[012]
"$switchml" trace merge --output "$work/merged" "$work"/trace.[012] || give_up "they cannot be merged"
check format "$work/merged"
check waits "$work/merged" 1 0.9
if "$here/../../tools/trace-figure" "$work/merged" "$work/figure.svg" >"$work/out" 2>&1; then
	says "$work/figure.svg" '>result completed by rank 2<'
	say $? "it can be drawn" "$work/figure.svg"
else
	says "$work/out" 'there is no matplotlib' && echo "left out: drawing it (Debian: python3-matplotlib)" || say 1 "drawing" "$work/out"
fi
# The ranks are of one host, and have one clock.
check clock "$work/merged" 1 0
check clock "$work/merged" 2 0
check shift "$work/trace.2" 5000 "$work/ahead.2"
"$switchml" trace merge --output "$work/again" "$work/trace.0" "$work/trace.1" "$work/ahead.2" >"$work/out" ||
	give_up "a clock that is ahead cannot be merged"
check clock "$work/again" 2 5000
check format "$work/again"

# What does not belong together, or is no trace.
refuses() {
	! "$switchml" trace merge --output "$work/none" "${@:2}" >"$work/out" 2>&1 && says "$work/out" "$1"
	say $? "${*:2} is refused: $1" "$work/out"
}
refuses 'both of rank 2' "$work/trace.2" "$work/ahead.2"
refuses 'is not a trace' "$work/rank.0"
refuses "cannot read $work/missing: No such file" "$work/missing"
mkfifo "$work/fifo"
refuses "cannot read $work/fifo: it is not a regular file" "$work/fifo"
: >"$work/empty"
refuses "empty is empty: its rank was killed" "$work/trace.0" "$work/empty"
[ ! -e "$work/none" ] && [ ! -e "$work/none.tmp" ] || give_up "a refused merge leaves a file"

# A failure leaves the file of the last time; a text may have any length and any bytes, but what is
# written is JSON.
long=$(printf 'n%.0s' {1..127})
python3 - "$work" "$long" <<'END'
import json, sys
work, long = sys.argv[1:]
def write(name, rank, job):
    trace = json.load(open(f"{work}/trace.{rank}"))
    trace["otherData"]["job"] = job
    json.dump(trace, open(f"{work}/{name}", "w"), ensure_ascii=False)
write("long.0", 0, long + "äöü")
write("long.1", 1, long + "äöü")
write("other.1", 1, long + "äöo")
raw = open(f"{work}/long.1", "rb").read()
open(f"{work}/broken.1", "wb").write(raw.replace("äöü".encode(), b"\xc3("))
END
"$switchml" trace merge --output "$work/merged" "$work/long.0" "$work/long.1" >"$work/out" || give_up "a job with a long name"
check format "$work/merged"
cp "$work/merged" "$work/before"
refuses 'UTF-8\|decode byte' "$work/long.0" "$work/broken.1"
refuses 'is of job' "$work/long.0" "$work/other.1"
! (ulimit -f 1; trap '' XFSZ; "$switchml" trace merge --output "$work/merged" "$work/long.0" "$work/long.1") >"$work/out" 2>&1 &&
	says "$work/out" "cannot write $work/merged: File too large" && cmp "$work/merged" "$work/before" &&
	[ ! -e "$work/merged.tmp" ]
say $? "a trace that cannot be written whole does not replace the old one" "$work/out"
"$switchml" trace merge --output /dev/stdout "$work/long.0" "$work/long.1" | cat >"$work/piped"
cmp <(head -c 1000 "$work/piped") <(head -c 1000 "$work/before") || give_up "a pipe as output"
! "$switchml" trace merge --output "$work/trace.0" "$work"/trace.[01] >"$work/out" 2>&1 &&
	says "$work/out" 'is one of the traces'
say $? "no trace is overwritten" "$work/out"
check format "$work/trace.0"

# A stripe in every rank, and one file name for all of them.
SWITCHML_SWITCH=embedded SWITCHML_MASTER_PORT=$(free_port) SWITCHML_RECORD="trace:$work/all" timeout 200 "$switchml" bench \
	--local-workers 3 --switch embedded -b 4 -e 256K -f 16 -n 2 >"$work/out" 2>&1 ||
	give_up "a traced job with a stripe in every rank"
check format "$work"/all.[012]
"$switchml" trace merge --output "$work/merged" "$work"/all.[012] >"$work/out" || failures=$((failures + 1))
check clock "$work/merged" 1 0
! says "$work/out" drifts
say $? "a host's clock does not drift against itself" "$work/out"

# In a tree, packets do not have a rank's number but that of a switch's child. Rank 3, the second one
# at its leaf, stands still.
cd "$work" || exit 1
switch root
leaf near root
leaf far root
SWITCHML_RECORD="trace:$work/in-tree.%r" SWITCHML_HEARTBEAT=60 start tree -b 64K -e 64K -w 0 -n 1 -c 1 \
	--seconds 1000 --pause 20 -- near near far far
await is_over_or job_is "${at[root]}" tree running
await is_over_or moves "${at[root]}" tree
all_run || give_up "the job tree is over already"
kill -STOP "${pids[3]}"
await stands_still "${pids[3]}"
one_waits() {
	"$switchml" status --switch "${at[far]}" 2>/dev/null | awk '
		$6 == "ms" { sent[$1] = $7 }
		END { exit !(sent[2] > sent[3]) }'
}
await one_waits
sleep 1 # the least time that the others wait
kill "${pids[0]}"
kill -CONT "${pids[3]}"
ends_well "a traced job in a tree" tree
"$switchml" trace merge --output "$work/merged" "$work"/in-tree.[0-3] || give_up "traces of a tree cannot be merged"
check format "$work/merged"
check waits "$work/merged" 3 0.9

# Another user may have made the name a link to something else.
ln -s "$work/target" "$work/link.0"
! SWITCHML_RECORD="trace:$work/link" timeout 100 "$switchml" bench --local-workers 1 -b 4 -e 4 >"$work/out" 2>&1 &&
	says "$work/out" 'cannot be created' && [ ! -e "$work/target" ]
say $? "a link is refused" "$work/out"
[ $failures = 0 ]
