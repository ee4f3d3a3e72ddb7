# SPDX-License-Identifier: BSD-3-Clause
"""Calls that run on Gloo: their place among those on the switch, and what is refused."""

import contextlib
import os
import re
import sys
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups, stop  # noqa: E402
from ranks import RankError  # noqa: E402

N = 2
OPS = ("SUM", "AVG", "MAX", "MIN", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ODD = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [*FLOATS, *INTEGERS, *ODD, torch.bool, *COMPLEX]


# ---- ranks that disagree ----


def ones(size=4):
    return torch.ones(size)


def halves():
    return [torch.ones(2) for _ in range(N)]


def tensors(size=4):
    return [ones(size) for _ in range(N)]


LONG = 200_000  # of lists that the switch leaves to Gloo


def on_root(made, root, group):
    return made if dist.get_rank(group) == root else None


def gather_to(root, group):
    dist.gather(ones(), on_root(tensors(), root, group), root, group=group)


PRODUCT = "allreduce of 4 float32, PRODUCT"
# What runs on Gloo, and a part of its name in the error.
ON_GLOO = {
    PRODUCT: lambda g: dist.all_reduce(ones(), dist.ReduceOp.PRODUCT, group=g),
    "allreduce of 4 float32 (sparse_coo), SUM": lambda g: dist.all_reduce(
        torch.sparse_coo_tensor([[1]], [1.0], (4,)), group=g
    ),
    "reduce of 4 float32, PRODUCT, root 1": lambda g: dist.reduce(
        ones(), 1, dist.ReduceOp.PRODUCT, group=g
    ),
    "gather of 200000 float32, root 0": lambda g: dist.gather(
        ones(LONG), on_root(tensors(LONG), 0, g), 0, group=g
    ),
    "scatter of 200000 float32, root 0": lambda g: dist.scatter(
        ones(LONG), on_root(tensors(LONG), 0, g), 0, group=g
    ),
    "reduce_scatter of 4 complex64, SUM": lambda g: dist.reduce_scatter(
        ones(2).to(torch.complex64), [half.to(torch.complex64) for half in halves()], group=g
    ),
    "reduce_scatter_single of 4 complex64, SUM": lambda g: dist.reduce_scatter_tensor(
        ones(2).to(torch.complex64), ones().to(torch.complex64), group=g
    ),
    "of float32, on Gloo": lambda g: dist.all_to_all_single(ones(), ones(), group=g),
    "alltoall of float32": lambda g: dist.all_to_all(halves(), halves(), group=g),
    "monitored_barrier": lambda g: dist.monitored_barrier(g, timedelta(seconds=100)),
}
BEFORE_2_13 = torch.__version__ < (2, 13)
MISSING_BEFORE_2_13 = (
    "reduce_scatter of 4 complex64, SUM",
    "reduce_scatter_single of 4 complex64, SUM",
    "alltoall of float32",
)
ON_SWITCH = {
    "4 float32, sum": lambda g: dist.all_reduce(ones(), group=g),
    "called barrier": lambda g: dist.barrier(g),
    "gather of 4 float32, root 0": lambda g: gather_to(0, g),
    "gather of 4 float32, root 1": lambda g: gather_to(1, g),
}
OTHER_ON_GLOO = {
    "allreduce of 40000 float32, PRODUCT": lambda g: dist.all_reduce(
        ones(40_000), dist.ReduceOp.PRODUCT, group=g
    ),
    # Tensors of different sizes, which Gloo refuses, too.
    "allgather of 1 float32": lambda g: dist.all_gather([ones(1), ones(2)], ones(1), group=g),
    "allgather of 2 float32": lambda g: dist.all_gather([ones(1), ones(2)], ones(2), group=g),
}
PAIRS = [
    *((gloo, "4 float32, sum") for gloo in ON_GLOO),
    (PRODUCT, "called barrier"),
    # Gloo ends the process if the sizes differ.
    (PRODUCT, "allreduce of 40000 float32, PRODUCT"),
    (PRODUCT, "gather of 200000 float32, root 0"),
    ("gather of 4 float32, root 0", "gather of 4 float32, root 1"),
    ("allgather of 1 float32", "allgather of 2 float32"),
]
CALLS = {**ON_GLOO, **ON_SWITCH, **OTHER_ON_GLOO}


def disagree(rank, names, warm, default=False):
    group = dist.group.WORLD if default else dist.new_group(list(range(N)))
    if warm:
        dist.all_reduce(ones(), group=group)
    began = time.monotonic()
    try:
        CALLS[names[rank]](group)
    except RuntimeError as error:
        return type(error).__name__, str(error), time.monotonic() - began
    finally:
        if not default:
            dist.destroy_process_group(group)
    return None


def check_told(found, names):
    for kind, text, seconds in found:
        assert kind == "Mismatch"
        assert seconds < 60  # the timeout is 150
        for name in names:
            assert name in text


@pytest.fixture(scope="module")
def pair():
    with Groups(N) as made:
        yield made
        with contextlib.suppress(RankError):
            made.call(stop)


@pytest.mark.parametrize("names", PAIRS, ids="; ".join)
def test_ranks_that_disagree_are_told_both_calls_at_once(pair, names):
    """In a group's first call, and in a later one; on every rank's side."""
    for warm, order in ((False, names), (True, names[::-1])):
        check_told(pair.call(disagree, [order] * N, [warm] * N, timeout=100), names)


def test_ranks_that_disagree_in_the_default_group_are_told_so():
    with Groups(N) as groups:
        found = groups.call(disagree, [PAIRS[0]] * N, [False] * N, [True] * N, timeout=100)
    check_told(found, PAIRS[0])


def agree(rank):
    """Every call on Gloo, in turn with one on the switch."""
    for name, call in ON_GLOO.items():
        if BEFORE_2_13 and name in MISSING_BEFORE_2_13:
            continue
        call(None)
        tensor = ones()
        dist.all_reduce(tensor)
        assert tensor.tolist() == [N] * 4
    given = torch.full((4,), float(rank))
    taken = torch.zeros(6 if rank == 0 else 2)
    dist.all_to_all_single(taken, given, [3, 3] if rank == 0 else [1, 1], [3, 1])
    return taken.tolist()


def multiply_twice_and_add_complex(rank, said):
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT), sys.stderr.fileno())
    for dtype in COMPLEX:
        numbers = torch.full((4,), 1 + 2j, dtype=dtype)
        dist.all_reduce(numbers)
        assert numbers.tolist() == [N * (1 + 2j)] * 4
    for _ in range(2):
        CALLS[PRODUCT](None)


