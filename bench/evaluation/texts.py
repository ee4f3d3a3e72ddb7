# SPDX-License-Identifier: BSD-3-Clause
"""Models that read Python's manual (pydoc_data), for train_rank.py. Needs PyTorch."""
import collections
import pydoc_data.topics
import re

import torch
import torch.distributed as dist
from torch import nn

HELD_OUT = 0.1  # of the text


def text():
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


class Text(nn.Module):
    """Guesses a part of each window of the text. Each rank draws its own batches of windows."""

    def __init__(self, _name, seed):
        super().__init__()
        torch.manual_seed(seed)
        both = torch.tensor(self.begin())  # it makes the model, too
        known = int(len(both) * (1 - HELD_OUT))
        self.known, self.unseen = both[:known], both[known:]
        self.tests = len(self.unseen)
        self.generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), self.rate)

    def begin_epoch(self):
        pass

    def forward(self):
        first = torch.randint(len(self.known) - self.margin, (self.batch, 1), generator=self.generator)
        rows = self.known[first + torch.arange(self.window)]
        return nn.functional.cross_entropy(self.guess(rows).flatten(0, -2), self.right(rows).flatten())

    def accuracy(self):
        rows = self.unseen.unfold(0, self.window, self.test_step)[:self.most_tests]
        return (self.guess(rows).argmax(-1) == self.right(rows)).float().mean().item()


class Lm(Text):
    """A transformer that predicts the next byte of the text."""

    batch, length, width = 8, 32, 64
    steps, rate = 400 // 15, 3e-3  # steps of an epoch
    window, margin, test_step, most_tests = length + 1, length + 1, length + 1, 256

    def begin(self):
        layer = nn.TransformerEncoderLayer(self.width, 4, 4 * self.width, dropout=0.0, batch_first=True,
                                           norm_first=True)
        self.model = nn.ModuleDict({"bytes": nn.Embedding(256, self.width),
                                    "places": nn.Embedding(self.length, self.width),
                                    "layers": nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                                    "next": nn.Linear(self.width, 256)})
        self.mask = nn.Transformer.generate_square_subsequent_mask(self.length)
        return list(text().encode())

    def guess(self, rows):
        hidden = self.model["bytes"](rows[:, :-1]) + self.model["places"].weight
        return self.model["next"](self.model["layers"](hidden, mask=self.mask, is_causal=True))

    def right(self, rows):
        return rows[:, 1:]


class Embeddings(Text):
    """Predicts a word from those around it: most rows of the table get no gradient."""

    batch, around, width, most_words = 64, 4, 24, 3000
    steps, rate = 500 // 15, 5e-3
    window, margin, test_step, most_tests = 2 * around + 1, 2 * around, 1, None

    def begin(self):
        words = re.findall(r"[a-z]+", text().lower())
        counts = collections.Counter(words)
        known = sorted(counts, key=lambda word: (-counts[word], word))[:self.most_words]
        number = {word: i for i, word in enumerate(known)}
        self.model = nn.ModuleDict({"in": nn.EmbeddingBag(len(known), self.width),
                                    "out": nn.Linear(self.width, len(known))})
        return [number[word] for word in words if word in number]

    def guess(self, rows):
        around = torch.cat([rows[:, :self.around], rows[:, self.around + 1:]], 1)
        return self.model["out"](self.model["in"](around))

    def right(self, rows):
        return rows[:, self.around]
