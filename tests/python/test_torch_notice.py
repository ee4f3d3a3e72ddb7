# SPDX-License-Identifier: BSD-3-Clause
"""A rank that waits in a group's store, in a call, or to leave its job, says what for."""

import os
import re
import threading
import time
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist

import switchml
from groups import Groups, say_to
from ranks import free_port
from switchml.torch import Options
from switchml.torch._joining.meeting import meet

SOON = {"wait_notice": 0.2}


def arrive(store, rank, settings):
    return threading.Thread(
        target=meet, args=(store, rank, 3, None, "the default group", 100, settings)
    )


def said(capfd, seen, *texts):
    """Wait until all patterns are on standard error; returns all that is. A busy machine waits for
    any number of seconds."""
    end = time.monotonic() + 60
    while not all(re.search(text, seen) for text in texts):
        assert time.monotonic() < end, seen
        time.sleep(0.02)
        seen += capfd.readouterr().err
    return seen


def test_ranks_that_wait_for_others_in_the_store_say_for_whom(capfd):
    store = dist.HashStore()
    first, second = arrive(store, 0, SOON), arrive(store, 1, SOON)
    second.start()
    seen = said(capfd, "", r"switchml\[rank 1\]: waiting \d+ s \(of at most 100\) for rank 0 ")
    first.start()
    text = "rank 2 of the default group to make this group; 2 of its 3 ranks have\n"
    said(capfd, seen, *(rf"switchml\[rank {rank}\]: waiting " for rank in (0, 1)), f"for {text}")
    arrive(store, 2, SOON).start()
    first.join(60)
    second.join(60)
    assert not first.is_alive() and not second.is_alive()


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({"wait_notice": 0}, {}),
        ({}, {"SWITCHML_WAIT_NOTICE": "0"}),
        ({"wait_notice": 0.01, "debug": "error"}, {}),
        ({"wait_notice": 0.01}, {"SWITCHML_DEBUG": "error"}),
    ],
)
def test_notices_can_be_turned_off(capfd, settings, environment):
    store = dist.HashStore()
    with mock.patch.dict(os.environ, environment):
        silent = arrive(store, 0, settings)
        silent.start()
        loud = arrive(store, 1, {**SOON, "debug": "warn"})
        loud.start()
        seen = said(capfd, "", r"switchml\[rank 1\]: waiting [1-9]")
        arrive(store, 2, settings).start()
    silent.join(60)
    loud.join(60)
    assert "rank 0]" not in seen


def all_reduce(rank):
    tensor = torch.ones(4)
    dist.all_reduce(tensor)
    return tensor.tolist()


def destroy(rank):
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("call", "most", "name"),
    [
        (all_reduce, "150", "all-reduce 0: 4 float32"),
        (destroy, r"[12]?\d", "the end of the group \\("),
    ],
)
def test_a_rank_that_waits_in_a_call_of_pytorch_says_for_whom(tmp_path, call, most, name):
    path = tmp_path / "said"
    who = r"rank 1 of 2 \(.*, pid .*\)"
    expected = re.compile(rf"rank 0\]: waiting .*of at most {most}\) for {who} in job .*, {name}")
    with Groups(2, options=SOON) as ranks:
        ranks.call(say_to, [path, path])
        ranks.start(call, only=[0])
        end = time.monotonic() + 60
        while not expected.search(path.read_text()):
            assert time.monotonic() < end, path.read_text()
            time.sleep(0.02)
        ranks.start(call, only=[1])
        assert ranks.outcomes() == [None if call is destroy else [2.0] * 4] * 2


def test_a_rank_that_waits_in_a_call_or_to_leave_says_so(capfd):
    port, jobs = free_port(), [None, None]

    def open_job(rank):
        jobs[rank] = switchml.Job(
            rank=rank, world_size=2, job="leaves", master_port=port, wait_notice=0.2
        )

    opened = [threading.Thread(target=open_job, args=(rank,)) for rank in range(2)]
    for thread in opened:
        thread.start()
    for thread in opened:
        thread.join(60)
    ones = np.ones(4, np.float32)
    waits = threading.Thread(target=jobs[1].allreduce, args=(ones,))
    waits.start()
    seen = said(capfd, "", r"rank 1\]: waiting", ' in job "leaves", all-reduce 0: 4 float32')
    assert " for rank 0 of 2 (" in seen
    jobs[0].allreduce(ones)
    waits.join(60)
    leaves = threading.Thread(target=jobs[1].close)
    leaves.start()
    others = 'the other ranks of job "leaves" to'
    said(capfd, "", rf"rank 1\]: waiting \d+ s \(of at most 1800\) for {others}")
    jobs[0].close()
    leaves.join(60)
    assert not leaves.is_alive()


def test_a_wrong_notice_is_refused():
    with pytest.raises(switchml.ConfigError, match="wait_notice is -1: it must be 0.001 to"):
        switchml.Job(rank=0, world_size=1, wait_notice=-1)
    assert Options(wait_notice=0).wait_notice == 0
