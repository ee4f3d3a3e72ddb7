# SPDX-License-Identifier: BSD-3-Clause
"""What TensorFlow's binding promises alone: tapes and Keras. test_frameworks.py has the rest."""

import importlib.util

import numpy as np
import pytest

import regression
from frameworks import TensorFlow

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("there is no TensorFlow", allow_module_level=True)

N = 3


def odd_gradients(job):
    """A variable that the loss does not know, a sparse gradient, a structure of sources."""
    framework = TensorFlow(job)
    tf, tape_of = framework.tf, framework.binding.DistributedGradientTape
    table = tf.Variable(tf.zeros((6, 2)))
    unused, used = tf.Variable(1.0), tf.Variable(2.0)
    with tape_of(tf.GradientTape(), op="sum", job=job) as tape:
        rows = tf.gather(table, [job.rank, job.rank + 1])
        loss = tf.reduce_sum(rows) + used * float(job.rank)
    found = tape.gradient(loss, {"table": table, "others": [unused, used]})
    assert tape.watched_variables()  # else it is the tape
    with pytest.raises(ValueError, match="prod"):
        tape_of(tf.GradientTape(), op="prod", job=job)
    return found["table"].numpy(), found["others"][0], found["others"][1].numpy()


def test_a_tape_takes_what_a_tape_takes(ranks):
    rows = np.zeros((6, 2))
    for rank in range(N):
        rows[rank : rank + 2] += 1
    for table, unused, used in ranks.call(odd_gradients, timeout=200):
        np.testing.assert_array_equal(table, rows)
        assert unused is None
        assert used == sum(range(N))


def train_with_keras(job):
    """As TensorFlow.train(), by model.fit(), all of a rank's images in one batch."""
    framework = TensorFlow(job)
    tf = framework.tf
    pixels, labels = regression.share(job.rank, job.world_size)
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((64,)), tf.keras.layers.Dense(10, kernel_initializer="zeros")]
    )
    optimizer = tf.keras.optimizers.SGD(regression.RATE)
    same = framework.binding.DistributedOptimizer(optimizer, job=job)
    assert same is optimizer and isinstance(same, tf.keras.optimizers.SGD)
    losses = []

    class Losses(tf.keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            losses.append(framework.allreduce(np.float32(logs["loss"]), op="avg").numpy())

    model.compile(same, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(
        pixels,
        labels,
        batch_size=len(labels),
        epochs=regression.STEPS,
        shuffle=False,
        verbose=0,
        callbacks=[Losses()],
    )
    saved = tf.keras.optimizers.deserialize(tf.keras.optimizers.serialize(same))
    assert type(saved) is tf.keras.optimizers.SGD
    return np.array(losses), *model.get_weights()


def test_a_training_by_keras_is_that_of_one_rank(ranks):
    regression.check(ranks.call(train_with_keras, timeout=200))
