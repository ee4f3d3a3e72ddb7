# SPDX-License-Identifier: BSD-3-Clause
"""Question 7: several jobs on one switch, and a job beside TCP."""
import contextlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import lab as common
from group import groups_of
from methods import SwitchML
from star import Star

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


@contextlib.contextmanager
def jobs_of(n, **environment):
    """The groups of jobs that are ready for calls."""
    shared = []
    methods = [Job(f"job{i}", shared, **environment) for i in range(n)]
    with Star(N_WORKERS, RATE).opened(methods[0].switches()) as star, groups_of(methods, star) as groups:
        for group in groups.values():
            if isinstance(group, Exception):
                raise common.Skipped(str(group))
            group.prepare(SIZE, 64)
        yield list(groups.values())


def calls(group, ends, n_calls, n_bursts=1):
    """All of a job's calls, one after the other; `ends` gets when each ended on the last rank."""
    for _ in range(n_bursts):
        answers = group.tell(f"run 1 {n_calls} 1", 120)
        ends += [max(map(int, run)) / 1e9 for run in zip(*answers)]
        if n_bursts > 1:
            time.sleep(PAUSE_S)


def share(series, begin, end):
    """Mbit/s of elements in a window, by the ends of calls."""
    return sum(begin < at <= end for at in series) * 8 * SIZE / (end - begin) / 1e6


def check(group):
    return sum(int(answer[0]) for answer in group.tell("check", 600))


def together(loads):
    """Run the loads of several jobs at the same time: each is the last arguments of calls().

    Mbit/s of each job while all of them run, and wrong elements."""
    ends = [[] for _ in loads]
    with jobs_of(len(loads)) as groups:
        with ThreadPoolExecutor(len(loads)) as pool:
            list(pool.map(lambda group, series, load: calls(group, series, *load), groups, ends, loads))
        wrong = sum(map(check, groups))
    begin, end = max(series[0] for series in ends), min(series[-1] for series in ends)
    return {"mbit": [share(series, begin, end) for series in ends], "wrong": wrong}


