# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the table "What is supported" in docs/pytorch.md that no other test covers."""

import copy
import pickle
import re
from datetime import timedelta
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import switchml.torch  # noqa: E402
from programs import run_python  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
N = 2
SUM = float(sum(range(1, N + 1)))


def calls(group=None):
    found = switchml.torch.summary(group)
    gloo = {name: its["calls"] for name, its in found["gloo"]["by_operation"].items()}
    return found["switch"]["calls"], gloo


# ---- compiled programs ----


def compiled(rank):
    import torch.distributed._functional_collectives as funcol

    group = dist.new_group(list(range(N)))
    whole = [float(r + 1) for r in range(N) for _ in range(4)]

    @torch.compile(fullgraph=True, backend="aot_eager")
    def in_one_graph(x):
        summed = funcol.all_reduce(x * 2, "sum", group)
        gathered = funcol.all_gather_tensor(x, 0, group)
        part = funcol.reduce_scatter_tensor(gathered, "sum", 0, group)
        return summed + 1, gathered + 0, part + 0

    summed, gathered, part = in_one_graph(torch.full((4,), rank + 1.0))
    assert summed.tolist() == [2 * SUM + 1] * 4
    assert gathered.tolist() == whole
    assert part.tolist() == [N * (rank + 1.0)] * 4
    return calls(group)


def test_functional_collectives_compile_to_one_graph(groups):
    assert groups.call(compiled) == [(3, {})] * N


def redistribute(rank):
    from torch.distributed.tensor import DTensor, Replicate, Shard

    mesh = dist.init_device_mesh("cpu", (N,))
    before = calls(mesh.get_group())[0]

    @torch.compile(fullgraph=True, backend="aot_eager")
    def to_replicated(x):
        return DTensor.from_local(x, mesh, [Shard(0)]).redistribute(mesh, [Replicate()]).to_local()

    whole = to_replicated(torch.full((2,), rank + 1.0))
    return whole.tolist(), calls(mesh.get_group())[0] - before, calls(mesh.get_group())[1]


def test_dtensors_are_redistributed_in_compiled_functions(groups):
    for whole, on_switch, on_gloo in groups.call(redistribute):
        assert whole == [float(r + 1) for r in range(N) for _ in range(2)]
        assert (on_switch, on_gloo) == (1, {})


# ---- groups ----


def use_mesh(rank):
    mesh = dist.init_device_mesh("cpu", (1, N), mesh_dim_names=("outer", "inner"))
    x = torch.full((4,), rank + 1.0)
    dist.all_reduce(x, group=mesh["inner"].get_group())
    dist.all_reduce(x, group=mesh["outer"].get_group())  # of one rank
    return x.tolist(), type(mesh["outer"].get_group()).__name__


def test_groups_of_a_device_mesh_are_ours(groups):
    assert groups.call(use_mesh) == [([SUM] * 4, "ProcessGroupSwitchML")] * N


def use_several(rank):
    made = [dist.new_group(list(range(N))) for _ in range(3)]
    tensors = [torch.full((1000,), rank + 1.0 + i) for i in range(3)]
    order = range(3) if rank == 0 else reversed(range(3))
    works = [dist.all_reduce(tensors[i], group=made[i], async_op=True) for i in order]
    for work in works:
        work.wait()
    return [t.unique().tolist() for t in tensors]


def test_several_groups_work_at_the_same_time(groups):
    assert groups.call(use_several) == [[[SUM + N * i] for i in range(3)]] * N


def split(rank):
    return dist.split_group(split_ranks=[[0], [1]])


def test_the_function_split_group_is_refused(groups):
    """PyTorch's function needs a default group that is bound to a device; the method works."""
    groups.start(split)
    for error in groups.outcomes():
        assert error.kind == "RuntimeError"
        # The second is that of 2.15.
        assert re.search("not safe to split|does not support splitting", str(error).splitlines()[0])


# ---- send, receive, objects ----


def batch(rank):
    group = dist.new_group(list(range(N)))
    given, taken = torch.full((4,), float(rank)), torch.zeros(4)
    peer = 1 - rank
    pairs = [dist.P2POp(dist.isend, given, peer, group), dist.P2POp(dist.irecv, taken, peer, group)]
    for work in dist.batch_isend_irecv(pairs):
        work.wait()
    return taken.tolist(), calls(group)


