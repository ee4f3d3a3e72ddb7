# SPDX-License-Identifier: BSD-3-Clause
"""What the experiments share: stars of hosts with groups on them, the simulator, progress.

An experiment is a module of this directory with

    QUESTION        a sentence
    run(lab)        runs it, and returns what is to be kept (JSON)
    draw(data, plt) draws what was kept, and returns a figure
    facts(data)     yields the lines that bench/paper puts into docs/internals/paper.md
    headline(data)  those of README.md, if it has a block

Numbers reach the page only from what run() has returned.
"""
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import measure
import rows
from group import Group, start_groups
from programs import signals_held
from star import Star

PREFIX = "smlpaper"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What tbf counts of a frame, and what the simulator counts: it adds the check sum, the preamble
# and the gap between frames, which a real link needs and an emulated one does not.
PACKET_LANES = 358  # with IPv4 and an MTU of 1500
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


class Lab:
    def __init__(self, options, tcp):
        self.form = options.form
        self.build = options.build
        self.tcp = tcp
        self.began = time.monotonic()
        self.stars = 0
        self.name = ""
        self.links = set()  # rates of the links that this experiment has emulated

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

    @contextlib.contextmanager
    def star(self, n_workers, rate_mbit, others=None, offload=True, per_host=1):
        """A star, and a directory for logs."""
        self.stars += 1
        star = Star(f"{PREFIX}{os.getpid()}-{self.stars}", n_workers, rate_mbit, 1500, offload,
                    self.tcp, per_host)
        work = tempfile.mkdtemp(prefix=PREFIX)
        try:
            star.build(others or {})
            yield star, work
        finally:
            with signals_held():
                star.remove()
                shutil.rmtree(work, ignore_errors=True)

    @contextlib.contextmanager
    def groups(self, star, work, methods):
        """By method: a group that was started, or the reason why it was not."""
        groups = {}
        try:
            start_groups(methods, star, work, self.build, groups)
            yield groups
        finally:
            with signals_held():
                for group in groups.values():
                    if isinstance(group, Group):
                        group.stop()

    def compare(self, n_workers, rate, size_bytes, entries, runs, **traits):
        """Results of bench/suite's measurement: entries in turns, every sum checked.

        rate: a name of rows.RATES; traits: of rows.Cell."""
        return self.samples(1, n_workers, rate, size_bytes, entries, runs, **traits)[0]

    def samples(self, n_samples, n_workers, rate, size_bytes, entries, runs, **traits):
        """The same several times, with the same groups: a list of results each."""
        cell = rows.Cell(n_workers, rate, 1500, size_bytes, tuple(entries), **traits)
        others = {}
        for entry in entries:
            others.update(entry.method.switches())
        self.say(f"{cell.name()}: {', '.join(dict.fromkeys(e.name() for e in entries))}")
        with self.star(n_workers, rows.RATES[rate], others, cell.offload, cell.per_host) as \
                (star, work), \
                self.groups(star, work, [entry.method for entry in entries]) as groups:
            return [measure.run_cell(cell, groups, runs, 0, lambda *_: None, ENOUGH)
                    for _ in range(n_samples)]

    # ---- the simulator ----

    def simulate(self, count, wire="int32", seed=1, **world):
        """Seconds of virtual time for one all-reduce of `count` floats."""
        command = [self.program("tests/sim"), "--seed", str(seed), "--allreduce", str(count),
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
    if result.failure or not result.times:
        return {"not_measured": result.failure or "no runs"}
    bytes_a_call = result.cell.size_bytes
    return {"seconds": summary(result.times), "bytes": bytes_a_call,
            "limit_seconds": result.cell.limit_seconds(result.entry.method),
            "worker_cpu_s_a_call": result.cpu_ranks / result.calls / result.cell.n_workers,
            "switch_cpu_s_a_call": result.cpu_others / result.calls,
            "wrong": result.wrong}
