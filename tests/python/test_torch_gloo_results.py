# SPDX-License-Identifier: BSD-3-Clause
"""Calls that run on Gloo: what is computed, and what is refused."""

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from gloo_calls import BEFORE_2_13, N, on_root, ones  # noqa: E402
from groups import Groups, stop  # noqa: E402
from switchml.torch._calls.tensors import _multiply  # noqa: E402

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


def everything(rank, collective, op):
    """Of each type, the result, or the error's text."""
    found = {}
    for dtype in DTYPES:
        try:
            result = COLLECTIVES[collective][0](rank, inputs_of(dtype)[rank], op_of(op))
            wide = torch.complex128 if dtype.is_complex else torch.float64
            found[dtype] = None if result is None else result.to(wide).view(-1).tolist()
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            found[dtype] = str(error) or repr(error)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("op", OPS)
def test_what_is_not_computed_is_refused(pair, collective, op):
    """Each operation on each type, by each collective, is right, or an error in words."""
    part = COLLECTIVES[collective][1]
    for rank, found in enumerate(pair.call(everything, [collective] * N, [op] * N, timeout=100)):
        for dtype, result in found.items():
            if isinstance(result, str):
                assert not computes(op, dtype)
                continue
            right = reduced(op, dtype)
            assert right is not None, f"{op} of {dtype} has no meaning, but gave {result}"
            if result is not None:
                first = 0 if part == 4 else rank * part
                assert result == right[first : first + part].tolist(), f"{op} of {dtype}"


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


@pytest.mark.parametrize(("collective", "op", "dtype", "why"), REFUSED)
def test_a_refusal_says_what_to_do(pair, collective, op, dtype, why):
    for found in pair.call(everything, [collective] * N, [op] * N):
        assert why in found[dtype]
        assert "\n" not in found[dtype]


def refused_when_destroyed(rank):
    """What PREMUL_SUM has left of tensors, whose calls were refused."""
    group = dist.new_group(list(range(N)))
    dist.barrier()  # else Gloo may still be connecting on another rank
    dist.destroy_process_group(group)
    left = []
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
        left.append(tensor.to_dense().tolist())
    return left


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


def bare_calls(kind):
    """Each returns what its call wrote or returned, of tensors of rank + 1."""
    rank, product = dist.get_rank(), dist.ReduceOp.PRODUCT

    def mine():
        return bare(rank + 1, kind)

    def parts():
        return [bare(0, kind) for _ in range(N)]

    def in_place(call):
        tensor = mine()
        call(tensor)
        return tensor

    def coalesced_product():
        tensors = [mine(), mine()]
        dist.all_reduce_coalesced(tensors, product)
        return tensors

    def of_work(call, outputs):
        work = call(outputs)
        work.wait()
        return [outputs, work.result(), work.get_future().value()]

    def gathered(call):
        out = parts()
        call(out)
        return out

    def send():
        if rank == 0:
            dist.send(mine(), 1)
            return None
        tensor = bare(0, kind)
        dist.recv(tensor, 0)
        return tensor

    return {
        "all_reduce": lambda: in_place(dist.all_reduce),
        "all_reduce_product": lambda: in_place(lambda t: dist.all_reduce(t, product)),
        "all_reduce_product_works": lambda: of_work(
            lambda t: dist.all_reduce(t, product, async_op=True), mine()
        ),
        "all_reduce_coalesced_product": coalesced_product,
        "reduce_product": lambda: on_root(in_place(lambda t: dist.reduce(t, 0, product)), 0, None),
        "broadcast": lambda: in_place(lambda t: dist.broadcast(t, 1)),
        "all_gather": lambda: gathered(lambda out: dist.all_gather(out, mine())),
        "all_gather_works": lambda: of_work(
            lambda out: dist.all_gather(out, mine(), async_op=True), parts()
        ),
        "gather": lambda: gathered(lambda out: dist.gather(mine(), on_root(out, 0, None), 0)),
        "scatter": lambda: in_place(
            lambda t: dist.scatter(t, on_root([bare(7, kind), bare(8, kind)], 0, None), 0)
        ),
        "reduce_scatter": lambda: in_place(
            # Before 2.13 Gloo's adds whatever it is told, which we refuse.
            lambda t: dist.reduce_scatter(
                t, [mine() for _ in range(N)], dist.ReduceOp.SUM if BEFORE_2_13 else product
            )
        ),
        "all_to_all": lambda: gathered(lambda out: dist.all_to_all(out, [mine(), mine()])),
        "all_to_all_single": lambda: in_place(lambda t: dist.all_to_all_single(t, mine())),
        "send": send,
    }


def shown(found):
    """Shapes, layouts and elements."""
    if isinstance(found, torch.Tensor):
        return tuple(found.shape), str(found.layout), found.to_dense().tolist()
    return [shown(part) for part in found] if isinstance(found, list) else found


def outcomes_of_bare(rank, kind):
    found = {}
    for name, call in bare_calls(kind).items():
        try:
            found[name] = shown(call())
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            found[name] = type(error).__name__
    return found


@pytest.fixture(scope="module")
def gloo_pair():
    with Groups(N, "gloo") as ranks:
        yield ranks
        ranks.call(stop)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "complex64", "int64", "bool", "sparse"])
def test_tensors_without_dimensions_are_as_gloo_has_them(pair, gloo_pair, kind):
    """Results, works and futures have the same shapes, and what Gloo refuses is refused."""
    right = gloo_pair.call(outcomes_of_bare, [kind] * N)
    found = pair.call(outcomes_of_bare, [kind] * N)
    if BEFORE_2_13 and kind == "complex64":  # which its Gloo does not broadcast
        for outcomes in (*found, *right):
            del outcomes["broadcast"]
    assert found == right
    assert right[0]["all_reduce"][0] == ()
    if kind not in ("sparse", "complex64"):
        assert right[0]["all_reduce_product_works"][1][0][0] == ()


# ---- groups that cannot change ----


def reconfigure(rank):
    group = dist.group.WORLD
    assert not group.supports_reconfigure
    calls = [group.get_reconfigure_handle, lambda: group.reconfigure(1, ["a", "b"])]
    if hasattr(dist.ProcessGroup, "reconfigure"):
        assert not dist._supports_reconfigure()
        calls += [dist._get_reconfigure_handle, lambda: dist._reconfigure(1, ["a", "b"])]
    for call in calls:
        with pytest.raises(NotImplementedError, match=r"^this switchml group cannot be reconf"):
            call()
    return all_reduce(rank, ones(), dist.ReduceOp.SUM).tolist()


def test_a_group_that_was_not_made_for_it_cannot_be_reconfigured(pair):
    assert pair.call(reconfigure) == [[2.0] * 4] * N
