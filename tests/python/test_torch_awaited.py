# SPDX-License-Identifier: BSD-3-Clause
"""Collectives whose caller waits: they end in its thread, and stay in order with others."""

import contextlib
import datetime
import os
import signal
import sys
import threading
import time
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed as dist

from ranks import each_rank_of
from switchml import errors
from switchml._wait import poll
from switchml.job import Job

N = 2
OURS = str(Path(__file__).resolve().parents[2] / "bindings")


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


@each_rank_of("groups")
def test_calls_that_wait_need_no_other_thread_of_python(rank):
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
    assert (after - before, equal) == (0, True)


@each_rank_of("groups")
def test_calls_that_wait_keep_their_order_among_others(rank):
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
    expected = [[N * (j + i)] for i in range(30) for j in (1.0, 2.0, 3.0)]
    assert found == expected


@each_rank_of("groups")
def test_strides_may_differ_between_ranks(rank):
    """C reads the memory of one rank's tensors, and a copy of the other's, which are strided."""
    for n in (4, 4000):
        for root in range(N):
            tensor = torch.full((n,), rank + 1.0)
            if rank == 1:
                tensor = torch.stack([tensor, tensor], 1)[:, 0]
            dist.all_reduce(tensor)
            assert tensor.unique().tolist() == [N * (N + 1) / 2]
            dist.broadcast(tensor.fill_(rank + 5.0), root)
            assert tensor.unique().tolist() == [root + 5.0]


def ctrl_c_once_it_waits(line):
    while not line._n_awaited:
        time.sleep(0.001)
    time.sleep(0.1)  # most likely C waits by then; it may be anywhere in the call
    os.kill(os.getpid(), signal.SIGINT)


@each_rank_of("groups")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_a_call_that_waits_can_be_interrupted_and_goes_on(rank, error):
    """Rank 1 comes to the call when rank 0 has been interrupted in it, with this error."""

    def interrupt(*_):
        raise error

    store = dist.distributed_c10d._get_default_store()
    tensor, key = torch.ones(1000), f"interrupted {error.__name__}"
    if rank == 0:
        handler = signal.signal(signal.SIGINT, interrupt)
        line = dist.group.WORLD._line
        while line._n_begun:  # the last call, which another thread has ended
            time.sleep(0.001)
        threading.Thread(target=ctrl_c_once_it_waits, args=[line], daemon=True).start()
        began = time.monotonic()
        with pytest.raises(error):
            dist.all_reduce(tensor)
        waited = time.monotonic() - began
        signal.signal(signal.SIGINT, handler)
        store.set(key, "")
    else:
        store.wait([key])
        waited = 0
        dist.all_reduce(tensor)
    # The call has gone on without the interrupted thread.
    other = torch.ones(3)
    dist.all_reduce(other)
    assert waited < 30 and tensor[0].item() == other[0].item() == N


@each_rank_of("groups")
@pytest.mark.parametrize("steps", [1, 2])
def test_a_call_that_was_interrupted_before_it_was_made_goes_on(rank, steps):
    """Rank 0 is interrupted when it makes the call of C."""
    group = dist.new_group(list(range(N)))
    dist.barrier(group=group)
    # With one step, C reads the tensor's own memory.
    own, begin, was_interrupted = torch.full((20_000, steps), rank + 1.0)[:, 0], Job._begin, False

    def interrupted(*arguments):
        if not was_interrupted:
            signal.raise_signal(signal.SIGINT)
        return begin(*arguments)

    if rank == 0:
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with mock.patch.object(Job, "_begin", interrupted):
                dist.all_reduce(own, group=group)
        except KeyboardInterrupt:
            was_interrupted = True
        signal.signal(signal.SIGINT, handler)
    else:
        dist.all_reduce(own, group=group)
    behind = torch.ones(3)
    dist.all_reduce(behind, group=group)
    dist.destroy_process_group(group)
    assert was_interrupted == (rank == 0)
    assert own.unique().tolist() == [N * (N + 1) / 2] and behind.tolist() == [N] * 3


