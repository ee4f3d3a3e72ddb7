# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed's collectives on the switch, and on Gloo where it has none."""

import gc
import logging
import math
from datetime import timedelta
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from hypothesis import given, settings
from hypothesis import strategies as st

import switchml.torch
from collectives import CALLS
from ranks import each_rank_of

N = 3
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
ON_SWITCH = FLOATS + INTEGERS
OPS = {"SUM": torch.sum, "AVG": torch.mean, "MAX": torch.amax, "MIN": torch.amin}
BITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}


# ---- all-reduce ----


def inputs_of(seed, shape, dtype, transposed):
    generator = torch.Generator().manual_seed(seed)
    if transposed:
        shape = shape[::-1]
    if dtype is torch.float64:
        made = [torch.randn(shape, generator=generator, dtype=dtype) for _ in range(N)]
    elif dtype.is_floating_point:
        made = [torch.randn(shape, generator=generator).to(dtype) for _ in range(N)]
    else:
        made = [any_integers(generator, shape, dtype) for _ in range(N)]
    return [t.permute(tuple(range(t.dim() - 1, -1, -1))) for t in made] if transposed else made


def any_integers(generator, shape, dtype):
    """Over the type's whole range, so that sums wrap around."""
    size = torch.empty(0, dtype=dtype).element_size()
    shape = (*shape, size)
    made = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
    return made[..., 0] > 127 if dtype is torch.bool else made.view(dtype)[..., 0].contiguous()


def exact_integers(inputs, dtype, op):
    """docs/internals/numbers.md, computed in one process."""
    stacked = torch.stack(inputs)
    if op in ("MAX", "MIN"):
        return OPS[op](stacked, dim=0)
    if dtype is torch.bool:
        return stacked.any(dim=0)
    wide = dtype in (torch.int32, torch.int64)
    total = stacked.sum(dim=0, dtype=dtype if wide or op == "SUM" else torch.int64)
    return (total if op == "SUM" else total.div(N, rounding_mode="trunc")).to(dtype)


def allreduce(rank, given, op):
    tensor = given.clone()  # what comes through a pipe is the test's memory as well
    original = tensor.clone()
    work = dist.all_reduce(tensor, getattr(dist.ReduceOp, op), async_op=True)
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    again = original.clone(memory_format=torch.preserve_format)
    dist.all_reduce_coalesced([again], getattr(dist.ReduceOp, op))
    assert torch.equal(again, tensor)
    here = f"of {str(given.dtype).removeprefix('torch.')}, {op}"
    assert not [line for line in dist.group.WORLD._told if line.endswith(here)]
    return tensor


shapes = st.one_of(
    st.just(()),
    st.tuples(st.sampled_from([0, 1, 2, 117, 118, 351, 352, 353, 704, 705, 40001])),
    st.lists(st.integers(0, 13), min_size=2, max_size=4).map(tuple),
)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shape=shapes,
    dtype=st.sampled_from(ON_SWITCH),
    op=st.sampled_from(list(OPS)),
    transposed=st.booleans(),
)
def test_all_reduce_is_right_and_the_same_everywhere(groups, seed, shape, dtype, op, transposed):
    if op == "AVG" and dtype is torch.bool:
        op = "SUM"
    inputs = inputs_of(seed, shape, dtype, transposed)
    results = groups.call(allreduce, inputs, [op] * N)
    for result in results:
        assert result.dtype == dtype
        assert result.shape == inputs[0].shape
        assert torch.equal(result, results[0])
    if not dtype.is_floating_point:
        assert torch.equal(results[0], exact_integers(inputs, dtype, op))
        return
    exact = OPS[op](torch.stack(inputs).to(torch.float64), dim=0)
    if not exact.numel():
        return
    error = (results[0].to(torch.float64) - exact).abs().max().item()
    assert error <= bound(inputs, dtype, op)


def bound(inputs, dtype, op):
    """docs/internals/numbers.md, of one block as large as the largest element; else none."""
    if op in ("MAX", "MIN"):
        return 0
    largest = max(t.abs().max().item() for t in inputs)
    if dtype is torch.float64:
        return N * largest * 2**-50
    unit = 2.0 ** (math.frexp(largest)[1] - 31 + math.ceil(math.log2(N)))
    return N * unit + N * largest * 2.0 ** -BITS[dtype] + 2.0**-24


def doubles_of(rank):
    """All 53 bits of each, and none below 2^-10 of the largest."""
    generator = torch.Generator().manual_seed(rank)
    sizes = torch.rand(10_000, generator=generator, dtype=torch.float64) * 1023 + 1
    signs = torch.randint(0, 2, (10_000,), generator=generator) * 2 - 1
    return sizes * signs


