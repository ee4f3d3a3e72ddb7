# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile of functions and models that call the switch: they run as they do without it."""

import inspect

import pytest
import torch
import torch._dynamo
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import switchml
from collectives import CALLS
from ranks import each_rank_of
from switchml.torch._calls.staging import DeviceWork
from switchml.torch._group.group import ProcessGroupSwitchML

N = 2


def is_public(kind, name):
    """Whether PyTorch or an application calls it: not the methods of a work that our line calls."""
    if name.startswith("__"):
        return False
    theirs = dist.Work if issubclass(kind, dist.Work) else dist.ProcessGroup
    return hasattr(theirs, name) or not (name.startswith("_") or theirs is dist.Work)


def test_no_public_method_of_a_group_or_a_work_is_traced():
    class MixedIn:
        def mixed_in(self):
            pass

    class Derived(MixedIn, ProcessGroupSwitchML):
        def added(self):
            pass

    looked_at = set()
    for kind in (Derived, DeviceWork):
        for name in dir(kind):
            method = inspect.getattr_static(kind, name)
            if inspect.isfunction(method) and is_public(kind, name) and name != "wait":  # traced
                assert getattr(method, "_torchdynamo_disable", False), f"{kind.__name__}.{name}"
                looked_at.add(name)
    assert {"added", "mixed_in", "allreduce", "_get_backend", "send"} <= looked_at
    assert {"is_completed", "get_future", "result"} <= looked_at


@each_rank_of("groups")
# PyTorch 2.13 cannot compile those of objects, with Gloo either.
@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"objects", "object_list"}))
def test_a_compiled_collective_gives_what_it_gives_otherwise(rank, name):
    """In a function of a tensor, with the call in its middle."""

    def f(x):
        parts = [x + r for r in range(N)]
        return [y + 1 for y in CALLS[name](x * 2, parts, torch.cat(parts))]

    torch.compiler.reset()
    x = torch.arange(4.0) + 3 * rank
    compiled = torch.compile(f, backend="eager")(x)
    assert all(torch.equal(*pair) for pair in zip(compiled, f(x), strict=True))


def ddp_losses(rank, backend, mode):
    torch._dynamo.reset()
    torch._dynamo.config.optimize_ddp = mode
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.BatchNorm1d(32))
    model = DistributedDataParallel(net)
    step = torch.compile(model, backend=backend) if backend else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for i in range(4):
        loss = step(torch.arange(64.0).view(4, 16) * (rank + 1 + i)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@each_rank_of("groups")
@pytest.mark.parametrize("mode", ["ddp_optimizer", "no_optimization"])
def test_a_compiled_ddp_model_trains_as_it_does_otherwise(rank, mode):
    plain = ddp_losses(rank, None, mode)
    for backend in ("eager", "aot_eager"):
        assert ddp_losses(rank, backend, mode) == pytest.approx(plain, rel=1e-4)


@each_rank_of("prepared")
def test_a_compiled_call_of_a_job_gives_what_it_gives_otherwise(rank, port):
    """The calls of the package itself, in compiled functions of tensors."""
    job = switchml.init(rank=rank, world_size=N, job="test", master_port=port)

    def allreduce(x):
        return job.allreduce(x * 2) + 1

    def in_place(x):
        y = x * 2
        job.allreduce_async(y, y).wait()
        return y + 1

    def broadcast(x):
        return job.broadcast(x * 2) + 1

    def others(x):
        return job.reduce_scatter(job.allgather(x * 2)) + 1

    def of_numpy(x):
        return torch.from_numpy(job.allreduce(x.numpy() * 2)) + 1

    def of_the_process(x):
        return switchml.allreduce(x * 2, op="avg") + switchml.broadcast(x * 2)

    for f in (allreduce, in_place, broadcast, others, of_numpy, of_the_process):
        x = torch.arange(3.0) + job.rank
        assert torch.equal(torch.compile(f, backend="eager")(x), f(x)), f.__name__
    job.close()
