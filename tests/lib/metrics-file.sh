#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SWITCHML_RECORD=metrics: each rank's counters in a file, which appears in one step, never
# through a link, and is gone when the rank has left.
#
#	tests/lib/metrics-file.sh build/switchml
switchml=$(realpath "$1")
. "$(dirname "$0")/../support/report.sh"
export SWITCHML_SHARED_MEMORY=0 # each rank sends its own packets
unset SWITCHML_SWITCH

# Path: start a job that lasts.
start_job() {
	SWITCHML_RECORD=metrics:$1 "$switchml" bench --switch "$address" --job train --local-workers 2 -b 64K -e 64K \
		-w 0 -n 1 -c 0 --seconds 1000 --pause 20 >"$work/bench" 2>&1 &
	bench=$!
}

end_job() {
	kill $bench
	wait $bench
	say $? "the job ends" "$work/bench"
}

# File: its packets have a number that is not 0.
has_packets() {
	grep -q '^switchml_worker_sent_packets_total{job_name="train",rank="[01]"} [1-9]' "$1" 2>/dev/null
}

local_switch "$work/switch"
mkdir "$work/files" "$work/elsewhere"
echo precious >"$work/elsewhere/target"
# What another user could have put there, and what a killed rank has left.
ln -s "$work/elsewhere/target" "$work/files/m.0.prom"
ln -s "$work/elsewhere/target" "$work/files/m.0.prom.tmp"
echo old >"$work/files/m.1.prom.tmp"
start_job "$work/files/m.prom"
for rank in 0 1; do
	await has_packets "$work/files/m.$rank.prom"
done
[ "$(cat "$work/elsewhere/target")" = precious ] && [ ! -L "$work/files/m.0.prom" ]
say $? "a link is replaced, not followed"
[ "$(stat -c %a "$work/files/m.0.prom")" = 644 ]
say $? "the node exporter can read it: $(stat -c %a "$work/files/m.0.prom")"
first=$(grep ^switchml_worker_sent_bytes "$work/files/m.1.prom")
changes() {
	[ "$(grep ^switchml_worker_sent_bytes "$work/files/m.1.prom")" != "$first" ]
}
await changes
say $? "it is written again"
# At a moment when the job has no row, for its ranks resume, or status finds the machine too busy, there is none.
told() {
	"$switchml" status --switch "$address" --json >"$work/status" 2>/dev/null &&
		python3 -c 'import json, sys
job, = json.load(sys.stdin)[0]["jobs"]
sys.exit(not all(w["traffic"] and w["traffic"]["packets_received"] > 0 for w in job["workers"]))' \
			<"$work/status" 2>/dev/null
}
await told
python3 - "$work/files/m.0.prom" "$work/status" >"$work/said" 2>&1 <<'END'
import json, re, sys
text = open(sys.argv[1]).read()
lines = [line for line in text.splitlines() if not line.startswith("#")]
values = {re.sub(r'job_name="train",rank="0",?', "", name): float(value)
          for name, value in (line.rsplit(" ", 1) for line in lines)}
assert len(values) == len(lines) == 27, values
told = next(w for w in json.load(open(sys.argv[2]))[0]["jobs"][0]["workers"] if w["rank"] == 0)["traffic"]
# Both are older than now: the one at most a period, the other a heartbeat.
for name in ("sent_packets", "received_packets", "sent_bytes", "received_bytes"):
    what, unit = name.split("_")
    assert values[f"switchml_worker_{name}_total{{}}"] > 0 and told[f"{unit}_{what}"] > 0, (values, told)
assert 0 < values["switchml_worker_busy_seconds_total{}"] < 600, values
assert 0 < values["switchml_worker_rtt_seconds{}"] < 60 and values["switchml_worker_calls_total{}"] > 0, values
times = [value for name, value in values.items() if name.startswith("switchml_worker_call_seconds_bucket")]
assert len(times) == 12 and times == sorted(times), times
calls = values["switchml_worker_call_seconds_count{}"]
assert times[-1] == calls > 0 and 0 < values["switchml_worker_call_seconds_sum{}"] < 600, values
END
say $? "all counters are there" "$work/said"
if command -v promtool >/dev/null; then
	promtool check metrics <"$work/files/m.0.prom" >"$work/said" 2>&1
	say $? "promtool has nothing against it" "$work/said"
else
	echo "left out: promtool check metrics (Debian: prometheus)"
fi
end_job
[ -z "$(ls "$work/files")" ]
say $? "nothing is left when the ranks have gone: $(ls "$work/files")"

start_job "$work/files/%r%%"
await has_packets "$work/files/0%"
say $? "%r is the rank, and %% is %"
end_job

# What cannot be written is said once, and the job goes on.
mkdir "$work/files/d.0.prom" "$work/files/d.1.prom"
start_job "$work/files/d.prom"
await says "$work/bench" "the metrics cannot be written to $work/files/d.[01].prom (SWITCHML_RECORD): Is a directory"
await is_under_way "$address" train
end_job
kill $switch
wait $switch
[ $failures = 0 ]
