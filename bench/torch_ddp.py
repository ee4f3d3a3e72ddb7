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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "evaluation"))
import train_rank  # noqa: E402
from torch_ddp import digits, network  # noqa: E402

from ranks import Groups  # noqa: E402

# The names of train_rank.wrap().
WAYS = {
    "Gloo": "float32",
    "int32 wire": "int32",
    "int16 wire": "int16",
    "Gloo, bf16 hook": "bfloat16",
    "ours, bf16 hook": "bfloat16-ours",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1, help="images a rank and step")
    parser.add_argument("--bucket", type=float, default=4, help="DDP's bucket_cap_mb")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3, help="in a turn; the first is not timed")
    return parser.parse_args()


class Runner:
    """The model of one way to sum."""

    def __init__(self, options, groups, way):
        model = network(options.width, options.depth)
        self.model = train_rank.wrap(groups, way, model, bucket_cap_mb=options.bucket)
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
    groups = Groups()
    rank, size = dist.get_rank(), dist.get_world_size()
    training, _ = digits(ROOT / "demo" / "digits.csv")
    batches = endless(training, options.batch, rank, size)
    runners = {name: Runner(options, groups, way) for name, way in WAYS.items()}
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
    groups.close()


if __name__ == "__main__":
    main()
