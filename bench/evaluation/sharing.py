# SPDX-License-Identifier: BSD-3-Clause
"""Question 7: several jobs on one switch, and a job beside TCP."""
import itertools
import os
import subprocess
import sys
import threading

import lab as common
from group import Group
from methods import SwitchML

QUESTION = "Do jobs on one switch share fairly, with one another and with TCP?"
RATE, N_WORKERS, SIZE = 100, 4, 1_000_000
FASTER = (400, 1000)  # Mbit/s; calls get larger, so that they take as long
BURST_CALLS, PAUSE_MS = 5, 400
CALLS_BEFORE_TCP = 4
SLOTS = (32, 64)  # fewer than the packets that a job has in a queue by itself
TCP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tcp_stream.py")


class Job(SwitchML):
    """A job on a switch that runs already, or that its first job starts."""

    def __init__(self, name, **environment):
        super().__init__(name, name, **environment)
        self.address = None

    def switches(self):
        return {"port": 0}

    def start_switch(self, group, host):
        self.address = self.address or super().start_switch(group, host)
        return self.address


def calls(group, n_calls, ends):
    """All of a job's calls, one after the other; `ends` gets when each ended on the last rank."""
    answers = group.tell(f"run 1 {n_calls} 1", 120)
    ends += [max(map(int, run)) / 1e9 for run in zip(*answers)]


def bursts(group, n_bursts, ends):
    for _ in range(n_bursts):
        calls(group, BURST_CALLS, ends)
        group.tell(f"rest {PAUSE_MS}", 60)


def share(series, begin, end, size=SIZE):
    """Mbit/s of elements in a window, by the ends of calls of `size` bytes."""
    return sum(begin < at <= end for at in series) * 8 * size / (end - begin) / 1e6


def check(groups):
    wrong = 0
    for group in groups:
        wrong += sum(int(answer[0]) for answer in group.tell("check", 600))
    return wrong


