# SPDX-License-Identifier: BSD-3-Clause
"""all_gather into lists, one tensor for each rank; gathers, scatters and exchanges run on Gloo."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import example, given, settings
from hypothesis import strategies as st

import switchml.torch
from ranks import each_rank_of
from test_torch import ON_SWITCH, N, shapes

LONG = (1000, 1100)


@settings(max_examples=30, deadline=None)
@given(
    shape=shapes,
    dtype=st.sampled_from([*ON_SWITCH, torch.complex64]),
    contiguous=st.booleans(),
)
@example(shape=LONG, dtype=torch.float32, contiguous=True)
@example(shape=LONG, dtype=torch.float32, contiguous=False)
@example(shape=LONG, dtype=torch.bool, contiguous=True)
@example(shape=LONG, dtype=torch.bool, contiguous=False)
@example(shape=LONG, dtype=torch.int16, contiguous=True)
@example(shape=LONG, dtype=torch.int16, contiguous=False)
@example(shape=LONG, dtype=torch.complex64, contiguous=True)
@example(shape=LONG, dtype=torch.complex64, contiguous=False)
def test_lists_bring_every_type_whole(groups, shape, dtype, contiguous):
    inputs = [torch.full(shape, r + 1).to(dtype) for r in range(N)]
    for gathered, on_gloo in groups.call(gather_all, inputs, [contiguous] * N):
        assert all(map(torch.equal, gathered, inputs))
        assert not on_gloo


def gather_all(rank, given, contiguous):
    group = dist.new_group(list(range(N)))

    def empty():
        made = torch.zeros((*given.shape, 2), dtype=given.dtype)[..., 0]
        return made.clone() if contiguous else made

    lists = [empty() for _ in range(N)]
    dist.all_gather(lists, given, group, async_op=True).wait()
    on_gloo = set(switchml.torch.summary(group)["gloo"]["by_operation"])
    dist.destroy_process_group(group)
    return lists, on_gloo


@each_rank_of("groups")
def test_lists_work_in_groups_of_some_ranks(rank):
    """Roots have their number in the default group."""
    pair = dist.new_group([0, 2])
    if rank == 1:
        return
    root, mine = rank == 2, torch.tensor([rank])
    gathered, at_root = ([torch.zeros_like(mine) for _ in range(2)] for _ in range(2))
    dist.all_gather(gathered, mine, group=pair)
    dist.gather(mine, at_root if root else None, 2, group=pair)
    dist.scatter(mine, [t + 10 for t in gathered] if root else None, 2, group=pair)
    swapped = torch.zeros(2, dtype=mine.dtype)
    dist.all_to_all_single(swapped, mine.repeat(2), group=pair)
    objects = [None, None]
    dist.all_gather_object(objects, "x" * rank, group=pair)
    on_gloo = set(switchml.torch.summary(pair)["gloo"]["by_operation"])
    dist.destroy_process_group(pair)
    assert torch.cat(gathered).tolist() == [0, 2] and objects == ["", "xx"]
    assert torch.cat(at_root).tolist() == ([0, 2] if root else [0, 0])
    assert mine.tolist() == [rank + 10] and swapped.tolist() == [10, 12]
    assert on_gloo == {"gather", "scatter", "all_to_all_single"}


def sized(*counts):
    return [torch.ones(n) for n in counts]


def of_root(rank, *counts):
    return sized(*counts) if rank == 0 else None


# Calls of rank r with wrong sizes, and what all ranks are told.
WRONG = {
    "rank 0 has 3 elements for rank 2, which takes 2": [
        lambda r: dist.scatter(torch.ones(2), of_root(r, 2, 2, 3)),
        lambda r: dist.all_to_all(sized(2, 2, 2), sized(2, 2, 3 if r == 0 else 2)),
        lambda r: dist.all_to_all_single(
            torch.ones(6), torch.ones(7 if r == 0 else 6), [2] * 3, [2, 2, 3 if r == 0 else 2]
        ),
        lambda r: dist.reduce_scatter(torch.ones(2), sized(2, 2, 3)),
        lambda r: dist.reduce_scatter(torch.ones(2), sized(2, 2, 3 if r == 0 else 2)),
        lambda r: dist.reduce_scatter(
            torch.ones(2), sized(2, 2, 3 if r == 0 else 2), async_op=True
        ).wait(),
    ],
    "rank 1 has 3 elements for rank 0, which takes 2": [
        lambda r: dist.gather(torch.ones(3 if r == 1 else 2), of_root(r, 2, 2, 2)),
        lambda r: dist.all_to_all_single(
            torch.ones(6), torch.ones(6), [2] * 3, [3, 2, 1] if r == 1 else [2] * 3
        ),
    ],
    # Even lists, which ranks give to the switch.
    "rank 0 has 2 elements for rank 1, which takes 3": [
        lambda r: dist.reduce_scatter(torch.ones(2 + r % 2), sized(*[2 + r % 2] * N)),
        lambda r: dist.reduce_scatter(torch.ones(2 + r % 2), sized(2, 2, 2)),
    ],
    "Gloo takes tensors of one size, and rank 0 has 1, 2, 0": [
        lambda r: dist.scatter(torch.ones((r + 1) % 3), of_root(r, 1, 2, 0)),
        lambda r: dist.gather(torch.ones((r + 1) % 3), of_root(r, 1, 2, 0)),
        lambda r: dist.all_gather(sized(1, 2, 0), torch.ones((r + 1) % 3)),
    ],
    "rank 0 has no tensor for rank 2": [
        lambda r: dist.scatter(torch.ones(2), of_root(r, 2, 2)),
        lambda r: dist.gather(torch.ones(2), of_root(r, 2, 2)),
        lambda r: dist.reduce_scatter(torch.ones(2), sized(2, 2, 2)[: 2 if r == 0 else N]),
        lambda r: dist.reduce_scatter(torch.ones(2), [] if r == 2 else sized(2, 2)),
    ],
    "rank 0 has tensors for more than 3 ranks": [
        lambda r: dist.scatter(torch.ones(2), of_root(r, 2, 2, 2, 0)),
        lambda r: dist.gather(torch.ones(2), of_root(r, 2, 2, 2, 2)),
    ],
    "rank 0 has 8 elements, but 6 in its parts": [
        lambda r: dist.all_to_all_single(
            torch.ones(6), torch.ones(8 if r == 0 else 6), [2] * 3, [2] * 3
        ),
    ],
}


def refused(rank, text, number):
    try:
        WRONG[text][number](rank)
    except RuntimeError as error:
        told = str(error)
    dist.all_reduce(one := torch.ones(1))
    return told, one.item()


@pytest.mark.parametrize(
    ("text", "number"), [(text, i) for text, calls in WRONG.items() for i in range(len(calls))]
)
def test_all_ranks_are_told_of_sizes_that_do_not_fit_and_the_job_goes_on(groups, text, number):
    found = groups.call(refused, [text] * N, [number] * N)
    assert len(set(found)) == 1
    assert text in found[0][0]
    assert found[0][1] == N
