#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains small models, records the gradients of 64 ranks, and prints the errors of their sums.

    bench/gradients.py [--micro-error build/bench/micro_error] [--steps 300]

The table compares the int16 wire with rings of 16-bit floats (bench/micro_error.c, which has the
library's conversions). Needs PyTorch, and no network: the data are the images of demo/digits.csv,
and the text of Python's own manual (pydoc_data).

  cnn          convolutions with batch norm, on the images
  transformer  predicts the next byte of the text
  embeddings   predicts a word from the words around it: most rows of the table get no gradient

All ranks have the same parameters and a batch of their own. Gradients are in the order of
DistributedDataParallel's buckets, the last parameter first. They are recorded after the first
steps and after the last one, and are multiplied by a power of two, as GradScaler would do, so
that the largest sum of 64 is near 2^14: float16 has no subnormal gradients then that count.
"""

import argparse
import os
import pydoc_data.topics
import re
import subprocess
import sys
import tempfile

import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "examples"))
import torch_ddp  # noqa: E402

RANKS = 64
EARLY = 5
LARGEST_SUM = 2.0**14


class Cnn:
    batch = 32

    def __init__(self):
        data, _ = torch_ddp.digits(os.path.join(ROOT, "demo", "digits.csv"))
        self.pixels, self.labels = data.tensors
        self.model = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(1024, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def loss(self, generator):
        chosen = torch.randint(len(self.pixels), (self.batch,), generator=generator)
        return nn.functional.cross_entropy(self.model(self.pixels[chosen]), self.labels[chosen])


def text():
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


class Transformer:
    batch, length, width = 8, 32, 64

    def __init__(self):
        self.bytes = torch.tensor(list(text().encode()), dtype=torch.long)
        layer = nn.TransformerEncoderLayer(
            self.width, 4, 4 * self.width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.model = nn.ModuleDict(
            {
                "bytes": nn.Embedding(256, self.width),
                "places": nn.Embedding(self.length, self.width),
                "layers": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                "next": nn.Linear(self.width, 256),
            }
        )
        self.mask = nn.Transformer.generate_square_subsequent_mask(self.length)

    def loss(self, generator):
        first = torch.randint(
            len(self.bytes) - self.length - 1, (self.batch, 1), generator=generator
        )
        rows = self.bytes[first + torch.arange(self.length + 1)]
        hidden = self.model["bytes"](rows[:, :-1]) + self.model["places"].weight
        hidden = self.model["layers"](hidden, mask=self.mask, is_causal=True)
        return nn.functional.cross_entropy(
            self.model["next"](hidden).flatten(0, 1), rows[:, 1:].flatten()
        )


class Embeddings:
    batch, around, width, most_words = 64, 4, 24, 3000

    def __init__(self):
        words = re.findall(r"[a-z]+", text().lower())
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        known = sorted(counts, key=lambda word: (-counts[word], word))[: self.most_words]
        number = {word: i for i, word in enumerate(known)}
        self.words = torch.tensor([number[word] for word in words if word in number])
        self.model = nn.ModuleDict(
            {
                "in": nn.EmbeddingBag(len(known), self.width),
                "out": nn.Linear(self.width, len(known)),
            }
        )

    def loss(self, generator):
        first = torch.randint(
            len(self.words) - 2 * self.around, (self.batch, 1), generator=generator
        )
        rows = self.words[first + torch.arange(2 * self.around + 1)]
        around = torch.cat([rows[:, : self.around], rows[:, self.around + 1 :]], 1)
        return nn.functional.cross_entropy(
            self.model["out"](self.model["in"](around)), rows[:, self.around]
        )


def gradients(task, generator):
    task.model.zero_grad()
    task.loss(generator).backward()
    return torch.cat([p.grad.flatten() for p in reversed(list(task.model.parameters()))])


def record(task, generator, path):
    rows = torch.stack([gradients(task, generator) for _ in range(RANKS)])
    largest = rows.abs().double().sum(0).max().item()
    scale = 2.0 ** torch.tensor(LARGEST_SUM / largest).log2().floor().item()
    (rows * scale).numpy().tofile(path)


def train(name, task, steps, folder):
    """The files with gradients."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(task.model.parameters(), lr=2e-3)
    paths, losses = [], []
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = task.loss(generator)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step in (EARLY, steps):
            paths.append(os.path.join(folder, f"{name}, step {step}"))
            record(task, generator, paths[-1])
    count = sum(p.numel() for p in task.model.parameters())
    print(f"{name}: {count} parameters, loss {losses[0]:.2f} to {losses[-1]:.2f}", file=sys.stderr)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--micro-error", default=os.path.join(ROOT, "build/bench/micro_error"))
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    tasks = {"cnn": Cnn, "transformer": Transformer, "embeddings": Embeddings}
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, task in tasks.items():
            torch.manual_seed(1)
            paths += train(name, task(), options.steps, folder)
        subprocess.run([options.micro_error, *paths], check=True)


if __name__ == "__main__":
    main()
