#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""DDP's time a step on Gloo and on the switch, with four bytes a gradient and with two, in one run.

One rank, started by bench/on-links or by torchrun. Two bytes: the int16 wire, or PyTorch's
bf16_compress_hook, which sums the gradients as bfloat16, on Gloo and on the switch. Each of them
trains a model, and they take turns of a few steps, so that another load on the machine meets them
alike.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "bindings" / "python")]
import torch_ddp  # noqa: E402

import switchml.torch  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1, help="images a rank and step")
    parser.add_argument("--bucket", type=float, default=4, help="DDP's bucket_cap_mb")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3, help="in a turn; the first is not timed")
    return parser.parse_args()


def as_bfloat16(group, bucket):
    """PyTorch's hook, which DistributedDataParallel refuses by its name without a GPU."""
    return bf16_compress_hook(group, bucket)


class Runner:
    """The group and the model of one backend."""

    def __init__(self, options, backend, wire=None, hook=None):
        settings = switchml.torch.Options(wire=wire) if wire else None
        ranks = list(range(dist.get_world_size()))
        self.group = dist.new_group(ranks, backend=backend, pg_options=settings)
        self.model = DistributedDataParallel(
            torch_ddp.network(options.width, options.depth),
            process_group=self.group,
            gradient_as_bucket_view=True,
            bucket_cap_mb=options.bucket,
        )
        if hook:
            self.model.register_comm_hook(self.group, hook)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.seconds = []

    def step(self, pixels, labels):
        loss = torch.nn.functional.cross_entropy(self.model(pixels), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def turn(self, batches, n_steps):
        """The first step waits for late ranks and does not count."""
        for i in range(n_steps):
            began = time.perf_counter()
            self.step(*next(batches))
            if i > 0:
                self.seconds.append(time.perf_counter() - began)


def endless(training, batch, rank, size):
    pixels, labels = training.tensors
    position = 0
    while True:
        rows = [(position + rank + i * size) % len(pixels) for i in range(batch)]
        position += batch * size
        yield pixels[rows], labels[rows]


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    training, _ = torch_ddp.digits(ROOT / "demo" / "digits.csv")
    batches = endless(training, options.batch, rank, size)
    runners = {
        "Gloo": Runner(options, "gloo"),
        "int32 wire": Runner(options, "switchml", "int32"),
        "int16 wire": Runner(options, "switchml", "int16"),
        "Gloo, bf16 hook": Runner(options, "gloo", hook=as_bfloat16),
        "ours, bf16 hook": Runner(options, "switchml", hook=as_bfloat16),
    }
    for runner in runners.values():
        runner.turn(batches, 3)  # DDP arranges its buckets
        runner.seconds.clear()
    for _ in range(options.rounds):
        for runner in runners.values():
            runner.turn(batches, options.steps)

    if rank == 0:
        parameters = sum(p.numel() for p in runners["Gloo"].model.parameters())
        print(f"{size} ranks, {parameters} parameters ({4 * parameters / 1e6:.0f} MB)")
        gloo, half = (
            statistics.median(runners[name].seconds) for name in ("Gloo", "Gloo, bf16 hook")
        )
        for name, runner in runners.items():
            low, middle, high = statistics.quantiles(runner.seconds, n=4)
            print(
                f"{name:15}  median {1e3 * middle:6.0f} ms a step "
                f"(quartiles {1e3 * low:.0f} and {1e3 * high:.0f}, least "
                f"{1e3 * min(runner.seconds):.0f}, {len(runner.seconds)} steps): "
                f"{gloo / middle:.2f} times as fast as Gloo, "
                f"{half / middle:.2f} times as Gloo with the hook"
            )
        sys.stdout.flush()
    for runner in runners.values():
        del runner.model  # a model must not outlive its group (examples/torch_ddp.py)
        dist.destroy_process_group(runner.group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
