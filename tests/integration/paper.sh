#!/bin/bash
# The evaluation's plumbing: one question is measured on emulated links, drawn, and checked, with
# numbers for all that it shows; and it leaves nothing behind. Needs root.
#
#	tests/integration/paper.sh BUILD-DIRECTORY
build=$(realpath "$1")
paper=$(realpath "$(dirname "$0")/../../bench/paper")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$paper" --build "$build" --output "$work" --only slots --smallest >"$work/out" 2>&1
status=$?
cat "$work/out"
[ $status != 77 ] || exit 77
if grep -q "there is no matplotlib" "$work/out"; then
	echo "SKIP: nothing can be drawn without matplotlib (Debian: python3-matplotlib)"
	exit 77
fi
[ $status = 0 ] || { echo "FAILED: it ended with $status"; exit 1; }
! ip netns list | grep "^smlpaper" || { echo "FAILED: namespaces are left"; exit 1; }

python3 - "$work" <<'END' || exit 1
import json, sys

kept = json.load(open(f"{sys.argv[1]}/slots.json"))
about, data = kept["about"], kept["data"]
for what in ("date", "cpu", "cores", "kernel", "commit", "form", "command", "load"):
    assert what in about, what
assert len(data["rows"]) >= 3, data["rows"]
for row in data["rows"]:
    assert row["wrong"] == 0 and row["seconds"]["n"] >= 2, row
    assert row["seconds"]["q1"] <= row["seconds"]["median"] <= row["seconds"]["q3"], row
# More slots never make the simulated job slower, and the fastest one is as fast as its line.
for world in data["simulated"] + [data["predicted"]]:
    speeds = [row["bit_per_s"] for row in world["rows"]]
    assert all(b > 0.98 * a for a, b in zip(speeds, speeds[1:])), speeds
    assert 0.5 < speeds[-1] / world["line_bit_per_s"] <= 1, (speeds, world["line_bit_per_s"])
drawn = open(f"{sys.argv[1]}/slots.svg").read()
assert about["stamp"] in drawn and about["commit"] in drawn
END
echo "ok: measured, and drawn with its date, machine and commit"
