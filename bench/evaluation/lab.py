# SPDX-License-Identifier: BSD-3-Clause
"""What the experiments share: stars of hosts with groups on them, the simulator, progress.

An experiment is a module of this directory with

    QUESTION        a sentence
    run(lab)        runs it, and returns what is to be kept (JSON)
    draw(data, plt) draws what was kept, and returns a figure
    facts(data)     yields the lines that bench/paper puts into a page of docs/internals
    headline(about, data)  those of README.md, if it has a block

Numbers reach the page only from what run() has returned.
"""
import contextlib
import os
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import measure
import rows
from group import groups_of
from methods import PACKET_LANES
from star import choose_tcp

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What tbf counts of a frame, and what the simulator counts: it adds the check sum, the preamble
# and the gap between frames, which a real link needs and an emulated one does not.
PACKET_BYTES, EMULATED_BYTES, SIMULATED_BYTES = PACKET_LANES * 4 + 40, 42, 66
# (runs, seconds): a method that has had both gets no further runs, so that the slowest ones do not
# take most of the time.
ENOUGH = (6, 20)


class Skipped(Exception):
    """The experiment cannot run here. The text says why."""


def quartiles(values):
    """Of one value or more: the first quartile, the median, and the third."""
    if len(values) == 1:
        return [values[0]] * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def summary(values):
    low, middle, high = quartiles(values)
    return {"median": middle, "q1": low, "q3": high, "n": len(values), "values": list(values)}


def triple(found):
    """Of a summary: the first quartile, the median, and the third."""
    return [found["q1"], found["median"], found["q3"]]


def rates(found, amount):
    """The same, of amount divided by each value."""
    return [amount / value for value in reversed(triple(found))]


# ---- for figures and tables: values are [first quartile, median, third quartile] ----


def whiskers(values):
    return [[v[1] - v[0] for v in values], [v[2] - v[1] for v in values]]


def line(axis, at, values, **style):
    axis.errorbar(at, [v[1] for v in values], yerr=whiskers(values), **{"capsize": 2, **style})


def bars(axis, at, values, width, **style):
    axis.bar(at, [v[1] for v in values], width, yerr=whiskers(values), **{"capsize": 2, **style})


def flat_bars(axis, at, values, height, **style):
    axis.barh(at, [v[1] for v in values], height, xerr=whiskers(values), **{"capsize": 3, **style})


def between(values, digits=2):
    low, middle, high = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({low}–{high})"


def row(*cells):
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def header(*cells):
    return row(*cells) + "\n|---|" + (len(cells) - 1) * "---:|"


class Lab:
    def __init__(self, options):
        self.form = options.form
        self.build = options.build
        self.tcp = choose_tcp()
        self.began = time.monotonic()
        self.name = ""

    def choose(self, quick, full, smallest=None):
        """What this form of the run wants. The smallest one is for tests of the plumbing."""
        if self.form == "full":
            return full
        return quick if smallest is None or self.form != "smallest" else smallest

    def say(self, text):
        seconds = time.monotonic() - self.began
        print(f"[{int(seconds) // 60}:{int(seconds) % 60:02}] {self.name}: {text}",
              file=sys.stderr, flush=True)

    def program(self, name):
        path = os.path.join(self.build, name)
        if not os.path.exists(path):
            raise Skipped(f"{path} was not built: ninja -C {self.build}")
        return path

    # ---- links ----

    def compare(self, n_workers, rate, size_bytes, entries, runs, **traits):
        """Results of bench/suite's measurement: entries in turns, every sum checked.

        rate: a name of rows.RATES; traits: of rows.Cell."""
        return self.samples(1, n_workers, rate, size_bytes, entries, runs, **traits)[0]

    def rows(self, *what, **traits):
        """What is kept of these results."""
        return [row_of(result) for result in self.compare(*what, **traits)]

    def samples(self, n_samples, n_workers, rate, size_bytes, entries, runs, **traits):
        """The same several times, with the same groups: a list of results each."""
        cell = rows.Cell(n_workers, rate, size_bytes, tuple(entries), **traits)
        self.say(f"{cell.name()}: {', '.join(dict.fromkeys(e.name() for e in cell.entries))}")
        return list(measure.run_cells([cell], runs, enough=ENOUGH, times=n_samples))

    @contextlib.contextmanager
    def one(self, n_workers, rate, size_bytes, entry, **traits):
        """A group that does nothing yet, and its result."""
        cell = rows.Cell(n_workers, rate, size_bytes, (entry,), **traits)
        with cell.new_star().opened(entry.method.switches()) as star, groups_of([entry.method], star) as groups:
            group = groups[entry.method]
            if isinstance(group, Exception):
                raise Skipped(str(group))
            yield group, measure.Result(cell, entry)

    # ---- the simulator ----

    def simulate(self, count, wire="int32", **world):
        """Seconds of virtual time for one all-reduce of `count` floats."""
        command = [self.program("tests/sim"), "--seed", "1", "--allreduce", str(count),
                   "--wire", wire]
        for name, value in world.items():
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(r"([\d.]+) ms of virtual time", done.stdout)
        if done.returncode or not found:
            raise Skipped(f"{' '.join(command)}: {done.stdout or done.stderr}")
        return float(found[1]) / 1e3

    @staticmethod
    def on_all_cores(function, *lists):
        """map(), for functions that simulate: virtual time does not depend on the load."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(function, *lists))


def simulated_mbit(emulated):
    """The simulator's rate at which packets are as fast as on an emulated link."""
    return round(emulated * (PACKET_BYTES + SIMULATED_BYTES) / (PACKET_BYTES + EMULATED_BYTES))


def row_of(result):
    """What is kept of a measured row."""
    method = {"method": result.entry.method.name, "title": result.entry.method.title}
    if result.failure or not result.times:
        return {**method, "not_measured": result.failure or "no runs"}
    return {**method, "seconds": summary(result.times), "bytes": result.cell.size_bytes,
            "limit_seconds": result.cell.limit_seconds(result.entry.method),
            "worker_cpu_s_a_call": result.cpu_ranks / result.calls / result.cell.n_workers,
            "switch_cpu_s_a_call": result.cpu_others / result.calls,
            "wrong": result.wrong}
