# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on the memory of an accelerator: the whole way through pinned memory and back.

It runs on what torch.accelerator finds: a GPU, or torch_openreg, which PyTorch has for tests of
its own. That emulates one on the CPU: with streams, events, and memory that the process cannot read
or write, so a call that did not copy would end it.
"""

import os
import signal

import pytest
import torch
import torch.distributed as dist

import switchml.torch
from collectives import CALLS, in_place
from ranks import each_rank_of
from switchml.torch._calls import staging as _staging
from switchml.torch._calls.tensors import on_stream

pytestmark = pytest.mark.skipif(
    not torch.accelerator.is_available(),
    reason="PyTorch has no accelerator here: neither a GPU nor torch_openreg",
)
N = 2
PIECE_BYTES = 4096  # so that tensors of some thousand elements are cut into pieces


def device():
    return torch.accelerator.current_accelerator()


def small_pieces():
    _staging.PIECE_BYTES = PIECE_BYTES


# ---- every collective, compared with the same on the CPU ----


def both(tensor, parts, whole):
    tensors = [tensor, tensor * 2]
    dist.all_reduce_coalesced(tensors)
    return tensors


def into_coalesced(tensor, parts, whole):
    dist.group.WORLD.allgather_into_tensor_coalesced([whole], [tensor]).wait()
    return [whole]


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


def overlapping(tensor):
    """The whole, a part that is mostly not contiguous, and the whole again."""
    for work in reversed(begun([tensor, tensor[..., :1], tensor])):
        work.wait()


COLLECTIVES = {
    **CALLS,
    "both": both,
    "into_coalesced": into_coalesced,
    "not_waited_for": in_place(not_waited_for),
    "overlapping": in_place(overlapping),
}
# Gloo does not take the emulated device's memory; objects are the host's.
for _name in (
    *("all_reduce_product", "reduce_product", "all_to_all", "all_to_all_single"),
    *("send", "batch", "objects", "object_list"),
):
    COLLECTIVES.pop(_name, None)  # all_to_all: not in every version
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


@each_rank_of("groups")
@pytest.mark.parametrize("make", TENSORS)
@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_on_the_accelerator_is_that_on_the_cpu(rank, name, make):
    small_pieces()
    found = []
    for kind in (device(), torch.device("cpu")):
        tensor = TENSORS[make](kind)
        tensor += rank
        parts = [tensor * (r + 1) for r in range(N)]
        results = COLLECTIVES[name](tensor, parts, torch.cat(parts))
        assert {t.device.type for t in results} <= {kind.type}
        found.append([t.cpu().tolist() for t in results])
    there, here = found
    assert there == here


@each_rank_of("groups")
def test_a_tensor_of_several_pieces_is_reduced(rank):
    """Of the real size: 4 MiB and some."""
    _staging.PIECE_BYTES = 4 << 20
    tensor = torch.full((2_500_000,), rank + 1.0).to(device())
    dist.all_reduce(tensor)
    assert tensor.cpu().unique().tolist() == [3.0]


# ---- streams, objects, and what is not on the switch ----


@each_rank_of("groups")
def test_a_call_belongs_to_the_stream_of_its_caller(rank):
    """Later work on the application's stream sees the result; other streams are left alone."""
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
    assert (same, tensor.cpu().unique().tolist()) == (True, [2.0 * N])


@each_rank_of("groups")
def test_objects_and_barriers_work_beside_it(rank):
    found = [None] * N
    dist.all_gather_object(found, {"rank": rank})
    dist.barrier()
    assert found == [{"rank": rank} for rank in range(N)]


@each_rank_of("groups")
@pytest.mark.skipif(torch.cuda.is_available(), reason="Gloo computes products of CUDA tensors")
def test_what_gloo_refuses_is_refused_and_the_group_goes_on(rank):
    tensor = torch.ones(3).to(device())
    with pytest.raises((RuntimeError, ValueError), match="nsupported"):
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
    after = torch.ones(3).to(device())
    dist.all_reduce(after)
    assert after.cpu().tolist() == [N] * 3


@each_rank_of("groups")
def test_memory_is_kept_only_while_copies_use_it(rank):
    """Memory of works that have ended goes, when their copies have ended."""
    small_pieces()
    group = dist.group.WORLD
    for _ in range(20):
        tensor = torch.ones(3000).to(device())
        dist.all_reduce(tensor[::2])
    torch.accelerator.synchronize()
    copies = group._copies[tensor.device]
    copies.follow()
    assert len(copies._held) == 0


@each_rank_of("new_groups")
def test_ranks_that_disagree_are_told_so(rank):
    small_pieces()
    tensor = torch.ones(5000 + rank).to(device())
    work = dist.all_reduce(tensor, async_op=True)
    with pytest.raises(RuntimeError) as failure:
        work.wait()
    with pytest.raises(RuntimeError) as later:
        dist.all_reduce(torch.ones(3).to(device()))
    assert type(failure.value).__name__ == type(later.value).__name__ == "MismatchError"
    assert not work.is_success()


def die_or_see_it(rank):
    small_pieces()
    tensor = torch.ones(100_000).to(device())
    dist.all_reduce(tensor)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(1000):
        dist.all_reduce(tensor)


def test_a_dead_rank_raises_on_the_others(new_groups):
    new_groups.start(die_or_see_it)
    new_groups.expect("RankDiedError", only=[0])


# ---- training ----


def train(kind, hook):
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
