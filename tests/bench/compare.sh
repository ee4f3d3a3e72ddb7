#!/bin/bash
# The benchmark suite in its smallest form, to keep it working: two workers, one size, two
# runs, every library that was built. It leaves nothing behind, even when it is killed.
# Needs root.
#
#	tests/bench/compare.sh BUILD-DIRECTORY
build=$(realpath "$1")
compare=$(realpath "$(dirname "$0")/../../bench/compare")
work=$(mktemp -d)
pid=
# shellcheck source=tests/support/await.sh
. "$(dirname "$0")/../support/await.sh"
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT
# mpirun is not ours, and Gloo's threads end with the process: ignore their leaks.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"

# Pid: do namespaces of that bench/compare remain?
nothing_left() {
	! ip netns list | grep "^smllinks$1[.-]"
}

"$compare" --build "$build" --runs 2 --json "$work/json" \
	--only '^2x/1gbit/mtu1500/16KiB/[^/]*$|^8x/1gbit/mtu1500/10MB/no-offload/ours-int32/loss1%$|^4x/unshaped/mtu1500/10MB/ours-int32$|^2x4/1gbit/mtu1500/10MB/ours-int32(-groups)?$|^8x/1gbit/mtu1500/10MB/racks/ours-int32-racks$' \
	>"$work/out" 2>&1 &
pid=$!
wait $pid
status=$?
cat "$work/out"
[ $status != 77 ] || exit 77
[ $status = 0 ] || { echo "FAILED: it ended with $status"; exit 1; }
nothing_left $pid || { echo "FAILED: namespaces are left"; exit 1; }

something_there() {
	! nothing_left $pid >"$work/left"
}

python3 - "$work/json" <<'END' || exit 1
import json, sys

found = json.load(open(sys.argv[1]))
rows = found["rows"]
methods = {row["method"] for row in rows}
assert {"ours-int32", "ours-int16", "gloo-ring", "gloo-bcube",
        "openmpi"} <= methods, methods
sent = {row["row"].split("/", 1)[0] + row["method"]: row["sent_a_call"] for row in rows
        if row["row"].startswith("2x4/")}
# Ranks that share memory send one contribution for all of them.
assert 3.5 < sent["2x4ours-int32"] / sent["2x4ours-int32-groups"] < 4.5, sent
tree, = (row for row in rows if row["method"] == "ours-int32-racks")
for way in ("up", "down"):
    # The tensor, headers, and what a busy machine sends twice; without a sum in the rack, four times that.
    assert 1 < tree[f"{way}_a_call"] / tree["size_bytes"] < 2, tree
for row in rows:
    why = row.get("not_measured")
    if why is None:
        assert row["wrong_elements"] == 0 and row["runs"] >= 2, row
        assert row["p99_s"] >= row["p50_s"] > 0 and row["cpu_s_a_call"] > 0, row
        # At least the tensor, in the width of its wire, was sent in both directions.
        least = row["size_bytes"] / (2 if row["method"] == "ours-int16" else 1)
        assert row["received_a_call"] > 0.9 * least, row
    elif row["method"].startswith("ours") or "was not built" not in why:
        sys.exit(f"FAILED: {row['row']}: {why}")
print("ok: measured, every sum right:",
      *sorted(row["row"] for row in rows if "not_measured" not in row))
END

"$compare" --build "$build" --only '^2x/1gbit/mtu1500/16KiB/ours-int32$' --seconds 60 \
	>"$work/out" 2>&1 &
pid=$!
await something_there || { echo "FAILED: no namespace has come"; cat "$work/out"; exit 1; }
sleep 1 # a random moment: cleanup must work at every one
kill -TERM $pid
wait $pid
nothing_left $pid || { echo "FAILED: namespaces are left after SIGTERM"; exit 1; }
echo "ok: nothing is left after SIGTERM"
