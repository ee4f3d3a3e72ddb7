# SPDX-License-Identifier: BSD-3-Clause
"""The targets of docs/internals/performance.md, and each method beside Gloo's ring."""
import os

import figure as style
import lab as common
import measure
import report
import rows
import targets

QUESTION = "Which targets does the library reach, on emulated links beside other libraries?"
ONLY_DRAWN = ("panels",)
# Those of the chart; the table has others.
CELLS = ("8x/1gbit/mtu1500/10MB", "8x/100mbit/mtu1500/10MB", "8x/100mbit/mtu1500/5MB")
RELATIVE = "speed relative to Gloo's ring (1 = the same)"


def run(lab):
    every, runs = [cell for cell in rows.all_cells() if cell.target], lab.choose(6, 30, 2)
    results = measure.run_all(lab.choose(every, every, every[:1]), runs)
    panels = [{"title": report.title(cell), "bars": bars} for cell, bars in report.beside_ring(results)
              if cell.name() in CELLS]
    return {"tcp": lab.tcp, "runs": runs, "cores": os.cpu_count(), "targets": targets.to_json(results),
            "panels": panels}


def draw_bars(axis, bars, title, xlabel=RELATIVE):
    """bars: [what, speed]."""
    labels, values = zip(*bars)
    colors = [style.OTHERS if label.startswith(("Gloo", "Open MPI")) else
              style.LOSES if value < 0.97 else style.OURS for label, value in bars]
    axis.barh(range(len(bars)), values, 0.7, color=colors)
    for i, value in enumerate(values):
        # Above the line at 1, if it is there.
        axis.text(value + 0.01 * max(values), i, f"{value:.2f}", va="center",
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})
    axis.axvline(1, color="black", linewidth=1)
    axis.set_yticks(range(len(bars)), labels)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.set(title=title, xlabel=xlabel, xlim=(0, 1.12 * max(values)))


def draw(data, plt):
    heights = [0.9 + 0.32 * len(panel["bars"]) for panel in data["panels"]]
    figure, axes = plt.subplots(len(heights), 1, figsize=(7.5, sum(heights)), height_ratios=heights, squeeze=False)
    for axis, panel in zip(axes.flat, data["panels"]):
        draw_bars(axis, panel["bars"], panel["title"])
    return figure


def facts(data):
    yield (f"At least {data['runs']} runs a row, TCP with {data['tcp']}.\n"
           f"**Links are emulated, and all hosts share these {data['cores']} cores.**\n")
    yield "| | wanted | measured |\n|---|---|---:|"
    for row in data["targets"]:
        bold = "" if row["met"] else "**"
        yield common.row(row["what"], f"{'≥' if row['how'] == 'at least' else '≤'} {row['target']:g}",
                         "not measured" if row["measured"] is None else f"{bold}{row['measured']:.2f}{bold}")
