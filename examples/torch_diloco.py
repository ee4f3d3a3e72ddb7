#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains with many local steps and few all-reduces (DiLoCo, arXiv 2311.08105), for slow links.

Each rank trains its own copy of a small transformer for some steps. Then the ranks average how far
their copies have moved, and an outer optimizer (SGD with Nesterov's momentum) moves all copies by
that. With H local steps, the ranks send 1/H of the bytes of DistributedDataParallel, and half of
that with the int16 wire. All ranks get the same bits, so their copies are the same after each outer
step. The data are those of demo/digits.csv (1797 images of 8 x 8 pixels).

    torchrun --nproc-per-node 4 examples/torch_diloco.py
    torchrun --nproc-per-node 4 examples/torch_diloco.py --local-steps 0 --wire int32

The second sums the gradients of every step with DistributedDataParallel, to compare.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
import torch_ddp  # noqa: E402  it finds switchml.torch, too

import switchml.torch  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["switchml", "gloo"], default="switchml")
    parser.add_argument(
        "--wire", choices=["int32", "int16", "int8"], default="int16", help="what floats travel as"
    )
    every = "steps between two all-reduces (10); 0: DistributedDataParallel"
    parser.add_argument("--local-steps", type=int, default=10, metavar="H", help=every)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32, help="images a rank and step")
    parser.add_argument("--width", type=int, default=96, help="of the transformer")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of the local steps")
    parser.add_argument("--outer-rate", type=float, default=0.7)
    parser.add_argument("--outer-momentum", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Rows(torch.nn.Module):
    """A transformer that reads an image as eight words, its rows."""

    def __init__(self, width):
        super().__init__()
        self.embed = torch.nn.Linear(8, width)
        self.place = torch.nn.Parameter(0.02 * torch.randn(8, width))
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(width, 10)

    def forward(self, pixels):
        words = self.embed(pixels.view(-1, 8, 8)) + self.place
        return self.out(self.layers(words).mean(dim=1))


class Outer:
    """What all ranks have in common, and the optimizer that moves it."""

    def __init__(self, model, options):
        self.model = model
        self.common = torch.nn.Parameter(parameters_to_vector(model.parameters()).detach().clone())
        self.optimizer = torch.optim.SGD(
            [self.common],
            options.outer_rate,
            momentum=options.outer_momentum,
            nesterov=options.outer_momentum > 0,
        )

    def step(self):
        """The mean of how far the ranks have moved is the gradient, with its sign."""
        moved = self.common.detach() - parameters_to_vector(self.model.parameters()).detach()
        dist.all_reduce(moved, op=dist.ReduceOp.SUM)
        self.common.grad = moved / dist.get_world_size()
        self.optimizer.step()
        # A copy: the parameters become parts of it.
        vector_to_parameters(self.common.detach().clone(), self.model.parameters())


def batches(training, options):
    """Endless: this rank's part of the images, in an order that all ranks know."""
    pixels, labels = training.tensors
    order = torch.Generator().manual_seed(options.seed)
    share = options.batch * dist.get_world_size()
    while True:
        mixed = torch.randperm(len(pixels), generator=order)
        for first in range(0, len(pixels) - share + 1, share):
            mine = mixed[first + dist.get_rank() * options.batch :][: options.batch]
            yield pixels[mine], labels[mine]


def train(model, training, options):
    """The seconds that it took."""
    every = options.local_steps
    trained = model if every else DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), options.rate)
    outer, source = Outer(model, options), batches(training, options)
    dist.barrier()
    began = time.perf_counter()
    for step in range(1, options.steps + 1):
        pixels, labels = next(source)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(trained(pixels), labels).backward()
        optimizer.step()
        if every and (step % every == 0 or step == options.steps):
            outer.step()
    return time.perf_counter() - began


def main():
    options = arguments()
    torch.set_num_threads(1)
    ours = options.backend == "switchml"
    dist.init_process_group(
        options.backend, pg_options=switchml.torch.Options(wire=options.wire) if ours else None
    )
    training, (pixels, labels) = torch_ddp.digits(ROOT / "demo" / "digits.csv")
    torch.manual_seed(options.seed)
    model = Rows(options.width)
    seconds = train(model, training, options)
    with torch.no_grad():
        right = (model(pixels).argmax(1) == labels).float().mean().item()
    same = "the same" if len(set(torch_ddp.checksum(model))) == 1 else "DIFFERENT"
    if dist.get_rank() == 0:
        size = 4 * sum(p.numel() for p in model.parameters())
        every = options.local_steps
        n_sums = -(-options.steps // every) if every else options.steps
        sent = f"; sent {switchml.torch.summary()['bytes_sent'] / 1e6:.2f} MB" if ours else ""
        print(
            f"{options.steps} steps, {n_sums} sums of {size / 1e6:.2f} MB{sent}; "
            f"accuracy {100 * right:.1f} %; "
            f"parameters are {same} on all {os.environ['WORLD_SIZE']} ranks; {seconds:.1f} s",
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
