# SPDX-License-Identifier: BSD-3-Clause
"""Models that read Python's manual (pydoc_data), for train_rank.py. Needs PyTorch."""
import pydoc_data.topics
import re

import torch
import torch.distributed as dist
from torch import nn

HELD_OUT = 0.1  # of the text


def text():
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


class Text(nn.Module):
    """Each rank draws its own batches."""

    def __init__(self, _name, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.begin()
        self.tests = len(self.unseen)
        self.generator = torch.Generator().manual_seed(1000 * seed + dist.get_rank())

    def optimizer(self):
        return torch.optim.Adam(self.parameters(), self.rate)

    def begin_epoch(self):
        pass


class Lm(Text):
    """A transformer that predicts the next byte of the text."""

    batch, length, width = 8, 32, 64
    steps, rate = 400 // 15, 3e-3  # steps of an epoch

    def begin(self):
        both = torch.tensor(list(text().encode()), dtype=torch.long)
        known = int(len(both) * (1 - HELD_OUT))
        self.bytes, self.unseen = both[:known], both[known:]
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

    def guess(self, rows):
        hidden = self.model["bytes"](rows[:, :-1]) + self.model["places"].weight
        return self.model["next"](self.model["layers"](hidden, mask=self.mask, is_causal=True))

    def forward(self):
        first = torch.randint(
            len(self.bytes) - self.length - 1, (self.batch, 1), generator=self.generator
        )
        rows = self.bytes[first + torch.arange(self.length + 1)]
        return nn.functional.cross_entropy(self.guess(rows).flatten(0, 1), rows[:, 1:].flatten())

    def accuracy(self):
        rows = self.unseen[: 256 * (self.length + 1)].view(256, -1)
        return (self.guess(rows).argmax(2) == rows[:, 1:]).float().mean().item()


class Embeddings(Text):
    """Predicts a word from those around it: most rows of the table get no gradient."""

    batch, around, width, most_words = 64, 4, 24, 3000
    steps, rate = 500 // 15, 5e-3

    def begin(self):
        words = re.findall(r"[a-z]+", text().lower())
        counts = {}
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        known = sorted(counts, key=lambda word: (-counts[word], word))[: self.most_words]
        number = {word: i for i, word in enumerate(known)}
        both = torch.tensor([number[word] for word in words if word in number])
        learned = int(len(both) * (1 - HELD_OUT))
        self.words, self.unseen = both[:learned], both[learned:]
        self.model = nn.ModuleDict(
            {
                "in": nn.EmbeddingBag(len(known), self.width),
                "out": nn.Linear(self.width, len(known)),
            }
        )

    def guess(self, rows):
        around = torch.cat([rows[:, : self.around], rows[:, self.around + 1 :]], 1)
        return self.model["out"](self.model["in"](around))

    def forward(self):
        first = torch.randint(
            len(self.words) - 2 * self.around, (self.batch, 1), generator=self.generator
        )
        rows = self.words[first + torch.arange(2 * self.around + 1)]
        return nn.functional.cross_entropy(self.guess(rows), rows[:, self.around])

    def accuracy(self):
        rows = self.unseen.unfold(0, 2 * self.around + 1, 1)
        return (self.guess(rows).argmax(1) == rows[:, self.around]).float().mean().item()
