# SPDX-License-Identifier: BSD-3-Clause
"""Tensors whose elements are not simply in their memory: each call uses them as they are read, or
refuses them in words."""

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import FORKED  # noqa: E402
from ranks import Ranks, free_port  # noqa: E402

N = 2
# PyTorch 2.8 has an AssertionError for a DTensor.
WORDS = (TypeError, ValueError, NotImplementedError, RuntimeError, AssertionError)


def calls():
    """The collectives: each gets the tensor that it sends, and one that it writes, twice as long
    or as long. It returns the tensor with the result, which it has waited for."""

    def in_place(call):
        def run(tensor, out):
            call(tensor)
            return tensor

        return run

    def at_root(call):
        def run(tensor, out):
            call(tensor)
            return tensor if dist.get_rank() == 1 else torch.zeros(1)

        return run

    def into(call):
        def run(tensor, out):
            call(out, tensor)
            return out

        return run

    def reduce_scatter(out, tensor):
        dist.reduce_scatter_tensor(out[: tensor.shape[0] // N], tensor)

    def gathered(call):
        def run(tensor, out):
            parts = list(out.chunk(N))
            call(parts, tensor)
            return out

        return run

    def gather(parts, tensor):
        dist.gather(tensor, parts if dist.get_rank() == 1 else None, 1)

    def exchange(out, tensor):
        other = 1 - dist.get_rank()
        part = out[: tensor.shape[0]]
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

    return {
        "all_reduce": in_place(dist.all_reduce),
        "all_reduce_async": in_place(lambda t: dist.all_reduce(t, async_op=True).wait()),
        "all_reduce_product": in_place(lambda t: dist.all_reduce(t, dist.ReduceOp.PRODUCT)),
        "all_reduce_coalesced": in_place(lambda t: dist.all_reduce_coalesced([t])),
        "broadcast": in_place(lambda t: dist.broadcast(t, 1)),
        "reduce": at_root(lambda t: dist.reduce(t, 1)),
        "reduce_product": at_root(lambda t: dist.reduce(t, 1, dist.ReduceOp.PRODUCT)),
        "all_gather_into_tensor": into(dist.all_gather_into_tensor),
        "reduce_scatter_tensor": into(reduce_scatter),
        "all_gather": gathered(dist.all_gather),
        "gather": gathered(gather),
        "all_to_all_single": into(lambda o, t: dist.all_to_all_single(o[: t.shape[0]], t)),
        "send and recv": into(exchange),
    }


def attempt(call, tensor, out):
    try:
        return (call(tensor, out) + 0).tolist()
    except WORDS as error:
        return str(error)


def plainly(call, tensor, out):
    """The result for plain tensors with the same elements."""
    copies = [t.resolve_conj().resolve_neg().contiguous().clone() for t in (tensor, out)]
    return call(*copies).tolist()


# ---- lazy bits ----


def negative(tensor):
    """The same elements, behind a negative bit."""
    lazy = torch.complex(torch.zeros_like(tensor), -tensor).conj().imag
    assert lazy.is_neg()
    assert torch.equal(lazy, tensor)
    return lazy


def lazily(rank, sends, receives):
    """Each call with tensors that are negative if asked for on this rank."""
    found = {}
    for name, call in calls().items():
        tensor, out = torch.tensor([3.0, 5.0]) + rank, torch.full((2 * N,), 7.0)
        expected = plainly(call, tensor, out)
        tensor = negative(tensor).view(2) if sends else tensor
        out = negative(out) if receives else out
        found[name] = attempt(call, tensor, out), expected
    return found


@pytest.mark.parametrize("sends", [(True, True), (False, True)], ids=["both", "one"])
@pytest.mark.parametrize("receives", [(False, False), (True, True), (True, False)])
def test_the_negative_bit_is_heeded_on_every_way(groups, sends, receives):
    for found in groups.call(lazily, list(sends), list(receives)):
        for name, (result, expected) in found.items():
            assert result == expected, name


def conjugates(rank):
    """Complex tensors, which torch.distributed itself refuses in some calls."""
    found = {}
    for name, call in calls().items():
        tensor, out = torch.tensor([3 + 1j, 5 - 2j]) * (rank + 1), torch.zeros(2 * N) + 1j
        expected = attempt(call, tensor.clone(), out.clone())
        found[name] = attempt(call, tensor.conj().resolve_conj().conj(), out), expected
        assert tensor.conj().is_conj()
    return found


def test_the_conjugate_bit_is_heeded_or_refused(groups):
    for found in groups.call(conjugates):
        heeded = 0
        for name, (result, expected) in found.items():
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


def in_inference_mode(rank, how):
    found = {}
    for name, call in calls().items():
        tensor, out = torch.tensor([3.0, 5.0]) + rank, torch.full((2 * N,), 7.0)
        expected = plainly(call, tensor, out)
        with torch.inference_mode():
            made = strided(tensor, how), strided(out, how)
            assert made[0].is_inference()
            found[name] = attempt(call, *made), expected
        again = strided(tensor, how), made[1]  # made in the mode, and used outside of it
        found[f"{name} outside"] = attempt(call, *again), expected
    return found


@pytest.mark.parametrize("how", ["contiguous", "columns"])
def test_tensors_of_inference_mode_get_their_results(groups, how):
    for rank, found in enumerate(groups.call(in_inference_mode, [how] * N)):
        for name, (result, expected) in found.items():
            on_gloo = (
                not name.startswith(("all_reduce", "broadcast", "reduce", "all_gather_into"))
                or "product" in name
            )
            assert result == expected or (on_gloo and isinstance(result, str)), (rank, name)


def expanded(rank, mode):
    """Outputs whose elements share memory, in one dimension or in two."""
    found = {}
    with torch.inference_mode(mode):
        for shape in ((3, 1, 4), (1, 1, 4), (3, 2, 1)):
            for name, call in calls().items():
                if "product" in name or not name.startswith(("all_reduce", "broadcast", "reduce")):
                    continue
                count = shape[0] * shape[1] * shape[2]
                small = torch.arange(float(count)).view(shape) + rank
                if name == "reduce_scatter_tensor":
                    continue
                expected = call(small.expand(3, 2, 4).clone(), None)
                result = call(small.expand(3, 2, 4), None)
                found[f"{name} {shape}"] = result.tolist(), expected.tolist()
        out, mine = torch.zeros(1).expand(N), torch.ones(1)
        dist.all_gather_into_tensor(out, mine)
        found["all_gather_into_tensor"] = out.tolist(), [1.0] * N
        part = torch.zeros(1).expand(2)
        dist.reduce_scatter_tensor(part, torch.ones(4))
        found["reduce_scatter_tensor"] = part.tolist(), [2.0] * 2
    return found


@pytest.mark.parametrize("mode", [False, True], ids=["normal", "inference"])
def test_expanded_outputs_get_their_results(groups, mode):
    for found in groups.call(expanded, [mode] * N):
        for name, (result, expected) in found.items():
            assert result == expected, name


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
        from torch.utils._pytree import tree_map_only

        arguments, named = tree_map_only(Wrapper, lambda t: t.inner, (arguments, named or {}))
        return function(*arguments, **named)


def waiting(tensor):
    """A functional collective's result, not waited for: the elements are the tensor's, doubled."""
    import torch.distributed._functional_collectives as functional

    result = functional.all_reduce(tensor.clone(), "sum", dist.group.WORLD)
    assert type(result) is functional.AsyncCollectiveTensor
    return result


def as_others(rank, kind):
    """The results with tensors of another kind, and those with plain tensors."""
    make = {"parameter": torch.nn.Parameter, "subclass": lambda t: t.as_subclass(Named)}.get(kind)
    make = {"wrapper": Wrapper, "waiting": waiting}.get(kind, make)
    found = {}
    for name, call in calls().items():
        with torch.no_grad():
            tensor, out = torch.tensor([3.0, 5.0]) + rank, torch.zeros(2 * N)
            sent = tensor if kind != "waiting" else torch.tensor([7.0, 11.0])
            expected = call(sent.clone(), out.clone()).tolist()
            found[name] = attempt(call, make(tensor), out), expected
    return found


@pytest.mark.parametrize("kind", ["waiting", "parameter", "subclass", "wrapper"])
def test_subclasses_that_can_be_read_are_read(groups, kind):
    for found in groups.call(as_others, [kind] * N):
        for name, (result, expected) in found.items():
            assert result == expected, name


def without_elements(kind):
    from torch._subclasses import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.masked import masked_tensor

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


def refused(rank, kind):
    """What each call says to a tensor of this kind, and the sum of a call afterwards."""
    found = {}
    for name, call in calls().items():
        if kind == "zero" and "product" in name:
            continue
        try:
            call(without_elements(kind), torch.zeros(2 * N))
            found[name] = None
        except WORDS as error:
            found[name] = str(error)
    good = torch.ones(3)
    dist.all_reduce(good)
    return found, good.tolist()


@pytest.mark.parametrize("kind", ["dtensor", "masked", "nested", "jagged", "quantized"])
def test_what_has_no_elements_of_its_own_is_refused_in_words(groups, kind):
    for found, good in groups.call(refused, [kind] * N):
        for name, text in found.items():
            assert text, name
            assert "NULL" not in text
            assert "INTERNAL ASSERT" not in text
        assert good == [N] * 3


def fake(rank):
    """Nothing is sent for tensors without elements, as with Gloo."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(4)
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.barrier()
    return type(x).__name__


@pytest.mark.skipif(
    not hasattr(dist, "all_gather_single"), reason="this PyTorch has no collectives of fake tensors"
)
def test_fake_tensors_stay_fake(groups):
    assert groups.call(fake) == ["FakeTensor"] * N


def zeros_refused(rank):
    found = []
    for call in ("all_reduce", "broadcast", "reduce"):
        try:
            calls()[call](torch._efficientzerotensor(2), None)
        except ValueError as error:
            found.append(str(error))
    return found


def test_a_tensor_with_the_zero_bit_is_refused_before_the_call(groups):
    for texts in groups.call(zeros_refused):
        assert len(texts) == 3
        assert all("clone()" in text for text in texts)


# ---- the calls of a job ----


class Torch(Ranks):
    """Ranks that have imported PyTorch."""

    how_to_start = FORKED


def of_a_job(rank, port):
    """For each kind of tensor and each call: the text of its refusal, or None."""
    import numpy as np

    import switchml

    job = switchml.Job(rank=rank, world_size=N, job="test", master_port=port)
    kinds = {
        kind: without_elements(kind)
        for kind in ("fake", "masked", "nested", "jagged", "quantized", "zero")
    }
    kinds["negative"] = negative(torch.ones(2))
    kinds["conjugate"] = torch.ones(2, dtype=torch.complex64).conj()
    kinds["sparse"] = torch.ones(2).to_sparse()
    kinds["wrapper"] = Wrapper(torch.ones(2))
    found = {}
    plain = np.ones(2, np.float32)
    for kind, tensor in kinds.items():
        for name, call in {
            "allreduce": lambda t: job.allreduce(t),
            "allreduce into": lambda t: job.allreduce(plain, t),
            "reduce": lambda t: job.reduce(t),
            "reduce into": lambda t: job.reduce(plain, rank, out=t),
            "broadcast": lambda t: job.broadcast(t),
            "allgather": lambda t: job.allgather(t),
            "allgather into": lambda t: job.allgather(plain, t),
            "reduce_scatter": lambda t: job.reduce_scatter(t),
            "reduce_scatter into": lambda t: job.reduce_scatter(plain, t),
        }.items():
            try:
                call(tensor)
                found[f"{name} {kind}"] = None
            except (TypeError, ValueError) as error:
                found[f"{name} {kind}"] = str(error)
    sums = [
        job.allreduce(torch.ones(2).as_subclass(Named)).tolist(),
        job.allreduce(torch.nn.Parameter(torch.ones(2))).tolist(),
        job.allreduce(negative(torch.ones(2)).resolve_neg()).tolist(),
    ]
    job.close()
    return found, sums


def test_a_job_refuses_what_is_not_in_memory_and_goes_on():
    with Torch(N, job=False) as ranks:
        for found, sums in ranks.call(of_a_job, [free_port()] * N):
            for name, text in found.items():
                assert text, name
                assert "pass " in text
            assert sums == [[N] * 2] * 3
