# SPDX-License-Identifier: BSD-3-Clause
"""Question 9: CPU time for each byte, at the workers and at the switch."""
import re

import lab as common
from rows import BCUBE, INT16, INT32, MPI, RANKS16, RANKS32, RING, Entry

QUESTION = "How many cycles does a byte cost, and how many cores does a fast link need?"
METHODS = (INT32, INT16, RANKS32, RANKS16, RING, BCUBE, MPI)
LINKS = (10, 25, 100)  # Gbit/s
TITLES = {"100mbit": "100 Mbit/s (one bar is cut)", "unshaped": "links without a limit"}


def clock_hz():
    """The clock that the kernel reports for the first core."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        found = re.search(r"cpu MHz\s*:\s*([\d.]+)", info.read())
    if not found:
        raise common.Skipped("/proc/cpuinfo does not tell the clock of the cores")
    return float(found[1]) * 1e6


def run(lab):
    hertz, rows = clock_hz(), []
    n_workers, entries = 4, [Entry(method) for method in METHODS]
    size = lab.choose(2_000_000, 4_000_000, 200_000)
    for rate in ("100mbit", "unshaped"):
        # CPU time is counted by whole cells, so each sample is one.
        samples = lab.samples(lab.choose(2, 8, 1), n_workers, rate, size, entries, 2)
        for sample, results in enumerate(samples):
            for result in results:
                rows.append({"method": result.entry.method.name, "links": rate, "sample": sample,
                             "title": result.entry.method.title, **common.row_of(result)})
    return {"workers": n_workers, "bytes": size, "hertz": hertz, "tcp": lab.tcp, "rows": rows}


def cycles(data, method, links, who):
    """Cycles a byte of the tensor, by sample; who: worker or switch."""
    return [row[f"{who}_cpu_s_a_call"] * data["hertz"] / row["bytes"] for row in data["rows"]
            if row["method"] == method and row["links"] == links and "seconds" in row]


def draw(data, plt):
    figure, axes = plt.subplots(2, 1, figsize=(9, 8))
    for axis, links in zip(axes, ("100mbit", "unshaped")):
        for who, offset, color in (("worker", -0.2, "C0"), ("switch", 0.2, "C1")):
            for i, method in enumerate(METHODS):
                values = cycles(data, method.name, links, who)
                if not values or max(values) == 0:
                    continue
                if who == "switch" and method not in (INT32, INT16):
                    continue
                found = common.summary(values)
                axis.bar(i + offset, found["median"], 0.38, color=color, capsize=3,
                         yerr=[[found["median"] - found["q1"]], [found["q3"] - found["median"]]],
                         label=f"a {who}" if i == 0 else None)
                # A waiting rank that spins would make all other bars too small to be read.
                if method is MPI and links == "100mbit":
                    axis.annotate(f"{found['median']:.0f}", (i + offset, 0.9), ha="center",
                                  xycoords=("data", "axes fraction"), color="white")
        axis.set_xticks(range(len(METHODS)), [m.title.split(" (")[0].replace(", ", "\n")
                                              for m in METHODS], fontsize=8)
        if links == "100mbit":
            others = [found for method in METHODS[:-1] for who in ("worker", "switch")
                      for found in cycles(data, method.name, links, who)]
            axis.set_ylim(0, 1.15 * max(others, default=1))
        axis.set(title=f"{data['workers']} workers, {TITLES[links]}",
                 ylabel="cycles a byte of the tensor (median, quartiles)")
    axes[0].legend()
    return figure


def cores(data, method, who, gbit):
    """Cores that are busy if the link carries this many bits of elements a second."""
    found = cycles(data, method, "unshaped", who)
    share = 0.5 if "int16" in method else 1.0  # bytes on the wire for a byte of the tensor
    return common.summary(found)["median"] * gbit * 1e9 / 8 / share / data["hertz"]


def facts(data):
    yield (f"{data['workers']} workers, {data['bytes'] / 1e6:g} MB a call; a cycle is 1/{data['hertz'] / 1e9:.2f} ns."
           f"\n\n| cycles a byte | a worker, 100 Mbit/s | a worker, unshaped | the switch, 100 Mbit/s "
           "| the switch, unshaped |\n|---|---:|---:|---:|---:|")
    for method in METHODS:
        cells = []
        for who in ("worker", "switch"):
            for links in ("100mbit", "unshaped"):
                values = cycles(data, method.name, links, who)
                has = values and (who == "worker" or method in (INT32, INT16))
                found = common.summary(values) if has else None
                cells.append(f"{found['median']:.1f} ({found['q1']:.1f}–{found['q3']:.1f})"
                             if found else "-")
        yield f"| {method.title} | " + " | ".join(cells) + " |"
    yield "\n| cores at full link | " + " | ".join(f"{gbit} Gbit/s" for gbit in LINKS) + " |"
    yield "|---|" + len(LINKS) * "---:|"
    for method, who in ((INT32, "worker"), (INT16, "worker"), (INT32, "switch"), (RING, "worker"),
                        (MPI, "worker")):
        if not cycles(data, method.name, "unshaped", who):
            continue
        count = f" for {data['workers']} workers" if who == "switch" else ""
        yield (f"| {method.title}: a {who}{count} | " + " | ".join(
            f"{cores(data, method.name, who, gbit):.1f}" for gbit in LINKS) + " |")
    yield "\nThe second table is computed from the CPU time on unshaped links; no such link was measured."
