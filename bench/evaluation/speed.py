# SPDX-License-Identifier: BSD-3-Clause
"""README's chart: mixed precision with a switch and without, and the case that loses."""
import measure
import performance
import provenance
import report
import rows
from lab import Skipped

QUESTION = "How fast are sums of float16 on the exact wire, relative to Gloo's ring of float16?"
NOT_KEPT = ("bars",)
# The rows of one cell, with the library's own choice of a wire (the title names it), and what the chart calls them.
CELL = "8x/100mbit/mtu1500/5MB"
NAMES = {"ours-float16": "a switch on an unshaped link", "ours-float16-ranks": "no switch, a part in every rank",
         "gloo-ring-float16": "Gloo's ring of float16", "ours-float16-nic": "a switch behind one slow NIC"}


def run(lab):
    runs = lab.choose(6, 30, 2)
    found = {result.entry.name(): result for results in measure.run_all(
        rows.matching(f"^{CELL}/({'|'.join(NAMES)})$", rows.all_cells()), runs) for result in results}
    for result in found.values():
        if result.failure:
            raise Skipped(f"{result.entry.title()}: {result.failure}")
    ring = report.ring_time(found.values())
    return {"tcp": lab.tcp, "runs": runs, "bars": [[title, ring / found[name].p50()] for name, title in NAMES.items()]}


def drawn(data):
    yield performance.beside_ring("float16 gradients on the exact wire, 8 workers, 100 Mbit/s", data["bars"],
                                  "Gloo's ring of float16")


def headline(about, _data):
    holds = provenance.holds_text(about)
    yield f"Measured at {provenance.commit_text(about)}" + (f"; {holds}" if holds else "") + "."


def facts(data):
    yield from (f"{title}: {speed:.2f}" for title, speed in data["bars"])
