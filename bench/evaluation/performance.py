# SPDX-License-Identifier: BSD-3-Clause
"""The targets of docs/internals/performance.md, and each method beside Gloo's ring."""
import os

import figure
import measure
import report
import rows
import targets
from table import Table

QUESTION = "Which targets does the library reach, on emulated links beside other libraries?"
NOT_KEPT = ("panels",)
# Those of the chart; the table has others.
CELLS = ("8x/1gbit/mtu1500/10MB", "8x/100mbit/mtu1500/10MB", "8x/100mbit/mtu1500/5MB")


def run(lab):
    every, runs = [cell for cell in rows.all_cells() if cell.target], lab.choose(6, 30, 2)
    results = [one for found in measure.run_all(lab.choose(every, every, every[:1]), runs) for one in found]
    panels = [{"title": report.title(cell), "bars": bars} for cell, bars in report.beside_ring(results)
              if cell.name() in CELLS]
    return {"tcp": lab.tcp, "runs": runs, "cores": os.cpu_count(), "targets": targets.to_json(results),
            "panels": panels}


def color(title, value):
    return figure.OTHERS if title.startswith(("Gloo", "Open MPI")) else figure.LOSES if value < 0.97 else figure.OURS


def beside_ring(title, bars, ring="Gloo's ring"):
    """bars: [what, speed]."""
    table = Table(title, "speed", what=f"speed relative to {ring} (1 = the same)", color=color)
    for label, value in bars:
        table.add(label, value)
    return table


def drawn(data):
    return [beside_ring(panel["title"], panel["bars"]) for panel in data["panels"]]


def facts(data):
    yield (f"At least {data['runs']} runs a row, TCP with {data['tcp']}.\n"
           f"**Links are emulated, and all hosts share these {data['cores']} cores.**\n")
    table = Table("", "wanted", "measured", align="|---|---|")
    for row in data["targets"]:
        bold = "" if row["met"] else "**"
        table.add(row["what"], f"{'≥' if row['how'] == 'at least' else '≤'} {row['target']:g}",
                  row["measured"] if row["measured"] is None else f"{bold}{row['measured']:.2f}{bold}")
    yield table
