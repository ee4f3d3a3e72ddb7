# SPDX-License-Identifier: BSD-3-Clause
"""One rank that trains small models with DistributedDataParallel, once for each way to sum.

Started by integers.py and training.py, with RANK, WORLD_SIZE and MASTER_ADDR set. Needs PyTorch.
Rank 0 writes the accuracy and the training time after each epoch (tests of the model do not
count), and how large the gradients were.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "examples"), os.path.join(ROOT, "bindings", "python")]
import switchml.torch  # noqa: E402
import torch_ddp  # noqa: E402
from torch_diloco import Rows  # noqa: E402

BATCH = 32  # of a rank


def network(name, seed):
    torch.manual_seed(seed)
    if name == "transformer":
        return Rows(96)
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def as_bfloat16(group, bucket):
    """PyTorch's hook, which DistributedDataParallel refuses by its name without a GPU."""
    return bf16_compress_hook(group, bucket)


def fixed_factor(exponent):
    """The paper's first version: one factor for all gradients, and sums that wrap around."""
    factor = 2.0 ** exponent

    def hook(_state, bucket):
        buffer = bucket.buffer()
        lanes = (buffer.double() * factor).round().clamp(-2**62, 2**62).long()
        lanes = ((lanes + 2**31) % 2**32 - 2**31).int()  # as a cast of the machine wraps
        work = dist.all_reduce(lanes, async_op=True)
        return work.get_future().then(
            lambda future: (future.value()[0].double() / factor / dist.get_world_size()).float())
    return hook


class Ways:
    """The ways to sum, by name, and their groups."""

    def __init__(self):
        self.groups = {}

    def group(self, wire):
        """wire: "" for the library's own choice, None for Gloo."""
        if wire not in self.groups:
            ranks = list(range(dist.get_world_size()))
            settings = switchml.torch.Options(wire=wire) if wire else None
            backend = "gloo" if wire is None else "switchml"
            self.groups[wire] = dist.new_group(ranks, backend=backend, pg_options=settings)
        return self.groups[wire]

    def wrap(self, name, model):
        wire = name.split("-")[0] if name.startswith("int") else None
        group = self.group("" if name == "bfloat16-ours" else wire)
        model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        if name.endswith("-feedback"):
            state = switchml.torch.HookState(group=group, wire=wire, error_feedback=True)
            model.register_comm_hook(state, switchml.torch.allreduce_hook)
        elif name.startswith("bfloat16"):
            model.register_comm_hook(group, as_bfloat16)
        elif name.startswith("fixed-"):
            model.register_comm_hook(None, fixed_factor(int(name.split("-")[1])))
        return model


def accuracy(model, test):
    with torch.no_grad():
        return (model.module(test[0]).argmax(1) == test[1]).float().mean().item()


def sizes(model):
    """The largest gradient, and the median of those that are not zero."""
    values = torch.cat([p.grad.abs().flatten() for p in model.parameters()])
    values = values[values > 0]
    return [values.max().item(), values.median().item()] if len(values) else [0.0, 0.0]


def train(model, name, seed, data, test, epochs):
    rank, n_ranks = dist.get_rank(), dist.get_world_size()
    optimizer = (torch.optim.Adam(model.parameters(), lr=4e-3) if name == "transformer" else
                 torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    pixels, labels = data.tensors
    order = torch.Generator().manual_seed(seed)
    seconds, curve, largest = 0.0, [[0.0, accuracy(model, test)]], []
    for _ in range(epochs):
        mixed = torch.randperm(len(pixels), generator=order)
        dist.barrier()
        began = time.perf_counter()
        for first in range(0, len(pixels) - BATCH * n_ranks + 1, BATCH * n_ranks):
            mine = mixed[first + rank * BATCH:first + (rank + 1) * BATCH]
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(pixels[mine]), labels[mine]).backward()
            optimizer.step()
        seconds += time.perf_counter() - began
        curve.append([seconds, accuracy(model, test)])
        largest.append(sizes(model))
    return {"curve": curve, "gradients": largest}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="cnn,transformer")
    parser.add_argument("--ways", default="float32,int32,int16")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    data, test = torch_ddp.digits(os.path.join(ROOT, "demo", "digits.csv"))
    ways, found = Ways(), []
    for model_name in options.models.split(","):
        for seed in range(1, options.seeds + 1):
            for way in options.ways.split(","):
                model = ways.wrap(way, network(model_name, seed))
                count = sum(p.numel() for p in model.parameters())
                found.append({"model": model_name, "seed": seed, "way": way, "parameters": count,
                              "tests": len(test[1]),
                              **train(model, model_name, seed, data, test, options.epochs)})
    if dist.get_rank() == 0:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(found, file)
    for group in ways.groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
