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
sys.path[:0] = [os.path.join(ROOT, folder) for folder in ("examples", "bindings/python")]
import switchml.torch  # noqa: E402
import texts  # noqa: E402
import torch_ddp  # noqa: E402
from torch_diloco import Rows  # noqa: E402

BATCH = 32  # of a rank


class Digits(torch.nn.Module):
    """Epochs of the images of demo/digits.csv. All ranks know the order of each."""

    def __init__(self, name, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.is_transformer = name == "transformer"
        self.model = Rows(96) if self.is_transformer else torch.nn.Sequential(
            torch.nn.Unflatten(1, (1, 8, 8)), torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Linear(512, 256), torch.nn.ReLU(),
            torch.nn.Linear(256, 10))
        data, self.test = torch_ddp.digits(os.path.join(ROOT, "demo", "digits.csv"))
        (self.pixels, self.labels), self.tests = data.tensors, len(self.test[1])
        self.steps = len(self.pixels) // (BATCH * dist.get_world_size())  # of an epoch
        self.order, self.batches = torch.Generator().manual_seed(seed), iter(())

    def optimizer(self):
        return (torch.optim.Adam(self.parameters(), lr=4e-3) if self.is_transformer else
                torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9))

    def begin_epoch(self):
        mixed = torch.randperm(len(self.pixels), generator=self.order)
        self.batches = iter(mixed[:self.steps * BATCH * dist.get_world_size()]
                            .view(-1, dist.get_world_size(), BATCH)[:, dist.get_rank()])

    def forward(self):
        mine = next(self.batches)
        return torch.nn.functional.cross_entropy(self.model(self.pixels[mine]), self.labels[mine])

    def accuracy(self):
        return (self.model(self.test[0]).argmax(1) == self.test[1]).float().mean().item()


class Text(torch.nn.Module):
    """The models of texts.py. Each rank draws its own batches."""

    def __init__(self, name, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.task = {"lm": texts.Lm, "embeddings": texts.Embeddings}[name]()
        self.model, self.tests = self.task.model, len(self.task.unseen)
        self.steps = self.task.steps // 15
        self.generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), self.task.rate)

    def begin_epoch(self):
        pass

    def forward(self):
        return self.task.loss(self.generator)

    def accuracy(self):
        return self.task.accuracy()


MODELS = {"cnn": Digits, "transformer": Digits, "lm": Text, "embeddings": Text}


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

    def group(self, wire, switch=None):
        """wire: "" for the library's own choice, None for Gloo; switch: that of Options."""
        if (wire, switch) not in self.groups:
            ranks = list(range(dist.get_world_size()))
            if wire is None:
                group = dist.new_group(ranks, backend="gloo")
            else:
                settings = switchml.torch.Options(wire=wire or None, switch=switch)
                group = dist.new_group(ranks, backend="switchml", pg_options=settings)
            self.groups[wire, switch] = group
        return self.groups[wire, switch]

    def wrap(self, name, model):
        """name: a wire, and what is done to it: "int8-stripes-feedback" has no switch."""
        wire = name.split("-")[0] if name.startswith("int") else None
        switch = "embedded" if "-stripes" in name else None
        group = self.group("" if name == "bfloat16-ours" else wire, switch)
        model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
        if name.endswith("-feedback"):
            state = switchml.torch.HookState(group=group, wire=wire, error_feedback=True)
            model.register_comm_hook(state, switchml.torch.allreduce_hook)
        elif name.startswith("bfloat16"):
            model.register_comm_hook(group, as_bfloat16)
        elif name.startswith("fixed-"):
            model.register_comm_hook(None, fixed_factor(int(name.split("-")[1])))
        return model


def accuracy(model):
    """Only rank 0 looks; the others wait in the next barrier, or for the next model, and leave it the cores."""
    if dist.get_rank():
        return 0.0
    with torch.no_grad():
        return model.module.accuracy()


def sizes(model):
    """The largest gradient, and the median of those that are not zero."""
    values = torch.cat([p.grad.abs().flatten() for p in model.parameters()])
    values = values[values > 0]
    return [values.max().item(), values.median().item()] if len(values) else [0.0, 0.0]


def train(model, epochs):
    optimizer = model.module.optimizer()
    seconds, curve, largest = 0.0, [[0.0, accuracy(model)]], []
    for _ in range(epochs):
        model.module.begin_epoch()
        dist.barrier()
        began = time.perf_counter()
        for _ in range(model.module.steps):
            optimizer.zero_grad()
            model().backward()
            optimizer.step()
        seconds += time.perf_counter() - began
        curve.append([seconds, accuracy(model)])
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
    ways, found = Ways(), []
    for model_name in options.models.split(","):
        for seed in range(1, options.seeds + 1):
            for way in options.ways.split(","):
                model = ways.wrap(way, MODELS[model_name](model_name, seed))
                count = sum(p.numel() for p in model.parameters())
                found.append({"model": model_name, "seed": seed, "way": way, "parameters": count,
                              "tests": model.module.tests, **train(model, options.epochs)})
    if dist.get_rank() == 0:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(found, file)
    for group in ways.groups.values():
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
