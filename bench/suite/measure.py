# SPDX-License-Identifier: BSD-3-Clause
"""Runs a cell: its entries alternate, so that other load on the machine slows them all.

The time of a run is measured from the previous run's end on the last rank to this run's end
on the last rank, by the one clock that all ranks share. A turn begins with warm-ups, which
are not measured. Every result is checked while the clock does not run.
"""
import collections
import math
import time
from dataclasses import dataclass, field

from group import Failed, opened

TICKS = 100  # ticks of /proc/stat per second
REST_SECONDS = 2


@dataclass
class Result:
    cell: object
    entry: object
    times: list = field(default_factory=list)  # seconds
    calls: int = 0  # warm-ups and runs that the following sums cover
    cpu_ranks: float = 0
    cpu_others: float = 0
    elapsed: float = 0
    busy: float = 0  # core seconds of the whole machine
    wire: collections.Counter = field(default_factory=collections.Counter)  # of Star.wire()
    wrong: int = 0
    failure: str = ""

    def quantile(self, q):
        ordered = sorted(self.times)
        return ordered[max(0, math.ceil(q * len(ordered)) - 1)]

    def p50(self):
        return self.quantile(0.5)

    def cpu_a_call(self):
        return (self.cpu_ranks + self.cpu_others) / self.calls

    def spread(self):
        return (self.quantile(0.75) - self.quantile(0.25)) / self.p50()


@dataclass
class Plan:
    warmups: int
    runs: int
    turns: int


def plan(size_bytes, runs):
    warmups, a_turn = next(shape for most, *shape in (
        (4096, 20, 100), (65536, 5, 20), (1 << 20, 2, 10), (16 << 20, 1, 3), (1 << 40, 1, 1))
        if size_bytes <= most)
    a_turn = min(a_turn, max(1, runs if runs < 3 else runs // 3)) if size_bytes > 4096 else a_turn
    return Plan(warmups, a_turn, max(2, math.ceil(runs / a_turn)))


def busy_seconds():
    """CPU time of all cores since boot, without idle and waiting time."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq, steal, *_ = map(int, stat.readline().split()[1:])
    return (user + nice + system + irq + softirq + steal) / TICKS


def busy_cores(seconds):
    """How many cores compute while this program waits. The load average would still have the past in it."""
    before = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - before) / seconds


class Turn:
    """Values read before and after the calls of a turn."""

    def __init__(self, group):
        self.group = group
        self.wire = group.star.wire()
        self.cpu = group.cpu_seconds()
        self.busy = busy_seconds()
        self.began = time.monotonic()

    def end(self, result, calls):
        result.elapsed += time.monotonic() - self.began
        result.busy += busy_seconds() - self.busy
        cpu, wire = self.group.cpu_seconds(), self.group.star.wire()
        result.calls += calls
        result.cpu_ranks += cpu[0] - self.cpu[0]
        result.cpu_others += cpu[1] - self.cpu[1]
        result.wire.update({name: wire[name] - self.wire[name] for name in wire})


def take_turn(group, entry, how, seconds, result):
    group.star.lose(entry.loss)
    turn = Turn(group)
    if entry.rest:
        time.sleep(REST_SECONDS)  # the ranks wait for a command
        turn.end(result, 1)
        result.times.append(REST_SECONDS)
        return
    ends = group.run(how.warmups, how.runs, entry.pieces, seconds)
    turn.end(result, how.warmups + how.runs)
    result.times += [after - before for before, after in zip(ends, ends[1:])]
    group.star.lose(0)
    result.wrong += group.check()
    if result.wrong:
        raise Failed(f"{result.wrong} wrong elements")


def run_cell(cell, groups, runs, seconds_at_least, enough=None):
    """groups: by method, either started or an exception with the reason. Yields results.

    enough: (runs, seconds): an entry that has had both gets no further turn."""
    results = [Result(cell, entry) for entry in cell.entries]
    how = plan(cell.size_bytes, runs)
    for method in dict.fromkeys(entry.method for entry in cell.entries):
        if not isinstance(groups[method], Exception):
            groups[method].prepare(cell.size_bytes, max(how.runs, how.warmups), 1 + cell.size_bytes % 1000, 600)
    began, turn = time.monotonic(), 0
    while turn < how.turns or time.monotonic() - began < seconds_at_least:
        # The order rotates, so no method always follows the same one.
        order = results[turn % len(results):] + results[:turn % len(results)]
        for result in order:
            group = groups[result.entry.method]
            if result.failure or isinstance(group, Exception):
                result.failure = result.failure or str(group)
                continue
            if enough and len(result.times) >= enough[0] and result.elapsed >= enough[1]:
                continue
            limit = 60 + 40 * (how.warmups + how.runs) * cell.limit_seconds(result.entry.method)
            try:
                take_turn(group, result.entry, how, limit, result)
            except Failed as failure:
                result.failure = str(failure)
                groups[result.entry.method] = failure
        turn += 1
    for group in groups.values():
        if not isinstance(group, Exception):
            group.star.lose(0)
    return results


def run_cells(cells, runs, seconds_at_least=0, enough=None, times=1):
    """Build a star for these cells, and run each so many times. Yields each time's results of a cell."""
    methods = [entry.method for cell in cells for entry in cell.entries]
    with opened(cells[0].new_star(), methods) as groups:
        for cell in cells:
            for _ in range(times):
                yield run_cell(cell, groups, runs, seconds_at_least, enough)


def run_all(cells, runs, seconds_at_least=0):
    """Each cell's results, star by star."""
    by_star = {}
    for cell in cells:
        by_star.setdefault(cell.star(), []).append(cell)
    for same in by_star.values():
        yield from run_cells(same, runs, seconds_at_least)
