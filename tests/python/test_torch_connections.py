# SPDX-License-Identifier: BSD-3-Clause
"""The TCP connections of a group's Gloo: docs/pytorch.md says how many, and how to have fewer."""

import os
from pathlib import Path

import torch
import torch.distributed as dist

from groups import Groups, stop
from programs import run_python
from ranks import each_rank_of, free_port

N = 4


def n_sockets(rank):
    links = Path("/proc/self/fd").iterdir()
    return sum(os.readlink(link).startswith("socket:") for link in links if link.is_symlink())


def calls(rank):
    """One on the switch, and one on Gloo, which connects every rank with every other one."""
    summed = torch.full((8,), rank + 1.0)
    dist.all_reduce(summed)
    before = n_sockets(rank)
    received = torch.zeros(N)
    # PyTorch 2.8's Gloo has no all_to_all of lists.
    dist.all_to_all_single(received, 10.0 * rank + torch.arange(N))
    return summed[0].item(), received.tolist(), n_sockets(rank) - before


def measured(lazy, monkeypatch):
    monkeypatch.setenv("TORCH_GLOO_LAZY_INIT", lazy)
    monkeypatch.setenv("SWITCHML_SHARED_MEMORY", "0")  # otherwise no call here needs Gloo
    with Groups(N) as groups:
        sockets, found = groups.call(n_sockets), groups.call(calls)
        groups.call(stop)
    for rank, (total, received, _) in enumerate(found):
        assert total == N * (N + 1) / 2
        assert received == [10.0 * r + rank for r in range(N)]
    return sockets, [more for _, _, more in found]


def test_gloo_connects_all_ranks_at_once_or_on_demand(monkeypatch):
    at_once, more = measured("0", monkeypatch)
    assert more == [0] * N
    on_demand, more = measured("1", monkeypatch)
    assert on_demand == [n - (N - 1) for n in at_once]
    assert more == [N - 1] * N


@each_rank_of("new_groups")
def test_groups_share_what_gloo_listens_at(rank):
    """Calls on the Gloo of each of some groups, and whether all of these listen at one place."""
    made = [dist.new_group(list(range(N))) for _ in range(3)]
    found = []
    for group in made:
        dist.all_to_all_single(
            received := torch.zeros(N), torch.full((N,), 1.0 + rank), group=group
        )
        found.append(received.tolist())
    same = {id(*group._devices) for group in [dist.group.WORLD, *made]}
    assert found == [[r + 1.0 for r in range(N)]] * 3 and len(same) == 1


ROUNDS = """
import os, sys, threading, time
import torch.distributed as dist
from switchml.torch._joining import meeting

meeting._KEEP_S = 10_000

def held():
    return len(os.listdir("/proc/self/fd")), threading.active_count()

for round, port in enumerate(sys.argv[1:]):
    dist.init_process_group("switchml", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    dist.destroy_process_group()
    if round == 0:
        first = held()
# Threads end on their own, soon after the store has gone.
while any(now > then for now, then in zip(held(), first)):
    time.sleep(0.01)
"""


def test_rounds_on_other_ports_keep_one_store():
    ports = [str(free_port()) for _ in range(6)]
    run_python("-c", ROUNDS, *ports)
