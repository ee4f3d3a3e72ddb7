#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What `switchml status --json` prints is an array of the form of docs/status.schema.json, whether
# a switch has a job, cannot be reached, or cannot even be named.
#
#	tests/integration/status-schema.sh SWITCHML
set -u

switchml=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 1
. tests/support/await.sh
for python in /usr/bin/python3 python3; do
	"$python" -c 'import jsonschema' 2>/dev/null && break
	python=
done
[ -n "$python" ] || { echo "there is no jsonschema (Debian: python3-jsonschema)"; exit 77; }
work=$(mktemp -d)
switch=
pids=()
trap 'kill $switch "${pids[@]}" 2>/dev/null; rm -rf "$work"' EXIT

# File, number of switches, number of jobs of the first one.
check() {
	"$python" - "$@" <<'END' || give_up "$1 does not have the form of the schema"
import json, sys
import jsonschema
with open("docs/status.schema.json") as schema, open(sys.argv[1]) as found:
    schema, found = json.load(schema), json.load(found)
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(found)
assert len(found) == int(sys.argv[2]), f"{len(found)} switches"
jobs = found[0].get("jobs", []) if found else []
assert len(jobs) == int(sys.argv[3]), f"{len(jobs)} jobs"
assert all(len(job["workers"]) == job["world_size"] for job in jobs)
END
}

"$switchml" switch --listen 127.0.0.1:0 >"$work/switch" 2>&1 &
switch=$!
await_switch "$work/switch"
timeout 200 "$switchml" bench --switch "$address" --local-workers 2 --job schema -b 4K -e 4K \
	--seconds 1000 >"$work/bench" 2>&1 &
pids=($!)
await_under_way schema "$address"
"$switchml" status --switch "$address" --json >"$work/one"
check "$work/one" 1 1
"$switchml" status --switch "$address,127.0.0.1:1" --json >"$work/two" 2>"$work/said" &&
	give_up "a switch that is not there is no failure"
check "$work/two" 2 1
SWITCHML_SWITCH='' SWITCHML_RANK=x "$switchml" status --json >"$work/none" 2>"$work/said" &&
	give_up "an invalid variable is no failure"
check "$work/none" 0 0
# The check can fail.
sed 's/"uptime_ms"/"uptime"/' "$work/one" >"$work/wrong"
(check "$work/wrong" 1 1) >/dev/null 2>&1 && give_up "another member is not noticed"
kill "$(pgrep -P "$(pgrep -P "${pids[0]}")" | head -n 1)"
wait "${pids[0]}" || give_up "the job failed"
echo "ok: three answers"