def together(lab, loads):
    """Run the loads of several jobs at the same time: each a function of a group and a list.

    Mbit/s of each job while all of them run, and wrong elements."""
    methods = [Job(f"job{i}") for i in range(len(loads))]
    groups, ends = [], [[] for _ in loads]
    with lab.star(N_WORKERS, RATE, {"port": 0}) as (star, work):
        try:
            for method in methods:
                method.address = methods[0].address
                group = Group(method, star, work, lab.build)
                groups.append(group)
                group.start()
                group.prepare(SIZE, 64)
            threads = [threading.Thread(target=load, args=(group, series))
                       for load, group, series in zip(loads, groups, ends)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            wrong = check(groups)
        finally:
            for group in reversed(groups):  # the first one has the switch, which the others leave
                group.stop()
    if not all(ends):
        raise common.Skipped("a job did not run")
    begin, end = max(series[0] for series in ends), min(series[-1] for series in ends)
    return {"mbit": [share(series, begin, end) for series in ends], "wrong": wrong}


def congestion_controls(lab):
    """Those that are asked about and that the kernel has."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control", encoding="ascii") as names:
        available = names.read().split()
    return [name for name in lab.choose(("cubic", "bbr"), ("cubic", "bbr", "reno"), ("cubic",))
            if name in available]


def beside_tcp(lab, tcp, n_streams, n_calls, first="TCP", rate=RATE, **environment):
    """A job, and streams from worker 0 to worker 1: Mbit/s of both while both run.

    first: who begins, "TCP" or "job". A job that begins before TCP knows the path without TCP's
    queue, and the other one does not."""
    method, ends, streams, size = Job("job", **environment), [], [], SIZE * rate // RATE
    with lab.star(N_WORKERS, rate, method.switches()) as (star, work):
        group = Group(method, star, work, lab.build)
        counts = os.path.join(work, "received")
        try:
            group.start()
            group.prepare(size, 64)
            if first == "job":
                calls(group, CALLS_BEFORE_TCP, [])
            with open(counts, "wb") as out:
                receiver = subprocess.Popen(
                    star.inside("1") + [sys.executable, TCP, "receive", str(n_streams)],
                    stdout=out, stdin=subprocess.DEVNULL)
                streams.append(receiver)
                streams.append(subprocess.Popen(
                    star.inside("0") + [sys.executable, TCP, "send", star.address["1"],
                                        str(n_streams), tcp], stdin=subprocess.DEVNULL))
            group.tell("rest 1500", 60)  # until TCP has found its rate
            calls(group, n_calls, ends)
            wrong = check([group])
        finally:
            # The sender first, so that nothing resets it.
            for stream in reversed(streams):
                stream.kill()
                stream.wait()
            group.stop()
        with open(counts, encoding="ascii") as file:
            seen = [tuple(map(float, line.split())) for line in file]
    inside = [(at, n) for at, n in seen if ends[0] <= at <= ends[-1]]
    if len(inside) < 2:
        raise common.Skipped("TCP was not seen beside the job")
    (first, before), (last, after) = inside[0], inside[-1]
    return {"mbit": share(ends, ends[0], ends[-1], size),
            "tcp_mbit": 8 * (after - before) / (last - first) / 1e6, "wrong": wrong}


def beside_name(tcp, n_streams, first):
    return (f"{tcp}, {n_streams} stream{'s' * (n_streams > 1)}"
            + ("; the job first" if first == "job" else ""))


def run(lab):
    n_calls, repeats = lab.choose(8, 16, 8), lab.choose(2, 5, 1)

    def steady(group, ends):
        calls(group, n_calls, ends)

    def bursty(group, ends):
        bursts(group, max(2, n_calls // BURST_CALLS), ends)

    scenarios = {"one job": [steady], "two jobs": [steady] * 2, "four jobs": [steady] * 4,
                 "a job and a bursty one": [steady, bursty]}
    jobs = {}
    for name, loads in scenarios.items():
        if lab.form == "smallest" and len(loads) == 1:
            continue
        lab.say(name)
        jobs[name] = [together(lab, loads) for _ in range(repeats)]
    beside = {}
    for n_streams, first in lab.choose(((1, "TCP"), (1, "job")), (
            (1, "TCP"), (1, "job"), (2, "TCP"), (4, "TCP")), ((1, "TCP"), (1, "job"))):
        for tcp in congestion_controls(lab):
            name = beside_name(tcp, n_streams, first)
            lab.say(f"beside TCP with {name}")
            beside[name] = [beside_tcp(lab, tcp, n_streams, n_calls, first)
                            for _ in range(repeats)]
    fewer = {}
    for tcp in congestion_controls(lab)[:lab.choose(1, 2, 0)]:
        for slots in SLOTS:
            lab.say(f"{slots} slots beside TCP with {tcp}")
            fewer[f"{tcp}, 1 stream; {slots} slots"] = [
                beside_tcp(lab, tcp, 1, n_calls, "TCP",
                           SWITCHML_SLOTS=str(slots)) for _ in range(repeats)]
    faster = {}
    for rate in lab.choose((), FASTER):
        for first, tcp in itertools.product(("TCP", "job"), congestion_controls(lab)[:2]):
            name = beside_name(tcp, 1, first)
            lab.say(f"{rate} Mbit/s, beside TCP with {name}")
            faster.setdefault(str(rate), {})[name] = [
                beside_tcp(lab, tcp, 1, n_calls, first, rate) for _ in range(repeats)]
    return {"workers": N_WORKERS, "rate_mbit": RATE, "bytes": SIZE, "jobs": jobs, "tcp": beside,
            "fewer_slots": fewer, "faster": faster}


def beside_rows(data):
    """(name, Mbit/s of the links, runs) of every row with TCP."""
    for name, runs in (data["tcp"] | data["fewer_slots"]).items():
        yield name, data["rate_mbit"], runs
    for rate, rows in data["faster"].items():
        for name, runs in rows.items():
            yield f"{rate} Mbit/s; {name}", int(rate), runs


def jain(shares):
    return sum(shares) ** 2 / (len(shares) * sum(share ** 2 for share in shares))


def bar(axis, at, values, color, label=None):
    found = common.summary(values)
    axis.barh(at, found["median"], 0.36, color=color, capsize=3, label=label,
              xerr=[[found["median"] - found["q1"]], [found["q3"] - found["median"]]])


def draw(data, plt):
    shown = list(beside_rows(data))
    n_rows = len(shown)
    figure, axes = plt.subplots(2, 1, figsize=(9, 5 + 0.3 * n_rows), sharex=True,
                                height_ratios=(4, 1 + 0.3 * n_rows))
    at, ticks = 0.0, []
    for name, runs in data["jobs"].items():
        n_jobs = len(runs[0]["mbit"])
        ticks.append((at + 0.2 * (n_jobs - 1), name))
        for i in range(n_jobs):
            bar(axes[0], at, [100 * one["mbit"][i] / data["rate_mbit"] for one in runs], f"C{i}")
            at += 0.4
        at += 0.6
    axes[0].set_yticks([t for t, _ in ticks], [name for _, name in ticks])
    axes[0].set(title=f"jobs on one switch, {data['rate_mbit']} Mbit/s, a bar for each job")
    for i, (name, rate, runs) in enumerate(shown):
        bar(axes[1], i - 0.2, [100 * one["mbit"] / rate for one in runs], "C0",
            "ours" if i == 0 else None)
        bar(axes[1], i + 0.2, [100 * one["tcp_mbit"] / rate for one in runs], "C1",
            "TCP" if i == 0 else None)
    axes[1].set_yticks(range(n_rows), [name for name, _, _ in shown])
    axes[1].set(title="a job beside TCP from worker 0 to worker 1",
                xlabel="elements, % of the link's rate (median, quartiles)")
    axes[1].legend()
    for axis in axes:
        axis.invert_yaxis()
    return figure


def facts(data):
    yield f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, calls of {data['bytes'] / 1e6:g} MB.\n"
    yield "| | Mbit/s of each job | Jain's index |\n|---|---|---:|"
    for name, runs in data["jobs"].items():
        shares = [common.summary([one["mbit"][i] for one in runs])["median"]
                  for i in range(len(runs[0]["mbit"]))]
        index = common.summary([jain(one["mbit"]) for one in runs])
        even = "-" if len(shares) == 1 or "bursty" in name else \
            f"{index['median']:.3f} ({index['q1']:.3f}–{index['q3']:.3f})"
        yield f"| {name} | {', '.join(f'{mbit:.1f}' for mbit in shares)} | {even} |"
    yield "\n| TCP beside the job | ours, Mbit/s | TCP, Mbit/s | ours / TCP |\n|---|---:|---:|---:|"
    for name, _, runs in beside_rows(data):
        ours = common.summary([one["mbit"] for one in runs])
        tcp = common.summary([one["tcp_mbit"] for one in runs])
        ratio = common.summary([one["mbit"] / one["tcp_mbit"] for one in runs])
        yield (f"| {name} | {ours['median']:.1f} | {tcp['median']:.1f} | {ratio['median']:.2f} "
               f"({ratio['q1']:.2f}–{ratio['q3']:.2f}) |")
    runs = [one for rows in data["jobs"].values() for one in rows]
    runs += [one for _, _, rows in beside_rows(data) for one in rows]
    yield f"\nWrong elements in all of these runs: {sum(one['wrong'] for one in runs)}."