def test_the_last_line_of_the_job_counts_calls_on_gloo(tmp_path):
    """All-reduces of complex numbers are none of these: they run on the switch, as pairs.

    The ranks' standard error is that of the server that forks them: it gets a file here.
    """
    said = tmp_path / "said"
    with Groups(N) as group:
        group.call(multiply_twice_and_add_complex, [str(said)] * N)
        group.call(stop)
    assert "2 calls left to Gloo" in said.read_text()


def test_ranks_that_agree_hear_nothing_of_it(pair):
    assert pair.call(agree) == [[0.0] * 3 + [1.0] * 3, [0.0, 1.0]]


def futures_of_gloo(rank):
    """The value of a future is Gloo's, and a work can be polled."""
    tensor = torch.full((4,), rank + 2.0)
    work = dist.all_reduce(tensor, dist.ReduceOp.PRODUCT, async_op=True)
    (value,) = work.get_future().wait()
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    return value.tolist(), tensor.tolist()


def test_a_work_on_gloo_is_like_any_other(pair):
    assert pair.call(futures_of_gloo) == [([6.0] * 4, [6.0] * 4)] * N


def modes(rank):
    """Gloo writes to a leaf, and to a tensor of inference, as its caller may."""
    leaf = torch.full((4,), 2.0, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf, dist.ReduceOp.PRODUCT)
        gathered = [torch.zeros(4, requires_grad=True) for _ in range(N)]
        dist.all_gather(gathered, leaf)
    with torch.inference_mode():
        tensor = torch.full((4,), 3.0)
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
        return leaf[0].item(), gathered[1][0].item(), tensor[0].item()


def test_gloo_has_the_modes_of_the_caller(pair):
    assert pair.call(modes) == [(4.0, 4.0, 9.0)] * N


def missing(rank):
    if rank == 1:
        return None
    with pytest.raises(RuntimeError, match="[Rr]ank 1"):
        dist.monitored_barrier(timeout=timedelta(seconds=1))
    return True


def test_a_monitored_barrier_names_the_missing_rank():
    with Groups(N) as groups:
        assert groups.call(missing) == [True, None]


def missing_since_an_earlier_call(rank):
    group = dist.new_group(list(range(N)))
    dist.barrier(group)
    if rank == 1:
        return None
    CALLS_BEGUN["product"](group)
    with pytest.raises(RuntimeError, match="[Rr]ank 1"):
        dist.monitored_barrier(group, timedelta(seconds=2))
    return True


