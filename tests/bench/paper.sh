#!/bin/bash
# The evaluation's plumbing: every question that needs no PyTorch is measured in its smallest form
# on emulated links, drawn, and checked; and nothing is left behind. Needs root.
#
#	tests/bench/paper.sh BUILD-DIRECTORY
build=$(realpath "$1")
paper=$(realpath "$(dirname "$0")/../../bench/paper")
questions="rate loss slots sharing failures cpu"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2046
"$paper" --build "$build" --output "$work" --smallest $(printf -- '--only %s ' $questions) >"$work/out" 2>&1 &
pid=$!
wait $pid
status=$?
cat "$work/out"
[ $status != 77 ] || exit 77
if grep -q "there is no matplotlib" "$work/out"; then
	echo "SKIP: nothing can be drawn without matplotlib (Debian: python3-matplotlib)"
	exit 77
fi
[ $status = 0 ] || { echo "FAILED: it ended with $status"; exit 1; }
! ip netns list | grep "^smllinks$pid[.-]" || { echo "FAILED: namespaces are left"; exit 1; }

# shellcheck disable=SC2086
python3 - "$work" $questions <<'END' || exit 1
import json, sys

def wrong_elements(data):
    """Each count of wrong elements, wherever it is."""
    if isinstance(data, dict):
        if "wrong" in data:
            yield data["wrong"]
        data = list(data.values())
    for part in data if isinstance(data, list) else []:
        yield from wrong_elements(part)

work, questions = sys.argv[1], sys.argv[2:]
kept = {name: json.load(open(f"{work}/{name}.json")) for name in questions}
for name, run in kept.items():
    for what in ("date", "cpu", "cores", "kernel", "commit", "form", "command", "load"):
        assert what in run["about"], (name, what)
    counts = list(wrong_elements(run["data"]))
    assert (counts or name == "slots") and not any(counts), (name, counts)
    drawn = open(f"{work}/{name}.svg").read()
    assert run["about"]["stamp"] in drawn and run["about"]["commit"] in drawn, name

slots = kept["slots"]["data"]
# Where Gloo or Open MPI is missing, so are their rows' numbers.
measured = [row["seconds"] for row in kept["rate"]["data"]["rows"] if "seconds" in row]
assert measured and all(it["q1"] <= it["median"] <= it["q3"] for it in measured), measured
# More slots never make the simulated job slower, and no job is faster than its line.
for world in slots["simulated"]:
    speeds = [row["bit_per_s"] for row in world["rows"]]
    assert all(b > 0.98 * a for a, b in zip(speeds, speeds[1:])), speeds
    assert 0.5 < speeds[-1] / world["line_bit_per_s"] <= 1, (speeds, world["line_bit_per_s"])
# Every switch that was to die has died, and the calls went on.
for name, runs in kept["failures"]["data"]["rows"].items():
    # A cable that is pulled costs a heartbeat at least.
    assert "cable" not in name or runs[0]["longest_call_s"] > 2, runs[0]["longest_call_s"]
    assert "kill" not in name or runs[0]["happened"][0][0] < runs[0]["ends"][-1], name
    assert len(runs[0]["ends"]) >= 10, name
assert all(0 < one["tcp_mbit"] < 101 and one["mbit"] > 0
           for runs in kept["sharing"]["data"]["tcp"].values() for one in runs)
assert any(row["worker_cpu_s_a_call"] > 0 for row in kept["cpu"]["data"]["rows"]
           if "seconds" in row)
END
echo "ok: measured, and drawn with their dates, machine and commit: $questions"
