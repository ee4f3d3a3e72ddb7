# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on the memory of an accelerator: the whole way through pinned memory and back.

It runs on what torch.accelerator finds: a GPU, or torch_openreg, which PyTorch has for tests of
its own. That emulates one on the CPU: with streams, events, and memory that the process cannot read
or write, so a call that did not copy would end it.
"""

import os
import signal

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups  # noqa: E402

pytestmark = pytest.mark.skipif(
    not torch.accelerator.is_available(),
    reason="PyTorch has no accelerator here: neither a GPU nor torch_openreg",
)
N = 2
PIECE_BYTES = 4096  # so that tensors of some thousand elements are cut into pieces


def device():
    return torch.accelerator.current_accelerator()


def small_pieces():
    from switchml.torch._calls import staging as _staging

    _staging.PIECE_BYTES = PIECE_BYTES


# ---- every collective, compared with the same on the CPU ----


def parts_of(tensor):
    return [tensor * (rank + 1) for rank in range(N)]


def all_reduce(tensor):
    dist.all_reduce(tensor)
    return tensor


def all_reduce_max(tensor):
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor


def all_reduce_coalesced(tensor):
    both = [tensor, tensor * 2]
    dist.all_reduce_coalesced(both)
    return both


def reduce(tensor):
    dist.reduce(tensor, 1)
    return tensor if dist.get_rank() == 1 else torch.zeros(0)


def broadcast(tensor):
    dist.broadcast(tensor, 1)
    return tensor


def all_gather(tensor):
    found = [torch.zeros_like(tensor) for _ in range(N)]
    dist.all_gather(found, tensor)
    return found


def all_gather_into_tensor(tensor):
    found = torch.zeros(N * tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    dist.all_gather_into_tensor(found, tensor.reshape(-1))
    return found


def gather(tensor):
    root = dist.get_rank() == 1
    found = [torch.zeros_like(tensor) for _ in range(N)] if root else None
    dist.gather(tensor, found, 1)
    return found or torch.zeros(0)


def scatter(tensor):
    parts = parts_of(tensor) if dist.get_rank() == 1 else None
    dist.scatter(tensor, parts, 1)
    return tensor


def reduce_scatter(tensor):
    output = torch.zeros_like(tensor)
    dist.reduce_scatter(output, parts_of(tensor))
    return output


def reduce_scatter_tensor(tensor):
    output = torch.zeros(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
    dist.reduce_scatter_tensor(output, torch.cat([t.reshape(-1) for t in parts_of(tensor)]))
    return output


def coalesced(tensor):
    outputs = [torch.zeros(N * tensor.numel(), dtype=tensor.dtype, device=tensor.device)]
    work = dist.group.WORLD.allgather_into_tensor_coalesced(outputs, [tensor.reshape(-1)])
    work.wait()
    return outputs


def begun(tensors):
    """All-reduces in place, of which each follows the others; the CPU waits for each."""
    works = []
    for tensor in tensors:
        works.append(dist.all_reduce(tensor, async_op=True))
        if tensor.is_cpu:
            works[-1].wait()
    return works


def not_waited_for(tensor):
    begun([tensor] * 3)[-1].wait()
    return tensor


def overlapping(tensor):
    """The whole, a part that is mostly not contiguous, and the whole again."""
    for work in reversed(begun([tensor, tensor[..., :1], tensor])):
        work.wait()
    return tensor


def through_a_future(tensor):
    future = dist.all_reduce(tensor, async_op=True).get_future()
    return future.then(lambda done: done.value()[0] * 2).wait()


COLLECTIVES = [
    all_reduce,
    all_reduce_max,
    all_reduce_coalesced,
    reduce,
    broadcast,
    all_gather,
    all_gather_into_tensor,
    gather,
    scatter,
    reduce_scatter,
    reduce_scatter_tensor,
    coalesced,
    not_waited_for,
    overlapping,
    through_a_future,
]
_ONES = torch.arange(4 * 1500).view(4, 1500) % 11 + 1
TENSORS = {
    "float32": lambda kind: _ONES.float().to(kind),
    "bfloat16": lambda kind: (_ONES % 4).bfloat16().to(kind),
    "int64": lambda kind: _ONES.to(kind),
    "uint8": lambda kind: (_ONES % 4).to(torch.uint8).to(kind),
    "columns": lambda kind: _ONES.float().to(kind).t(),
    "a column": lambda kind: _ONES.float().to(kind)[:, 3:4],
    "one element": lambda kind: torch.tensor([3.0]).to(kind),
}


def on_the_host(tensors):
    return [tensor.cpu().tolist() for tensor in tensors]


def on_both(rank, call, make):
    """What it comes to on the accelerator, and on the CPU."""
    small_pieces()
    found = []
    for kind in (device(), torch.device("cpu")):
        tensor = TENSORS[make](kind)
        tensor += rank
        result = call(tensor)
        results = result if isinstance(result, list) else [result]
        devices = {t.device.type for t in results}
        assert kind.type in devices or not any(t.numel() for t in results)
        found.append(on_the_host(results))
    return found


@pytest.mark.parametrize("make", TENSORS)
@pytest.mark.parametrize("call", COLLECTIVES, ids=lambda call: call.__name__)
def test_a_collective_on_the_accelerator_is_that_on_the_cpu(groups, call, make):
    for there, here in groups.call(on_both, [call] * N, [make] * N):
        assert there == here


def whole_pieces(rank):
    """Of the real size: 4 MiB and some."""
    from switchml.torch._calls import staging as _staging

    _staging.PIECE_BYTES = 4 << 20
    tensor = torch.full((2_500_000,), rank + 1.0).to(device())
    dist.all_reduce(tensor)
    return tensor.cpu().unique().tolist()


def test_a_tensor_of_several_pieces_is_reduced(groups):
    assert groups.call(whole_pieces) == [[3.0]] * N


# ---- streams, objects, and what is not on the switch ----


def on_another_stream(rank):
    """Later work on the application's stream sees the result; other streams are left alone."""
    from switchml.torch._calls.tensors import on_stream

    small_pieces()
    before = torch.accelerator.current_stream()
    stream = torch.Stream(device())
    stream.wait_stream(before)
    tensor = torch.ones(5000).to(device())
    with on_stream(stream):
        dist.all_reduce(tensor)
        tensor *= 2
        done = stream.record_event()
        same = torch.accelerator.current_stream() == stream
    done.synchronize()
    assert torch.accelerator.current_stream() == before
    return same, tensor.cpu().unique().tolist()


