# SPDX-License-Identifier: BSD-3-Clause
"""One rank that trains small models with DistributedDataParallel, once for each way to sum.

Started by training.py. Rank 0 writes the accuracy and the training time after each epoch (tests of the model do not count).
"""
import itertools
import os
import time

import ranks  # examples/ and switchml are found from here on
import texts
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

import switchml.torch
import torch_ddp
from torch_diloco import Rows

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
        data, self.test = torch_ddp.digits(os.path.join(ranks.ROOT, "demo", "digits.csv"))
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


MODELS = {"cnn": Digits, "transformer": Digits, "lm": texts.Lm, "embeddings": texts.Embeddings}


def as_bfloat16(group, bucket):
    """PyTorch's hook, which DistributedDataParallel refuses by its name without a GPU."""
    return bf16_compress_hook(group, bucket)


def wrap(groups, name, model):
    """name: a way to sum, and what is done to the gradients: "int8-stripes-feedback" has no switch."""
    group = groups.of(name)
    model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
    if name.endswith("-feedback"):
        state = switchml.torch.HookState(group=group, wire=ranks.wire_of(name), error_feedback=True)
        model.register_comm_hook(state, switchml.torch.allreduce_hook)
    elif name == "bfloat16":
        model.register_comm_hook(group, as_bfloat16)
    return model


def accuracy(model):
    """Only rank 0 looks; the others wait in the next barrier, or for the next model, and leave it the cores."""
    if dist.get_rank():
        return 0.0
    with torch.no_grad():
        return model.module.accuracy()


def train(model, epochs):
    optimizer = model.module.optimizer()
    seconds, curve = 0.0, [[0.0, accuracy(model)]]
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
    return curve


def find(groups, models, ways, seeds, epochs):
    found = []
    for name, seed, way in itertools.product(models, range(1, seeds + 1), ways):
        model = wrap(groups, way, MODELS[name](name, seed))
        count = sum(p.numel() for p in model.parameters())
        found.append({"model": name, "seed": seed, "way": way, "parameters": count,
                      "tests": model.module.tests, "curve": train(model, epochs)})
    return found


if __name__ == "__main__":
    ranks.main(find)
