#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What `switchml status --json` prints is an array of the form that --schema prints, whether
# a switch has a job, cannot be reached, or cannot even be named; with the leaves and hosts of a
# tree, and with rates.
#
#	tests/cmd/status-schema.sh SWITCHML
set -u

. "$(dirname "$0")/../support/trees.sh"
for python in /usr/bin/python3 python3; do
	"$python" -c 'import jsonschema' 2>/dev/null && break
	python=
done
[ -n "$python" ] || { echo "there is no jsonschema (Debian: python3-jsonschema)"; exit 77; }
cd "$work" || exit 1
export SWITCHML_SHARED_MEMORY=0
unset SWITCHML_SWITCH

"$switchml" status --schema >schema.json || exit 1
cat >check.py <<'END'
import json, sys
import jsonschema

schema, found, n_switches, n_jobs, what = sys.argv[1:]
with open(schema) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)


def is_true(found):
    jsonschema.Draft202012Validator(schema).validate(found)
    assert len(found) == int(n_switches), f"{len(found)} switches"
    switch = found[0] if found else {}
    jobs = switch.get("jobs", [])
    assert len(jobs) == int(n_jobs), f"{len(jobs)} jobs"
    return eval(f"({what})", {"found": found, "switch": switch, "job": jobs[0] if jobs else None})


if found == "-":
    answers = map(json.loads, sys.stdin)
else:
    with open(found) as file:
        answers = [json.load(file)]
for answer in answers:
    if is_true(answer):
        sys.exit(0)
sys.exit(json.dumps(answer, indent=1))
END

# Title, file, number of switches, number of jobs of the first one, and what is true of the answer,
# its first switch and that switch's first job.
check() {
	"$python" check.py schema.json "${@:2}" >said 2>&1
	say $? "$1" said
}

# Title, switch, and what becomes true of it and its one job while it is watched.
watch() {
	timeout 60 "$switchml" status --switch "$2" --json --watch=0.5 2>/dev/null |
		"$python" check.py schema.json - 1 1 "$3" >said 2>&1
	say $? "$1" said
}

# ---- one switch ----

switch root
start schema -b 4K -e 4K --seconds 1000 --pause 20 -- root root
await_under_way schema "${at[root]}"
"$switchml" status --switch "${at[root]}" --json >one
check "a switch with a job" one 1 1 \
	'[w["sent_by"] for w in job["workers"]] == [0, 1] and job["leaves"] == switch["leaves"] == []'
"$switchml" status --switch "${at[root]},127.0.0.1:1" --json >two 2>/dev/null
[ $? = 1 ]
say $? "a switch that is not there is a failure"
check "and a part of the answer" two 2 1 '"Connection refused" in found[1]["error"]'
SWITCHML_SWITCH='' SWITCHML_RANK=x "$switchml" status --json >none 2>/dev/null
[ $? = 1 ]
say $? "an invalid variable is a failure"
check "with an empty array" none 0 0 True
"$switchml" status --switch "${at[root]}" --json --watch --count 1 >first
check "the first of several answers has no rates" first 1 1 'switch["rates"] == job["rates"] is None'
watch "a later one has rates, and the slowest rank" "${at[root]}" 'switch["rates"] and
	switch["rates"]["bytes_sent"] > 0 and job["rates"]["bytes_sent"] and job["rates"]["slowest_rank"] in (0, 1) and
	all(w["rates"]["traffic"] for w in job["workers"])'
# The check can fail.
sed 's/"uptime_ms"/"uptime"/' one >wrong
(check "another member" wrong 1 1 True) | grep -q '^FAILED'
say $? "another member is noticed"
kill "${pids[0]}"
ends_well "the job ends" schema

# ---- a tree: two ranks share memory at a leaf of a leaf, the next is at the leaf, the last here ----

leaf middle root --slots 300
leaf low middle
export SWITCHML_SHARED_MEMORY=1
start tree -b 64K -e 64K -w 0 -n 1 -c 0 --seconds 1000 --pause 20 -- low low middle root
await is_over_or job_is "${at[root]}" tree running
await is_over_or moves "${at[root]}" tree
all_run || give_up "the job tree is over already"
middle="$(hostname):${at[middle]##*:}" low="$(hostname):${at[low]##*:}"
watch "the root: its leaf, and where each rank is" "${at[root]}" "switch['level'] == 0 and
	[(leaf['name'], leaf['ranks'], leaf['slots']) for leaf in switch['leaves']] == [('$middle', 3, 300)] and
	[(w['via'], w['leaf'], w['sent_by']) for w in job['workers']] ==
	[('$middle', '$low', 0), ('$middle', '$low', 0), ('', '$middle', 2), ('', '', 3)]"
watch "what its leaf contributes, and for whom the others wait" "${at[root]}" "
	job['rates'] and job['rates']['uses'] and [(leaf['leaf'], leaf['ranks']) for leaf in job['leaves']] == [('$middle', 3)] and
	job['leaves'][0]['rates']['contributions'] > 0 and
	(job['rates']['slowest_leaf'], job['rates']['slowest_rank']) in (('$middle', None), (None, 0), (None, 1), (None, 3)) and
	job['rates']['slowest_share'] == max(r['rates']['waited_share'] or 0 for r in job['leaves'] + job['workers'] if r['rates'])"
watch "the leaf: its parent, its leaf and its ranks, in order" "${at[middle]}" "job['rates'] and
	(switch['parent'], switch['attached'], switch['level']) == ('${at[root]}', True, 1) and
	[w['rank'] for w in job['workers']] == [0, 1, 2] and job['world_size'] == 4 and
	[(leaf['leaf'], leaf['ranks']) for leaf in job['leaves']] == [('$low', 2)] and
	job['served'][0]['stripe'] == 0 and job['served'][0]['contributions'] ==
	job['leaves'][0]['contributions'] + job['workers'][2]['contributions'] and
	job['rates']['uses'] > 0 and job['rates']['bytes_sent'] is None"
watch "the lowest leaf: ranks that share memory wait for nobody else" "${at[low]}" "
	job['rates'] and job['rates']['uses'] and switch['level'] == 2 and switch['leaves'] == [] and
	[w['sent_by'] for w in job['workers']] == [0, 0] and
	[w['waited_ms'] for w in job['workers']] == [0, 0] and
	(job['rates']['slowest_rank'], job['rates']['slowest_share']) == (None, None)"
kill "${pids[0]}"
ends_well "the job of the tree ends" tree
[ $failures = 0 ]
