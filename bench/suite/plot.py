# SPDX-License-Identifier: BSD-3-Clause
"""Charts of speeds relative to Gloo's ring. As a program, draws a JSON file of panels: plot.py FILE.svg <PANELS
(figure.py).
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import figure  # noqa: E402
import provenance  # noqa: E402

EMULATED = "Links are emulated; all hosts share the cores of one machine."
# Those of performance.md's chart; its table has the others.
SPEED_CELLS = ("8x/1gbit/mtu1500/10MB", "8x/100mbit/mtu1500/10MB", "8x/100mbit/mtu1500/5MB")
RELATIVE = "speed relative to Gloo's ring (1 = the same)"
# README's chart: the rows of one cell, with the library's own choice of a wire (its title names it), and
# what the chart calls them.
SHORT_CELL = "8x/100mbit/mtu1500/5MB"
SHORT = {
    "ours-float16": "a switch on an unshaped link",
    "ours-float16-ranks": "no switch, a part in every rank",
    "gloo-ring-float16": "Gloo's ring of float16",
    "ours-float16-nic": "a switch behind one slow NIC",
}


# ---- what to draw ----

def speeds(results):
    """Panels of speeds relative to Gloo's ring."""
    import report
    for cell in dict.fromkeys(result.cell for result in results):
        rows = [r for r in results if r.cell is cell and r.times and not r.failure
                and not r.entry.rest and not r.entry.loss and r.entry.pieces == 1
                and not r.entry.method.is_yardstick]
        ring = report.ring_time(rows)
        if ring and cell.name() in SPEED_CELLS:
            yield {"title": report.title(cell), "xlabel": RELATIVE,
                   "bars": [[r.entry.title(), ring / r.p50()] for r in rows]}


def short(results):
    """README's panel: mixed precision, with a switch and without, and the case that loses. None
    if its rows were not measured."""
    import report
    by_name = {result.entry.name(): result for result in results
               if result.times and not result.failure and result.cell.name() == SHORT_CELL}
    if not SHORT.keys() <= by_name.keys():
        return None
    rows = [by_name[name] for name in SHORT]
    ring = report.ring_time(rows)
    return {"title": "float16 gradients on the exact wire, 8 workers, 100 Mbit/s",
            "xlabel": RELATIVE.replace("ring", "ring of float16"),
            "bars": [[name, ring / row.p50()] for name, row in zip(SHORT.values(), rows)]}


def draw(chosen, path, below=EMULATED):
    """chosen: panels. Returns an error text, or nothing."""
    chosen = list(chosen)
    if not chosen:
        return "nothing was measured"
    return figure.run(os.path.abspath(__file__), [path], json.dumps({"panels": chosen, "note": below}))


def note(about):
    return (f"{about['date'][:10]}, {provenance.commit_text(about)}, {about['cores']} cores ({about['cpu']}). "
            f"{EMULATED}")


def draw_short(results, path, below):
    """README's chart. Returns an error text, or nothing."""
    panel = short(results)
    return draw([panel], path, below) if panel else "not all of its rows were measured"


# ---- drawing ----

def draw_bars(axis, panel):
    labels = [bar[0] for bar in panel["bars"]]
    values = [bar[1] for bar in panel["bars"]]
    colors = [figure.OTHERS if label.startswith(("Gloo", "Open MPI")) else
              figure.LOSES if value < 0.97 else figure.OURS for label, value in zip(labels, values)]
    at = range(len(labels))
    axis.barh(at, values, 0.7, color=colors)
    for i, value in enumerate(values):
        # Above the line at 1, if it is there.
        axis.text(value + 0.01 * max(values), i, f"{value:.2f}", va="center",
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})
    axis.axvline(1, color="black", linewidth=1)
    axis.set_yticks(at, labels)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set_xlim(0, 1.12 * max(values))


def main():
    what = json.load(sys.stdin)
    pyplot = figure.begin()
    heights = [0.9 + 0.32 * len(panel["bars"]) for panel in what["panels"]]
    drawn, axes = pyplot.subplots(len(heights), 1, figsize=(7.5, sum(heights)), height_ratios=heights, squeeze=False)
    for axis, panel in zip(axes.flat, what["panels"]):
        draw_bars(axis, panel)
        axis.set(title=panel["title"], xlabel=panel["xlabel"])
    figure.save(drawn, sys.argv[1], what["panels"][0]["title"], what["note"])


if __name__ == "__main__":
    main()
