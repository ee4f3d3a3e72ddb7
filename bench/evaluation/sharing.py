# SPDX-License-Identifier: BSD-3-Clause
"""Question 7: several jobs on one switch, and a job beside TCP."""
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from lab import Skipped
from methods import SwitchML
from star import Star
from table import Cell, Table, between, median, quartiles

QUESTION = "Do jobs on one switch share fairly, with one another and with TCP?"
RATE, N_WORKERS, SIZE = 100, 4, 1_000_000
BURST_CALLS, PAUSE_S = 5, 0.4
CALLS_BEFORE_TCP = 4
SLOTS = (32, 64)  # fewer than the packets that a job has in a queue by itself
TCP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tcp_stream.py")


class Job(SwitchML):
    """A job on a switch that the first of several jobs starts. shared: of all, its process and its addresses."""

    def __init__(self, name, shared, **environment):
        super().__init__(name, name, **environment)
        self.shared = shared

    def start_switches(self, group):
        # The switch of a job that could not start has ended with it.
        if not self.shared or self.shared[0].poll() is not None:
            addresses = super().start_switches(group)
            self.shared[:] = group.helpers["switch"], addresses
        return self.shared[1]


def jobs_of(lab, n, **environment):
    """The groups of jobs."""
    shared = []
    return lab.groups(Star(N_WORKERS, RATE), [Job(f"job{i}", shared, **environment) for i in range(n)])


def calls(group, ends, n_calls, n_bursts=1):
    """All of a job's calls, one after the other; `ends` gets when each ended on the last rank."""
    for _ in range(n_bursts):
        ends += group.run(1, n_calls)
        if n_bursts > 1:
            time.sleep(PAUSE_S)


def share(series, begin, end):
    """Mbit/s of elements in a window, by the ends of calls."""
    return sum(begin < at <= end for at in series) * 8 * SIZE / (end - begin) / 1e6


def together(lab, loads):
    """Run the loads of several jobs at the same time: each is the last arguments of calls().

    Mbit/s of each job while all of them run, and wrong elements."""
    ends = [[] for _ in loads]
    with jobs_of(lab, len(loads)) as groups, ThreadPoolExecutor(len(loads)) as pool:
        for group in groups:
            group.prepare(SIZE, 64)
        list(pool.map(lambda group, series, load: calls(group, series, *load), groups, ends, loads))
        wrong = sum(group.check() for group in groups)
    begin, end = max(series[0] for series in ends), min(series[-1] for series in ends)
    return {"mbit": [share(series, begin, end) for series in ends], "wrong": wrong}


def congestion_controls(lab):
    """Those that are asked about and that the kernel has."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as names:
        available = names.read().split()
    return [name for name in lab.choose(("cubic", "bbr"), ("cubic", "bbr", "reno"), ("cubic",))
            if name in available]


def beside_tcp(lab, tcp, n_streams, n_calls, first, **environment):
    """A job, and streams from worker 0 to worker 1: Mbit/s of both while both run.

    first: who begins, "TCP" or "job". A job that begins before TCP knows the path without TCP's
    queue, and the other one does not."""
    ends = []
    with jobs_of(lab, 1, **environment) as (group,):
        group.prepare(SIZE, 64)
        if first == "job":
            calls(group, [], CALLS_BEFORE_TCP)
        for host, name, *words in (("1", "receiver", "receive", n_streams),
                                   ("0", "sender", "send", n_streams, group.star.address["1"], tcp)):
            group.serve(host, [sys.executable, TCP, *map(str, words)], "ready", name)
        time.sleep(1.5)  # until TCP has found its rate
        calls(group, ends, n_calls)
        wrong = group.check()
        with open(os.path.join(group.work, "receiver"), encoding="ascii") as counts:
            # After "ready", and before a line that is half written.
            seen = [tuple(map(float, line.split())) for line in counts.readlines()[1:] if line[-1] == "\n"]
    inside = [(at, n) for at, n in seen if ends[0] <= at <= ends[-1]]
    if len(inside) < 2:
        raise Skipped("TCP was not seen beside the job")
    (first, before), (last, after) = inside[0], inside[-1]
    return {"mbit": share(ends, ends[0], ends[-1]),
            "tcp_mbit": 8 * (after - before) / (last - first) / 1e6, "wrong": wrong}


def run(lab):
    n_calls, repeats, tcps = lab.choose(8, 16, 8), lab.choose(2, 5, 1), congestion_controls(lab)
    steady, bursty = (n_calls,), (BURST_CALLS, max(2, n_calls // BURST_CALLS))
    scenarios = {"one job": [steady], "two jobs": [steady] * 2, "four jobs": [steady] * 4,
                 "a job and a bursty one": [steady, bursty]}
    jobs, beside = {}, {}
    for name, loads in list(scenarios.items())[lab.choose(0, 0, 1):]:
        lab.say(name)
        jobs[name] = [together(lab, loads) for _ in range(repeats)]
    orders = lab.choose(((1, "TCP"), (1, "job")), ((1, "TCP"), (1, "job"), (2, "TCP"), (4, "TCP")))
    rows = [(tcp, *order, {}) for order in orders for tcp in tcps]
    rows += [(tcp, 1, "TCP", {"SWITCHML_SLOTS": str(n)}) for tcp in tcps[:lab.choose(1, 2, 0)] for n in SLOTS]
    for tcp, n_streams, first, slots in rows:
        name = (f"{tcp}, {n_streams} stream{'s' * (n_streams > 1)}" + "; the job first" * (first == "job")
                + "".join(f"; {n} slots" for n in slots.values()))
        lab.say(f"beside TCP with {name}")
        beside[name] = [beside_tcp(lab, tcp, n_streams, n_calls, first, **slots) for _ in range(repeats)]
    return {"workers": N_WORKERS, "rate_mbit": RATE, "bytes": SIZE, "jobs": jobs, "tcp": beside}


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(share ** 2 for share in shares))


def facts(data):
    yield f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, calls of {data['bytes'] / 1e6:g} MB.\n"
    table = Table("jobs on one switch", "Mbit/s of each job", "Jain's index", align="|---|---|",
                  what="Mbit/s of elements (median, quartiles)", digits=1)
    for name, runs in data["jobs"].items():
        shares = [quartiles(values) for values in zip(*[one["mbit"] for one in runs])]
        even = "-" if len(shares) == 1 or "bursty" in name else between(quartiles([jain(one["mbit"]) for one in runs]), 3)
        table.add(name, Cell(", ".join(f"{mbit:.1f}" for _, mbit, _ in shares), shares), even)
    yield table
    yield ""
    table = Table("TCP beside the job", "ours, Mbit/s", "TCP, Mbit/s", "ours / TCP",
                  what="Mbit/s of the job's elements, or of TCP's stream (median, quartiles)", digits=1)
    for name, runs in data["tcp"].items():
        ours, tcp = ([one[what] for one in runs] for what in ("mbit", "tcp_mbit"))
        table.add(name, *(Cell(f"{median(mbit):.1f}", (quartiles(mbit),)) for mbit in (ours, tcp)),
                  Cell(between(quartiles([mbit / other for mbit, other in zip(ours, tcp)])), ()))
    yield table
    runs = [one for what in ("jobs", "tcp") for rows in data[what].values() for one in rows]
    yield f"\nWrong elements in all of these runs: {sum(one['wrong'] for one in runs)}."
