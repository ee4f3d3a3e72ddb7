#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains small models with the gradients of 8 ranks, summed as wires of several widths sum them.

    bench/widths.py [--seeds 5] [--models lm,embeddings,cnn,rows] [--output FILE]
    bench/widths.py --table FILE

All ranks are in this process, so it needs no network. narrow_mean() rounds as the library and the
switch do (docs/internals/numbers.md), with any number of bits: so it also shows what 4 bits would lose, which
no wire has. Ranks share their parameters, and each has a batch of its own. Feedback is that of
switchml.torch.allreduce_hook. Blocks have 64 elements, in the order of DistributedDataParallel's
buckets, the last parameter first. Needs PyTorch.

  lm          a transformer that predicts the next byte of Python's manual (pydoc_data)
  embeddings  predicts a word from the words around it: most rows of the table get no gradient
  cnn         convolutions with batch norm, on the images of demo/digits.csv
  rows        a transformer that reads such an image as eight words

FILE has a line of JSON for each run, and runs that it has are not made again.
"""

import argparse
import json
import os
import pydoc_data.topics
import re
import statistics
import sys

import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "examples"), os.path.join(ROOT, "bench")]
import torch_ddp  # noqa: E402

RANKS, BLOCK, POINTS = 8, 64, 20
HELD_OUT = 0.1  # of the text

# name: (bits of a lane, are errors fed back)
WAYS = {
    "float32": (32, False),
    "int16": (16, False),
    "int8": (8, False),
    "int8, feedback": (8, True),
    "int4, feedback": (4, True),
}


# ---- what the wires do ----


def powers_of_two(exponents):
    """Exact, and doubles."""
    return ((exponents.long() + 1023) << 52).view(torch.float64)


def narrow_mean(gradients, width):
    """(the mean of the rows, what each row has sent): float32. Rows are float32, and finite."""
    n, count = gradients.shape
    bits, limit = width - 1, 2 ** (width - 1) - 1
    rows = nn.functional.pad(gradients, (0, -count % BLOCK)).double().view(n, -1, BLOCK)
    largest = rows.abs().amax((0, 2))
    unit = powers_of_two(torch.frexp(largest).exponent - bits)[:, None]
    lanes = (rows / unit).round().clamp(-limit, limit)
    sums = lanes.sum(0).long()
    # The switch: the least shift after which all sums of a block fit, and to nearest even.
    magnitude = torch.where(sums < 0, -1 - sums, sums).amax(1).clamp_min(limit)
    step = powers_of_two(torch.frexp(magnitude.double()).exponent - bits)[:, None]
    rounded = (sums / step).round().clamp_max(limit)
    mean = rounded * step * (unit / n)
    sent = lanes * unit
    return mean.view(-1)[:count].float(), sent.view(n, -1)[:, :count].float()


class Sum:
    """The mean of all ranks' gradients, as one of WAYS has it."""

    def __init__(self, way):
        self.width, self.feeds_back = WAYS[way]
        self.lost = 0

    def mean(self, gradients):
        if self.width == 32:  # float32's own sums
            return gradients.mean(0)
        gradients = gradients + self.lost
        mean, sent = narrow_mean(gradients, self.width)
        if self.feeds_back:
            self.lost = gradients - sent
        return mean


# ---- what is trained ----


def text():
    return "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))


class Lm:
    """A transformer that predicts the next byte of the text."""

    batch, length, width = 8, 32, 64
    steps, rate, adam = 400, 3e-3, True

    def __init__(self):
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

    def accuracy(self):
        rows = self.unseen[: 256 * (self.length + 1)].view(256, -1)
        hidden = self.model["bytes"](rows[:, :-1]) + self.model["places"].weight
        hidden = self.model["layers"](hidden, mask=self.mask, is_causal=True)
        return (self.model["next"](hidden).argmax(2) == rows[:, 1:]).float().mean().item()


class Embeddings:
    """Predicts a word from those around it: most rows of the table get no gradient."""

    batch, around, width, most_words = 64, 4, 24, 3000
    steps, rate, adam = 500, 5e-3, True

    def __init__(self):
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

    def loss(self, generator):
        first = torch.randint(
            len(self.words) - 2 * self.around, (self.batch, 1), generator=generator
        )
        rows = self.words[first + torch.arange(2 * self.around + 1)]
        around = torch.cat([rows[:, : self.around], rows[:, self.around + 1 :]], 1)
        return nn.functional.cross_entropy(
            self.model["out"](self.model["in"](around)), rows[:, self.around]
        )

    def accuracy(self):
        rows = self.unseen.unfold(0, 2 * self.around + 1, 1)
        around = torch.cat([rows[:, : self.around], rows[:, self.around + 1 :]], 1)
        found = self.model["out"](self.model["in"](around)).argmax(1)
        return (found == rows[:, self.around]).float().mean().item()


