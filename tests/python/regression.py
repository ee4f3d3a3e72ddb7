# SPDX-License-Identifier: BSD-3-Clause
"""Training that NumPy can check: softmax regression on digits, in float64, on all images.

The ranks have equal shares of the images, so the mean of their gradients is the
gradient of all.
"""

from pathlib import Path

import numpy as np

CSV = Path(__file__).resolve().parents[2] / "demo" / "digits.csv"
IMAGES, STEPS, RATE = 600, 12, 0.5


def digits():
    """(pixels, labels) of all images."""
    letters = np.fromfile(CSV, np.uint8)
    rows = letters[letters >= ord("a")].reshape(-1, 65) - np.float32(ord("a"))
    return rows[:, :64] / 16, rows[:, 64].astype(np.int32)


def share(rank, n):
    """One rank's part of the images that are trained on."""
    pixels, labels = digits()
    return pixels[rank:IMAGES:n], labels[rank:IMAGES:n]


def reference():
    """(loss of each step, weights, bias) of one rank that has all images."""
    pixels, labels = share(0, 1)
    weights, bias, losses = np.zeros((64, 10)), np.zeros(10), []
    for _ in range(STEPS):
        logits = pixels @ weights + bias
        logits -= logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        odds /= odds.sum(axis=1, keepdims=True)
        losses.append(-np.mean(np.log(odds[np.arange(IMAGES), labels])))
        odds[np.arange(IMAGES), labels] -= 1
        weights -= RATE * pixels.T @ odds / IMAGES
        bias -= RATE * odds.sum(axis=0) / IMAGES
    return np.array(losses), weights, bias


def check(found):
    """What each rank returned: (losses, weights, bias), their bits the same on all ranks."""
    losses, weights, bias = reference()
    for rank, (its_losses, its_weights, its_bias) in enumerate(found):
        np.testing.assert_allclose(its_losses, losses, rtol=1e-5, err_msg=f"rank {rank}")
        np.testing.assert_allclose(its_weights, weights, atol=1e-5, err_msg=f"rank {rank}")
        np.testing.assert_allclose(its_bias, bias, atol=1e-5, err_msg=f"rank {rank}")
        for mine, firsts in zip((its_losses, its_weights, its_bias), found[0], strict=True):
            assert np.asarray(mine).tobytes() == np.asarray(firsts).tobytes(), f"rank {rank}"
    assert losses[-1] < 0.75 * losses[0]


def feed_back(allreduce, rank):
    """Three steps of allreduce(array, residual): all results, what is left, and what was given."""
    random, results, residual = np.random.default_rng(rank), 0, np.zeros(9001, np.float32)
    steps = [random.standard_normal(9001).astype(np.float32) for _ in range(3)]
    for step in steps:
        results = results + np.asarray(allreduce(step, residual), np.float64)
    return results, residual, np.sum(steps, axis=0, dtype=np.float64)


def check_that_nothing_is_lost(found):
    results, left, given = (np.stack(its) for its in zip(*found, strict=True))
    assert np.mean(left[0] != 0) > 0.9 and np.array_equal(results[0], results[-1])
    assert np.max(np.abs(results[0] - given.sum(0))) > 1e-4
    assert np.max(np.abs(results[0] + left.sum(0) - given.sum(0))) < 1e-5
