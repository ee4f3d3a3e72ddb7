#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The time of single collectives of PyTorch on one host: Gloo's and ours, in the same processes.

    torchrun --nproc-per-node 2 bench/torch_calls.py --types float32,float16

The two take turns of a few calls, so that another load on the machine meets both alike. A call
lasts from its last rank's begin to its last rank's end; all ranks read one clock. With --in-a-row,
that is measured of several calls, and divided by their number: of a broadcast, for example, Gloo's
root is then not ahead of the others for nothing. CPU time is that of all ranks, user and system.
"""

import argparse
import itertools
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "python"))
import switchml.torch  # noqa: E402, F401

BACKENDS = ("gloo", "switchml")
# Each takes the whole tensor, and a part of it for each rank.
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


def listed(text):
    return text.split(",")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kilobytes", type=listed, default="4,400,1000,100000")
    parser.add_argument("--types", type=listed, default="float32")
    parser.add_argument("--calls", type=listed, default=",".join(CALLS))
    parser.add_argument("--rounds", type=int, default=20, help="turns of each backend")
    parser.add_argument("--seconds", type=float, default=10, help="at most, for a row")
    parser.add_argument(
        "--in-a-row", type=int, default=1, help="calls without a barrier between them"
    )
    return parser.parse_args()


def timed(call, whole, part, group, in_a_row):
    """Of a call: when it began and ended, and CPU seconds."""
    dist.barrier()
    cpu, begun = time.process_time(), time.perf_counter()
    for _ in range(in_a_row):
        call(whole, part, group)
    return begun, time.perf_counter(), time.process_time() - cpu


def medians(own, in_a_row):
    """Of all ranks' calls: milliseconds, and those of CPU time."""
    own = torch.tensor(own, dtype=torch.float64)
    ranks = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(ranks, own)
    begun, ended, cpu = (1e3 * torch.stack(ranks) / in_a_row).unbind(2)
    return [statistics.median(ms.tolist()) for ms in (ended.amax(0) - begun.amax(0), cpu.sum(0))]


def measure(call, n_bytes, kind, groups, options):
    """The medians of each backend, and the number of calls. Rank 0 decides when time is over."""
    dtype, size = getattr(torch, kind), dist.get_world_size()
    whole = torch.ones(n_bytes // dtype.itemsize // size * size, dtype=dtype)
    part = whole[: whole.numel() // size].clone()
    until, n_calls = time.monotonic() + options.seconds, 1 if n_bytes > 10_000_000 else 8
    for number in range(options.rounds + 1):
        if number < 2:
            times = {backend: [] for backend in BACKENDS}  # the first round is to warm up
        for backend in BACKENDS if number % 2 else reversed(BACKENDS):
            for _ in range(n_calls):
                times[backend].append(
                    timed(CALLS[call], whole, part, groups[backend], options.in_a_row)
                )
        go_on = torch.tensor([time.monotonic() < until])
        dist.broadcast(go_on, 0)
        if number > 1 and not go_on:
            break
    return [medians(times[backend], options.in_a_row) for backend in BACKENDS], len(times["gloo"])


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    say = print if dist.get_rank() == 0 else lambda *_, **__: None
    say("ms of a call: Gloo, ours, ratio; of CPU time: Gloo, ours, ratio (medians); calls")
    rows = list(itertools.product(options.calls, options.types, options.kilobytes))
    for call, kind, size in rows:
        name, n_bytes = f"{call} {kind} {size} kB", int(float(size) * 1000)
        if call == "barrier":  # it has neither a type nor a size
            if (kind, size) != rows[0][1:]:
                continue
            name, n_bytes = call, 4
        both, n_calls = measure(call, n_bytes, kind, groups, options)
        text = "".join(
            f" {gloo:9.3f} {ours:9.3f} {ours / gloo:6.2f}  "
            for gloo, ours in zip(*both, strict=True)
        )
        say(f"{name:32}{text} {n_calls}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
