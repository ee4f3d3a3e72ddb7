# SPDX-License-Identifier: BSD-3-Clause
"""Futures that hold a list of C++, as communication hooks in C++ expect them.

TorchScript stands for C++ here: it takes a future's value as the type that it expects.
"""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from groups import Groups, stop
from ranks import each_rank_of

N = 3
SUM = float(sum(range(1, N + 1)))
SCRIPT = """
def total(future: Future[List[Tensor]]) -> float:
    sum = 0.0
    for tensor in torch.jit.wait(future):
        sum += float(tensor.sum())
    return sum
"""


@pytest.fixture(scope="module")
def cpp_groups():
    with Groups(N, options={"cpp_futures": True}) as groups:
        yield groups
        groups.call(stop)


def total(future):
    """Of all elements, as C++ finds them."""
    return torch.jit.CompilationUnit(SCRIPT).total(future)


def own(rank, kind=torch.float32):
    return torch.full((2,), rank + 1, dtype=kind)


CALLS = {
    "all_reduce": (lambda r: dist.all_reduce(own(r), async_op=True), 2 * SUM),
    "all_reduce on Gloo": (
        lambda r: dist.all_reduce(own(r), dist.ReduceOp.PRODUCT, async_op=True),
        2.0 * 1 * 2 * 3,
    ),
    "broadcast": (lambda r: dist.broadcast(own(r), 1, async_op=True), 4.0),
    "all_gather": (
        lambda r: dist.all_gather([torch.zeros(2) for _ in range(N)], own(r), async_op=True),
        2 * SUM,
    ),
    "reduce_scatter": (
        lambda r: dist.reduce_scatter(torch.zeros(2), [own(r)] * N, async_op=True),
        2 * SUM,
    ),
    "all_to_all_single": (
        lambda r: dist.all_to_all_single(
            torch.zeros(2 * N), torch.cat([own(r)] * N), async_op=True
        ),
        2 * SUM,
    ),
    "barrier": (lambda r: dist.barrier(async_op=True), 0.0),
}


@each_rank_of("cpp_groups")
def test_cpp_finds_one_after_an_awaited_call_too(rank):
    """What C++ finds in the work of a call that says that it will be awaited at once."""
    dist.barrier()  # joins the job: then such a call has ended when the application gets its work
    options = dist.AllreduceOptions()
    options.asyncOp = False
    work = dist.group.WORLD.allreduce([own(rank)], options)
    assert work.is_completed() and total(work.get_future()) == 2 * SUM


@each_rank_of("cpp_groups")
@pytest.mark.parametrize("name", CALLS)
def test_cpp_finds_a_list_of_tensors(rank, name):
    """What C++ finds in a future that is requested at once, and in one of a call that has ended."""
    make, expected = CALLS[name]
    early = make(rank).get_future()
    work = make(rank)
    work.wait()
    assert total(early) == total(work.get_future()) == expected
    assert work.get_future() is work.get_future()


@each_rank_of("cpp_groups")
def test_cpps_future_is_done_when_its_work_has_been_waited_for(rank):
    """Whether the futures of C++ have their values as soon as their works were waited for."""
    for step in range(300):
        work = dist.all_reduce(own(rank), async_op=True)
        if step % 3 != 2:
            future = work.get_future()
        if step % 3 == 1:
            while not work.is_completed():
                pass
        else:
            work.wait()
        assert (future if step % 3 != 2 else work.get_future()).done(), step


@each_rank_of("groups")
def test_without_the_option_cpp_finds_an_object_of_python(rank):
    """docs/pytorch.md: PyTorch says so in one line, and the process goes on."""
    future = dist.all_reduce(own(rank), async_op=True).get_future()
    with pytest.raises(RuntimeError, match="Expected GenericList but got PyObject.*$"):
        total(future)
    assert [tensor.tolist() for tensor in future.value()] == [[SUM] * 2]


# ---- what Python does with such a future ----


@each_rank_of("cpp_groups")
def test_callbacks_of_python_may_wait(rank):
    """Its callbacks wait for collectives, more of them than TorchScript has threads."""
    again = [torch.full((1,), float(i)) for i in range(2 * os.cpu_count() + 2)]
    futures = []

    def callback(future, extra):
        assert future.value()[0][0] == SUM
        dist.all_reduce(extra)
        return extra.item()

    for extra in again:
        future = dist.all_reduce(own(rank), async_op=True).get_future()
        futures.append(future.then(lambda f, extra=extra: callback(f, extra)))
    collected = torch.futures.collect_all(futures).wait()
    tensor = own(rank)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    (found,) = future.wait()
    assert [f.value() for f in collected] == [float(N * i) for i in range(len(again))]
    assert found is tensor and future.done() and found.tolist() == [SUM] * 2


# ---- PyTorch's own hook in C++ ----


def train(model, steps):
    for _ in range(steps):
        model.zero_grad()
        model(torch.ones(4, 64)).sum().backward()


def fp16_until_it_fails(rank):
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    train(model, 2)
    assert model.module.bias.grad.tolist() == [4.0] * 64
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"RankDiedError: rank 2 \(host "):
        train(model, 1_000_000)
    dist.all_reduce(torch.ones(3))


def test_the_hook_in_cpp_learns_that_a_rank_has_died(new_groups):
    new_groups.start(fp16_until_it_fails)
    new_groups.expect("RankDiedError", only=[0, 1])