@each_rank_of("groups")
def test_sums_of_doubles_are_the_exact_sums_rounded_once(rank):
    """As they are, coalesced, and scattered; their mean by the hook, with 16 bits and whole."""
    tensor, again, whole = (doubles_of(rank) for _ in range(3))
    dist.all_reduce(tensor)
    dist.all_reduce_coalesced([again])
    part = torch.empty(10_000 // N, dtype=torch.float64)
    dist.reduce_scatter_tensor(part, whole[: part.numel() * N])
    rough, kept = doubles_of(rank), doubles_of(rank)
    for buffer, feedback in ((rough, False), (kept, True)):
        state = switchml.torch.HookState(wire="int16", error_feedback=feedback)
        bucket = mock.Mock(**{"buffer.return_value": buffer})
        switchml.torch.allreduce_hook(state, bucket).wait()
    inputs = [doubles_of(rank).tolist() for rank in range(N)]
    sums = [math.fsum(column) for column in zip(*inputs, strict=True)]
    exact = torch.tensor(sums, dtype=torch.float64)
    assert tensor.tolist() == exact.tolist()
    assert again.tolist() == exact.tolist()
    each = part.numel()
    assert part.tolist() == exact[rank * each : (rank + 1) * each].tolist()
    # |x| <= 2^10, and 15 - 2 bits; error feedback has none for doubles, and they lose nothing.
    assert 0 < (rough - exact / N).abs().max() <= 2.0 ** (11 - 13)
    assert (kept - exact / N).abs().max() <= 2.0**-42


@each_rank_of("groups")
def test_integers_are_exact_in_their_own_width(rank):
    """Of every type, coalesced; then sums that wrap around, a mean toward zero, and extremes."""
    for dtype in INTEGERS:
        tensors = [torch.full((count,), 100 - 90 * rank).to(dtype) for count in (1, 3, 5000)]
        dist.all_reduce_coalesced(tensors)
        # 100 + 10 - 80; of bool: whether any is not 0
        assert [t.unique().tolist() for t in tensors] == [[30 if dtype != torch.bool else True]] * 3
    for op, expected in {
        "SUM": [-(2**62), 2**62, -(2**63) + 3, -15],
        "AVG": [-(2**62) // 3 + 1, 2**62 // 3, (-(2**63) + 3) // 3 + 1, -5],
        "MAX": [2**62, -(2**62), -(2**63) + 2, -5],
        "MIN": [2**62, -(2**62), -(2**63), -5],
    }.items():
        wide = torch.tensor([2**62, -(2**62), -(2**63) + rank, -5])
        dist.all_reduce(wide, getattr(dist.ReduceOp, op))
        assert wide.tolist() == expected


@each_rank_of("groups")
def test_what_the_switch_does_not_add_is_added_all_the_same(rank):
    """Bool, complex, sparse, zero elements, another op: none is lost on the way."""
    found = []
    for tensor, op in [
        (torch.tensor([rank == 1, False]), "MAX"),
        (torch.full((3,), rank + 1j), "SUM"),
        (torch.full((3,), rank + 1.0), "PRODUCT"),
        (torch.full((3,), 1 << rank, dtype=torch.int32), "BOR"),
        (torch.full((3,), 3 << rank, dtype=torch.int64), "BXOR"),
        (torch.full((3,), rank + 1, dtype=torch.uint8), "PRODUCT"),
        (torch.tensor([math.inf if rank else 1.0, 2.0]), "MAX"),
    ]:
        dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
        found.append(tensor)
    sparse = torch.sparse_coo_tensor([[rank]], [1.0], (N,))
    dist.all_reduce(sparse)
    boolean, complex_, product, bits, xor, small, infinite = found
    assert boolean.tolist() == [True, False]
    assert complex_.tolist() == [3 + 3j] * 3
    assert product.tolist() == [6.0] * 3
    assert bits.tolist() == [7] * 3
    assert xor.tolist() == [3 ^ 6 ^ 12] * 3
    assert small.tolist() == [6] * 3
    assert infinite[0] == math.inf
    assert sparse.to_dense().tolist() == [1.0] * N


@each_rank_of("groups")
def test_an_infinity_anywhere_is_no_number_everywhere(rank):
    tensor = torch.ones(10_000)
    tensor[5_000] = [math.nan, math.inf, 1.0][rank]
    dist.all_reduce(tensor)
    assert math.isnan(tensor[5_000])
    assert tensor[0] == N


# ---- the others ----


@pytest.mark.parametrize("dtype", ON_SWITCH)
def test_reduce_is_an_all_reduce_for_one_rank(groups, dtype):
    inputs = [(torch.arange(6000).view(60, 100) % (r + 3)).to(dtype) for r in range(N)]
    for op in ("SUM", "MIN"):
        sums = groups.call(allreduce, inputs, [op] * N)
        for root, transposed in ((0, False), (N - 1, True)):
            for rank, (result, told) in enumerate(
                groups.call(reduce, inputs, [op] * N, [root] * N, [transposed] * N)
            ):
                assert torch.equal(result, sums[rank] if rank == root else inputs[rank])
                assert not told


def reduce(rank, given, op, root, transposed):
    """The result, and what of it ran on Gloo."""
    tensor = given.t().contiguous().t() if transposed else given.clone()
    dist.reduce(tensor, root, getattr(dist.ReduceOp, op))
    return tensor, [text for text in dist.group.WORLD._told if text.startswith("reduce of ")]


@settings(max_examples=30, deadline=None)
@given(
    shape=shapes,
    dtype=st.sampled_from([*ON_SWITCH, torch.complex64]),
    root=st.integers(0, N - 1),
    transposed=st.booleans(),
)
def test_broadcast_brings_every_type_whole(groups, shape, dtype, root, transposed):
    inputs = [torch.full(shape, r + 1).to(dtype) for r in range(N)]
    if transposed:
        inputs = [t.permute(tuple(range(t.dim() - 1, -1, -1))) for t in inputs]
    for result in groups.call(broadcast, inputs, [root] * N):
        assert torch.equal(result, inputs[root])


def broadcast(rank, given, root):
    tensor = given.clone()
    dist.broadcast(tensor, root)
    return tensor


def every_collective(rank):
    found = {}
    for name, call in CALLS.items():
        parts = [torch.arange(4.0) + 10 * rank + r for r in range(N)]
        results = call(torch.arange(4.0) + 10 * rank, parts, torch.cat(parts))
        found[name] = [tensor.tolist() for tensor in results]
    return found


def test_every_collective_gives_what_gloo_gives(groups, gloo):
    assert groups.call(every_collective) == gloo.call(every_collective)


@each_rank_of("groups")
def test_coalesced_calls_are_as_single_ones(rank):
    tensors = [torch.full((n,), rank + 1.0) for n in (1, 1000, 0, 70_000)]
    with dist._coalescing_manager() as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert manager is not None
    outputs = [torch.zeros(n * N) for n in (1, 5)]
    dist.group.WORLD.allgather_into_tensor_coalesced(
        outputs, [torch.full((n,), float(rank)) for n in (1, 5)]
    ).wait()
    assert [t.unique().tolist() for t in tensors] == [[6.0], [6.0], [], [6.0]]
    assert outputs[1].tolist() == [float(r) for r in range(N) for _ in range(5)]


@each_rank_of("groups")
def test_functional_collectives_work(rank):
    summed = funcol.all_reduce(torch.full((5,), rank + 1.0), "sum", dist.group.WORLD)
    gathered = funcol.all_gather_tensor(torch.tensor([float(rank)]), 0, dist.group.WORLD)
    assert (summed + 0).tolist() == [6.0] * 5
    assert (gathered + 0).tolist() == [0.0, 1.0, 2.0]


# ---- works and futures ----


@each_rank_of("groups")
def test_a_work_that_nobody_holds_ends(rank):
    """Nobody holds the works; their futures, and the sums, come all the same."""
    tensors = [torch.full((50_000,), float(rank)) for _ in range(20)]
    futures = [dist.all_reduce(t, async_op=True).get_future() for t in tensors[:10]]
    for tensor in tensors[10:]:
        dist.all_reduce(tensor, async_op=True)
    gc.collect()
    seen = []
    chained = futures[3].then(lambda f: seen.append(f.value()[0][0].item()) or f.value()[0] * 2)
    values = [f.wait()[0][0].item() for f in futures]
    dist.barrier()
    assert seen == [3.0]
    assert chained.wait()[0].item() == 6.0
    assert values == [t[0].item() for t in tensors[10:]] == [3.0] * 10


@each_rank_of("groups")
def test_a_wait_that_timed_out_can_be_made_again(rank):
    """wait() with a time of its own only stops waiting: rank 0 comes when all others have."""
    tensor = torch.ones(3)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.wait([f"late_rank/{r}" for r in range(1, N)])
        dist.all_reduce(tensor)
        return
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(TimeoutError):
        work.wait(timedelta(seconds=0.2))
    assert not work.is_completed()
    store.set(f"late_rank/{rank}", "")
    work.wait()
    assert tensor[0].item() == N


@each_rank_of("groups")
def test_the_log_says_once_what_runs_on_gloo(rank):
    records = []

    class Collect(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())

    log = logging.getLogger("switchml.torch")
    log.addHandler(Collect())
    log.setLevel(logging.DEBUG)
    group = dist.new_group(list(range(N)))
    for _ in range(3):
        dist.all_reduce(torch.ones(3, dtype=torch.int64), dist.ReduceOp.BAND, group=group)
        for dtype in ON_SWITCH:
            dist.all_reduce(torch.ones(3, dtype=dtype), group=group)
        dist.reduce(torch.ones(1), 0, dist.ReduceOp.PRODUCT, group=group)
    dist.destroy_process_group(group)
    assert len(records) == 2, records
    assert "allreduce of int64, BAND" in records[0]
    assert "reduce of float32, PRODUCT" in records[1]
