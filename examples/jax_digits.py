#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with JAX, on several ranks.

The data are those of demo/digits.csv (1797 images of 8 x 8 pixels). By hand, or with
any launcher of docs/environment.md:

    for rank in 0 1; do RANK=$rank WORLD_SIZE=2 examples/jax_digits.py & done; wait
"""

import argparse
import sys
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
try:
    import switchml
except ImportError:  # not installed: from the source tree, after `make`
    sys.path.insert(0, str(ROOT / "bindings" / "python"))
    import switchml

import switchml.jax as switchml_jax  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32, help="images a rank and step")
    parser.add_argument("--rate", type=float, default=0.3, help="learning rate")
    parser.add_argument("--wire", choices=["int32", "int16", "int8"], help="what floats travel as")
    parser.add_argument("--data", type=Path, default=ROOT / "demo" / "digits.csv")
    return parser.parse_args()


def network(width=64):
    """Weights and biases of two layers, from another seed on each rank: see broadcast()."""
    first, second = jax.random.split(jax.random.key(switchml.rank()))
    return {
        "hidden": (jax.random.normal(first, (64, width)) * 64**-0.5, jnp.zeros(width)),
        "output": (jax.random.normal(second, (width, 10)) * width**-0.5, jnp.zeros(10)),
    }


def logits_of(parameters, images):
    weights, bias = parameters["hidden"]
    hidden = jax.nn.relu(images @ weights + bias)
    weights, bias = parameters["output"]
    return hidden @ weights + bias


def loss_of(parameters, images, labels):
    right = jnp.take_along_axis(
        jax.nn.log_softmax(logits_of(parameters, images)), labels[:, None], axis=1
    )
    return -right.mean()


@jax.jit
def step(parameters, rate, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(parameters, images, labels)
    loss, gradients = switchml_jax.allreduce((loss, gradients), op="avg", wire="gradient")
    return loss, jax.tree.map(lambda p, g: p - rate * g, parameters, gradients)


def main():
    options = arguments()
    switchml.init(wire=options.wire)
    rank, world_size = switchml.rank(), switchml.world_size()

    letters = np.fromfile(options.data, np.uint8)
    rows = letters[letters >= ord("a")].reshape(-1, 65) - np.float32(ord("a"))
    pixels, labels = rows[:, :64] / 16, rows[:, 64].astype(np.int32)
    # As many images on every rank: each makes as many steps.
    mine = np.arange(rank, 1500 // world_size * world_size, world_size)
    shuffled = np.random.default_rng(rank)
    steps = len(mine) // options.batch

    parameters = switchml_jax.broadcast(network())
    for epoch in range(options.epochs):
        shuffled.shuffle(mine)
        losses = []
        for batch in mine[: steps * options.batch].reshape(steps, options.batch):
            loss, parameters = step(parameters, options.rate, pixels[batch], labels[batch])
            losses.append(loss)
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)

    accuracy = np.mean(np.argmax(logits_of(parameters, pixels[1500:]), axis=1) == labels[1500:])
    leaves = jax.tree.leaves(parameters)
    checksum = zlib.crc32(b"".join(np.asarray(leaf).tobytes() for leaf in leaves))
    checksums = switchml.allgather(np.array([checksum], np.int64))
    if rank == 0:
        same = "the same" if len(np.unique(checksums)) == 1 else "DIFFERENT"
        print(f"accuracy {100 * accuracy:.1f} %; parameters are {same} on all {world_size} ranks")
    switchml.finalize()


if __name__ == "__main__":
    main()
