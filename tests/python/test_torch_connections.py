# SPDX-License-Identifier: BSD-3-Clause
"""The TCP connections of a group's Gloo: docs/pytorch.md says how many, and how to have fewer."""

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups, stop  # noqa: E402

N = 4


def n_sockets(rank):
    links = Path("/proc/self/fd").iterdir()
    return sum(os.readlink(link).startswith("socket:") for link in links if link.is_symlink())


def calls(rank):
    """One on the switch, and one on Gloo, which connects every rank with every other one."""
    summed = torch.full((8,), rank + 1.0)
    dist.all_reduce(summed)
    before = n_sockets(rank)
    received = torch.zeros(N)
    # PyTorch 2.8's Gloo has no all_to_all of lists.
    dist.all_to_all_single(received, 10.0 * rank + torch.arange(N))
    return summed[0].item(), received.tolist(), n_sockets(rank) - before


def measured(lazy, monkeypatch):
    monkeypatch.setenv("TORCH_GLOO_LAZY_INIT", lazy)
    monkeypatch.setenv("SWITCHML_HOST_GROUP", "0")  # otherwise no call here needs Gloo
    with Groups(N) as groups:
        sockets, found = groups.call(n_sockets), groups.call(calls)
        groups.call(stop)
    for rank, (total, received, _) in enumerate(found):
        assert total == N * (N + 1) / 2
        assert received == [10.0 * r + rank for r in range(N)]
    return sockets, [more for _, _, more in found]


def test_gloo_connects_all_ranks_at_once_or_on_demand(monkeypatch):
    at_once, more = measured("0", monkeypatch)
    assert more == [0] * N
    on_demand, more = measured("1", monkeypatch)
    assert on_demand == [n - (N - 1) for n in at_once]
    assert more == [N - 1] * N
