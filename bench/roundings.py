#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What rounding costs: the tables of docs/internals/numbers.md about gradients, and about feedback on the int8 wire.

    bench/roundings.py [--elements 65536] [--steps 1000] [--ranks 2,8,64]

All ranks are in this process, so it needs no network: narrow_mean() rounds as the library and the switch do. Ends with 1
if a sum of bfloat16 on the int16 wire has a larger RMS error than that of a ring that rounds each partial sum to the
type. Needs PyTorch.
"""

import argparse
import os
import sys

import torch
from torch import nn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "examples"), os.path.join(ROOT, "bench", "evaluation")]
import texts  # noqa: E402
import torch_ddp  # noqa: E402

RANKS, BLOCK = 8, 64  # of the steps; elements of an exponent
SMALL = 2.0**-8


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


# ---- gradients of models ----


class Cnn:
    """On the images of demo/digits.csv."""

    def __init__(self):
        def conv(before, after):
            return nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()

        self.model = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), *conv(1, 32), *conv(32, 64), nn.MaxPool2d(2),
                                   *conv(64, 64), nn.Flatten(), nn.Linear(1024, 64), nn.BatchNorm1d(64), nn.ReLU(),
                                   nn.Linear(64, 10))
        self.pixels, self.labels = torch_ddp.digits(os.path.join(ROOT, "demo", "digits.csv"))[0].tensors

    def loss(self, generator):
        chosen = torch.randint(len(self.pixels), (16,), generator=generator)
        return nn.functional.cross_entropy(self.model(self.pixels[chosen]), self.labels[chosen])


TASKS = {"cnn": Cnn, "lm": texts.Lm, "embeddings": texts.Embeddings}


def gradients(task, generator):
    """In the order of DistributedDataParallel's buckets, the last parameter first."""
    task.model.zero_grad()
    task.loss(generator).backward()
    return torch.cat([parameter.grad.flatten() for parameter in reversed(list(task.model.parameters()))])


def rms(values):
    return values.double().square().mean().sqrt().item()


# ---- gradients where switches add integers, and a ring ----


def data(n, count):
    """(what they are, a row for each of n ranks). All ranks share a scale; float16 can hold the sums."""
    normal = torch.randn(n, count) / 64
    yield "normal", normal
    yield "rows of 256, lognormal scales", normal * (1.5 * torch.randn(count // 256)).exp().repeat_interleave(256)
    yield "Student's t, 3 degrees", torch.distributions.StudentT(3.0).sample((n, count)) / 64
    yield "lognormal scales", normal * (2 * torch.randn(count)).exp()
    for name, begin in TASKS.items():
        task, generator = begin(), torch.Generator().manual_seed(1)
        yield name, torch.stack([gradients(task, generator) for _ in range(n)])


def ring(rows):
    total = rows[0]
    for row in rows[1:]:
        total = (total.double() + row.double()).to(rows.dtype)
    return total


def int16(rows):
    return (narrow_mean(rows.float(), 16)[0].double() * len(rows)).to(rows.dtype)


def compare(ranks, count):
    """The greatest errors of all data. Returns whether int16 is as good as a ring for bfloat16, everywhere."""
    good = True
    print("| ranks | type | ring | int16 | of which data |\n|---:|---|---:|---:|---|")
    for n in ranks:
        for dtype in (torch.bfloat16, torch.float16):
            errors = {}
            for name, rows in data(n, count):
                rows = rows.to(dtype)
                exact = rows.double().sum(0)
                errors[name] = [rms(way(rows).double() - exact) / rms(exact) for way in (ring, int16)]
            worst = [max(errors, key=lambda name, i=i: errors[name][i]) for i in (0, 1)]
            ratio = max(errors, key=lambda name: errors[name][1] / errors[name][0])
            of_ring = errors[ratio][1] / errors[ratio][0]
            good &= dtype != torch.bfloat16 or of_ring < 1.005
            print(f"| {n} | {str(dtype)[6:]} | {errors[worst[0]][0]:.1e} | {errors[worst[1]][1]:.1e} | {worst[0]}, "
                  f"{worst[1]}; at most {of_ring:.2f} times the ring's ({ratio}) |")
    return good


# ---- steps on the int8 wire ----


def steps(feeds_back, base, noisy, n_steps, scale=1):
    """(the mean of the wire's means, that of the exact ones). Noise has the gradients' size."""
    lost, found, exact = 0, 0, 0
    for _ in range(n_steps):
        rows = scale * (base + torch.randn_like(base) * rms(base) if noisy else base)
        mean, sent = narrow_mean(rows + lost, 8)
        lost = rows + lost - sent if feeds_back else 0
        found, exact = found + mean.double(), exact + rows.double().mean(0)
    return found / n_steps, exact / n_steps


def feed_back(count, n_steps):
    print("\n| data | 1 step | all | with feedback | elements of 2^-8 that arrive, % |\n|---|---:|---:|---:|---:|")
    for name, base in (("normal", torch.randn(RANKS, count)),
                       ("Student, 3 degrees", torch.distributions.StudentT(3.0).sample((RANKS, count)))):
        scale = torch.ones(count)
        scale[:: BLOCK] = SMALL
        for noisy in (False, True):
            errors = []
            for feeds_back, n in ((False, 1), (False, n_steps), (True, n_steps)):
                found, exact = steps(feeds_back, base, noisy, n)
                errors.append(rms(found - exact) / rms(exact))
            found, exact = (mean[:: BLOCK] for mean in steps(True, base, noisy, n_steps, scale))
            arrived = (found @ exact / (exact @ exact)).item()
            print(f"| {name}, {'with noise' if noisy else 'repeated'} | "
                  f"{' | '.join(f'{error:.1e}' for error in errors)} | {100 * arrived:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=65536)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--ranks", default="2,8,64")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    good = compare([int(n) for n in options.ranks.split(",")], options.elements)
    feed_back(options.elements // 4, options.steps)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
