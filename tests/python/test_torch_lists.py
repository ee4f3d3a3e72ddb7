# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of parts, one for each rank: lists, and what an all-to-all exchanges."""

import os
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from gloo_calls import BEFORE_2_13  # noqa: E402
from test_torch import ON_SWITCH, N, shapes  # noqa: E402


@settings(max_examples=30, deadline=None)
@given(
    shape=shapes,
    dtype=st.sampled_from(ON_SWITCH),
    root=st.integers(0, N - 1),
    contiguous=st.booleans(),
)
def test_lists_bring_every_type_whole(groups, shape, dtype, root, contiguous):
    check_lists(groups, shape, dtype, root, contiguous)


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16, torch.complex64])
def test_long_lists_bring_every_type_whole(groups, dtype, contiguous, shares):
    check_lists(groups, (1000, 1100), dtype, 1, contiguous, shares)


def sharing(shares):
    """Whether ranks of later groups share memory, or send packets as on hosts of their own."""
    return mock.patch.dict(os.environ, SWITCHML_HOST_GROUP=str(int(shares)))


def check_lists(groups, shape, dtype, root, contiguous, shares=True):
    inputs = [torch.full(shape, r + 1).to(dtype) for r in range(N)]
    found = groups.call(exchange_lists, inputs, [root] * N, [contiguous] * N, [shares] * N)
    for rank, (gathered, at_root, own, on_gloo) in enumerate(found):
        assert all(map(torch.equal, gathered, inputs))
        assert all(map(torch.equal, at_root, inputs))
        assert len(at_root) == (N if rank == root else 0)
        assert torch.equal(own, inputs[rank])
        few = inputs[0].nbytes * N <= 1 << 20
        # torch.distributed scatters complex numbers as pairs of real ones.
        lacks = {torch.int16: {"gather", "scatter"}, torch.complex64: {"gather"}}
        left = set() if few or shares else {"gather", "scatter"} - lacks.get(dtype, set())
        assert on_gloo == left


def exchange_lists(rank, given, root, contiguous, shares):
    import switchml.torch

    with sharing(shares):
        group = dist.new_group(list(range(N)))
        dist.barrier(group=group)  # joins the job

    def empty():
        made = torch.zeros((*given.shape, 2), dtype=given.dtype)[..., 0]
        return made.clone() if contiguous else made

    def at_root(tensors):
        return tensors if rank == root else None

    lists = [[empty() for _ in range(N)] for _ in range(2)]
    own = empty()
    works = [
        dist.all_gather(lists[0], given, group, async_op=True),
        dist.gather(given, at_root(lists[1]), root, group, async_op=True),
    ]
    for work in works:
        work.wait()
    dist.scatter(own, at_root(lists[0]), root, group)
    on_gloo = set(switchml.torch.summary(group)["gloo"]["by_operation"])
    dist.destroy_process_group(group)
    return lists[0], at_root(lists[1]) or [], own, on_gloo


def numbered(giver, taker, size, dtype):
    return (torch.arange(2 * size).reshape(size, 2) + 7 * giver + 3 * taker).to(dtype)


def exchange(rank, sizes, dtype, contiguous, shares):
    """An all-to-all where rank r has sizes[r][s] rows for rank s; in turn with all-reduces."""
    import switchml.torch

    with sharing(shares):
        group = dist.new_group(list(range(N)))
        dist.barrier(group=group)  # joins the job

    def made(rows):
        wide = torch.zeros((rows, 4), dtype=dtype)[:, ::2]
        return wide.clone() if contiguous else wide

    gives, takes = sizes[rank], [row[rank] for row in sizes]
    given = [numbered(rank, taker, size, dtype) for taker, size in enumerate(gives)]
    right = torch.cat([numbered(giver, rank, size, dtype) for giver, size in enumerate(takes)])
    found = []
    for waits in (False, True):
        parts, whole, summed = [made(size) for size in takes], made(sum(takes)), torch.ones(2)
        works = [
            dist.all_to_all(parts, given, group, async_op=not waits),
            dist.all_reduce(summed, group=group, async_op=not waits),
            dist.all_to_all_single(whole, torch.cat(given), takes, gives, group, not waits),
        ]
        for work in works:
            assert waits or work.wait()
        found += [torch.equal(torch.cat(parts), right), torch.equal(whole, right)]
        found.append(summed.tolist() == [N, N])
    summary = switchml.torch.summary(group)
    dist.destroy_process_group(group)
    return found, set(summary["gloo"]["by_operation"]), summary["switch"]["by_operation"]


