#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The time of single collectives of PyTorch on one host: Gloo's and ours, in the same processes.

The two take turns of a few calls, so that another load on the machine meets both alike. A call
lasts from its last rank's begin to its last rank's end; all ranks read one clock. With --in-a-row,
that is measured of several calls, and divided by their number: of a broadcast, for example, Gloo's
root is then not ahead of the others for nothing. CPU time is that of all ranks, user and system.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings" / "python"))
import switchml.torch  # noqa: E402, F401

BACKENDS = ("gloo", "switchml")
UNITS = {"K": 1_000, "M": 1_000_000, "G": 1_000_000_000, "": 1}


def size_of(text):
    number, unit = re.fullmatch(r"([\d.]+)([KMG]?)B?", text).groups()
    return int(float(number) * UNITS[unit])


def listed(kind):
    return lambda text: [kind(part) for part in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sizes", type=listed(size_of), default="4K,0.4M,1M,100M")
    parser.add_argument("--types", type=listed(str), default="float32")
    parser.add_argument("--calls", type=listed(str), default=",".join(CALLS))
    parser.add_argument("--rounds", type=int, default=20, help="turns of each backend")
    parser.add_argument("--seconds", type=float, default=10, help="at most, for a row")
    parser.add_argument(
        "--in-a-row", type=int, default=1, help="calls without a barrier between them"
    )
    return parser.parse_args()


# ---- the calls: each takes the whole tensor, and a part of it for each rank ----


def part_of(whole):
    return whole[: whole.numel() // dist.get_world_size()]


CALLS = {
    "all_reduce": lambda whole, part, group: dist.all_reduce(whole, group=group),
    "broadcast": lambda whole, part, group: dist.broadcast(whole, 0, group=group),
    "reduce": lambda whole, part, group: dist.reduce(whole, 0, group=group),
    "all_gather": lambda whole, part, group: dist.all_gather_into_tensor(whole, part, group=group),
    "reduce_scatter": lambda whole, part, group: dist.reduce_scatter_tensor(
        part, whole, group=group
    ),
    "barrier": lambda whole, part, group: dist.barrier(group=group),
}


class Row:
    """One collective, size and type."""

    def __init__(self, call, n_bytes, kind):
        self.call, self.name = CALLS[call], f"{call} {kind} {n_bytes / 1e6:g} MB"
        self.n_bytes, self.dtype = n_bytes, getattr(torch, kind)
        self.times = {backend: [] for backend in BACKENDS}
        self.buffers = None

    def make_buffers(self):
        size = dist.get_world_size()
        count = self.n_bytes // self.dtype.itemsize // size * size
        whole = torch.ones(count, dtype=self.dtype)
        return whole, part_of(whole).clone()

    def turn(self, backend, group, n_calls, options):
        for _ in range(n_calls):
            if self.buffers is None:
                self.buffers = self.make_buffers()
            whole, part = self.buffers
            dist.barrier()
            cpu, begun = time.process_time(), time.perf_counter()
            for _ in range(options.in_a_row):
                self.call(whole, part, group)
            ended = time.perf_counter()
            self.times[backend].append((begun, ended, time.process_time() - cpu))

    def gather(self, backend, in_a_row):
        """Of all ranks: the seconds of each call, and its CPU seconds."""
        own = torch.tensor(self.times[backend], dtype=torch.float64)
        ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(ranks, own)
        begun, ended, cpu = (torch.stack(ranks) / in_a_row).unbind(2)
        return (ended.amax(0) - begun.amax(0)).tolist(), cpu.sum(0).tolist()

    def result(self, in_a_row):
        gathered = {backend: self.gather(backend, in_a_row) for backend in BACKENDS}
        text = f"{self.name:32}"
        for find, part in ((statistics.median, 0), (low, 0), (statistics.median, 1)):
            gloo, ours = (find(gathered[backend][part]) for backend in BACKENDS)
            text += f" {1e3 * gloo:9.3f} {1e3 * ours:9.3f} {ours / gloo:6.2f}  "
        return text + f" {len(gathered['gloo'][0])}"


def low(values):
    """The lowest decile: calls that other work on the machine has hardly disturbed."""
    return sorted(values)[len(values) // 10]


def measure(row, groups, options):
    """Rank 0 decides when the time is over."""
    until = time.monotonic() + options.seconds
    n_calls = 1 if row.n_bytes > 10_000_000 else 8
    for number in range(options.rounds + 1):
        for backend in BACKENDS if number % 2 else reversed(BACKENDS):
            row.turn(backend, groups[backend], n_calls, options)
        if number == 0:
            row.times = {backend: [] for backend in BACKENDS}  # to warm up
        go_on = torch.tensor([time.monotonic() < until])
        dist.broadcast(go_on, 0)
        if number > 1 and not go_on:
            break
    return row.result(options.in_a_row)


def run(options):
    torch.set_num_threads(1)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    say = print if dist.get_rank() == 0 else lambda *_, **__: None
    say(f"{options.ranks} ranks; ms of a call: Gloo, ours, ratio: medians; lowest deciles; CPU")
    for call in options.calls:
        sizes = [4] if call == "barrier" else options.sizes
        for kind in options.types[: 1 if call == "barrier" else None]:
            for n_bytes in sizes:
                say(measure(Row(call, n_bytes, kind), groups, options), flush=True)
    for group in groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(options.ranks):
            if (child := os.fork()) == 0:
                dist.init_process_group(
                    "gloo", f"file://{folder}/store", rank=rank, world_size=options.ranks
                )
                run(options)
                os._exit(0)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