def test_batched_sends_and_receives_run_on_gloo(groups):
    found = groups.call(batch)
    assert found == [([float(1 - r)] * 4, (0, {"recv": 1, "send": 1})) for r in range(N)]


def from_anyone(rank):
    """What has no other test on Gloo: a receive from any rank, and a list of lists."""
    group = dist.new_group(list(range(N)))
    own, taken = torch.full((4,), float(rank)), torch.zeros(4)
    source = None
    if rank == 0:
        source = dist.recv(taken, group=group)
    else:
        dist.send(own, 0, group=group)
    lists = [[torch.zeros(4)] for _ in range(N)]
    group.allgather_coalesced(lists, [own]).wait()
    return source, taken.tolist(), [part.tolist() for (part,) in lists], calls(group)


def test_a_receive_from_any_rank_and_coalesced_lists_run_on_gloo(groups):
    lists = [[float(r)] * 4 for r in range(N)]
    either = [{"recv_anysource": 1}, {"send": 1}]
    for rank, (source, taken, found, (switch, gloo)) in enumerate(groups.call(from_anyone)):
        assert (source, taken) == ((1, lists[1]) if rank == 0 else (None, [0.0] * 4))
        assert found == lists and switch == 0
        assert gloo == {**either[rank], "allgather_coalesced": 1}


def exchange_objects(rank):
    group = dist.new_group(list(range(N)))
    every = [None] * N
    dist.all_gather_object(every, {"rank": rank}, group=group)
    one = ["of rank 0"] if rank == 0 else [None]
    dist.broadcast_object_list(one, 0, group=group)
    gathered = [None] * N if rank == 0 else None
    dist.gather_object(rank, gathered, 0, group=group)
    scattered = [None]
    dist.scatter_object_list(scattered, list("ab") if rank == 0 else None, 0, group=group)
    sent = [(1, 2)] if rank == 0 else [None]
    if rank == 0:
        dist.send_object_list(sent, 1, group=group)
    else:
        dist.recv_object_list(sent, 0, group=group)
    return every, one, gathered, scattered, sent, calls(group)


def test_object_collectives_of_all_ranks_run_on_the_switch(groups):
    found = groups.call(exchange_objects)
    for rank, (every, one, gathered, scattered, sent, (_, gloo)) in enumerate(found):
        assert set(gloo) == {"gather", "scatter", "recv" if rank else "send"}
        assert every == [{"rank": r} for r in range(N)]
        assert (one, scattered, sent) == (["of rank 0"], ["ab"[rank]], [(1, 2)])
        assert gathered == (list(range(N)) if rank == 0 else None)


# ---- pickling ----


def pickle_group(rank):
    found = []
    for function in (pickle.dumps, copy.deepcopy):
        try:
            function(dist.group.WORLD)
        except TypeError as error:
            found.append(str(error))
    return found


def test_groups_cannot_be_pickled_or_copied(groups):
    for texts in groups.call(pickle_group):
        assert len(texts) == 2
        for text in texts:
            assert "ProcessGroupSwitchML" in text
            assert "\n" not in text


# ---- barriers with a name for who is missing, and the end ----


def monitored(rank):
    group = dist.new_group(list(range(N)))
    dist.monitored_barrier(group, timedelta(seconds=60))
    return calls(group)


def test_a_monitored_barrier_runs_on_gloo(groups):
    assert groups.call(monitored) == [(0, {"monitored_barrier": 1})] * N


WITHOUT_DESTROY = """
import os
import torch
import torch.distributed as dist
import switchml.torch

store = dist.HashStore()
dist.init_process_group("switchml", store=store, rank=0, world_size=1)
x = torch.ones(3)
dist.all_reduce(x)
print(x.tolist())
"""


def test_a_program_may_end_without_destroying_its_groups():
    """There is nothing to warn of: the rank leaves its jobs when the interpreter exits."""
    said = run_python("-W", "error", "-c", WITHOUT_DESTROY)
    assert "[1.0, 1.0, 1.0]" in said.splitlines()
    assert "destroy" not in said