# Some of its rows are short, and travel with the sizes; others are not, or have nothing.
SIZES = st.lists(
    st.lists(st.sampled_from([0, 1, 3, 100, 2000]), min_size=N, max_size=N), min_size=N, max_size=N
)


@settings(max_examples=12, deadline=None)
@given(sizes=SIZES, dtype=st.sampled_from([torch.float32, torch.int16]), contiguous=st.booleans())
def test_parts_of_any_sizes_are_exchanged_in_memory(groups, sizes, dtype, contiguous):
    check_exchange(groups, sizes, dtype, contiguous, True)


@pytest.mark.skipif(BEFORE_2_13, reason="its Gloo has no all_to_all of lists")
@pytest.mark.parametrize("contiguous", [True, False])
def test_equal_parts_are_exchanged_by_gloo(groups, contiguous):
    """It refuses lists of others."""
    check_exchange(groups, [[7] * N] * N, torch.float32, contiguous, False)


def check_exchange(groups, sizes, dtype, contiguous, shares):
    arguments = (sizes, dtype, contiguous, shares)
    names = {"alltoall", "all_to_all_single"}
    for rank, (found, on_gloo, calls) in enumerate(
        groups.call(exchange, *([argument] * N for argument in arguments))
    ):
        assert found == [True] * 6
        assert on_gloo == (set() if shares else names)
        n_bytes = 2 * sum(sizes[rank]) * dtype.itemsize
        for name in names if shares else ():
            assert calls[name] == {"calls": 2, "bytes": 2 * n_bytes}


def exchange_wrongly(rank):
    parts = [torch.zeros(3) for _ in range(N)]
    wrong = [torch.zeros(3 + (rank == 2 and giver == 1)) for giver in range(N)]
    try:
        dist.all_to_all(wrong, parts)
    except ValueError as error:
        dist.all_to_all(wrong[:1] + parts[1:], parts)  # it has not harmed the group
        return str(error)


def test_all_ranks_are_told_of_parts_that_do_not_fit(groups):
    text = "alltoall of float32: rank 1 has 12 bytes for rank 2, which takes 16"
    assert groups.call(exchange_wrongly) == [text] * N


def exchange_lists_in_a_pair(rank):
    """Roots have their number in the default group."""
    pair = dist.new_group([0, 2])
    if rank == 1:
        return None
    root, mine = rank == 2, torch.tensor([rank])
    gathered, at_root = ([torch.zeros_like(mine) for _ in range(2)] for _ in range(2))
    dist.all_gather(gathered, mine, group=pair)
    dist.gather(mine, at_root if root else None, 2, group=pair)
    dist.scatter(mine, [t + 10 for t in gathered] if root else None, 2, group=pair)
    objects = [None, None]
    dist.all_gather_object(objects, "x" * rank, group=pair)
    dist.destroy_process_group(pair)
    return torch.cat(gathered).tolist(), torch.cat(at_root).tolist(), mine.item(), objects


def test_lists_work_in_groups_of_some_ranks(groups):
    assert groups.call(exchange_lists_in_a_pair) == [
        ([0, 2], [0, 0], 10, ["", "xx"]),
        None,
        ([0, 2], [0, 2], 12, ["", "xx"]),
    ]
