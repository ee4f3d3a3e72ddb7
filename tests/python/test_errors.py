# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that end badly, or are interrupted: the exception and its text, in time."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import switchml
from ranks import RankError, Ranks

N = 3
X = np.ones(100_000, np.float32)


def reduce(job):
    return job.allreduce(X)


def of_length(job, n):
    return job.allreduce(np.ones(n, np.float32))


def abort(job, reason):
    if reason:
        job.abort(reason)
    return job.allreduce(X)


def interrupted(job):
    """Rank 0 waits for a rank that never calls, and gets Ctrl-C."""
    # As in a terminal's foreground: what a shell starts in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    began = time.monotonic()
    timer.start()
    try:
        job.allreduce(X)
    except KeyboardInterrupt:
        return time.monotonic() - began
    return None


def test_a_killed_rank_raises_on_the_others():
    with Ranks(N) as ranks:
        ranks.call(reduce)
        ranks.start(reduce, only=[0, 1])
        time.sleep(0.2)
        began = time.monotonic()
        ranks.processes[2].kill()
        for outcome in ranks.outcomes(only=[0, 1]):
            assert isinstance(outcome, RankError) and outcome.kind == "RankDied"
            assert "rank 2" in str(outcome)
        assert time.monotonic() - began < 5


def test_a_mismatch_names_both_calls():
    with Ranks(N) as ranks:
        ranks.start(of_length, [1000, 1000, 1001])
        for outcome in ranks.outcomes():
            assert isinstance(outcome, RankError) and outcome.kind == "Mismatch"
            assert "1000" in str(outcome) and "1001" in str(outcome)


def test_a_call_that_a_rank_never_makes_times_out():
    with Ranks(2, {"timeout": 1.5}) as ranks:
        ranks.start(reduce, only=[0])
        (outcome,) = ranks.outcomes(only=[0])
        assert isinstance(outcome, RankError) and outcome.kind == "Timeout"


def test_abort_gives_its_reason_to_all():
    with Ranks(N) as ranks:
        ranks.start(abort, ["", "the loss is NaN", ""])
        for outcome in ranks.outcomes():
            assert isinstance(outcome, RankError) and outcome.kind == "Aborted"
            assert "the loss is NaN" in str(outcome) and "rank 1" in str(outcome)


def test_ctrl_c_interrupts_a_waiting_call_and_aborts_the_job():
    with Ranks(2) as ranks:
        ranks.start(interrupted, only=[0])
        (seconds,) = ranks.outcomes(only=[0])
        assert not isinstance(seconds, RankError) and 0.4 < seconds < 3
        ranks.start(reduce, only=[1])
        (outcome,) = ranks.outcomes(only=[1])
        assert outcome.kind == "Aborted" and "KeyboardInterrupt" in str(outcome)


def test_settings_are_checked():
    with pytest.raises(switchml.ConfigError) as caught:
        switchml.Job(rank=5, world_size=2)
    assert "rank" in str(caught.value) and caught.value.number == -5001
    with pytest.raises(ValueError, match="wire"):
        switchml.Job(rank=0, world_size=1, wire="int4")
    with pytest.raises(switchml.Unreachable):
        switchml.Job(rank=0, world_size=1, switch="127.0.0.1:1", timeout=1)


def count_while_waiting(job):
    """How long the main thread was kept from running, at most, while another one waits."""
    thread = threading.Thread(target=job.barrier)
    thread.start()
    longest, last = 0.0, time.monotonic()
    while thread.is_alive():
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
        time.sleep(0.001)
    return longest


def test_the_gil_is_released_while_a_thread_waits():
    with Ranks(2) as ranks:
        ranks.start(count_while_waiting, only=[0])
        time.sleep(1)
        ranks.start(count_while_waiting, only=[1])
        assert max(ranks.outcomes()) < 0.5


def test_a_closed_job_says_so():
    with switchml.Job(rank=0, world_size=1) as job:
        assert job.allreduce(X).tobytes() == X.tobytes()
    assert job.closed
    job.close()
    with pytest.raises(switchml.Closed):
        job.barrier()
