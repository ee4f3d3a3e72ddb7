#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits with TensorFlow, on several ranks.

The data are those of demo/digits.csv (1797 images of 8 x 8 pixels). By hand, or with
any launcher of docs/environment.md:

    for rank in 0 1; do RANK=$rank WORLD_SIZE=2 examples/tensorflow_digits.py & done; wait
"""

import argparse
import os
import sys
import zlib
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
try:
    import switchml
except ImportError:  # not installed: from the source tree, after `make`
    sys.path.insert(0, str(ROOT / "bindings" / "python"))
    import switchml

import switchml.tensorflow as switchml_tf  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32, help="images a rank and step")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate")
    parser.add_argument("--wire", choices=["int32", "int16", "int8"], help="what floats travel as")
    parser.add_argument("--data", type=Path, default=ROOT / "demo" / "digits.csv")
    return parser.parse_args()


def main():
    options = arguments()
    switchml.init(wire=options.wire)
    rank, world_size = switchml.rank(), switchml.world_size()

    letters = np.fromfile(options.data, np.uint8)
    rows = letters[letters >= ord("a")].reshape(-1, 65) - np.float32(ord("a"))
    pixels, labels = rows[:, :64] / 16, rows[:, 64].astype(np.int32)
    # As many images on every rank: each makes as many steps.
    mine = np.arange(rank, 1500 // world_size * world_size, world_size)
    training = tf.data.Dataset.from_tensor_slices((pixels[mine], labels[mine]))
    training = training.shuffle(len(mine), seed=rank).batch(options.batch, drop_remainder=True)

    tf.keras.utils.set_random_seed(rank)  # other weights on each: see broadcast_variables()
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((64,)),
            tf.keras.layers.Dense(64, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tf.keras.optimizers.SGD(options.rate, momentum=0.9)
    switchml_tf.broadcast_variables(model.variables)

    @tf.function
    def step(images, right):
        with switchml_tf.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = loss_of(right, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return switchml_tf.allreduce(loss, op="avg")

    for epoch in range(options.epochs):
        losses = [float(step(images, right)) for images, right in training]
        if rank == 0:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)

    accuracy = np.mean(np.argmax(model(pixels[1500:]), axis=1) == labels[1500:])
    checksum = zlib.crc32(b"".join(weights.tobytes() for weights in model.get_weights()))
    checksums = switchml.allgather(np.array([checksum], np.int64))
    if rank == 0:
        same = "the same" if len(np.unique(checksums)) == 1 else "DIFFERENT"
        print(f"accuracy {100 * accuracy:.1f} %; parameters are {same} on all {world_size} ranks")
    switchml.finalize()


if __name__ == "__main__":
    main()
