# SPDX-License-Identifier: BSD-3-Clause
"""all_gather into lists, one tensor for each rank; gathers, scatters and exchanges run on Gloo."""

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import switchml.torch  # noqa: E402
from test_torch import ON_SWITCH, N, shapes  # noqa: E402


@settings(max_examples=30, deadline=None)
@given(shape=shapes, dtype=st.sampled_from(ON_SWITCH), contiguous=st.booleans())
def test_lists_bring_every_type_whole(groups, shape, dtype, contiguous):
    check_lists(groups, shape, dtype, contiguous)


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16, torch.complex64])
def test_long_lists_bring_every_type_whole(groups, dtype, contiguous):
    check_lists(groups, (1000, 1100), dtype, contiguous)


def check_lists(groups, shape, dtype, contiguous):
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
    swapped = torch.zeros(2, dtype=mine.dtype)
    dist.all_to_all_single(swapped, mine.repeat(2), group=pair)
    objects = [None, None]
    dist.all_gather_object(objects, "x" * rank, group=pair)
    on_gloo = set(switchml.torch.summary(pair)["gloo"]["by_operation"])
    dist.destroy_process_group(pair)
    found = (gathered, at_root, [mine], [swapped])
    return *(torch.cat(tensors).tolist() for tensors in found), objects, on_gloo


def test_lists_work_in_groups_of_some_ranks(groups):
    on_gloo = {"gather", "scatter", "all_to_all_single"}
    assert groups.call(exchange_lists_in_a_pair) == [
        ([0, 2], [0, 0], [10], [10, 12], ["", "xx"], on_gloo),
        None,
        ([0, 2], [0, 2], [12], [10, 12], ["", "xx"], on_gloo),
    ]
