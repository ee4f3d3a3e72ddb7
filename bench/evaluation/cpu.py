# SPDX-License-Identifier: BSD-3-Clause
"""Question 9: CPU time for each byte, at the workers and at the switch."""
import re

import lab as common
from rows import BCUBE, INT16, INT32, MPI, RANKS16, RANKS32, RING, Entry

QUESTION = "How many cycles does a byte cost, and how many cores does a fast link need?"
METHODS = (INT32, INT16, RANKS32, RANKS16, RING, BCUBE, MPI)
GBITS = (10, 25, 100)  # of links
LINKS = {"100mbit": "100 Mbit/s", "unshaped": "unshaped"}
TITLES = {"100mbit": "100 Mbit/s (one bar is cut)", "unshaped": "links without a limit"}


def clock_hz():
    """The clock that the kernel reports for the first core."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        found = re.search(r"cpu MHz\s*:\s*([\d.]+)", info.read())
    if not found:
        raise common.Skipped("/proc/cpuinfo does not tell the clock of the cores")
    return float(found[1]) * 1e6


def run(lab):
    rows, n_workers, size = [], 4, lab.choose(2_000_000, 4_000_000, 200_000)
    for links in LINKS:
        # CPU time is counted by whole cells, so each sample is one.
        samples = lab.samples(lab.choose(2, 8, 1), n_workers, links, size, map(Entry, METHODS), 2)
        rows += [{"links": links, "sample": sample, **common.row_of(result)}
                 for sample, results in enumerate(samples) for result in results]
    return {"workers": n_workers, "bytes": size, "hertz": clock_hz(), "tcp": lab.tcp, "rows": rows}


def cycles(data, method, links, who):
    """Cycles a byte of the tensor: quartiles of the samples, or None. who: worker or switch."""
    found = [row[f"{who}_cpu_s_a_call"] * data["hertz"] / row["bytes"] for row in data["rows"]
             if row["method"] == method.name and row["links"] == links and "seconds" in row]
    has = found and (who == "worker" or method in (INT32, INT16))
    return common.quartiles(found) if has else None


def draw(data, plt):
    figure, axes = plt.subplots(2, 1, figsize=(9, 8))
    for axis, links in zip(axes, LINKS):
        for who, offset, color in (("worker", -0.2, "C0"), ("switch", 0.2, "C1")):
            found = {i + offset: cycles(data, method, links, who) for i, method in enumerate(METHODS)}
            found = {at: value for at, value in found.items() if value}
            common.bars(axis, found.keys(), list(found.values()), 0.38, color=color, label=f"a {who}")
        axis.set_xticks(range(len(METHODS)), [m.title.split(" (")[0].replace(", ", "\n") for m in METHODS], fontsize=8)
        axis.set(title=f"{data['workers']} workers, {TITLES[links]}",
                 ylabel="cycles a byte of the tensor (median, quartiles)")
    # A waiting rank that spins would make all other bars too small to be read.
    spins = cycles(data, MPI, "100mbit", "worker")
    if spins:
        axes[0].annotate(f"{spins[1]:.0f}", (METHODS.index(MPI) - 0.2, 0.9), ha="center",
                         xycoords=("data", "axes fraction"), color="white")
    others = [found[2] for method in METHODS[:-1] for who in ("worker", "switch")
              if (found := cycles(data, method, "100mbit", who))]
    axes[0].set_ylim(0, 1.15 * max(others, default=1))
    axes[0].legend()
    return figure


def cores(data, method, who, gbit):
    """Cores that are busy if the link carries this many bits of elements a second."""
    return cycles(data, method, "unshaped", who)[1] * gbit * 1e9 / 8 / method.wire_share / data["hertz"]


def facts(data):
    yield (f"{data['workers']} workers, {data['bytes'] / 1e6:g} MB a call; a cycle is 1/{data['hertz'] / 1e9:.2f} ns.\n")
    kinds = [(who, links) for who in ("worker", "switch") for links in LINKS]
    yield common.header("cycles a byte", *(f"{'a' if who == 'worker' else 'the'} {who}, {LINKS[links]}"
                                           for who, links in kinds))
    for method in METHODS:
        found = [cycles(data, method, links, who) for who, links in kinds]
        yield common.row(method.title, *(common.between(value, 1) if value else "-" for value in found))
    yield "\n" + common.header("cores at full link", *(f"{gbit} Gbit/s" for gbit in GBITS))
    for method, who in ((INT32, "worker"), (INT16, "worker"), (INT32, "switch"), (RING, "worker"),
                        (MPI, "worker")):
        if cycles(data, method, "unshaped", who):
            count = f" for {data['workers']} workers" if who == "switch" else ""
            yield common.row(f"{method.title}: a {who}{count}",
                             *(f"{cores(data, method, who, gbit):.1f}" for gbit in GBITS))
    yield "\nThe second table is computed from the CPU time on unshaped links; no such link was measured."
