# SPDX-License-Identifier: BSD-3-Clause
"""Jobs whose members change, and the switch decides who they are: Job.reconfigure() without a list.

Each process contributes a power of two of its own, so a sum says whose contributions it has.
"""

import os
import signal
import time

import numpy as np
import pytest

import switchml
from ranks import Ranks
from switches import PROGRAM, switch

needs_a_switch = pytest.mark.skipif(not PROGRAM.exists(), reason="no program build/switchml")
SOON = 60.0  # whatever takes longer hangs

job = None  # of this process
mine = 0  # what it contributes


def begin(_, number, settings):
    """Open the job as the process with this number."""
    global job, mine
    mine = 1 << number
    job = switchml.Job(timeout=150, summary=False, **settings)
    return who()


def who():
    return job.rank, job.world_size, [job.previous_rank(rank) for rank in range(job.world_size)]


def total(_):
    out = job.allreduce(np.full(20_000, mine, np.int32))
    assert (out == out[0]).all()
    return int(out[0])


def sum_until_it_fails(rank):
    while True:
        total(rank)


def reconfigure(_, **how):
    job.reconfigure(**how)
    return who()


def ask(rank, how):
    return reconfigure(rank, **how)


def await_waiting(_, n):
    until = time.monotonic() + SOON
    while job.waiting != n:
        assert time.monotonic() < until, f"{job.waiting} processes wait, not {n}"
        time.sleep(0.005)


def close(_):
    job.close()


class Processes(Ranks):
    """Some of them are members at first, and the others may join later."""

    def __init__(self, n, members, address):
        super().__init__(n, job=False)
        self._common = {"job": "python", "switch": address}
        self.all = list(range(members))
        numbers, settings = (
            list(range(n)),
            [{**self._common, "rank": rank, "world_size": members} for rank in range(n)],
        )
        self.start(begin, numbers, settings, only=self.all)
        assert self.outcomes(self.all) == [(rank, members, [None] * members) for rank in self.all]

    def let(self, function, *arguments, only):
        return self.call(function, *([argument] * self.n for argument in arguments), only=only)

    def kill_while_all_sum(self, victim, members):
        self.start(sum_until_it_fails, only=members)
        time.sleep(0.02)  # anywhere in its calls
        os.kill(self.processes[victim].pid, signal.SIGKILL)
        self.processes[victim].join()
        left = [member for member in members if member != victim]
        self.expect("RankDiedError", only=left)
        return left

    def begin_to_wait(self, number, **settings):
        """A new process asks the switch to be in the job."""
        self.start(
            begin,
            [number] * self.n,
            [{**self._common, "join": True, **settings}] * self.n,
            only=[number],
        )

    def expect_sum_of(self, members):
        assert self.let(total, only=members) == [sum(1 << m for m in members)] * len(members)


@pytest.fixture
def processes(request):
    n, members = request.param
    with switch() as address, Processes(n, members, address) as found:
        yield found


def sized(n, members):
    how = pytest.mark.parametrize("processes", [(n, members)], indirect=True)
    return lambda test: how(needs_a_switch(test))


@sized(4, 4)
def test_the_survivors_of_a_kill_go_on_in_their_old_order(processes):
    left = processes.kill_while_all_sum(1, [0, 1, 2, 3])
    assert processes.let(reconfigure, only=left) == [(rank, 3, [0, 2, 3]) for rank in range(3)]
    processes.expect_sum_of(left)
    left = processes.kill_while_all_sum(0, left)
    assert processes.let(reconfigure, only=left) == [(rank, 2, [1, 2]) for rank in range(2)]
    processes.expect_sum_of(left)
    processes.let(close, only=left)


@sized(3, 2)
def test_a_process_that_waits_is_added_behind_the_others(processes):
    processes.begin_to_wait(2)
    processes.let(await_waiting, 1, only=[0, 1])
    processes.expect_sum_of([0, 1])  # it is not a member yet
    processes.start(reconfigure, only=[0, 1])
    assert processes.outcomes([0, 1, 2]) == [(rank, 3, [0, 1, None]) for rank in range(3)]
    processes.expect_sum_of([0, 1, 2])
    processes.let(await_waiting, 0, only=[0, 1, 2])
    processes.let(close, only=[0, 1, 2])


@sized(3, 2)
def test_the_environment_says_that_a_process_waits(processes, monkeypatch):
    monkeypatch.setenv("SWITCHML_JOIN", "1")
    monkeypatch.setenv("SWITCHML_JOB", "python")
    with Ranks(2, job=False) as new:
        settings = [{"switch": processes._common["switch"]}] * 2
        new.start(begin, [2, 3], settings, only=[0])
        processes.let(await_waiting, 1, only=[0, 1])
        new.start(begin, [2, 3], settings, only=[1])
        processes.let(await_waiting, 2, only=[0, 1])
        processes.start(ask, [{"max_ranks": 3}] * 3, only=[0, 1])
        assert processes.outcomes([0, 1]) == [(rank, 3, [0, 1, None]) for rank in range(2)]
        assert new.outcomes([0]) == [(2, 3, [0, 1, None])]
        new.start(total, only=[0])
        assert processes.let(total, only=[0, 1]) + new.outcomes([0]) == [0b111] * 3
        # There was no place for the other one, and it goes on waiting.
        processes.let(await_waiting, 1, only=[0, 1])
        assert not new.pipes[1].poll(0)
        for process in new.processes:
            process.kill()


@sized(3, 3)
def test_fewer_than_min_ranks_is_an_error_and_they_may_ask_again(processes):
    left = processes.kill_while_all_sum(2, [0, 1, 2])
    processes.start(ask, [{"min_ranks": 3}] * 3, only=left)
    processes.expect("RefusedError", "too few ranks to go on: 2, of at least 3", only=left)
    processes.start(total, only=left)  # there is no job to make it in
    processes.expect("RefusedError", only=left)
    assert processes.let(ask, {"min_ranks": 2}, only=left) == [(r, 2, [0, 1]) for r in range(2)]
    processes.expect_sum_of(left)
    processes.let(close, only=left)


@sized(2, 2)
def test_a_rank_that_asks_late_is_refused_and_can_come_back_as_a_new_one(processes):
    assert processes.let(ask, {"wait": 0.3}, only=[1]) == [(0, 1, [1])]
    processes.expect_sum_of([1])
    processes.start(reconfigure, only=[0])
    processes.expect("RefusedError", "too late", only=[0])
    processes.expect_sum_of([1])
    processes.start(close, only=[0])  # raises what has ended its job
    processes.outcomes([0])
    processes.begin_to_wait(0)
    processes.let(await_waiting, 1, only=[1])
    processes.start(reconfigure, only=[1])
    assert processes.outcomes([1]) == [(0, 2, [0, None])]
    assert processes.outcomes([0]) == [(1, 2, [0, None])]
    processes.expect_sum_of([0, 1])
    processes.let(close, only=[0, 1])


def test_without_a_dedicated_switch_the_caller_must_decide():
    with Ranks(1) as alone:
        alone.start(switchml.Job.reconfigure)
        alone.expect("ValueError", "without a dedicated switch")
