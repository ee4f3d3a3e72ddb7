# SPDX-License-Identifier: BSD-3-Clause
"""Groups whose ranks change: members that leave, die, and join (docs/elastic.md)."""

import operator
import os
import signal
import threading
import types
import weakref
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import switchml.torch
from collectives import CALLS
from groups import Prepared
from switchml._wait import poll
from switchml.torch._group.retiring import retire

N = 4
HAS_FUNCTIONS = hasattr(dist.ProcessGroup, "reconfigure")
SECONDS = 60


class Members(Prepared):
    """Processes with a group without ranks, and what a user's store would have."""

    def __init__(self, n):
        super().__init__(n)
        self.handles = self.call(begin)
        self.uuid = 100

    def start_with(self, members, handles=None):
        """reconfigure() on these members, in this order of ranks."""
        self.uuid += 1
        found = handles or [self.handles[m] for m in members]
        self.start(change, [self.uuid] * self.n, [found] * self.n, only=members)

    def reconfigure(self, members):
        self.start_with(members)
        places = self.outcomes(only=members)
        assert places == [(rank, len(members)) for rank in range(len(members))]

    def check(self, *members):
        """They reconfigure, and their sum is theirs."""
        self.reconfigure(members)
        right = float(sum(range(1, len(members) + 1)))
        assert self.call(total, only=members) == [[right] * 4] * len(members)

    def replace(self, m):
        """A new process in the place of one that has died."""
        fresh = Prepared(1)
        self.processes[m], self.pipes[m] = fresh.processes[0], fresh.pipes[0]
        (self.handles[m],) = self.call(begin, only=[m])


def begin(rank):
    torch.set_num_threads(1)
    options = switchml.torch.Options(reconfigure=True)
    arguments = {"enable_reconfigure": True} if HAS_FUNCTIONS else {"pg_options": options}
    dist.init_process_group(
        "switchml",
        store=dist.HashStore(),
        rank=0,
        world_size=1,
        timeout=timedelta(seconds=SECONDS),
        **arguments,
    )
    return dist.group.WORLD.get_reconfigure_handle()


def change(rank, uuid, handles, seconds=SECONDS):
    limit = timedelta(seconds=seconds)
    if HAS_FUNCTIONS:
        work = dist._reconfigure(uuid, handles, timeout=limit)
    else:
        work = dist.group.WORLD.reconfigure(uuid, handles, limit)
    assert work.wait()
    return dist.get_rank(), dist.get_world_size()


def total(rank):
    x = torch.full((4,), dist.get_rank() + 1.0)
    dist.all_reduce(x)
    return x.tolist()


@pytest.fixture(scope="module")
def members():
    with Members(N) as found:
        yield found


def test_members_leave_in_any_place_and_come_back(members):
    members.check(0, 1, 2, 3)
    members.check(0, 1, 2)  # without the last
    members.check(0, 2)  # without one in the middle
    members.check(3, 2, 1)  # without the first, in another order
    members.check(0, 1, 2, 3)


def test_groups_split_and_merge(members):
    for pair in ([0, 1], [2, 3]):
        members.start_with(pair)
    assert members.outcomes() == [(0, 2), (1, 2), (0, 2), (1, 2)]
    assert members.call(total) == [[3.0] * 4] * N
    members.check(2, 0, 3, 1)


def everything(rank):
    """Switch, Gloo, objects, and send and receive, with the ranks that the group has now."""
    rank, n = dist.get_rank(), dist.get_world_size()
    own, parts = torch.tensor([rank + 1.0]), [torch.zeros(1) for _ in range(n)]
    from_last, everybodys = own.clone(), [[r + 1.0] for r in range(n)]
    dist.broadcast(from_last, src=n - 1)
    assert from_last.item() == n
    assert [t.tolist() for t in CALLS["all_gather"](own, parts, None)] == everybodys
    assert CALLS["objects"](own, parts, None)[0].tolist() == everybodys
    assert CALLS["batch"](own, parts, None)[0].tolist() == everybodys[rank - 1]
    assert dist.get_global_rank(dist.group.WORLD, n - 1) == n - 1


def test_all_calls_know_the_new_ranks(members):
    members.reconfigure([0, 1])
    members.call(everything, only=[0, 1])
    members.reconfigure([3, 2, 1, 0])
    members.call(everything)