class Images:
    """The images, and one of the models above that reads them."""

    def __init__(self, model):
        self.model = model
        data, self.test = torch_ddp.digits(os.path.join(ROOT, "demo", "digits.csv"))
        self.pixels, self.labels = data.tensors

    def loss(self, generator):
        chosen = torch.randint(len(self.pixels), (self.batch,), generator=generator)
        return nn.functional.cross_entropy(self.model(self.pixels[chosen]), self.labels[chosen])

    def accuracy(self):
        self.model.eval()
        found = self.model(self.test[0]).argmax(1)
        self.model.train()
        return (found == self.test[1]).float().mean().item()


class Cnn(Images):
    batch, steps, rate, adam = 16, 200, 0.05, False

    def __init__(self):
        super().__init__(
            nn.Sequential(
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
        )


class Rows(Images):
    batch, steps, rate, adam = 16, 300, 3e-3, True

    def __init__(self):
        from torch_diloco import Rows as Model  # it needs the library

        super().__init__(Model(64))


TASKS = {"lm": Lm, "embeddings": Embeddings, "cnn": Cnn, "rows": Rows}


def gradients(task, generator):
    task.model.zero_grad()
    task.loss(generator).backward()
    return torch.cat([p.grad.flatten() for p in reversed(list(task.model.parameters()))])


def train(name, way, seed, share=1.0):
    torch.manual_seed(seed)
    task, summed = TASKS[name](), Sum(way)
    generator = torch.Generator().manual_seed(seed)
    parameters = list(task.model.parameters())[::-1]
    optimizer = (
        torch.optim.Adam(parameters, task.rate)
        if task.adam
        else torch.optim.SGD(parameters, task.rate, momentum=0.9)
    )
    steps, curve = max(1, int(share * task.steps)), []
    for step in range(1, steps + 1):
        rows = torch.stack([gradients(task, generator) for _ in range(RANKS)])
        mean = summed.mean(rows)
        at = 0
        for parameter in parameters:
            parameter.grad = mean[at : at + parameter.numel()].view_as(parameter).clone()
            at += parameter.numel()
        optimizer.step()
        if step % max(1, steps // POINTS) == 0 or step == steps:
            with torch.no_grad():
                curve.append([step, task.accuracy()])
    return {"model": name, "way": way, "seed": seed, "parameters": at, "curve": curve}


# ---- what is printed ----


def steps_to(run, wanted):
    return next((step for step, reached in run["curve"] if reached >= wanted), None)


def table(runs):
    for name in TASKS:
        found = {way: [r for r in runs if (r["model"], r["way"]) == (name, way)] for way in WAYS}
        if not found["float32"]:
            continue
        final = [run["curve"][-1][1] for run in found["float32"]]
        wanted = 0.97 * statistics.median(final)
        print(f"\n{name}, {found['float32'][0]['parameters']} parameters, {RANKS} ranks; "
              f"accuracy at the end, %; steps to {100 * wanted:.1f} %")
        print("| | mean | spread | by seed | steps |\n|---|---:|---:|---:|---:|")
        for way, of_way in found.items():
            if not of_way:
                continue
            ends = [100 * run["curve"][-1][1] for run in sorted(of_way, key=lambda r: r["seed"])]
            steps = [steps_to(run, wanted) for run in of_way]
            reached = "not all" if None in steps else f"{statistics.median(steps):.0f}"
            print(f"| {way} | {statistics.mean(ends):.2f} | {statistics.pstdev(ends):.2f} | "
                  f"{', '.join(f'{end:.1f}' for end in ends)} | {reached} |")


def load(path):
    if not path or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", default=",".join(TASKS))
    parser.add_argument("--ways", default=";".join(WAYS), help="separated by semicolons")
    parser.add_argument("--share", type=float, default=1.0, help="of the steps")
    parser.add_argument("--output", help="a file that keeps the runs")
    parser.add_argument("--table", help="only print the runs of this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = load(options.table or options.output)
    had = {(run["model"], run["way"], run["seed"]) for run in runs}
    for seed in range(1, (0 if options.table else options.seeds) + 1):
        for name in options.models.split(","):
            for way in options.ways.split(";"):
                if (name, way, seed) in had:
                    continue
                runs.append(train(name, way, seed, options.share))
                if options.output:
                    with open(options.output, "a", encoding="utf-8") as file:
                        file.write(json.dumps(runs[-1]) + "\n")
    table(runs)


if __name__ == "__main__":
    main()
