#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The parameter tensors of the paper's eight models, in the order in which backward yields them.

    models.py           traces the models, and writes models.json
    models.py --check   traces them, and compares

Needs torch, torchvision and transformers, and no weights: a training step runs on PyTorch's meta
device, which has shapes and no numbers. The clock of a step is its floating-point operations, as
PyTorch's own counter has them. A tensor's entry is [elements, share of the step's operations that
were done when its gradient was ready]. Models of several networks have a list for each, as each
has a DistributedDataParallel of its own.

ResNet50 and VGG19 are torchvision's, BERT is transformers'. The others are written here, after:
DeepLight (Deng et al., 2021), LSTM (Jozefowicz et al., 2016, one layer with a projection), NCF
(He et al., 2017, in MLPerf's size), U-GAT-IT (Kim et al., 2020, the light form) and SSD (Liu et
al., 2016, on ResNet50 as in MLPerf). Sizes that no paper tells are those of the data sets:
Criteo's categories in 26 fields, MovieLens 20M grown to 498,975 users and 427,888 items, and the
793,471 words of the One Billion Word Benchmark.
"""
import json
import os
import sys

import published
import torch
from torch import nn
from torch.nn import functional as f
from torch.utils.flop_counter import FlopCounterMode

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models.json")
WORDS = 793471
USERS, ITEMS = 498975, 427888
CATEGORIES = (15040574, 35017, 17195, 7374, 20127, 4, 7111, 1397, 63, 10260959, 939647, 285463, 11,
              2210, 10874, 117, 5, 971, 15, 15604226, 4668632, 13476290, 357276, 12277, 100, 35)
NUMBERS = 13  # fields with a number instead of categories: one row each


def vision():
    """torchvision. A package that was built for GPUs lacks its operators here: models need none of
    them, but importing it describes two."""
    try:
        import torchvision
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        vision.library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            vision.library.define(
                f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision


class DeepLight(nn.Module):
    """Factorization with field weights, and three layers beside it."""

    def __init__(self, width=10, nodes=400):
        super().__init__()
        sizes = NUMBERS * (1,) + CATEGORIES
        self.bias = nn.Parameter(torch.zeros(1))
        self.rows = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
        self.linear = nn.Parameter(torch.zeros(len(sizes), width))
        self.pairs = nn.Parameter(torch.zeros(len(sizes), len(sizes)))
        self.deep = nn.Sequential(
            nn.Linear(len(sizes) * width, nodes), nn.ReLU(), nn.Linear(nodes, nodes), nn.ReLU(),
            nn.Linear(nodes, nodes), nn.ReLU(), nn.Linear(nodes, 1, bias=False))

    def forward(self, chosen):
        fields = torch.stack([table(chosen[:, i]) for i, table in enumerate(self.rows)], dim=1)
        weights = torch.triu(self.pairs + self.pairs.t(), 1) / 2
        second = ((weights @ fields) * fields).sum((1, 2))
        first = (fields * self.linear).sum((1, 2))
        return self.bias + first + second + self.deep(fields.flatten(1)).squeeze(1)


class Language(nn.Module):
    """One layer of 2,048 units, projected to 256; the softmax is over a sample of the words."""

    def __init__(self, width=256, units=2048):
        super().__init__()
        self.rows = nn.Embedding(WORDS, width)
        self.lstm = nn.LSTM(width, units)
        self.project = nn.Linear(units, width)
        self.out = nn.Linear(width, WORDS)

    def forward(self, words, sample):
        hidden = self.project(self.lstm(self.rows(words))[0]).flatten(0, 1)
        return hidden @ self.out.weight[sample].t() + self.out.bias[sample]


class Ncf(nn.Module):
    """Matrix factorization beside layers of 256, 256, 128 and 64."""

    def __init__(self, factors=64, layers=(256, 256, 128, 64)):
        super().__init__()
        self.factor = nn.ModuleList(nn.Embedding(n, factors) for n in (USERS, ITEMS))
        self.wide = nn.ModuleList(nn.Embedding(n, layers[0] // 2) for n in (USERS, ITEMS))
        steps = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in zip(layers, layers[1:])]
        self.layers = nn.Sequential(*steps)
        self.out = nn.Linear(layers[-1] + factors, 1)

    def forward(self, user, item):
        product = self.factor[0](user) * self.factor[1](item)
        both = torch.cat((self.wide[0](user), self.wide[1](item)), 1)
        return self.out(torch.cat((product, self.layers(both)), 1))


class Instance(nn.Module):
    """Normalizes images and layers, and learns how much of each; told: scale and shift are
    arguments, else learned."""

    def __init__(self, channels, told):
        super().__init__()
        shape = (1, channels, 1, 1)
        self.share = nn.Parameter(torch.zeros(shape))
        if not told:
            self.scale, self.shift = (nn.Parameter(torch.zeros(shape)) for _ in range(2))

    def forward(self, x, scale=None, shift=None):
        normal = self.share * f.instance_norm(x) + (1 - self.share) * f.layer_norm(x, x.shape[1:])
        return normal * (self.scale if scale is None else scale) + \
            (self.shift if shift is None else shift)


def conv(inputs, outputs, size, stride=1, bias=False):
    return nn.Conv2d(inputs, outputs, size, stride, padding=(size - 1) // 2, bias=bias)


class Attention(nn.Module):
    """U-GAT-IT's map of what matters."""

    def __init__(self, channels):
        super().__init__()
        self.mean, self.most = (nn.Linear(channels, 1, bias=False) for _ in range(2))
        self.merge = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x):
        told = torch.cat((self.mean(x.mean((2, 3))), self.most(x.amax((2, 3)))), 1)
        weighed = [x * layer.weight[0, :, None, None] for layer in (self.mean, self.most)]
        return f.relu(self.merge(torch.cat(weighed, 1))), told


