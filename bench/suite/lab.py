# SPDX-License-Identifier: BSD-3-Clause
"""What experiments measure with: stars of hosts with groups on them, the simulator, progress.

An experiment is a module of bench/evaluation with

    QUESTION        a sentence
    run(lab)        runs it, and returns what is to be kept (JSON)
    facts(data)     yields the lines and tables that bench/paper puts into a page of docs/internals
    drawn(data)     yields the tables and panels of its figure; without it, the tables are those of facts()
    headline(about, data)  the lines of README.md, if it has a block
    NOT_KEPT        names that numbers.json has not, as no page needs them

Numbers reach the page only from what run() has returned.
"""
import contextlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import measure
import rows
from group import opened
from methods import PACKET_LANES
from star import choose_tcp
from table import summary

# What tbf counts of a frame, and what the simulator counts: it adds the check sum, the preamble
# and the gap between frames, which a real link needs and an emulated one does not.
PACKET_BYTES, EMULATED_BYTES, SIMULATED_BYTES = PACKET_LANES * 4 + 40, 42, 66
# (runs, seconds): a method that has had both gets no further runs, so that the slowest ones do not
# take most of the time.
ENOUGH = (6, 20)


class Skipped(Exception):
    """The experiment cannot run here. The text says why."""


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

    def rows(self, n_workers, rate, size_bytes, entries, runs, times=1, **traits):
        """What is kept of entries that took turns, every sum checked: a row each, so many times.

        rate: a name of rows.RATES; traits: of rows.Cell."""
        cell = rows.Cell(n_workers, rate, size_bytes, tuple(entries), **traits)
        self.say(f"{cell.name()}: {', '.join(dict.fromkeys(e.name() for e in cell.entries))}")
        return [row_of(result) for results in measure.run_cells([cell], runs, enough=ENOUGH, times=times)
                for result in results]

    @contextlib.contextmanager
    def groups(self, star, methods):
        """Groups that do nothing yet."""
        with opened(star, methods) as groups:
            for group in groups.values():
                if isinstance(group, Exception):
                    raise Skipped(str(group))
            yield list(groups.values())

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
