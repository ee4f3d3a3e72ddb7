# SPDX-License-Identifier: BSD-3-Clause
"""Question 2: training steps of the paper's eight models, replayed."""
import json
import os
import subprocess
import sys
import tempfile

import figure
import published
from lab import Skipped
from rows import INT16, INT32, RING
from table import Table, median, quartiles

QUESTION = "How much faster would the paper's eight models train?"
WAYS = {"gloo": "Gloo's ring", "int32": "ours, int32", "int16": "ours, int16",
        "ranks-int32": "ours, int32, no switch", "ranks-int16": "ours, int16, no switch"}
# Gbit/s of the links that are replayed, and Mbit/s of the emulated ones.
LINKS = {10: 100, 100: 200}
HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_SECONDS = 300


def on_links(lab, program, n_workers, rate_mbit, limit_s, **options):
    """What the program's ranks have found, with a switch as a host beside them. options: of replay_rank.main()."""
    # $PAPER_PYTHON, or this Python.
    python = figure.python_with("torch, numpy", os.environ.get("PAPER_PYTHON"), sys.executable)
    if python is None:
        raise Skipped("no PyTorch here: pip install torch numpy, or set PAPER_PYTHON to a "
                      "Python that has both")
    with tempfile.NamedTemporaryFile() as found:
        done = subprocess.run(
            [os.path.join(HERE, "../on-links"), "--build", lab.build, "--workers", str(n_workers),
             "--rate", str(rate_mbit), python, os.path.join(HERE, program), found.name, json.dumps(options)],
            env={**os.environ, "SWITCHML_SHARED_MEMORY": "0", "SWITCHML_LIBRARY": lab.program("lib/libswitchml.so")},
            capture_output=True, text=True, timeout=max(limit_s, LEAST_SECONDS), check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())
        return json.load(found)


def run(lab):
    n_workers, rows = lab.choose(8, 8, 2), []
    # The fast end of the published range leaves communication the least time to hide.
    steps = [[name, published.STEPS[name][1]] for name in lab.choose(published.STEPS, published.STEPS, ["ResNet50"])]
    for gbit, mbit in LINKS.items():
        lab.say(f"{gbit} Gbit/s as {mbit} Mbit/s, {n_workers} workers")
        # On the slower links, the quartiles of two rounds differ by 2 % at most.
        found = on_links(
            lab, "replay_rank.py", n_workers, mbit, lab.choose(900, 3600), compute=steps, ways=list(WAYS),
            scale=1000 * gbit / mbit, rounds=lab.choose(2, 3 if gbit == 10 else 5, 1))
        rows += [{"gbit": gbit, "mbit": mbit, **row} for row in found]
    return {"workers": n_workers, "tcp": lab.tcp, "rows": rows}


def step_seconds(row, n_workers, method):
    """A step whose buckets go one after another over full links of this method, computed."""
    rate, end = row["gbit"] * 1e9 / 8 * method.payload_share(), 0.0
    for elements, ready in row["buckets"]:
        end = max(end, ready * row["compute_s"]) \
            + 4 * elements * method.wire_share * method.moved(n_workers) / rate
    return max(end, row["compute_s"])


def bounds(row, n_workers):
    """{name: seconds of a step}: what full links allow."""
    return {name: step_seconds(row, n_workers, method)
            for name, method in (("ring", RING), ("int32", INT32), ("int16", INT16))}


def speedup(row, way):
    """Of Gloo's median over this way's: [from the third quartile, the median, the first]."""
    return [median(row["seconds"]["gloo"]) / value for value in reversed(quartiles(row["seconds"][way]))]


def chosen(data, gbit):
    return [row for row in data["rows"] if row["gbit"] == gbit]


def table(data, gbit):
    found = Table(f"{gbit} Gbit/s", "computes, s", WAYS["gloo"] + ", s", *list(WAYS.values())[1:],
                  "computed: ring, s, int32, int16", what="speed of a step, Gloo's ring = 1")
    for row in chosen(data, gbit):
        one = bounds(row, data["workers"])
        found.add(row["model"], f"{row['compute_s']:.3f}", f"{median(row['seconds']['gloo']):.2f}",
                  *(speedup(row, way) for way in WAYS if way != "gloo"),
                  f"{one['ring']:.2f}, {one['ring'] / one['int32']:.2f}, {one['ring'] / one['int16']:.2f}")
    return found


def where_it_comes_from(n_workers):
    """Which part of the paper's best number is a ring's traffic, and which is NCCL's."""
    only = {"gbit": 10, "compute_s": 0, "buckets": [[10**9, 0]]}
    best = step_seconds(only, n_workers, RING) / step_seconds(only, n_workers, INT32)
    low, high = published.NCCL_OF_RING
    yield ("If a step were only communication on full links, a switch with our int32 packets would be\n"
           f"{best:.2f} times as fast as an ideal ring of {n_workers}.")
    yield (f"NCCL's ring reaches {100 * low:.0f} to {100 * high:.0f} % of its bound in the authors' "
           f"figure, which makes this {best / high:.2f} to {best / low:.2f}.")
    rest = published.BEST_SPEEDUP / (best / low)
    yield (f"A factor of at least {rest:.2f} of the paper's {published.BEST_SPEEDUP} times NCCL stays unexplained.")


def beyond(data):
    """Rows that gain more than full links allow: the reference was slower than its own bound."""
    found = []
    for row in data["rows"]:
        one = bounds(row, data["workers"])
        found += [median(row["seconds"]["gloo"]) / one["ring"] for way in ("int32", "int16")
                  if speedup(row, way)[1] > 1.1 * one["ring"] / one[way]]
    if found:
        yield (f"In {len(found)} of {2 * len(data['rows'])} rows with a switch, the gain is more "
               "than a tenth above what full links would give.\nIn these rows, Gloo's ring takes "
               f"{min(found):.2f} to {max(found):.2f} times as long as an ideal ring.\n"
               "On a real network, expect only the computed gain.")


def facts(data):
    yield (f"{data['workers']} workers.\n*Computes*: the fastest published step on a GPU that we found "
           "(`bench/evaluation/published.py`).\n*Gloo's ring*: a measured step.\n*Ours*: Gloo's time divided by ours, "
           "median and quartiles.\n*Computed*, for full links: a step with an ideal ring, and how many "
           "times as fast a switch is (int32, int16).\n")
    for gbit in LINKS:
        yield table(data, gbit)
        yield ""
    yield from beyond(data)
    yield from where_it_comes_from(data["workers"])
    yield f"\nWrong elements in all of these runs: {sum(row['wrong'] for row in data['rows'])}."
