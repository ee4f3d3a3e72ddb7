#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What rounding costs: the tables of docs/internals/numbers.md about gradients, and about feedback on the int8 wire.

    bench/roundings.py [--elements 65536] [--steps 1000] [--ranks 2,8,64]

Sums as the wires sum them (bench/widths.py), beside exact ones. Ends with 1 if a sum of bfloat16 on the int16 wire
has a larger RMS error than that of a ring that rounds each partial sum to the type. Needs PyTorch.
"""

import argparse
import sys

import torch
import widths

GRADIENTS = ("cnn", "lm", "embeddings")
SMALL = 2.0**-8


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
    for name in GRADIENTS:
        task, generator = widths.TASKS[name](), torch.Generator().manual_seed(1)
        yield name, torch.stack([widths.gradients(task, generator) for _ in range(n)])


def ring(rows):
    total = rows[0]
    for row in rows[1:]:
        total = (total.double() + row.double()).to(rows.dtype)
    return total


def int16(rows):
    return (widths.narrow_mean(rows.float(), 16)[0].double() * len(rows)).to(rows.dtype)


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


def steps(way, base, noisy, n_steps, scale=1):
    """(the mean of the wire's means, that of the exact ones). Noise has the gradients' size."""
    summed, found, exact = widths.Sum(way), 0, 0
    for _ in range(n_steps):
        rows = scale * (base + torch.randn_like(base) * rms(base) if noisy else base)
        found, exact = found + summed.mean(rows).double(), exact + rows.double().mean(0)
    return found / n_steps, exact / n_steps


def feed_back(count, n_steps):
    print("\n| data | 1 step | all | with feedback | elements of 2^-8 that arrive, % |\n|---|---:|---:|---:|---:|")
    for name, base in (("normal", torch.randn(widths.RANKS, count)),
                       ("Student, 3 degrees", torch.distributions.StudentT(3.0).sample((widths.RANKS, count)))):
        scale = torch.ones(count)
        scale[:: widths.BLOCK] = SMALL
        for noisy in (False, True):
            errors = []
            for way, n in (("int8", 1), ("int8", n_steps), ("int8, feedback", n_steps)):
                found, exact = steps(way, base, noisy, n)
                errors.append(rms(found - exact) / rms(exact))
            found, exact = (mean[:: widths.BLOCK] for mean in steps("int8, feedback", base, noisy, n_steps, scale))
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
