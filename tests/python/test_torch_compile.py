# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile of functions and models that call the switch: they run as they do without it."""

import inspect

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import FORKED  # noqa: E402
from ranks import Ranks, free_port  # noqa: E402

N = 2


def is_public(kind, name):
    """Whether PyTorch or an application calls it: not the methods of a work that our line calls."""
    if name.startswith("__"):
        return False
    theirs = dist.Work if issubclass(kind, dist.Work) else dist.ProcessGroup
    return hasattr(theirs, name) or not (name.startswith("_") or theirs is dist.Work)


def test_no_public_method_of_a_group_or_a_work_is_traced():
    from switchml.torch._calls.staging import DeviceWork
    from switchml.torch._group.group import ProcessGroupSwitchML

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


def collectives():
    """Functions of a tensor, each with another call of torch.distributed in its middle."""
    other = 1 - dist.get_rank()

    def put(call):
        def f(x):
            y = x * 2
            call(y)
            return y + 1

        f.__name__ = call.__name__
        return f

    def all_reduce(y):
        dist.all_reduce(y)

    def all_reduce_async(y):
        dist.all_reduce(y, async_op=True).wait()

    def all_reduce_product(y):
        dist.all_reduce(y, dist.ReduceOp.PRODUCT, async_op=True).wait()

    def future(y):
        work = dist.all_reduce(y, async_op=True)
        y += work.get_future().then(lambda f: f.value()[0] * 0 + 1).wait()

    def completed(y):
        work = dist.broadcast(y, 0, async_op=True)
        work.wait()
        y += float(work.is_completed() and work.is_success())

    def all_reduce_coalesced(y):
        dist.all_reduce_coalesced([y])

    def broadcast(y):
        dist.broadcast(y, 0)

    def reduce(y):
        dist.reduce(y, 0)

    def barrier(y):
        dist.barrier()

    def monitored_barrier(y):
        dist.monitored_barrier()

    def send_and_recv(y):
        dist.send(y, other) if other else dist.recv(y, other)

    def batch(y):
        got = torch.zeros_like(y)
        ops = [dist.P2POp(dist.isend, y, other), dist.P2POp(dist.irecv, got, other)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        y += got

    def all_gather(y):
        parts = [torch.zeros_like(y) for _ in range(N)]
        dist.all_gather(parts, y)
        y += parts[1]

    def all_gather_into_tensor(y):
        whole = y.new_zeros(N * y.numel())
        dist.all_gather_into_tensor(whole, y)
        y += whole[-1]

    def reduce_scatter_tensor(y):
        part = y.new_zeros(y.numel())
        dist.reduce_scatter_tensor(part, torch.cat([y, y]))
        y += part

    def gather(y):
        parts = [torch.zeros_like(y) for _ in range(N)] if other else None
        dist.gather(y, parts, 0)

    def scatter(y):
        dist.scatter(y, [y + 1, y + 2] if other else None, 0)

    def all_to_all_single(y):
        got = torch.zeros_like(y)
        dist.all_to_all_single(got, y)
        y += got

    def objects(y):
        found = [None] * N
        dist.all_gather_object(found, other)
        y += sum(found)

    calls = [value for value in locals().values() if inspect.isfunction(value) and value is not put]
    return [put(call) for call in calls]


def compiled(rank):
    found = {}
    for f in collectives():
        x = torch.arange(4.0) + 3 * rank
        found[f.__name__] = torch.compile(f, backend="eager")(x).tolist(), f(x).tolist()
    return found


def test_a_compiled_collective_gives_what_it_gives_otherwise(groups):
    results = groups.call(compiled)
    assert len(results[0]) == 19
    for found in results:
        for name, (result, expected) in found.items():
            assert result == expected, name


def ddp_losses(rank, backend, mode):
    import torch._dynamo
    from torch.nn.parallel import DistributedDataParallel

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


@pytest.mark.parametrize("mode", ["ddp_optimizer", "no_optimization"])
def test_a_compiled_ddp_model_trains_as_it_does_otherwise(groups, mode):
    expected = groups.call(ddp_losses, [None] * N, [mode] * N)
    for backend in ("eager", "aot_eager"):
        found = groups.call(ddp_losses, [backend] * N, [mode] * N)
        for losses, plain in zip(found, expected, strict=True):
            assert losses == pytest.approx(plain, rel=1e-4)


def compiled_job(rank, port):
    """The calls of the package itself, in compiled functions of tensors."""
    import switchml

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

    found = []
    for f in (allreduce, in_place, broadcast, others, of_numpy, of_the_process):
        x = torch.arange(3.0) + job.rank
        found.append((torch.compile(f, backend="eager")(x).tolist(), f(x).tolist()))
    job.close()
    return found


class Torch(Ranks):
    """Ranks that have imported PyTorch before they make their jobs."""

    how_to_start = FORKED


def test_a_compiled_call_of_a_job_gives_what_it_gives_otherwise():
    with Torch(N, job=False) as ranks:
        for found in ranks.call(compiled_job, [free_port()] * N):
            for result, expected in found:
                assert result == expected