def congestion_controls(lab):
    """Those that are asked about and that the kernel has."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as names:
        available = names.read().split()
    return [name for name in lab.choose(("cubic", "bbr"), ("cubic", "bbr", "reno"), ("cubic",))
            if name in available]


def beside_tcp(tcp, n_streams, n_calls, first, **environment):
    """A job, and streams from worker 0 to worker 1: Mbit/s of both while both run.

    first: who begins, "TCP" or "job". A job that begins before TCP knows the path without TCP's
    queue, and the other one does not."""
    ends = []
    with jobs_of(1, **environment) as (group,):
        if first == "job":
            calls(group, [], CALLS_BEFORE_TCP)
        for host, name, *words in (("1", "receiver", "receive", n_streams),
                                   ("0", "sender", "send", n_streams, group.star.address["1"], tcp)):
            group.serve(host, [sys.executable, TCP, *map(str, words)], "ready", name)
        time.sleep(1.5)  # until TCP has found its rate
        calls(group, ends, n_calls)
        wrong = check(group)
        with open(os.path.join(group.work, "receiver"), encoding="ascii") as counts:
            # After "ready", and before a line that is half written.
            seen = [tuple(map(float, line.split())) for line in counts.readlines()[1:] if line[-1] == "\n"]
    inside = [(at, n) for at, n in seen if ends[0] <= at <= ends[-1]]
    if len(inside) < 2:
        raise common.Skipped("TCP was not seen beside the job")
    (first, before), (last, after) = inside[0], inside[-1]
    return {"mbit": share(ends, ends[0], ends[-1]),
            "tcp_mbit": 8 * (after - before) / (last - first) / 1e6, "wrong": wrong}


def run(lab):
    n_calls, repeats, tcps = lab.choose(8, 16, 8), lab.choose(2, 5, 1), congestion_controls(lab)

    def beside(tcp, n_streams=1, first="TCP", slots=None):
        """One row."""
        name = (f"{tcp}, {n_streams} stream{'s' * (n_streams > 1)}" + "; the job first" * (first == "job")
                + (f"; {slots} slots" if slots else ""))
        lab.say(f"beside TCP with {name}")
        environment = {"SWITCHML_SLOTS": str(slots)} if slots else {}
        return name, [beside_tcp(tcp, n_streams, n_calls, first, **environment) for _ in range(repeats)]

    steady, bursty = (n_calls,), (BURST_CALLS, max(2, n_calls // BURST_CALLS))
    scenarios = {"one job": [steady], "two jobs": [steady] * 2, "four jobs": [steady] * 4,
                 "a job and a bursty one": [steady, bursty]}
    jobs = {}
    for name, loads in list(scenarios.items())[lab.choose(0, 0, 1):]:
        lab.say(name)
        jobs[name] = [together(loads) for _ in range(repeats)]
    orders = lab.choose(((1, "TCP"), (1, "job")), ((1, "TCP"), (1, "job"), (2, "TCP"), (4, "TCP")))
    rows = [(tcp, *order) for order in orders for tcp in tcps]
    rows += [(tcp, 1, "TCP", slots) for tcp in tcps[:lab.choose(1, 2, 0)] for slots in SLOTS]
    return {"workers": N_WORKERS, "rate_mbit": RATE, "bytes": SIZE, "jobs": jobs,
            "tcp": dict(beside(*row) for row in rows)}


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(share ** 2 for share in shares))


def of_runs(runs, value):
    return common.quartiles([value(one) for one in runs])


def draw(data, plt):
    shown = data["tcp"]
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(9, 5 + 0.3 * len(shown)), sharex=True,
                                         height_ratios=(4, 1 + 0.3 * len(shown)))
    at, ticks = 0.0, []
    for runs in data["jobs"].values():
        shares = list(zip(*[[100 * mbit / data["rate_mbit"] for mbit in one["mbit"]] for one in runs]))
        ticks.append(at + 0.2 * (len(shares) - 1))
        for i, values in enumerate(shares):
            common.flat_bars(top, [at + 0.4 * i], [common.quartiles(values)], 0.36, color=f"C{i}")
        at += 0.4 * len(shares) + 0.6
    top.set_yticks(ticks, data["jobs"])
    top.set(title=f"jobs on one switch, {data['rate_mbit']} Mbit/s, a bar for each job")
    for offset, color, what, label in ((-0.2, "C0", "mbit", "ours"), (0.2, "C1", "tcp_mbit", "TCP")):
        common.flat_bars(bottom, [i + offset for i in range(len(shown))],
                         [of_runs(runs, lambda one: 100 * one[what] / data["rate_mbit"]) for runs in shown.values()], 0.36,
                         color=color, label=label)
    bottom.set_yticks(range(len(shown)), shown)
    bottom.set(title="a job beside TCP from worker 0 to worker 1",
               xlabel="elements, % of the link's rate (median, quartiles)")
    bottom.legend()
    for axis in (top, bottom):
        axis.invert_yaxis()
    return figure


def facts(data):
    yield f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, calls of {data['bytes'] / 1e6:g} MB.\n"
    yield "| | Mbit/s of each job | Jain's index |\n|---|---|---:|"
    for name, runs in data["jobs"].items():
        shares = [common.quartiles(values)[1] for values in zip(*[one["mbit"] for one in runs])]
        even = "-" if len(shares) == 1 or "bursty" in name else \
            common.between(of_runs(runs, lambda one: jain(one["mbit"])), 3)
        yield common.row(name, ", ".join(f"{mbit:.1f}" for mbit in shares), even)
    yield "\n" + common.header("TCP beside the job", "ours, Mbit/s", "TCP, Mbit/s", "ours / TCP")
    for name, runs in data["tcp"].items():
        yield common.row(name, *(f"{of_runs(runs, lambda one: one[what])[1]:.1f}" for what in ("mbit", "tcp_mbit")),
                         common.between(of_runs(runs, lambda one: one["mbit"] / one["tcp_mbit"])))
    runs = [one for what in ("jobs", "tcp") for rows in data[what].values() for one in rows]
    yield f"\nWrong elements in all of these runs: {sum(one['wrong'] for one in runs)}."
