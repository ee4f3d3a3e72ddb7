# SPDX-License-Identifier: BSD-3-Clause
"""Ranks whose tensors are plain go the short way (_group/prompt.py), and others the long one: both
must make the same calls."""

import contextlib

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from switchml import errors  # noqa: E402

N = 2

# Types that C knows and Gloo does not, and one that only PyTorch knows; lists above 1 MiB, too.
BOTH_WAYS = [(torch.float32, 4), (torch.float32, 4000), (torch.float32, 200_000)]
BOTH_WAYS += [(kind, n) for kind in (torch.int16, torch.complex64) for n in (5, 400_000)]


def only_value_of(tensor):
    assert bool((tensor == tensor[0]).all())
    return tensor[0].item()


def lists_both_ways(rank, dtype, n):
    """The tensor of rank 1, or the list of root, is strided: its rank goes the long way."""
    found = []
    for root in range(N):
        for strided in ("one", "list"):

            def made(value, is_strided):
                whole = torch.full((n, 2), value, dtype=dtype)
                return whole[:, 0] if is_strided else whole[:, 0].contiguous()

            own = made(rank + 1, strided == "one" and rank == 1)
            parts = [made(0, strided == "list") for _ in range(N)] if rank == root else None
            dist.gather(own, parts, root)
            found.append([only_value_of(part) for part in parts or []])
            dist.scatter(own.fill_(0), parts, root)
            found.append(only_value_of(own))
    return found


@pytest.mark.parametrize(("dtype", "n"), BOTH_WAYS)
def test_lists_may_go_different_ways(groups, dtype, n):
    for rank, found in enumerate(groups.call(lists_both_ways, [dtype] * N, [n] * N)):
        expected = []
        for root in range(N):
            expected += [[i + 1 for i in range(N)] if rank == root else [], rank + 1] * 2
        assert found == expected


def misaligned(rank):
    """Rank 1's tensors begin at an odd address."""
    found = []
    for strided in (False, True):
        memory = memoryview(bytearray(1 + 4 * 8))[rank:]
        own = torch.frombuffer(memory[: 4 * 8], dtype=torch.float32)
        own = own[::2] if strided else own[:4]
        own.fill_(rank + 1.0)
        parts = [torch.zeros(4) for _ in range(N)] if rank == 0 else None
        dist.gather(own, parts, 0)
        dist.scatter(own.fill_(0.0), parts, 0)
        found.append(own.tolist())
    return found


def test_lists_need_no_alignment(groups):
    assert groups.call(misaligned) == [[[rank + 1.0] * 4] * 2 for rank in range(N)]


def mismatch_of_gather(own, parts, root):
    """What this rank is told of a gather in which the ranks disagree."""
    group = dist.new_group(list(range(N)))
    dist.barrier(group=group)
    try:
        dist.gather(own, parts, root, group=group)
    except errors.Mismatch as error:
        return str(error)
    finally:
        with contextlib.suppress(errors.SwitchMLError):
            dist.destroy_process_group(group)


def of_two_types(rank):
    own = torch.ones(8, dtype=torch.complex64 if rank else torch.float64)
    parts = [torch.zeros(8, dtype=torch.float64) for _ in range(N)] if rank == 0 else None
    return mismatch_of_gather(own, parts, 0)


def test_a_gather_of_two_types_is_a_mismatch(groups):
    """Also if one of them has no name in C, and both have equally many bytes."""
    for text in groups.call(of_two_types):
        assert "8 float64 a rank" in text and "gather of 8 complex64, root 0" in text


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
            parts = [torch.zeros(n) for _ in range(N)] if rank == root else None
            dist.gather(tensor.fill_(rank + 1.0), parts, root)
            found.append([part.unique().tolist() for part in parts or []])
            dist.scatter(tensor, parts, root)
            found.append(tensor.unique().tolist())
    return found


def test_ranks_may_go_different_ways(groups):
    for rank, found in enumerate(groups.call(both_ways)):
        expected = []
        for root in [*range(N)] * 2:
            gathered = [[i + 1.0] for i in range(N)] if rank == root else []
            expected += [[N * (N + 1) / 2], [root + 5.0], gathered, [rank + 1.0]]
        assert found == expected


def different_roots(rank):
    return mismatch_of_gather(torch.ones(3), [torch.zeros(3) for _ in range(N)], rank)


def test_a_gather_to_different_roots_is_a_mismatch(groups):
    for text in groups.call(different_roots):
        assert "3 float32 a rank, to rank 0" in text and "to rank 1" in text
