# SPDX-License-Identifier: BSD-3-Clause
"""Averages of equal arrays, at a switch that adds only integers: which elements change."""

import contextlib

import numpy as np

from ranks import Ranks
from switches import switch_in_kernel

N = 4  # on fewer, arrays of any length are exact there
TYPES = [np.float32, np.float16]


@contextlib.contextmanager
def ranks_in_kernel():
    with switch_in_kernel() as (address, network):
        settings = {"switch": address, "shared_memory": 0}
        with Ranks(N, settings, network=network) as them:
            yield them


def array(dtype):
    """Small elements beside large ones, and longer than what is exact in any form."""
    random = np.random.default_rng(7)
    sizes = random.uniform(-30 if dtype == np.float32 else -14, 0, 30001)
    return (random.choice([-1, 1], sizes.shape) * np.exp2(sizes)).astype(dtype)


def changed_by(average):
    """The share of the elements that each type loses."""
    arrays = [array(dtype) for dtype in TYPES]
    return [float(np.mean(np.asarray(average(before)) != before)) for before in arrays]


def check(outcomes, gradients=False):
    """Of changed_by() on each rank. Sums of gradients are fixed point there."""
    assert outcomes == [outcomes[0]] * N
    assert all(share > 0.1 if gradients else share == 0 for share in outcomes[0]), outcomes[0]
