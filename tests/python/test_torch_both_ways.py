# SPDX-License-Identifier: BSD-3-Clause
"""Ranks whose tensors are plain go the short way (_group/prompt.py), and others the long one: both
must make the same calls."""

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

N = 2


def both_ways(rank):
    """One rank goes the short way, and the other, whose tensors are strided, the long one."""
    found = []
    for n in (4, 4000):
        for root in range(N):
            tensor = torch.full((n,), rank + 1.0)
            if rank == 1:
                tensor = torch.stack([tensor, tensor], 1)[:, 0]
            dist.all_reduce(tensor)
            found.append(tensor.unique().tolist())
            dist.broadcast(tensor.fill_(rank + 5.0), root)
            found.append(tensor.unique().tolist())
    return found


def test_ranks_may_go_different_ways(groups):
    for found in groups.call(both_ways):
        expected = []
        for root in [*range(N)] * 2:
            expected += [[N * (N + 1) / 2], [root + 5.0]]
        assert found == expected
