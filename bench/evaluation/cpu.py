# SPDX-License-Identifier: BSD-3-Clause
"""Question 9: CPU time for each byte, at the workers and at the switch."""
import re

from lab import Skipped
from rows import BCUBE, INT16, INT32, MPI, RANKS16, RANKS32, RING, Entry
from table import Table, quartiles

QUESTION = "How many cycles does a byte cost, and how many cores does a fast link need?"
METHODS = (INT32, INT16, RANKS32, RANKS16, RING, BCUBE, MPI)
GBITS = (10, 25, 100)  # of links
LINKS = {"100mbit": "100 Mbit/s", "unshaped": "unshaped"}


def clock_hz():
    """The clock that the kernel reports for the first core."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        found = re.search(r"cpu MHz\s*:\s*([\d.]+)", info.read())
    if not found:
        raise Skipped("/proc/cpuinfo does not tell the clock of the cores")
    return float(found[1]) * 1e6


def run(lab):
    n_workers, size = 4, lab.choose(2_000_000, 4_000_000, 200_000)
    # CPU time is counted by whole cells, so each sample is one.
    rows = [{"links": links, **row} for links in LINKS
            for row in lab.rows(n_workers, links, size, map(Entry, METHODS), 2, times=lab.choose(2, 8, 1))]
    return {"workers": n_workers, "bytes": size, "hertz": clock_hz(), "tcp": lab.tcp, "rows": rows}


def cycles(data, method, links, who):
    """Cycles a byte of the tensor: quartiles of the samples, or None. who: worker or switch."""
    found = [row[f"{who}_cpu_s_a_call"] * data["hertz"] / row["bytes"] for row in data["rows"]
             if row["method"] == method.name and row["links"] == links and "seconds" in row]
    has = found and (who == "worker" or method in (INT32, INT16))
    return quartiles(found) if has else None


def cores(data, method, who, gbit):
    """Cores that are busy if the link carries this many bits of elements a second."""
    return cycles(data, method, "unshaped", who)[1] * gbit * 1e9 / 8 / method.wire_share / data["hertz"]


def facts(data):
    yield (f"{data['workers']} workers, {data['bytes'] / 1e6:g} MB a call; a cycle is 1/{data['hertz'] / 1e9:.2f} ns.\n")
    kinds = [(who, links) for who in ("worker", "switch") for links in LINKS]
    # A waiting rank that spins would make all other bars too small to be read without a logarithmic scale.
    table = Table("cycles a byte", *(f"{'a' if who == 'worker' else 'the'} {who}, {LINKS[links]}" for who, links in kinds),
                  digits=1, missing="-", scale="log", what="cycles a byte of the tensor (median, quartiles)")
    for method in METHODS:
        table.add(method.title, *(cycles(data, method, links, who) for who, links in kinds))
    yield table
    yield ""
    table = Table("cores at full link", *(f"{gbit} Gbit/s" for gbit in GBITS))
    for method, who in ((INT32, "worker"), (INT16, "worker"), (INT32, "switch"), (RING, "worker"),
                        (MPI, "worker")):
        if cycles(data, method, "unshaped", who):
            count = f" for {data['workers']} workers" if who == "switch" else ""
            table.add(f"{method.title}: a {who}{count}", *(f"{cores(data, method, who, gbit):.1f}" for gbit in GBITS))
    yield table
    yield "\nThe second table is computed from the CPU time on unshaped links; no such link was measured."