def averaged(rank):
    """DDP's C++ divides by the number of ranks."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.constant_(model.weight, 1.0)
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    ddp(torch.full((1, 2), dist.get_rank() + 1.0)).sum().backward()
    return model.weight.grad.tolist()


def test_ddp_divides_by_the_new_number_of_ranks(members):
    members.reconfigure([0, 1, 2, 3])
    assert members.call(averaged) == [[[2.5, 2.5]]] * N
    members.reconfigure([1, 3])
    assert members.call(averaged, only=[1, 3]) == [[[1.5, 1.5]]] * 2


def many_and_change(rank, uuid, handles):
    """Calls under way, and then other ranks: who is early must not lose what another waits for."""
    works = [torch.full((50_000,), dist.get_rank() + 1.0 + i) for i in range(8)]
    for work in [dist.all_reduce(t, async_op=True) for t in works]:
        work.wait()
    found = [t.unique().tolist() for t in works]
    change(rank, uuid, handles)
    return found


def test_a_member_that_is_early_takes_no_result_from_another(members):
    members.reconfigure([0, 1, 2, 3])
    for _ in range(8):
        members.uuid += 1
        handles = [members.handles] * N
        found = members.call(many_and_change, [members.uuid] * N, handles)
        assert found == [[[10.0 + 4 * i] for i in range(8)]] * N


def test_calls_of_the_old_ranks_fail_when_a_member_has_gone_on(members):
    members.reconfigure([0, 1, 2, 3])
    members.start_with([0, 1, 2])
    members.outcomes(only=[0, 1, 2])
    members.start(total, only=[3])
    (error,) = members.outcomes(only=[3])
    assert error.kind in ("MismatchError", "AbortedError"), error
    assert members.call(total, only=[0, 1, 2]) == [[6.0] * 4] * 3


def abort(rank):
    dist.group.WORLD.abort()
    with pytest.raises(switchml.errors.ClosedError, match="has no ranks: call reconfigure"):
        total(rank)


def test_after_abort_there_are_no_ranks_until_the_next_reconfigure(members):
    members.check(0, 1, 2, 3)
    members.call(abort)
    members.check(0, 1, 2, 3)


def reuse(rank, uuid, handles):
    change(rank, uuid, handles)
    with pytest.raises(RuntimeError, match=f"the uuid {uuid} was already used"):
        change(rank, uuid, handles)
    return dist.get_world_size()


def test_a_uuid_is_refused_the_second_time_and_the_ranks_stay(members):
    members.uuid += 1
    found = members.call(reuse, [members.uuid] * N, [members.handles] * N)
    assert found == [N] * N
    assert members.call(total) == [[10.0] * 4] * N


def refused(rank, uuid, handles, own):
    with pytest.raises(ValueError, match="two of the handles are of the same member"):
        change(rank, uuid, [own, own])
    with pytest.raises(ValueError, match="this member's handle is not among them"):
        change(rank, uuid, [handle for handle in handles if handle != own])
    with pytest.raises(ValueError, match="is not the handle of a switchml group"):
        change(rank, uuid, [own, "gloo:0:-1:0:host"])


def test_wrong_lists_are_refused_and_the_ranks_stay(members):
    members.reconfigure([0, 1, 2, 3])
    members.uuid += 1
    members.call(refused, [members.uuid] * N, [members.handles] * N, members.handles)
    assert members.call(total) == [[10.0] * 4] * N


def one_of_two(rank, uuid, handles):
    with pytest.raises(TimeoutError) as failed:
        change(rank, uuid, handles, 1.0)
    with pytest.raises(switchml.errors.ClosedError, match="has no ranks"):
        total(rank)
    return str(failed.value)


def test_a_member_that_does_not_come_is_named_in_time(members):
    members.uuid += 1
    two = members.handles[:2]
    (text,) = members.call(one_of_two, [members.uuid] * N, [two] * N, only=[0])
    assert "rank 1 of the default group did not arrive (timeout after" in text
    members.check(0, 1, 2, 3)


def test_different_lists_never_meet(members):
    """The same uuid and the same first member, but one knows of a member more."""
    members.uuid += 1
    lists = [members.handles[:2], members.handles[:3]]
    for text in members.call(one_of_two, [members.uuid] * 2, lists, only=[0, 1]):
        assert "did not arrive" in text
    members.check(0, 1, 2, 3)


def die(rank):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("dead", [N - 1, 0])
def test_training_goes_on_when_a_member_was_killed_and_when_it_is_back(members, dead):
    """Also the first one, which had the store and perhaps the switch."""
    members.check(0, 1, 2, 3)
    others = [m for m in range(N) if m != dead]
    members.start(die, only=[dead])
    members.processes[dead].join(30)
    members.start(total, only=others)
    members.expect("RankDiedError", f"rank {dead} ", only=others)
    members.check(*others)
    members.replace(dead)
    members.check(0, 1, 2, 3)


def leftovers(rank):
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


def await_few_leftovers(rank, before):
    """Threads that drop what was replaced may take long on a busy machine."""
    few = before[0] + 30, before[1] + 15
    assert poll(lambda: all(map(operator.le, leftovers(rank), few)), SECONDS), leftovers(rank)


def test_many_changes_leave_nothing_behind(members):
    members.check(0, 1, 2, 3)
    before = members.call(leftovers)
    for _ in range(10):
        members.reconfigure([0, 1, 2, 3])
    members.check(0, 1, 2, 3)
    members.call(await_few_leftovers, before)


def who_drops_gloo(rank, uuid, handles):
    """The threads that drop what reconfigure() replaces: Gloo's destructor may take 0.1 s."""
    dropped = []
    group = dist.group.WORLD
    for held in (group._gloo, group._others):
        weakref.finalize(held, lambda: dropped.append(threading.current_thread().name))
    del held, group
    change(rank, uuid, handles)
    assert poll(lambda: len(dropped) == 2, SECONDS)
    return dropped


def test_the_old_gloo_ends_in_another_thread(members):
    members.check(0, 1, 2, 3)
    members.uuid += 1
    found = members.call(who_drops_gloo, [members.uuid] * N, [members.handles] * N)
    assert found == [["switchml-retire"] * 2] * N


def with_two_backends(rank):
    options = switchml.torch.Options(reconfigure=True)
    dist.init_process_group(
        "cpu:switchml,cuda:gloo",
        store=dist.HashStore(),
        rank=0,
        world_size=1,
        pg_options=options,
    )
    group = dist.group.WORLD
    for call in (group.get_reconfigure_handle, lambda: group.reconfigure(1, ["a", "b"])):
        with pytest.raises(NotImplementedError, match="^a group with several backends cannot"):
            call()
    dist.destroy_process_group()


def test_a_group_with_several_backends_cannot_be_reconfigured():
    with Prepared(1) as ranks:
        ranks.call(with_two_backends)


def test_a_group_leaves_its_job_within_a_limit_and_then_its_other_backends():
    done = []
    line = types.SimpleNamespace(idle=True, close=done.append)
    retire(line, types.SimpleNamespace(abort=lambda: done.append("aborted")), "", 5.0).join()
    assert done == [5.0, "aborted"]