class Interruption:
    """Ctrl-C at the nth time when our code enters a function, or one of C returns to it.

    Python handles signals there, and at the ends of loops: after a function of C has returned, and
    before its result is stored.
    """

    def __init__(self, n_left):
        self.n_left, self.came = n_left, False

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename.startswith(OURS) and event in ("call", "c_return"):
            self.n_left -= 1
            if self.n_left == 0:
                sys.setprofile(None)
                self.came = True
                raise KeyboardInterrupt


def is_right(name, rank, own, out):
    return own.tolist() == [2.0 if "product" in name else 3.0] * 4


def product(own, group, **named):
    return dist.all_reduce(own, dist.ReduceOp.PRODUCT, group=group, **named)


def limited(own, group):
    """A call with a timeout of its own."""
    opts = dist.AllreduceOptions()
    opts.asyncOp, opts.timeout = False, datetime.timedelta(seconds=20)
    group.allreduce([own], opts).wait()


ANYWHERE = {
    "all_reduce": lambda own, out, parts, group: dist.all_reduce(own, group=group),
    "later": lambda own, out, parts, group: dist.all_reduce(own, group=group, async_op=True),
    "limited": lambda own, out, parts, group: limited(own, group),
    "coalesced": lambda own, out, parts, group: dist.all_reduce_coalesced([own, out], group=group),
    "product": lambda own, out, parts, group: product(own, group),
    "strided product": lambda own, out, parts, group: product(own, group),
    "later product": lambda own, out, parts, group: product(own, group, async_op=True),
    "later, strided product": lambda own, out, parts, group: product(own, group, async_op=True),
}


@each_rank_of("groups")
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_call_that_was_interrupted_anywhere_goes_on(rank, name):
    """Rank 0 makes the call again and again, and is interrupted everywhere in it."""
    group = dist.new_group(list(range(N)))
    store = dist.distributed_c10d._get_default_store()
    dist.barrier(group=group)
    was_interrupted, place = True, 0
    while was_interrupted:
        while not group._line.idle:
            time.sleep(0.001)
        place += 1
        own, out = torch.full((4, 2), rank + 1.0)[:, 0], torch.zeros(N * 4)
        if "strided" not in name:
            own = own.contiguous()
        parts = list(out.chunk(N)) if rank == 0 else None
        n_put, interruption = group._line.n_put, Interruption(place if rank == 0 else 0)
        try:
            sys.setprofile(interruption)
            ANYWHERE[name](own, out, parts, group)
        except KeyboardInterrupt:
            sys.setprofile(None)
            if group._line.n_put == n_put:  # it had not begun
                ANYWHERE[name](own, out, parts, group)
        finally:
            sys.setprofile(None)
        behind = torch.ones(3)
        dist.all_reduce(behind, group=group)
        assert behind.tolist() == [N] * 3, place
        # On Gloo, the call may end after later ones on the switch.
        assert poll(lambda own=own, out=out: is_right(name, rank, own, out), 100), place
        if rank == 0:
            store.set(f"{name} {place}", str(interruption.came))
        was_interrupted = store.get(f"{name} {place}") == b"True"
    dist.destroy_process_group(group)
    assert place > 40


