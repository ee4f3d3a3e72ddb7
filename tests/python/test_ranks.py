# SPDX-License-Identifier: BSD-3-Clause
"""What tests of several ranks say when ranks fail: why, and only of their own calls."""

import os
import time

import pytest

from ranks import RankLostError, Ranks


@pytest.fixture
def bare():
    with Ranks(2, job=False) as ranks:
        yield ranks


class Hidden:
    def __repr__(self):
        raise ValueError("cannot be shown")


def fail(rank, is_hidden):
    if rank == 0:
        raise TimeoutError("waited for rank 1")
    found = Hidden() if is_hidden else [12, 34]
    assert not found


@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_failed_assertion_comes_before_what_it_cost_the_other_ranks(bare, is_hidden):
    with pytest.raises(AssertionError) as failed:
        bare.call(fail, [is_hidden] * 2)
    first, second = str(failed.value).split("TimeoutError: waited for rank 1\n", 1)
    assert first.startswith("AssertionError: ") and "assert not found" in first
    assert is_hidden or "found = [12, 34]" in first
    assert "in fail" in second


def be_late(rank, how):
    if rank == 0 and how == "gone":
        os._exit(3)
    if rank == 0:
        time.sleep(60)
    return "of this call"


def answer(rank):
    return "of the next call"


@pytest.mark.parametrize(
    ("how", "error", "timeout"), [("gone", RankLostError, 200), ("silent", TimeoutError, 0.1)]
)
def test_a_lost_rank_leaves_no_answers_to_the_next_call(bare, how, error, timeout):
    bare.start(be_late, [how] * 2)
    assert bare.pipes[1].poll(200)
    with pytest.raises(error, match="^rank 0 "):
        bare.outcomes(timeout=timeout)
    assert bare.call(answer, only=[1]) == ["of the next call"]
    bare.processes[0].kill()
