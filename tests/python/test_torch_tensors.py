# SPDX-License-Identifier: BSD-3-Clause
"""Tensors whose elements are not simply in their memory: each call uses them as they are read, or
refuses them in words."""

import math
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch._subclasses import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.masked import masked_tensor
from torch.utils._pytree import tree_map_only

import collectives
import switchml
from ranks import each_rank_of

N = 2
# PyTorch 2.8 has an AssertionError for a DTensor.
WORDS = (TypeError, ValueError, NotImplementedError, RuntimeError, AssertionError)


def reduce_scatter_tensor(tensor, parts, whole):
    dist.reduce_scatter_tensor(whole[: tensor.shape[0] // N], tensor)
    return [whole]


def all_to_all_single(tensor, parts, whole):
    dist.all_to_all_single(whole[: tensor.shape[0]], tensor)
    return [whole]


def exchange(tensor, parts, whole):
    other = 1 - dist.get_rank()
    part = whole[: tensor.shape[0]]
    work = dist.isend(tensor, other)
    if part.is_contiguous() and not part.is_neg() and not part.is_conj():
        dist.recv(part, other)
    else:
        with pytest.raises(ValueError, match="needs a contiguous tensor"):
            dist.recv(part, other)
        plain = torch.zeros(part.shape, dtype=part.dtype)
        dist.recv(plain, other)
        with torch.inference_mode(part.is_inference()):
            part.copy_(plain)
    work.wait()
    return [whole]


IN_PLACE = ("all_reduce", "all_reduce_async", "all_reduce_coalesced", "broadcast", "reduce")
OTHERS = (
    *("all_reduce_product", "reduce_product"),
    *("all_gather_into_tensor", "all_gather", "gather"),
)
CALLS = {
    **{name: collectives.CALLS[name] for name in (*IN_PLACE, *OTHERS)},
    # The tensor is what these send, and not what they write.
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_to_all_single": all_to_all_single,
    "send and recv": exchange,
}


def results(call, tensor, out):
    """`out`: what the call writes, for all ranks, if it does not write the tensor."""
    return [(t + 0).tolist() for t in call(tensor, list(out.chunk(N)), out)]


def attempt(call, tensor, out):
    try:
        return results(call, tensor, out)
    except WORDS as error:
        return str(error)


def plainly(call, tensor, out):
    """The results for plain tensors with the same elements."""
    copies = [t.resolve_conj().resolve_neg().contiguous().clone() for t in (tensor, out)]
    return results(call, *copies)


# ---- lazy bits ----


def negative(tensor):
    """The same elements, behind a negative bit."""
    lazy = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert lazy.is_neg()
    assert torch.equal(lazy, tensor)
    return lazy


@each_rank_of("groups")
@pytest.mark.parametrize("sends", [(True, True), (False, True)], ids=["both", "one"])
@pytest.mark.parametrize("receives", [(False, False), (True, True), (True, False)])
def test_the_negative_bit_is_heeded_on_every_way(rank, sends, receives):
    """Each call with tensors that are negative if asked for on this rank."""
    for name, call in CALLS.items():
        tensor, out = torch.tensor([3.0, 5.0]) + rank, torch.full((2 * N,), 7.0)
        expected = plainly(call, tensor, out)
        tensor = negative(tensor).view(2) if sends[rank] else tensor
        out = negative(out) if receives[rank] else out
        assert attempt(call, tensor, out) == expected, name


@each_rank_of("groups")
def test_the_conjugate_bit_is_heeded_or_refused(rank):
    """Complex tensors, which torch.distributed itself refuses in some calls."""
    heeded = 0
    for name, call in CALLS.items():
        tensor, out = torch.tensor([3 + 1j, 5 - 2j]) * (rank + 1), torch.zeros(2 * N) + 1j
        expected = attempt(call, tensor.clone(), out.clone())
        result = attempt(call, tensor.conj().resolve_conj().conj(), out)
        assert tensor.conj().is_conj()
        assert result == expected or isinstance(result, str), name
        heeded += result == expected
    assert heeded


# ---- inference mode, and expanded outputs ----


def strided(tensor, how):
    if how == "columns":
        wide = torch.zeros(tensor.shape[0], 3)
        wide[:, 1] = tensor
        return wide[:, 1]
    return tensor.clone()


@each_rank_of("groups")
@pytest.mark.parametrize("how", ["contiguous", "columns"])
def test_tensors_of_inference_mode_get_their_results(rank, how):
    for name, call in CALLS.items():
        tensor, out = torch.tensor([3.0, 5.0]) + rank, torch.full((2 * N,), 7.0)
        expected = plainly(call, tensor, out)
        with torch.inference_mode():
            made = strided(tensor, how), strided(out, how)
            assert made[0].is_inference()
            within = attempt(call, *made)
        again = strided(tensor, how), made[1]  # made in the mode, and used outside of it
        on_gloo = (
            not name.startswith(("all_reduce", "broadcast", "reduce", "all_gather_into"))
            or "product" in name
        )
        for result in (within, attempt(call, *again)):
            assert result == expected or (on_gloo and isinstance(result, str)), name


@each_rank_of("groups")
@pytest.mark.parametrize("mode", [False, True], ids=["normal", "inference"])
def test_expanded_outputs_get_their_results(rank, mode):
    """Outputs whose elements share memory, in one dimension or in two."""
    with torch.inference_mode(mode):
        for shape in ((3, 1, 4), (1, 1, 4), (3, 2, 1)):
            for name in IN_PLACE:
                count = float(math.prod(shape))
                small = torch.arange(count).view(shape) + rank
                expected = CALLS[name](small.expand(3, 2, 4).clone(), None, None)
                result = CALLS[name](small.expand(3, 2, 4), None, None)
                pairs = zip(result, expected, strict=True)
                assert all(torch.equal(*pair) for pair in pairs), (name, shape)
        out, mine = torch.zeros(1).expand(N), torch.ones(1)
        dist.all_gather_into_tensor(out, mine)
        assert out.tolist() == [1.0] * N
        part = torch.zeros(1).expand(2)
        dist.reduce_scatter_tensor(part, torch.ones(4))
        assert part.tolist() == [2.0] * 2


# ---- subclasses ----


class Named(torch.Tensor):
    """A subclass that has its elements in its memory."""


class Wrapper(torch.Tensor):
    """A subclass that has its elements in another tensor, and changes it as it is asked to."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        arguments, named = tree_map_only(Wrapper, lambda t: t.inner, (arguments, named or {}))
        return function(*arguments, **named)


def waiting(tensor):
    """A functional collective's result, not waited for: the elements are the tensor's, doubled."""
    result = functional.all_reduce(tensor.clone(), "sum", dist.group.WORLD)
    assert type(result) is functional.AsyncCollectiveTensor
    return result


@each_rank_of("groups")
@pytest.mark.parametrize("kind", ["waiting", "parameter", "subclass", "wrapper"])
def test_subclasses_that_can_be_read_are_read(rank, kind):
    """The results with tensors of another kind are those with plain tensors."""
    make = {"parameter": torch.nn.Parameter, "subclass": lambda t: t.as_subclass(Named)}.get(kind)
    make = {"wrapper": Wrapper, "waiting": waiting}.get(kind, make)
    for name, call in CALLS.items():
        with torch.no_grad():
            tensor, out = torch.tensor([3.0, 5.0]) + rank, torch.zeros(2 * N)
            sent = tensor if kind != "waiting" else torch.tensor([7.0, 11.0])
            expected = results(call, sent.clone(), out.clone())
            assert attempt(call, make(tensor), out) == expected, name


def without_elements(kind):
    x = torch.ones(2)
    if kind == "fake":
        with FakeTensorMode():
            return torch.ones(2)
    if kind == "dtensor":
        return DTensor.from_local(x, init_device_mesh("cpu", (N,)), [Shard(0)])
    if kind == "zero":
        return torch._efficientzerotensor(2)
    return {
        "masked": lambda: masked_tensor(x, x > 0),
        "nested": lambda: torch.nested.nested_tensor([x, torch.ones(3)]),
        "jagged": lambda: torch.nested.nested_tensor([x, torch.ones(3)], layout=torch.jagged),
        "quantized": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    }[kind]()


@each_rank_of("groups")
@pytest.mark.parametrize("kind", ["dtensor", "masked", "nested", "jagged", "quantized"])
def test_what_has_no_elements_of_its_own_is_refused_in_words(rank, kind):
    for name, call in CALLS.items():
        odd, out = without_elements(kind), torch.zeros(2 * N)
        with pytest.raises(WORDS) as refusal:
            call(odd, list(out.chunk(N)), out)
        text = str(refusal.value)
        assert text and "NULL" not in text and "INTERNAL ASSERT" not in text, name
    good = torch.ones(3)
    dist.all_reduce(good)
    assert good.tolist() == [N] * 3


@each_rank_of("groups")
def test_a_tensor_with_the_zero_bit_is_refused_before_the_call(rank):
    for call in ("all_reduce", "broadcast", "reduce"):
        with pytest.raises(ValueError, match=r"clone\(\)"):
            CALLS[call](torch._efficientzerotensor(2), None, None)


# ---- the calls of a job ----


@each_rank_of("prepared")
def test_a_job_refuses_what_is_not_in_memory_and_goes_on(rank, port):
    job = switchml.Job(rank=rank, world_size=N, job="test", master_port=port)
    kinds = {
        kind: without_elements(kind)
        for kind in ("fake", "masked", "nested", "jagged", "quantized", "zero")
    }
    kinds["negative"] = negative(torch.ones(2))
    kinds["conjugate"] = torch.ones(2, dtype=torch.complex64).conj()
    kinds["sparse"] = torch.ones(2).to_sparse()
    kinds["wrapper"] = Wrapper(torch.ones(2))
    plain = np.ones(2, np.float32)
    for tensor in kinds.values():
        for call in (
            job.allreduce,
            partial(job.allreduce, plain),
            job.reduce,
            lambda t: job.reduce(plain, rank, out=t),
            job.broadcast,
            job.allgather,
            partial(job.allgather, plain),
            job.reduce_scatter,
            partial(job.reduce_scatter, plain),
        ):
            with pytest.raises((TypeError, ValueError), match="pass "):
                call(tensor)
    assert [
        job.allreduce(torch.ones(2).as_subclass(Named)).tolist(),
        job.allreduce(torch.nn.Parameter(torch.ones(2))).tolist(),
        job.allreduce(negative(torch.ones(2)).resolve_neg()).tolist(),
    ] == [[N] * 2] * 3
    job.close()
