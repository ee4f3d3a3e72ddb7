# SPDX-License-Identifier: BSD-3-Clause
"""What train_rank.py trains: two models read images of digits, two read Python's manual. Needs PyTorch."""
import collections
import os
import pydoc_data.topics
import re
import sys
from dataclasses import dataclass
from typing import Callable

import torch
import torch.distributed as dist
from torch import nn

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(ROOT, "examples"))
import torch_ddp  # noqa: E402
from torch_diloco import Rows  # noqa: E402

BATCH = 32  # images of a rank
HELD_OUT = 0.1  # of the text


@dataclass
class Task:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    epoch: Callable  # yields this rank's batches: inputs, and what is right
    test: tuple  # the same, of what no rank trains with


def digits(model, optimizer, seed):
    """Epochs of the images of demo/digits.csv. All ranks know the order of each."""
    data, test = torch_ddp.digits(os.path.join(ROOT, "demo/digits.csv"))
    (pixels, labels), size = data.tensors, dist.get_world_size()
    order = torch.Generator().manual_seed(seed)

    def epoch():
        mixed = torch.randperm(len(pixels), generator=order)
        for mine in mixed[:len(pixels) // (BATCH * size) * BATCH * size].split(BATCH)[dist.get_rank()::size]:
            yield pixels[mine], labels[mine]
    return Task(model, optimizer, epoch, test)


def cnn(seed):
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    return digits(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), seed)


def transformer(seed):
    model = Rows(96)
    return digits(model, torch.optim.Adam(model.parameters(), lr=4e-3), seed)


def text():
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


def windows(model, rate, seed, tokens, split, window, batch, steps, margin, tests):
    """Windows of a text, of which each rank draws its own. split: into inputs, and what is right."""
    known, unseen = torch.tensor(tokens).tensor_split([int(len(tokens) * (1 - HELD_OUT))])
    generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())

    def epoch():
        for _ in range(steps):
            first = torch.randint(len(known) - margin, (batch, 1), generator=generator)
            yield split(known[first + torch.arange(window)])
    return Task(model, torch.optim.Adam(model.parameters(), rate), epoch, split(unseen.unfold(0, window, 1)[tests]))


class NextByte(nn.Module):
    """A transformer that predicts the next byte."""

    def __init__(self, length, width):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.next, self.mask = nn.Linear(width, 256), nn.Transformer.generate_square_subsequent_mask(length)

    def forward(self, rows):
        return self.next(self.layers(self.bytes(rows) + self.places.weight, mask=self.mask, is_causal=True))


def lm(seed, length=32):
    return windows(NextByte(length, 64), 3e-3, seed, list(text().encode()), lambda rows: (rows[:, :-1], rows[:, 1:]),
                   length + 1, batch=8, steps=26, margin=length + 1, tests=slice(0, 256 * (length + 1), length + 1))


def embeddings(seed, around=4, most_words=3000):
    """Predicts a word from those around it: most rows of the table get no gradient."""
    words = re.findall(r"[a-z]+", text().lower())
    counts = collections.Counter(words)
    number = {word: i for i, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word))[:most_words])}
    model = nn.Sequential(nn.EmbeddingBag(len(number), 24), nn.Linear(24, len(number)))
    return windows(model, 5e-3, seed, [number[word] for word in words if word in number],
                   lambda rows: (torch.cat([rows[:, :around], rows[:, around + 1:]], 1), rows[:, around]),
                   2 * around + 1, batch=64, steps=33, margin=2 * around, tests=slice(None))
