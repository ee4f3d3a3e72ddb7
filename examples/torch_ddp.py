#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with DistributedDataParallel.

The data are those of demo/digits.csv (1797 images of 8 x 8 pixels).

    torchrun --nproc-per-node 4 examples/torch_ddp.py
    torchrun --nproc-per-node 4 examples/torch_ddp.py --backend both --width 2048 --depth 3

The first trains through this host's memory, or a switch if SWITCHML_SWITCH names one.
The second trains a model that keeps the network busy, twice, on Gloo and on ours, and compares.
"""

import argparse
import logging
import os
import sys
import time
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

ROOT = Path(__file__).resolve().parents[1]
try:
    import switchml.torch
except ImportError:  # not installed: from the source tree, after `make`
    sys.path.insert(0, str(ROOT / "bindings" / "python"))
    import switchml.torch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["switchml", "gloo", "both"], default="switchml")
    parser.add_argument("--wire", choices=["int32", "int16", "int8"], help="what floats travel as")
    parser.add_argument("--hook", action="store_true", help="the communication hook does it")
    parser.add_argument("--feedback", action="store_true", help="... with error feedback")
    parser.add_argument("--width", type=int, default=128, help="neurons of a hidden layer")
    parser.add_argument("--depth", type=int, default=2, help="hidden layers")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, help="stop after this many steps, to measure")
    parser.add_argument("--batch", type=int, default=32, help="images a rank and step")
    parser.add_argument("--rate", type=float, default=0.05, help="learning rate")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--data", type=Path, default=ROOT / "demo" / "digits.csv")
    return parser.parse_args()


def digits(path):
    """(training set, test set): the last 297 images are for the test."""
    letters = np.fromfile(path, np.uint8)
    rows = torch.from_numpy(letters[letters >= ord("a")].reshape(-1, 65) - np.float32(ord("a")))
    pixels, labels = rows[:, :64] / 16, rows[:, 64].long()
    return TensorDataset(pixels[:1500], labels[:1500]), (pixels[1500:], labels[1500:])


def network(width, depth):
    torch.manual_seed(1)
    layers, inputs = [], 64
    for _ in range(depth):
        layers += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
        inputs = width
    return torch.nn.Sequential(*layers, torch.nn.Linear(inputs, 10))


def checksum(model):
    """Of the parameters' bits: the same on all ranks, or something is wrong."""
    value = 0
    for parameter in model.parameters():
        value = zlib.crc32(parameter.detach().numpy().tobytes(), value)
    everybodys = [None] * dist.get_world_size()
    dist.all_gather_object(everybodys, value)
    return everybodys


def report(model, test):
    """Print, on rank 0, what a trained model is worth, and whether all ranks have the same one."""
    pixels, labels = test
    with torch.no_grad():
        right = (model(pixels).argmax(1) == labels).float().mean().item()
    same = "the same" if len(set(checksum(model))) == 1 else "DIFFERENT"
    if dist.get_rank() == 0:
        print(
            f"accuracy {100 * right:.1f} %; parameters are {same} "
            f"on all {dist.get_world_size()} ranks of {dist.get_backend()}",
            flush=True,
        )


def train(options, backend):
    """Train in a new process group; returns what is worth to be told."""
    wire = switchml.torch.Options(wire=options.wire) if backend == "switchml" else None
    dist.init_process_group(backend, pg_options=wire)
    training, (test_pixels, test_labels) = digits(options.data)
    sampler = DistributedSampler(training, seed=1)
    loader = DataLoader(training, options.batch, sampler=sampler)
    model = DistributedDataParallel(
        network(options.width, options.depth), gradient_as_bucket_view=True
    )
    if backend == "switchml" and (options.hook or options.feedback):
        wire = options.wire
        if options.feedback and wire != "int8":
            wire = "int16"
        state = switchml.torch.HookState(wire=wire, error_feedback=options.feedback)
        model.register_comm_hook(state, switchml.torch.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=options.momentum)

    losses, step, images, seconds = [], 0, 0, 0.0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        losses.append(0.0)
        for pixels, labels in loader:
            began = time.perf_counter()
            loss = torch.nn.functional.cross_entropy(model(pixels), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1] += loss.item() / len(loader)
            step += 1
            if step > 3:  # before, DDP arranges its buckets
                images += len(labels)
                seconds += time.perf_counter() - began
            if step == options.steps:
                break
        mean = torch.tensor(losses[-1])
        dist.all_reduce(mean)
        losses[-1] = mean.item() / dist.get_world_size()
        if dist.get_rank() == 0:
            print(f"{backend}: epoch {epoch + 1}: loss {losses[-1]:.4f}", flush=True)
        if step == options.steps:
            break

    with torch.no_grad():
        right = (model(test_pixels).argmax(1) == test_labels).float().mean().item()
    parameters = sum(p.numel() for p in model.parameters())
    found = {
        "loss": losses[-1],
        "accuracy": right,
        "throughput": dist.get_world_size() * images / seconds if seconds else 0.0,
        "step": seconds / max(1, step - 3),
        "parameters": parameters,
        "checksums": checksum(model.module),
    }
    # PyTorch's Gloo can hang where a model outlives its group: the model ends the group then, and
    # holds the lock of Python for which a thread of Gloo waits.
    del model
    dist.destroy_process_group()
    return found


def main():
    options = arguments()
    logging.basicConfig(level=logging.ERROR)
    backends = ["gloo", "switchml"] if options.backend == "both" else [options.backend]
    found = {}
    for backend in backends:
        it = found[backend] = train(options, backend)
        if os.environ["RANK"] == "0":
            same = "the same" if len(set(it["checksums"])) == 1 else "DIFFERENT"
            print(
                f"{backend}: {it['parameters']} parameters, {same} on all ranks "
                f"(checksum {it['checksums'][0]:08x}); "
                f"accuracy {100 * it['accuracy']:.1f} %; "
                f"{it['throughput']:.0f} images/s, {1e3 * it['step']:.1f} ms a step",
                flush=True,
            )
    if len(found) == 2 and os.environ["RANK"] == "0":
        ratio = found["switchml"]["throughput"] / found["gloo"]["throughput"]
        print(f"switchml trains {ratio:.2f} times as fast as gloo")


if __name__ == "__main__":
    main()
