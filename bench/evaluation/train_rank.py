# SPDX-License-Identifier: BSD-3-Clause
"""One rank that trains small models with DistributedDataParallel, once for each way to sum. Needs PyTorch.

training.py starts it as replay_rank.py says. Rank 0 writes the accuracy and the training time after each epoch (tests
of the model do not count).
"""
import itertools
import time

import replay_rank  # switchml is found from here on
import torch
import torch.distributed as dist
import trained
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

import switchml.torch


def as_bfloat16(group, bucket):
    """PyTorch's hook, which DistributedDataParallel refuses by its name without a GPU."""
    return bf16_compress_hook(group, bucket)


def wrap(model, way, group):
    """way: also says what is done to the gradients."""
    model = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True)
    if way.endswith("-feedback"):
        state = switchml.torch.HookState(group=group, wire=way.split("-")[0], error_feedback=True)
        model.register_comm_hook(state, switchml.torch.allreduce_hook)
    elif way == "bfloat16":
        model.register_comm_hook(group, as_bfloat16)
    return model


def accuracy(model, inputs, right):
    """Only rank 0 looks; the others wait in the next barrier, or for the next model, and leave it the cores."""
    if dist.get_rank():
        return 0.0
    with torch.no_grad():
        return (model(inputs).argmax(-1) == right).float().mean().item()


def train(task, model, epochs):
    seconds, curve = 0.0, [[0.0, accuracy(task.model, *task.test)]]
    for _ in range(epochs):
        dist.barrier()
        began = time.perf_counter()
        for inputs, right in task.epoch():
            task.optimizer.zero_grad()
            cross_entropy(model(inputs).flatten(0, -2), right.flatten()).backward()
            task.optimizer.step()
        seconds += time.perf_counter() - began
        curve.append([seconds, accuracy(task.model, *task.test)])
    return curve


def find(groups, models, seeds, epochs):
    for name, seed, way in itertools.product(models, range(1, seeds + 1), groups):
        torch.manual_seed(seed)
        task = getattr(trained, name)(seed)
        yield {"model": name, "seed": seed, "way": way, "parameters": sum(p.numel() for p in task.model.parameters()),
               "curve": train(task, wrap(task.model, way, groups[way]), epochs)}


if __name__ == "__main__":
    replay_rank.main(find)