def test_a_call_belongs_to_the_stream_of_its_caller(groups):
    assert groups.call(on_another_stream) == [(True, [2.0 * N])] * N


def objects(rank):
    found = [None] * N
    dist.all_gather_object(found, {"rank": rank})
    dist.barrier()
    return found


def test_objects_and_barriers_work_beside_it(groups):
    assert groups.call(objects) == [[{"rank": rank} for rank in range(N)]] * N


def on_gloo(rank):
    tensor = torch.ones(3).to(device())
    with pytest.raises((RuntimeError, ValueError)) as refusal:
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
    after = torch.ones(3).to(device())
    dist.all_reduce(after)
    return str(refusal.value), after.cpu().tolist()


def test_what_gloo_refuses_is_refused_and_the_group_goes_on(groups):
    if device().type == "cuda":
        pytest.skip("Gloo computes products of CUDA tensors")
    for refusal, after in groups.call(on_gloo):
        assert "nsupported" in refusal
        assert after == [N] * 3


def freed(rank):
    """Memory of works that have ended goes, when their copies have ended."""
    small_pieces()
    group = dist.group.WORLD
    for _ in range(20):
        tensor = torch.ones(3000).to(device())
        dist.all_reduce(tensor[::2])
    torch.accelerator.synchronize()
    copies = group._copies[tensor.device]
    copies.follow()
    return len(copies._held)


def test_memory_is_kept_only_while_copies_use_it(groups):
    assert groups.call(freed) == [0] * N


def differ(rank):
    small_pieces()
    tensor = torch.ones(5000 + rank).to(device())
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(RuntimeError) as failure:
        work.wait()
    with pytest.raises(RuntimeError) as later:
        dist.all_reduce(torch.ones(3).to(device()))
    return type(failure.value).__name__, type(later.value).__name__, work.is_success()


def test_ranks_that_disagree_are_told_so():
    with Groups(N) as pair:
        assert pair.call(differ) == [("MismatchError", "MismatchError", False)] * N


def reduce_for_long(tensor):
    for _ in range(1000):
        dist.all_reduce(tensor)


def die_or_see_it(rank):
    small_pieces()
    tensor = torch.ones(100_000).to(device())
    dist.all_reduce(tensor)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError) as failure:
        reduce_for_long(tensor)
    return type(failure.value).__name__


def test_a_dead_rank_raises_on_the_others():
    with Groups(N) as pair:
        pair.start(die_or_see_it)
        assert pair.outcomes(only=[0]) == ["RankDiedError"]


# ---- training ----


def train(kind, hook):
    import switchml.torch

    torch.manual_seed(1)
    layers = [torch.nn.Linear(8, 300), torch.nn.ReLU(), torch.nn.Linear(300, 3)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers).to(kind), bucket_cap_mb=0.001
    )
    if hook:
        state = switchml.torch.HookState(**hook)
        model.register_comm_hook(state, switchml.torch.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        torch.manual_seed(10 * step + dist.get_rank())
        inputs = torch.randn(16, 8)
        optimizer.zero_grad()
        model(inputs.to(kind)).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().cpu().reshape(-1) for p in model.parameters()])


def train_on_both(rank, hook):
    small_pieces()
    there, here = train(device(), hook), train(torch.device("cpu"), hook)
    return there, (there - here).abs().max().item()


HOOKS = {
    "no hook": None,
    "int16": {"wire": "int16"},
    "error feedback": {"wire": "int16", "error_feedback": True},
}


@pytest.mark.parametrize("hook", HOOKS)
def test_ddp_trains_on_the_accelerator_as_on_the_cpu(groups, hook):
    found = groups.call(train_on_both, [HOOKS[hook]] * N)
    assert all(torch.equal(there, found[0][0]) for there, _ in found)
    assert max(off for _, off in found) < 1e-5
