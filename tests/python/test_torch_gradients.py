# SPDX-License-Identifier: BSD-3-Clause
"""Where a switch adds only integers: gradients travel as fixed point, and everything else is exact.

The gradient of each model here has a small element beside a large one. Fixed point loses it. All
ranks must judge alike: if they asked for different wires, their calls would fail.
"""

import os
import threading
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch._dynamo import config
from torch.distributed import GradBucket
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP

import switchml.torch
from groups import Groups, stop
from switches import switch_in_kernel

N = 4
ROWS, COLUMNS = N, 2000


@pytest.fixture(scope="module")
def ranks():
    with switch_in_kernel() as (address, network):
        settings = {"SWITCHML_SWITCH": address, "SWITCHML_SHARED_MEMORY": "0"}
        with mock.patch.dict(os.environ, settings), Groups(N, network=network) as groups:
            yield groups
            groups.call(stop)


def layer():
    made = torch.nn.Linear(COLUMNS, ROWS, bias=False)
    torch.nn.init.ones_(made.weight)
    return made


def inputs():
    """Large, small, large, and so on: so is the gradient of the sum of the outputs."""
    return torch.tensor([[1.0, 2.0**-40]]).repeat(1, COLUMNS // 2)


def backward(model):
    model(inputs()).sum().backward()


def gradient(model):
    (parameter,) = model.parameters()
    found = parameter.grad
    return found.to_local() if hasattr(found, "to_local") else found


def trained(model):
    backward(model)
    return gradient(model)


# ---- gradients ----


def with_ddp(rank):
    return trained(DDP(layer()))


def with_a_static_graph(rank):
    model = DDP(layer(), static_graph=True)
    backward(model)
    return trained(model)


def after_accumulating(rank):
    model = DDP(layer())
    with model.no_sync():
        backward(model)
    return trained(model)


def with_our_hook(rank):
    model = DDP(layer())
    model.register_comm_hook(None, switchml.torch.allreduce_hook)
    return trained(model)


def with_a_hook_that_adds_again_later(rank):
    """Its second call is made in another thread, or in this one if the first has ended."""

    def hook(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        first = dist.all_reduce(bucket.buffer().div_(N), async_op=True).get_future()
        if rank % 2:
            first.wait()

        def second(future):
            work = dist.all_reduce(future.value()[0].div_(N), async_op=True)
            return work.get_future().wait()[0]

        return first.then(second)

    model = DDP(layer())
    model.register_comm_hook(None, hook)
    return trained(model)


def with_a_hook_that_adds_after_a_future_of_its_own(rank):
    """Another thread resolves that one, or this thread has."""

    def hook(state: Any, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        own: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def add(future):
            work = dist.all_reduce(future.value().div_(N), async_op=True)
            return work.get_future().wait()[0]

        if rank % 2:
            own.set_result(bucket.buffer())
            return own.then(add)
        following = own.then(add)
        threading.Thread(target=own.set_result, args=(bucket.buffer(),)).start()
        return following

    model = DDP(layer())
    model.register_comm_hook(None, hook)
    return trained(model)


def in_the_optimizer_within_the_backward_pass(rank):
    model = layer()
    model.weight.register_post_accumulate_grad_hook(lambda weight: dist.all_reduce(weight.grad))
    return trained(model)


def compiled(rank):
    torch.compiler.reset()
    return trained(torch.compile(DDP(layer()), backend="aot_eager"))


def with_compiled_autograd(rank):
    torch.compiler.reset()
    with config.patch(optimize_ddp="python_reducer", compiled_autograd=True):
        return trained(torch.compile(DDP(layer()), backend="aot_eager"))


def sharded(rank, shape=(N,), names=("shards",)):
    model = layer()
    fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=names))
    return trained(model)


def sharded_and_replicated(rank):
    return sharded(rank, (2, 2), ("replicas", "shards"))


def where_ranks_have_joined(rank):
    """Those with fewer inputs add zeros to the gradients of the others, outside of a pass."""
    model = DDP(layer())
    with Join([model]):
        for _ in range(1 + rank):
            model.zero_grad()
            backward(model)
    return gradient(model)


WAYS = [
    with_ddp,
    with_a_static_graph,
    after_accumulating,
    with_our_hook,
    with_a_hook_that_adds_again_later,
    with_a_hook_that_adds_after_a_future_of_its_own,
    in_the_optimizer_within_the_backward_pass,
    compiled,
    with_compiled_autograd,
    sharded,
    sharded_and_replicated,
    where_ranks_have_joined,
]


@pytest.mark.parametrize("way", WAYS)
def test_gradients_travel_as_fixed_point(ranks, way):
    for found in ranks.call(way):
        large, small = found.view(-1, 2).unbind(1)
        assert large.numel() and large.all() and not small.any()


# ---- everything else ----


def after_the_pass(rank):
    found = trained(layer())
    dist.all_reduce(found)
    return found


def at_once_and_later(rank):
    found = trained(layer())
    dist.all_reduce(found, async_op=True).wait()
    return found


def coalesced(rank):
    found = trained(layer())
    with dist._coalescing_manager():
        dist.all_reduce(found)
    return found


def scattered(rank):
    found = torch.empty(COLUMNS)
    dist.reduce_scatter_tensor(found, trained(layer()).view(-1))
    return found


def for_one_rank(rank):
    found = trained(layer())
    dist.reduce(found, 0)
    return found if rank == 0 else found * N


def in_a_thread_that_a_hook_starts(rank):
    """No one can tell that it adds gradients, but all ranks say the same."""

    def hook(weight):
        thread = threading.Thread(target=dist.all_reduce, args=(weight.grad,))
        thread.start()
        thread.join()

    model = layer()
    model.weight.register_post_accumulate_grad_hook(hook)
    return trained(model)


OTHERS = [
    after_the_pass,
    at_once_and_later,
    coalesced,
    scattered,
    for_one_rank,
    in_a_thread_that_a_hook_starts,
]


@pytest.mark.parametrize("way", OTHERS)
def test_other_sums_are_exact(ranks, way):
    expected = N * inputs().view(-1, 2)[0]
    for found in ranks.call(way):
        assert torch.equal(found.view(-1, 2), expected.expand(found.numel() // 2, 2))
