# SPDX-License-Identifier: BSD-3-Clause
"""Collectives whose caller waits: they end in its thread, and stay in order with others."""

import contextlib
import os
import signal
import threading
import time

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups  # noqa: E402

N = 2


@pytest.fixture(scope="module")
def groups():
    with Groups(N) as made:
        yield made


def count_of(name):
    return sum(thread.name == f"switchml-{name}" for thread in threading.enumerate())


CALLS = {
    "all_reduce": lambda whole, part, group: dist.all_reduce(whole, group=group),
    "coalesced": lambda whole, part, group: dist.all_reduce_coalesced([whole, part], group=group),
    "broadcast": lambda whole, part, group: dist.broadcast(whole, 1, group=group),
    "reduce": lambda whole, part, group: dist.reduce(part, 0, group=group),
    "gather": lambda whole, part, group: dist.all_gather_into_tensor(whole, part, group=group),
    "scatter": lambda whole, part, group: dist.reduce_scatter_tensor(part, whole, group=group),
    "barrier": lambda whole, part, group: dist.barrier(group=group),
}


def every_collective(group, rank):
    """The results of all that the switch takes, with one element or many."""
    found = []
    for n in (1, 1000, 100_000):
        for name, call in CALLS.items():
            whole, part = torch.full((N * n,), rank + 1.0), torch.full((n,), rank + 3.0)
            call(whole, part, group)
            if name == "reduce" and rank != 0:
                part.zero_()  # PyTorch does not say what is there
            found.append((whole, part))
    return found


def calls_that_wait(rank):
    group = dist.new_group(list(range(N)))
    dist.barrier(group=group)  # joins the job, in a thread
    before = count_of("finisher")
    ours = every_collective(group, rank)
    after = count_of("finisher")
    other = dist.new_group(list(range(N)), backend="gloo")
    theirs = every_collective(other, rank)
    equal = all(
        torch.equal(a, b)
        for mine, gloos in zip(ours, theirs, strict=True)
        for a, b in zip(mine, gloos, strict=True)
    )
    dist.destroy_process_group(group)
    dist.destroy_process_group(other)
    return after - before, equal


def test_calls_that_wait_need_no_other_thread_of_python(groups):
    assert groups.call(calls_that_wait) == [(0, True)] * N


def mixed(rank):
    """Calls that wait, among others that end later, and strided ones that are copied back."""
    group = dist.new_group(list(range(N)))
    found = []
    for i in range(30):
        large, small = torch.full((200_000,), 1.0 + i), torch.full((3,), 2.0 + i)
        strided = torch.full((4, 6), 3.0 + i).t()
        work = dist.all_reduce(large, group=group, async_op=True)
        dist.all_reduce(small, group=group)
        dist.all_reduce(strided, group=group)
        work.wait()
        found += [t.unique().tolist() for t in (large, small, strided)]
    dist.destroy_process_group(group)
    return found


def test_calls_that_wait_keep_their_order_among_others(groups):
    expected = [[N * (j + i)] for i in range(30) for j in (1.0, 2.0, 3.0)]
    assert groups.call(mixed) == [expected] * N


def interrupted(rank):
    """Rank 1 comes to the call when rank 0 has been interrupted in it."""
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.ones(1000)
    if rank == 0:
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            dist.all_reduce(tensor)
        waited = time.monotonic() - began
        signal.signal(signal.SIGINT, handler)
        store.set("interrupted", "")
    else:
        store.wait(["interrupted"])
        waited = 0
        dist.all_reduce(tensor)
    # The call has gone on without the interrupted thread.
    other = torch.ones(3)
    dist.all_reduce(other)
    return waited < 30, tensor[0].item(), other[0].item()


def test_a_call_that_waits_can_be_interrupted_and_goes_on(groups):
    assert groups.call(interrupted) == [(True, N, N)] * N


def destroyed_meanwhile(rank):
    """One rank destroys the group while a thread of it waits; the other rank never calls."""
    from switchml import errors

    group = dist.new_group(list(range(N)))
    dist.barrier(group=group)
    seen = []

    def call():
        try:
            dist.all_reduce(torch.ones(3), group=group)
        except errors.SwitchMLError as error:
            seen.append(type(error).__name__)

    if rank == 0:
        while group._line._n_begun:  # the barrier, which another thread has ended
            time.sleep(0.001)
        thread = threading.Thread(target=call)
        thread.start()
        while not group._line._n_awaited:
            time.sleep(0.001)
        group.leave(0.1)
        thread.join()
    dist.barrier()
    with contextlib.suppress(errors.SwitchMLError):
        dist.destroy_process_group(group)
    return seen


def test_a_group_that_is_destroyed_ends_calls_that_wait(groups):
    assert groups.call(destroyed_meanwhile)[0] == ["Aborted"]