@each_rank_of("groups")
@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("what", ["starter", "finisher"])
def test_an_interrupt_while_a_thread_starts_leaves_one(rank, what, runs):
    """Rank 0 is interrupted while it starts a thread, which runs or does not."""
    group = dist.new_group(list(range(N)))
    if what == "finisher":
        group._line.open()  # otherwise the starter makes it
    before, n_put, start = count_of(what), group._line.n_put, threading.Thread.start

    def interrupting(thread):
        is_meant = (
            thread.name == f"switchml-{what}"
            and threading.current_thread() is threading.main_thread()
        )
        if not is_meant or runs:
            start(thread)
        if is_meant:
            raise KeyboardInterrupt

    own, behind = torch.full((3,), rank + 1.0), torch.ones(3)
    if rank == 0:
        with (
            mock.patch.object(threading.Thread, "start", interrupting),
            pytest.raises(KeyboardInterrupt),
        ):
            dist.all_reduce(own, group=group, async_op=True)
    if group._line.n_put == n_put:  # it has not begun
        dist.all_reduce(own, group=group)
    dist.all_reduce(behind, group=group, async_op=True).wait()
    assert count_of(what) == before + 1
    dist.destroy_process_group(group)
    assert own.tolist() == [N * (N + 1) / 2] * 3 and behind.tolist() == [N] * 3
    assert count_of(what) == before


class InterruptedQueue:
    """A queue whose first put() is interrupted when it has put something in."""

    def __init__(self, queue):
        self.get, self._put, self.all_put = queue.get, queue.put, []

    def put(self, work):
        self.all_put.append(work)
        self._put(work)
        if len(self.all_put) == 1:
            raise KeyboardInterrupt


@each_rank_of("groups")
def test_an_interrupted_call_is_handed_over_once(rank):
    """Rank 0 is interrupted when the finisher has got its call."""
    group = dist.new_group(list(range(N)))
    line = group._line
    line.open()
    own, behind = torch.full((3,), rank + 1.0), torch.ones(3)
    if rank == 0:
        line._begun = InterruptedQueue(line._begun)
        with pytest.raises(KeyboardInterrupt):
            dist.all_reduce(own, group=group, async_op=True)
    else:
        dist.all_reduce(own, group=group, async_op=True)
    dist.all_reduce(behind, group=group, async_op=True).wait()
    dist.destroy_process_group(group)
    n_put = len(line._begun.all_put) - 1 if rank == 0 else 2  # but the end
    assert own.tolist() == [N * (N + 1) / 2] * 3 and behind.tolist() == [N] * 3 and n_put == 2


@each_rank_of("groups")
def test_a_group_that_is_destroyed_ends_calls_that_wait(rank):
    """One rank destroys the group while a thread of it waits; the other rank never calls."""
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
    assert seen == (["AbortedError"] if rank == 0 else [])


FENCE = torch.compiler.disable(lambda: None).__code__


@each_rank_of("groups")
def test_a_call_passes_one_fence(rank):
    """How often a call passes a fence that keeps torch.compile out: it takes microseconds."""
    whole = torch.ones(N * 3)
    ours, gloo = dist.new_group(list(range(N))), dist.new_group(list(range(N)), backend="gloo")
    dist.all_reduce(whole, group=ours)
    while not ours._line.idle:
        time.sleep(0.001)
    passed = {ours: 0, gloo: 0}
    for group in passed:

        def look(frame, event, _, group=group):
            passed[group] += event == "call" and frame.f_code is FENCE

        try:
            sys.setprofile(look)
            dist.all_reduce(whole, group=group)
        finally:
            sys.setprofile(None)
        dist.destroy_process_group(group)
    # The recorder of PyTorch 2.15 asks for the group's name and description.
    n_fences = 3 if torch.__version__ >= (2, 15) else 1
    assert passed[ours] - passed[gloo] == n_fences  # PyTorch may have some, too


@each_rank_of("groups")
def test_works_that_have_ended_have_all_that_works_have(rank):
    """The work of a call that has ended: as C++ and hooks use it."""
    opts = dist.AllreduceOptions()
    opts.asyncOp = False
    tensor = torch.full((3,), rank + 1.0)
    work = dist.group.WORLD.allreduce([tensor], opts)
    seen = []
    future = work.get_future().then(lambda future: seen.append(future.value()[0].tolist()))
    future.wait()
    assert work.result()[0] is tensor and seen == [[N * (N + 1) / 2] * 3]
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
