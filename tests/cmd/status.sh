#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `switchml status --watch`: its rates are those of a job that loses packets, as text and as
# JSON; switches that vanish and return; the ways that it ends.
#
#	tests/cmd/status.sh build/switchml
switchml=$(realpath "$1")
. "$(dirname "$0")/../support/report.sh"
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
unset SWITCHML_SWITCH SWITCHML_MASTER_ADDR SWITCHML_MASTER_PORT MASTER_ADDR MASTER_PORT

# `lines`: the arrays of the file. `last`: the last job all of whose ranks have moved something in
# an interval, and have sent some packets again if LOSSY is set.
read_lines='
import json, os, sys
lines = [json.loads(line) for line in open(sys.argv[1]) if line.endswith("\n")]
last = None
for job in (job for line in lines for switch in line for job in switch.get("jobs", []) if job["rates"]):
    rates = [worker["rates"] for worker in job["workers"]]
    again = sum(w["traffic"]["retransmits_timeout"] + w["traffic"]["retransmits_fast"]
                for w in job["workers"] if w["traffic"])
    if all(r["traffic"] and r["traffic"]["bytes_sent"] > 0 for r in rates) and job["rates"]["uses"] > 0 and (
            again > 0 or "LOSSY" not in os.environ):
        last = job
'

# Title, Python statements about them.
check() {
	python3 -c "$read_lines$2" "$work/json" >"$work/wrong" 2>&1
	say $? "$1" "$work/wrong"
}

# File: is there such a job?
has_rates() {
	python3 -c "$read_lines
sys.exit(last is None)" "$1"
}

local_switch "$work/switch" --listen "$(steady_address)"
"$switchml" bench --switch "$address" --job lossy --local-workers 3 -b 64K -e 64K -w 0 -n 1 -c 0 --seconds 1000 --pause 20 \
	--drop 1% >"$work/bench" 2>&1 &
bench=$!
await is_under_way "$address" lossy
: >"$work/json"
"$switchml" status --switch "$address" --watch=1 --json >"$work/json" 2>"$work/err" &
watch=$!
LOSSY=1 await has_rates "$work/json"
kill -INT $watch
wait $watch
say $? "SIGINT ends it without an error" "$work/err"
check "each line is an array; the first has no rates" '
assert all(len(line) == 1 for line in lines)
assert lines[0][0]["rates"] is None and all(job["rates"] is None for job in lines[0][0]["jobs"])'
LOSSY=1 check "the rates of a job that loses packets" '
assert last
traffic = [worker["rates"]["traffic"] for worker in last["workers"] if worker["rates"]["traffic"]]
assert 0 <= last["rates"]["slowest_rank"] < 3
assert 0 < last["rates"]["slowest_share"] == max(w["rates"]["waited_share"] for w in last["workers"]) <= 1
assert all(t["bytes_sent"] > t["packets_sent"] * 40 > 0 for t in traffic)'
check "rates are differences of the counters" '
pairs = [(a[0], b[0]) for a, b in zip(lines, lines[1:])]
for a, b in pairs:
    for name in ("packets_sent", "bytes_received"):
        counter = name.replace("_", "-")
        moved = b["counters"][counter] - a["counters"][counter]
        assert abs(b["rates"]["seconds"] * b["rates"][name] - moved) <= 1e-6 * moved + 1, (a, b)'
check "the switch waits for one rank at a time, and for uses that it completes" '
# When ranks resume, on a busy machine, there is no job for a moment, and then one that counts anew.
jobs = [line[0]["jobs"][0] if line[0]["jobs"] else None for line in lines]
pairs = [(a, b) for a, b in zip(jobs, jobs[1:]) if a and b and a["epoch"] == b["epoch"]]
assert pairs
for job, later in pairs:
    assert job["served"][0]["completed"] == job["counters"]["completed"] < later["counters"]["completed"]
assert sum(worker["waited_ms"] for worker in jobs[-1]["workers"]) <= lines[-1][0]["uptime_ms"]'

# ---- as text ----
: >"$work/text"
"$switchml" status --switch "$address" --watch=0.5 >"$work/text" 2>&1 &
watch=$!
await says "$work/text" 'uses/s, the others waited for rank [0-2] for'
kill -TERM $watch
wait $watch
say $? "SIGTERM ends it without an error" "$work/text"
says "$work/text" '^  absorbed '
say $? "the first answer is shown whole" "$work/text"
[ "$(awk '$1 == 2 && NF == 10' "$work/text" | wc -l)" -gt 0 ]
say $? "each rank has its line of rates" "$work/text"

# ---- its end ----
"$switchml" status --switch "$address" --watch=0.1 --count 3 --json >"$work/json"
say $? "--count ends it"
check "--count 3 are three answers" 'assert len(lines) == 3'
timeout 60 "$switchml" status --switch "$address" --watch=0.1 --json 2>&1 | head -n 2 >"$work/json"
[ "${PIPESTATUS[0]}" != 124 ]
say $? "it ends when its reader has gone"
for wrong in "--watch=0" "--watch=x" "--watch=1e9" "--count=3" "--watch --count=0"; do
	# shellcheck disable=SC2086
	timeout 60 "$switchml" status $wrong >"$work/out" 2>&1
	[ $? = 2 ]
	say $? "$wrong is refused: $(head -n 1 "$work/out")" "$work/out"
done

# ---- a switch that vanishes and returns ----
: >"$work/json"
"$switchml" status --switch "$address" --watch=0.2 --json >"$work/json" 2>"$work/err" &
watch=$!
await test -s "$work/json"
kill $switch $bench
wait $switch $bench 2>/dev/null
await says "$work/json" '"error":"[^"]*refused'
local_switch "$work/switch" --listen "$address" --slots 64
await says "$work/json" '"slots":64,"slots_in_use"'
kill -INT $watch
wait $watch
check "after the switch has returned, the first answer has no rates" '
down = [i for i, line in enumerate(lines) if line[0]["error"]]
assert any("refused" in lines[i][0]["error"] for i in down)
assert lines[down[-1] + 1][0]["rates"] is None'
kill $switch
wait $switch 2>/dev/null

# ---- where ranks have the slots ----
export SWITCHML_SWITCH=embedded SWITCHML_MASTER_ADDR=${address%:*} SWITCHML_MASTER_PORT=${address##*:}
begin_ranks 3 own "$switchml" bench --job own -b 64K -e 64K -w 0 -n 1 -c 0 --seconds 1000 --pause 20
await job_is "$address" own running
: >"$work/json"
"$switchml" status --watch=1 --json >"$work/json" 2>"$work/err" &
watch=$!
await has_rates "$work/json"
kill -INT $watch
wait $watch
check "ranks that have the slots tell what they move, and for whom they wait" '
assert all(worker["traffic"]["bytes_sent"] > 0 for worker in last["workers"])
assert sum(worker["waited_ms"] for worker in last["workers"]) > 0
assert last["rates"]["uses"] > 0'
kill "${pids[0]}" # rank 0 decides when to end
wait "${pids[@]}"
say $? "the job has not noticed" "$work"/own.*
[ $failures = 0 ]
