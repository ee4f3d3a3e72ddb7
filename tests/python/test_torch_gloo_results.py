# SPDX-License-Identifier: BSD-3-Clause
"""Calls that run on Gloo: what is computed, and what is refused."""

import pytest
import torch
import torch.distributed as dist

from collectives import CALLS, in_place
from gloo_calls import BEFORE_2_13, N, ones
from ranks import each_rank_of
from switchml.torch._calls.tensors import _multiply

OPS = ("SUM", "AVG", "MAX", "MIN", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ODD = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [*FLOATS, *INTEGERS, *ODD, torch.bool, *COMPLEX]


def inputs_of(dtype):
    made = [[6, 3, 1, 4], [5, 2, 0, 4]]
    if dtype.is_complex:
        made = [[complex(a, a % 3) for a in values] for values in made]
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return [torch.tensor(values, dtype=wide).to(dtype) for values in made]


def reduced(op, dtype):
    """In plain Python; None: it has no meaning."""
    a, b = (t.to(torch.complex128 if dtype.is_complex else torch.float64) for t in inputs_of(dtype))
    if dtype is torch.bool:
        a, b = a.bool(), b.bool()
        either, both = a | b, a & b
        meanings = {"SUM": either, "MAX": either, "BOR": either, "MIN": both, "PRODUCT": both}
        return {**meanings, "BAND": both, "BXOR": a ^ b}.get(op)
    meanings = {"SUM": a + b, "PRODUCT": a * b, "AVG": (a + b) / 2}
    if dtype.is_floating_point or dtype.is_complex:
        meanings["PREMUL_SUM"] = 2 * a + 2 * b
    if dtype.is_complex:
        return meanings.get(op)
    meanings |= {"MAX": torch.maximum(a, b), "MIN": torch.minimum(a, b)}
    if not dtype.is_floating_point:
        a, b = a.long(), b.long()
        meanings |= {"BAND": a & b, "BOR": a | b, "BXOR": a ^ b, "AVG": (a + b) // 2}
    return meanings.get(op)


def op_of(name):
    return dist._make_nccl_premul_sum(2.0) if name == "PREMUL_SUM" else getattr(dist.ReduceOp, name)


def all_reduce(rank, tensor, op):
    dist.all_reduce(tensor, op)
    return tensor


def coalesced(rank, tensor, op):
    dist.all_reduce_coalesced([tensor], op)
    return tensor


def reduce(rank, tensor, op):
    dist.reduce(tensor, 0, op)
    return tensor if rank == 0 else None


def scatter_tensor(rank, tensor, op):
    part = torch.zeros(2, dtype=tensor.dtype)
    dist.reduce_scatter_tensor(part, tensor, op)
    return part


def scatter_list(rank, tensor, op):
    part = torch.zeros(2, dtype=tensor.dtype)
    dist.reduce_scatter(part, [t.clone() for t in tensor.split(2)], op)
    return part


def scatter_scalar(rank, tensor, op):
    """An output without dimensions."""
    part = torch.zeros((), dtype=tensor.dtype)
    dist.reduce_scatter_tensor(part, tensor[:N].clone(), op)
    return part


COLLECTIVES = {
    f.__name__: (f, part)
    for f, part in (
        (all_reduce, 4),
        (coalesced, 4),
        (reduce, 4),
        (scatter_tensor, 2),
        (scatter_list, 2),
        (scatter_scalar, 1),
    )
}


@each_rank_of("groups")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("op", OPS)
def test_what_is_not_computed_is_refused(rank, collective, op):
    """Each operation on each type, by each collective, is right, or an error in words."""
    call, part = COLLECTIVES[collective]
    first = 0 if part == 4 else rank * part
    for dtype in DTYPES:
        try:
            result = call(rank, inputs_of(dtype)[rank], op_of(op))
        except (RuntimeError, ValueError, TypeError, IndexError):
            assert not computes(op, dtype), dtype
            continue
        right = reduced(op, dtype)
        assert right is not None, f"{op} of {dtype} has no meaning, but gave {result}"
        if result is not None:
            result = result.to(torch.complex128 if dtype.is_complex else torch.float64).view(-1)
            assert result.tolist() == right[first : first + part].tolist(), f"{op} of {dtype}"


def computes(op, dtype):
    """What the switch adds is never refused."""
    of_floats = ("PREMUL_SUM",) if dtype in FLOATS else ()
    return dtype in [*FLOATS, *INTEGERS] and op in ("SUM", "AVG", "MAX", "MIN", *of_floats)


REFUSED = [
    ("all_reduce", "PREMUL_SUM", torch.int32, "PREMUL_SUM multiplies floats, not int32"),
    ("scatter_tensor", "PREMUL_SUM", torch.int64, "PREMUL_SUM multiplies floats, not int64"),
    ("all_reduce", "AVG", torch.bool, "bool has no average"),
    ("scatter_scalar", "AVG", torch.bool, "bool has no average"),
]


@each_rank_of("groups")
@pytest.mark.parametrize(("collective", "op", "dtype", "why"), REFUSED)
def test_a_refusal_says_what_to_do(rank, collective, op, dtype, why):
    with pytest.raises((RuntimeError, ValueError, TypeError), match=f"^.*{why}.*\\Z"):
        COLLECTIVES[collective][0](rank, inputs_of(dtype)[rank], op_of(op))


@each_rank_of("groups")
def test_a_refused_call_has_multiplied_nothing(rank):
    """What PREMUL_SUM has left of tensors, whose calls were refused."""
    group = dist.new_group(list(range(N)))
    dist.barrier()  # else Gloo may still be connecting on another rank
    dist.destroy_process_group(group)
    for method, kind, sparse in (
        (group.allreduce, dist.AllreduceOptions, False),
        (group.allreduce, dist.AllreduceOptions, True),
        (group.allreduce_coalesced, dist.AllreduceCoalescedOptions, False),
        (group.reduce, dist.ReduceOptions, False),
    ):
        opts = kind()
        opts.reduceOp = dist._make_nccl_premul_sum(0.3)
        tensor = torch.full((4,), 3.0)
        tensor = tensor.to_sparse() if sparse else tensor
        with pytest.raises(RuntimeError, match="has been destroyed"):
            method([tensor], opts)
        assert tensor.to_dense().tolist() == [3.0] * 4


@pytest.mark.parametrize("layout", [torch.strided, torch.sparse_coo])
def test_a_factor_multiplies_once_though_its_call_was_interrupted(layout):
    tensor = torch.full((4,), 3.0)
    tensor, products = tensor.to_sparse() if layout == torch.sparse_coo else tensor, []
    for _ in range(2):
        _multiply([tensor], 2.0, products)
    assert tensor.to_dense().tolist() == [6.0] * 4


# ---- tensors without dimensions ----


def bare(value, kind="float32"):
    if kind == "sparse":
        return torch.tensor(float(value)).to_sparse()
    return torch.tensor(value, dtype=getattr(torch, kind))


PRODUCT = dist.ReduceOp.PRODUCT
# Before 2.13 Gloo's adds whatever it is told, which we refuse.
OF_PARTS = dist.ReduceOp.SUM if BEFORE_2_13 else PRODUCT


def of_work(work, outputs):
    work.wait()
    return [outputs, work.result(), work.get_future().value()]


def coalesced_product(tensor, parts, whole):
    dist.all_reduce_coalesced([tensor, *parts], PRODUCT)
    return [tensor, *parts]


BARE_CALLS = {
    **CALLS,
    "all_reduce_product_works": lambda tensor, parts, whole: of_work(
        dist.all_reduce(tensor, PRODUCT, async_op=True), tensor
    ),
    "all_reduce_coalesced_product": coalesced_product,
    "all_gather_works": lambda tensor, parts, whole: of_work(
        dist.all_gather(parts, tensor, async_op=True), parts
    ),
    "reduce_scatter_product": in_place(
        lambda t: dist.reduce_scatter(t, [t.clone() for _ in range(N)], OF_PARTS)
    ),
}
# Of these, Gloo ends the process, or they are the same as others.
for _name in ("all_gather_into_tensor", "reduce_scatter_tensor", "future"):
    del BARE_CALLS[_name]


def shown(found):
    """Shapes, layouts and elements."""
    if isinstance(found, torch.Tensor):
        return tuple(found.shape), str(found.layout), found.to_dense().tolist()
    return [shown(part) for part in found] if isinstance(found, list) else found


def outcomes_of_bare(rank, kind):
    found = {}
    for name, call in BARE_CALLS.items():
        parts = [bare(rank + r, kind) for r in range(N)]
        try:
            found[name] = shown(call(bare(rank + 1, kind), parts, bare(rank + 1, kind)))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            found[name] = type(error).__name__
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "complex64", "int64", "bool", "sparse"])
def test_tensors_without_dimensions_are_as_gloo_has_them(groups, gloo, kind):
    """Results, works and futures have the same shapes, and what Gloo refuses is refused."""
    right = gloo.call(outcomes_of_bare, [kind] * N)
    found = groups.call(outcomes_of_bare, [kind] * N)
    if BEFORE_2_13 and kind == "complex64":  # which its Gloo does not broadcast
        for outcomes in (*found, *right):
            del outcomes["broadcast"], outcomes["completed"]
    assert found == right
    assert right[0]["all_reduce"][0][0] == ()
    if kind not in ("sparse", "complex64"):
        assert right[0]["all_reduce_product_works"][1][0][0] == ()


# ---- groups that cannot change ----


@each_rank_of("groups")
def test_a_group_that_was_not_made_for_it_cannot_be_reconfigured(rank):
    group = dist.group.WORLD
    assert not group.supports_reconfigure
    calls = [group.get_reconfigure_handle, lambda: group.reconfigure(1, ["a", "b"])]
    if hasattr(dist.ProcessGroup, "reconfigure"):
        assert not dist._supports_reconfigure()
        calls += [dist._get_reconfigure_handle, lambda: dist._reconfigure(1, ["a", "b"])]
    for call in calls:
        with pytest.raises(NotImplementedError, match=r"^this switchml group cannot be reconf"):
            call()
    assert all_reduce(rank, ones(), dist.ReduceOp.SUM).tolist() == [2.0] * 4
