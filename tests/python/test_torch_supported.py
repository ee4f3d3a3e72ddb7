# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the table "What is supported" in docs/pytorch.md that no other test covers."""

import copy
import pickle
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.tensor import DTensor, Replicate, Shard

import switchml.torch
from programs import run_python
from ranks import each_rank_of

ROOT = Path(__file__).resolve().parents[2]
N = 2
SUM = float(sum(range(1, N + 1)))


def calls(group=None):
    found = switchml.torch.summary(group)
    gloo = {name: its["calls"] for name, its in found["gloo"]["by_operation"].items()}
    return found["switch"]["calls"], gloo


# ---- compiled programs ----


@each_rank_of("groups")
def test_functional_collectives_compile_to_one_graph(rank):
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
    assert calls(group) == (3, {})


@each_rank_of("groups")
def test_dtensors_are_redistributed_in_compiled_functions(rank):
    mesh = dist.init_device_mesh("cpu", (N,))
    before = calls(mesh.get_group())[0]

    @torch.compile(fullgraph=True, backend="aot_eager")
    def to_replicated(x):
        return DTensor.from_local(x, mesh, [Shard(0)]).redistribute(mesh, [Replicate()]).to_local()

    whole = to_replicated(torch.full((2,), rank + 1.0))
    assert whole.tolist() == [float(r + 1) for r in range(N) for _ in range(2)]
    assert calls(mesh.get_group()) == (before + 1, {})


# ---- groups ----


@each_rank_of("groups")
def test_groups_of_a_device_mesh_are_ours(rank):
    mesh = dist.init_device_mesh("cpu", (1, N), mesh_dim_names=("outer", "inner"))
    x = torch.full((4,), rank + 1.0)
    dist.all_reduce(x, group=mesh["inner"].get_group())
    dist.all_reduce(x, group=mesh["outer"].get_group())  # of one rank
    assert x.tolist() == [SUM] * 4
    assert type(mesh["outer"].get_group()).__name__ == "ProcessGroupSwitchML"


@each_rank_of("groups")
def test_the_function_split_group_is_refused(rank):
    """PyTorch's function needs a default group that is bound to a device; the method works."""
    # The second is that of 2.15.
    with pytest.raises(RuntimeError, match="^.*(not safe to split|does not support splitting)"):
        dist.split_group(split_ranks=[[0], [1]])


# ---- send, receive, objects ----


@each_rank_of("groups")
def test_batched_sends_and_receives_run_on_gloo(rank):
    group = dist.new_group(list(range(N)))
    given, taken = torch.full((4,), float(rank)), torch.zeros(4)
    peer = 1 - rank
    pairs = [dist.P2POp(dist.isend, given, peer, group), dist.P2POp(dist.irecv, taken, peer, group)]
    for work in dist.batch_isend_irecv(pairs):
        work.wait()
    assert taken.tolist() == [float(peer)] * 4
    assert calls(group) == (0, {"recv": 1, "send": 1})


@each_rank_of("groups")
def test_a_receive_from_any_rank_and_coalesced_lists_run_on_gloo(rank):
    """What has no other test on Gloo: a receive from any rank, and a list of lists."""
    group = dist.new_group(list(range(N)))
    own, taken = torch.full((4,), float(rank)), torch.zeros(4)
    if rank == 0:
        assert dist.recv(taken, group=group) == 1 and taken.tolist() == [1.0] * 4
    else:
        dist.send(own, 0, group=group)
    lists = [[torch.zeros(4)] for _ in range(N)]
    group.allgather_coalesced(lists, [own]).wait()
    assert [part.tolist() for (part,) in lists] == [[float(r)] * 4 for r in range(N)]
    either = "send" if rank else "recv_anysource"
    assert calls(group) == (0, {either: 1, "allgather_coalesced": 1})


@each_rank_of("groups")
def test_object_collectives_of_all_ranks_run_on_the_switch(rank):
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
    assert set(calls(group)[1]) == {"gather", "scatter", "recv" if rank else "send"}
    assert every == [{"rank": r} for r in range(N)]
    assert (one, scattered, sent) == (["of rank 0"], ["ab"[rank]], [(1, 2)])
    assert gathered == (list(range(N)) if rank == 0 else None)


# ---- pickling ----


@each_rank_of("groups")
def test_groups_cannot_be_pickled_or_copied(rank):
    for function in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="^.*ProcessGroupSwitchML.*\\Z"):
            function(dist.group.WORLD)


# ---- barriers with a name for who is missing, and the end ----


@each_rank_of("groups")
def test_a_monitored_barrier_runs_on_gloo(rank):
    group = dist.new_group(list(range(N)))
    dist.monitored_barrier(group, timedelta(seconds=60))
    assert calls(group) == (0, {"monitored_barrier": 1})


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
