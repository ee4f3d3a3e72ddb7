# SPDX-License-Identifier: BSD-3-Clause
"""summary(): what a rank's calls came to, on the switch and on Gloo."""

import time

import pytest
import torch
import torch.distributed as dist

import switchml.torch
from groups import Groups
from ranks import each_rank_of
from switchml.torch._calls.summary import Usage
from switchml.torch._calls.work import Call

N = 2
SIZE = 1000


@each_rank_of("groups")
def test_calls_are_counted_where_they_ran(rank):
    group = dist.new_group(list(range(N)))
    given, whole = torch.ones(SIZE), torch.zeros(SIZE * N)
    for _ in range(3):
        dist.all_reduce(given, group=group)
    dist.broadcast(given, 0, group=group)
    dist.all_gather_into_tensor(whole, given, group=group)
    dist.barrier(group)
    lists = [torch.zeros(SIZE) for _ in range(N)]
    dist.all_gather(lists, given, group=group)
    dist.gather(given, lists if rank == 1 else None, 1, group=group)
    dist.scatter(given, lists if rank == 1 else None, 1, group=group)
    dist.reduce(given, 0, dist.ReduceOp.PRODUCT, group=group)
    dist.send(given, 1, group=group) if rank == 0 else dist.recv(given, 0, group=group)
    found = switchml.torch.summary(group)
    text = str(found)
    assert (found["rank"], found["ranks"]) == (rank, N)
    assert found["switch"] == {
        "calls": 7,
        "bytes": 4 * SIZE * (3 + 1 + 2 * N),
        "by_operation": {
            "all_gather": {"calls": 1, "bytes": 4 * SIZE * N},
            "all_gather_single": {"calls": 1, "bytes": 4 * SIZE * N},
            "all_reduce": {"calls": 3, "bytes": 3 * 4 * SIZE},
            "barrier": {"calls": 1, "bytes": 0},
            "broadcast": {"calls": 1, "bytes": 4 * SIZE},
        },
    }
    second = "recv" if rank else "send"
    gloo = ", ".join(f"1 {name}" for name in sorted(["gather", "reduce", "scatter", second]))
    largest = 4 * SIZE * (N if rank == 1 else 1)  # root has a list
    assert found["gloo"]["by_operation"] == {
        "gather": {"calls": 1, "bytes": largest},
        "reduce": {"calls": 1, "bytes": 4 * SIZE},
        "scatter": {"calls": 1, "bytes": largest},
        second: {"calls": 1, "bytes": 4 * SIZE},
    }
    assert found["path"] == "this host's memory"
    assert (
        f"rank {rank} of {N}, through this host's memory\n"
        "  in SwitchML: 7 calls, 32.0 kB (1 all_gather, 1 all" in text
    )
    assert f"on Gloo:     4 calls, {24 if rank else 16}.0 kB ({gloo})" in text
    # On one host there are no packets. A ring of two sends each sum once, and what all get
    # half.
    assert found["bytes_sent"] == 0
    assert found["bytes_saved"] == found["bytes_in_a_ring"] == 4 * SIZE * (3 + 0.5 + 2)
    assert "sent:        no packets (in a ring: 22.0 kB)" in text


@pytest.fixture
def groups_that_send():
    with Groups(N, options={"switch": "embedded"}) as groups:
        yield groups


@each_rank_of("groups_that_send")
def test_what_was_sent_stays_known_when_the_group_is_destroyed(rank):
    dist.all_reduce(torch.ones(100_000))
    before, group = switchml.torch.summary(), dist.group.WORLD
    dist.destroy_process_group()
    after = switchml.torch.summary(group)
    assert before["bytes_sent"] > 0  # a stripe is the other rank's
    assert after["bytes_sent"] >= before["bytes_sent"]
    assert after["bytes_saved"] == after["bytes_in_a_ring"] - after["bytes_sent"]
    assert after["switch"] == before["switch"]


def come_late(rank):
    """Until the wait shows: on a busy machine, either rank may wait for the other."""
    group, waited = dist.new_group(list(range(N))), torch.zeros(N)
    for late in [0, 0.1] * 100:
        if rank == 1:
            time.sleep(late)
        dist.all_reduce(torch.ones(SIZE), group=group)
        found = switchml.torch.summary(group)
        waited.zero_()[rank] = found["seconds_waited"]
        dist.all_reduce(waited)
        if waited[0] > 0.31 and waited[1] < waited[0]:
            break
    return found["seconds_waited"], found["seconds_in_calls"]


def test_waiting_for_a_late_rank_is_seen_where_one_waits(groups):
    (waited, in_calls), (waited_late, _) = groups.call(come_late)
    assert in_calls >= waited > 0.3
    assert waited_late < waited


def test_a_queued_call_begins_when_the_one_before_it_ends(monkeypatch):
    clock = iter([1.0, 1.25, 5.0, 9.0])
    monkeypatch.setattr("switchml.torch._calls.summary.time.monotonic", lambda: next(clock))
    usage, tensor = Usage(4), torch.ones(100)
    call = Call("sml_allreduce", tensor, tensor)
    for begun_at in (0.0, 0.0, 0.0, 6.0):  # two of them while the first was under way
        usage.add("all_reduce", [call], begun_at)
    found = usage.summary("a group", 0, [])
    assert found["seconds_in_calls"] == 8.0
    assert found["seconds_waited"] == 2.0, "3 s against 1 s: a queued call is compared with none"
    assert found["bytes_in_a_ring"] == 4 * 600


@each_rank_of("groups")
def test_groups_of_other_backends_have_none(rank):
    group = dist.new_group(list(range(N)), backend="gloo")
    with pytest.raises(TypeError, match="backend is not switchml"):
        switchml.torch.summary(group)