class Generator(nn.Module):
    def __init__(self, width=64, blocks=4):
        super().__init__()
        wide = 4 * width
        self.down = nn.ModuleList([conv(3, width, 7), conv(width, 2 * width, 3, 2),
                                   conv(2 * width, wide, 3, 2)])
        self.first = nn.ModuleList(conv(wide, wide, 3) for _ in range(2 * blocks))
        self.attention = Attention(wide)
        self.style = nn.Sequential(nn.Linear(wide, wide, bias=False), nn.ReLU(),
                                   nn.Linear(wide, wide, bias=False), nn.ReLU())
        self.scale, self.shift = (nn.Linear(wide, wide, bias=False) for _ in range(2))
        self.second = nn.ModuleList(conv(wide, wide, 3) for _ in range(2 * blocks))
        self.norms = nn.ModuleList(Instance(wide, told=True) for _ in range(2 * blocks))
        self.up = nn.ModuleList([conv(wide, 2 * width, 3), conv(2 * width, width, 3)])
        self.up_norms = nn.ModuleList([Instance(2 * width, False), Instance(width, False)])
        self.out = conv(width, 3, 7)

    def forward(self, x):
        for layer in self.down:
            x = f.relu(f.instance_norm(layer(x)))
        for one, two in zip(self.first[::2], self.first[1::2]):
            x = x + f.instance_norm(two(f.relu(f.instance_norm(one(x)))))
        x, told = self.attention(x)
        style = self.style(x.mean((2, 3)))
        scale, shift = (layer(style)[:, :, None, None] for layer in (self.scale, self.shift))
        for i in range(0, len(self.second), 2):
            inner = f.relu(self.norms[i](self.second[i](x), scale, shift))
            x = x + self.norms[i + 1](self.second[i + 1](inner), scale, shift)
        for layer, norm in zip(self.up, self.up_norms):
            x = f.relu(norm(layer(f.interpolate(x, scale_factor=2))))
        return torch.tanh(self.out(x)), told


class Discriminator(nn.Module):
    def __init__(self, layers, width=64):
        super().__init__()
        widths = [3] + [width << i for i in range(layers - 1)]
        strides = (layers - 2) * [2] + [1]
        self.layers = nn.ModuleList(conv(a, b, 4, stride, bias=True)
                                    for a, b, stride in zip(widths, widths[1:], strides))
        self.attention = Attention(widths[-1])
        self.out = conv(widths[-1], 1, 4)

    def forward(self, x):
        for layer in self.layers:
            x = f.leaky_relu(layer(x), 0.2)
        x, told = self.attention(x)
        return self.out(x), told


class Ssd(nn.Module):
    """SSD300: ResNet50 up to its third stage, whose stride is one, and six maps of boxes."""

    def __init__(self, classes=81):
        super().__init__()
        self.below = nn.Sequential(*list(vision().models.resnet50().children())[:7])
        first = self.below[-1][0]
        for layer in (first.conv1, first.conv2, first.downsample[0]):
            layer.stride = (1, 1)
        outputs, boxes = (1024, 512, 512, 256, 256, 256), (4, 6, 6, 6, 4, 4)
        inner, steps = (256, 256, 128, 128, 128), (2, 2, 2, 1, 1)
        self.extra = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, i, 1, bias=False), nn.BatchNorm2d(i), nn.ReLU(),
                          nn.Conv2d(i, b, 3, s, padding=s - 1, bias=False), nn.BatchNorm2d(b),
                          nn.ReLU())
            for a, b, i, s in zip(outputs, outputs[1:], inner, steps))
        self.places, self.kinds = (nn.ModuleList(
            nn.Conv2d(c, n * each, 3, padding=1) for c, n in zip(outputs, boxes))
            for each in (4, classes))

    def forward(self, x):
        maps = [self.below(x)]
        for block in self.extra:
            maps.append(block(maps[-1]))
        found = [(place(m).flatten(), kind(m).flatten())
                 for m, place, kind in zip(maps, self.places, self.kinds)]
        return torch.cat([part for pair in found for part in pair])