def test_a_monitored_barrier_names_a_rank_that_is_missing_since_an_earlier_call():
    with Groups(N) as groups:
        assert groups.call(missing_since_an_earlier_call) == [True, None]


CALLS_BEGUN = {
    "product": lambda g: dist.all_reduce(ones(), dist.ReduceOp.PRODUCT, group=g, async_op=True),
    "all_reduce": lambda g: dist.all_reduce(ones(), group=g, async_op=True),
}


def begin_before_monitored_barriers(rank, name, rounds=20):
    """Rank 0 has the results before it comes to the barrier, and rank 1 has not."""
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=20))
    for _ in range(rounds):
        work = CALLS_BEGUN[name](group)
        if rank == 0:
            work.wait()
        dist.monitored_barrier(group)
        work.wait()
    return True


@pytest.mark.parametrize("name", CALLS_BEGUN)
def test_a_monitored_barrier_comes_after_the_calls_that_were_begun_before_it(name):
    with Groups(N) as groups:
        assert groups.call(begin_before_monitored_barriers, [name] * N) == [True] * N


# ---- a rank that leaves ----


def leave(rank, how):
    """The text that rank 0 reads of rank 1's end."""
    group = dist.new_group(list(range(N))) if how == "subgroup" else dist.group.WORLD
    dist.all_reduce(ones(), group=group)
    if rank == 1:
        dist.destroy_process_group(group)
        return None
    call = CALLS[PRODUCT] if how == "gloo" else CALLS["4 float32, sum"]
    try:
        call(group)
    except RuntimeError as error:
        return type(error).__name__, str(error)
    return None


@pytest.mark.parametrize("how", ["switch", "gloo", "subgroup"])
def test_a_rank_that_leaves_is_not_said_to_have_called_a_barrier(how):
    with Groups(N) as groups:
        kind, text = groups.call(leave, [how] * N)[0]
    assert kind == "Mismatch"
    assert re.search(r"rank 1( \([^)]*\))? called nothing more: it has left the group", text)
    assert "barrier" not in text


PROGRAM = """
import os, sys, torch, torch.distributed as dist, switchml.torch
dist.init_process_group("switchml")
dist.all_reduce(torch.ones(1))
if os.environ["RANK"] == "1":
    sys.exit(7)
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError as error:
    print(type(error).__name__, error)
"""


def test_a_program_that_ends_is_said_to_have_left():
    import os
    import subprocess
    import sys
    from pathlib import Path

    from ranks import free_port

    package = Path(__file__).resolve().parents[2] / "bindings" / "python"
    environment = {
        **os.environ,
        "PYTHONPATH": str(package),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [program.communicate(timeout=200)[0] for program in programs]
    assert programs[1].returncode == 7
    assert "Mismatch " in said[0]
    left = r"rank 1( \([^)]*\))? called nothing more: it has left the group \(its program ended"
    assert re.search(left, said[0])


# ---- what is computed, and what is refused ----


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
                assert dtype not in [*FLOATS, *INTEGERS] or not computes(op)
                continue
            right = reduced(op, dtype)
            assert right is not None, f"{op} of {dtype} has no meaning, but gave {result}"
            if result is not None:
                first = 0 if part == 4 else rank * part
                assert result == right[first : first + part].tolist(), f"{op} of {dtype}"


def computes(op):
    """What the switch adds is never refused."""
    return op in ("SUM", "AVG", "MAX", "MIN")


REFUSED = [
    ("all_reduce", "PREMUL_SUM", torch.float32, "multiply the tensor, and use SUM"),
    ("scatter_tensor", "PREMUL_SUM", torch.float32, "multiply the tensor, and use SUM"),
    ("all_reduce", "AVG", torch.bool, "bool has no average"),
    ("scatter_scalar", "AVG", torch.bool, "bool has no average"),
]


@pytest.mark.parametrize(("collective", "op", "dtype", "why"), REFUSED)
def test_a_refusal_says_what_to_do(pair, collective, op, dtype, why):
    for found in pair.call(everything, [collective] * N, [op] * N):
        assert why in found[dtype]
        assert "\n" not in found[dtype]


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
    if kind == "complex64":  # which Gloo does not gather
        assert {outcomes.pop("gather") for outcomes in right} == {"RuntimeError"}
        gathered = [outcomes.pop("gather") for outcomes in found]
        assert [element for *_, element in gathered[0]] == [1, 2]
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