# ---- a step of each: the networks, and a function that runs forward and backward ----

def images(batch, size):
    return torch.empty(batch, 3, size, size)


def simple(network, *arguments):
    return [network], lambda: network(*arguments).sum().backward()


def deep_light(batch):
    return simple(DeepLight(), torch.zeros(batch, NUMBERS + len(CATEGORIES), dtype=torch.long))


def language(batch):
    return simple(Language(), torch.zeros(20, batch, dtype=torch.long),
                  torch.zeros(8192 + 20 * batch, dtype=torch.long))


def bert(batch):
    vision()  # transformers imports it where it is installed
    from transformers import BertConfig, BertForQuestionAnswering
    network = BertForQuestionAnswering(BertConfig(
        vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
        intermediate_size=4096))
    words = torch.zeros(batch, 384, dtype=torch.long)

    def step():
        found = network(words)
        (found.start_logits.sum() + found.end_logits.sum()).backward()
    return [network], step


def ncf(batch):
    chosen = torch.zeros(batch, dtype=torch.long)
    return simple(Ncf(), chosen, chosen)


def u_gat_it(batch):
    ab, ba = Generator(), Generator()
    judges = [Discriminator(layers) for layers in (7, 7, 5, 5)]
    a, b = images(batch, 256), images(batch, 256)

    def judged(made_a, made_b):
        seen = (made_a, made_b, made_a, made_b)
        return sum(part.sum() for judge, one in zip(judges, seen) for part in judge(one))

    def step():
        for judge in judges:
            judge.requires_grad_(True)
        with torch.no_grad():
            made_b, made_a = ab(a)[0], ba(b)[0]
        (judged(a, b) + judged(made_a, made_b)).backward()
        for judge in judges:
            judge.requires_grad_(False)
        (made_b, told_b), (made_a, told_a) = ab(a), ba(b)
        loss = judged(made_a, made_b) + told_a.sum() + told_b.sum()
        for way, one in ((ba, made_b), (ab, made_a), (ba, a), (ab, b)):
            loss = loss + way(one)[0].sum()
        loss.backward()
    return [*judges, ab, ba], step


STEPS = {
    "DeepLight": deep_light, "LSTM": language, "BERT": bert, "NCF": ncf,
    "VGG19": lambda batch: simple(vision().models.vgg19(), images(batch, 224)),
    "UGATIT": u_gat_it, "SSD": lambda batch: simple(Ssd(), images(batch, 300)),
    "ResNet50": lambda batch: simple(vision().models.resnet50(), images(batch, 224)),
}


def trace(name):
    """A list for each network of [elements, share of the step when ready], in backward's order."""
    counter = FlopCounterMode(display=False)
    with torch.device("meta"):
        networks, step = STEPS[name](published.STEPS[name][0])
        found = [[] for _ in networks]
        for ready, network in zip(found, networks):
            for parameter in network.parameters():
                parameter.register_post_accumulate_grad_hook(
                    lambda p, ready=ready: ready.append([p.numel(), counter.get_total_flops()]))
        with counter:
            step()
    total = counter.get_total_flops()
    for network, ready in zip(networks, found):
        assert len(ready) == len(list(network.parameters())), (name, len(ready))
        for entry in ready:
            entry[1] = round(entry[1] / total, 4)
    mebibytes = sum(4 * n for ready in found for n, _ in ready) / 2**20
    assert abs(mebibytes - published.SIZES[name]) < 1, (name, mebibytes)
    return found


def main():
    # One line for a network, so that a difference can be read.
    lines = []
    for name in STEPS:
        lists = ",\n".join(json.dumps(ready, separators=(",", ":")) for ready in trace(name))
        lines.append(f'"{name}": [\n{lists}]')
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    if sys.argv[1:] == ["--check"]:
        with open(KEPT, encoding="utf-8") as file:
            same = json.load(file) == json.loads(text)
        print(f"ok: {len(STEPS)} models" if same else f"{KEPT} differs from what was traced")
        return 0 if same else 1
    with open(KEPT, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
