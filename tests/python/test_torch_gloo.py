# SPDX-License-Identifier: BSD-3-Clause
"""Calls that run on Gloo: their place among those on the switch, and ranks that leave."""

import re
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from gloo_calls import BEFORE_2_13, CALLS, MISSING_BEFORE_2_13, ON_GLOO, PRODUCT, N, ones
from groups import Groups, say_to, stop
from programs import run_ranks
from ranks import each_rank_of
from switchml import errors
from switchml.torch._group.router import gloo_devices

COMPLEX = [torch.complex64, torch.complex128]
PAIRS = [
    *((gloo, "4 float32, sum") for gloo in ON_GLOO),
    (PRODUCT, "called barrier"),
    # Gloo ends the process if the sizes differ.
    (PRODUCT, "allreduce of 40000 float32, PRODUCT"),
    (PRODUCT, "gather of float32, root 0"),
    ("gather of float32, root 0", "gather of float32, root 1"),
]


def test_gloo_listens_where_its_variable_says(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,lo")
    assert len(gloo_devices(None, {})) == 1  # each interface once
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,no-such-interface")
    with pytest.raises(RuntimeError, match="no-such-interface"):
        gloo_devices(None, {})


def disagree(rank, names, warm, default=False):
    group = dist.group.WORLD if default else dist.new_group(list(range(N)))
    if warm:
        dist.all_reduce(ones(), group=group)
    began = time.monotonic()
    with pytest.raises(errors.MismatchError) as error:
        CALLS[names[rank]](group)
    assert time.monotonic() - began < 60  # the timeout is 150
    assert all(name in str(error.value) for name in names), error.value
    if not default:
        dist.destroy_process_group(group)


@each_rank_of("groups")
@pytest.mark.parametrize("names", PAIRS, ids="; ".join)
def test_ranks_that_disagree_are_told_both_calls_at_once(rank, names):
    """In a group's first call, and in a later one; on every rank's side."""
    disagree(rank, names, warm=False)
    disagree(rank, names[::-1], warm=True)


@each_rank_of("new_groups")
def test_ranks_that_disagree_in_the_default_group_are_told_so(rank):
    disagree(rank, PAIRS[0], warm=False, default=True)


@each_rank_of("groups")
def test_ranks_that_agree_hear_nothing_of_it(rank):
    """Every call on Gloo, in turn with one on the switch."""
    for name, call in ON_GLOO.items():
        if BEFORE_2_13 and name in MISSING_BEFORE_2_13:
            continue
        call(None)
        tensor = ones()
        dist.all_reduce(tensor)
        assert tensor.tolist() == [N] * 4
    given = torch.full((4,), float(rank))
    taken = torch.zeros(6 if rank == 0 else 2)
    dist.all_to_all_single(taken, given, [3, 3] if rank == 0 else [1, 1], [3, 1])
    assert taken.tolist() == ([0.0, 1.0] if rank else [0.0] * 3 + [1.0] * 3)


def multiply_twice_and_add_complex(rank):
    for dtype in COMPLEX:
        numbers = torch.full((4,), 1 + 2j, dtype=dtype)
        dist.all_reduce(numbers)
        assert numbers.tolist() == [N * (1 + 2j)] * 4
    for _ in range(2):
        CALLS[PRODUCT](None)


def test_the_last_line_of_the_job_counts_calls_on_gloo(tmp_path):
    """All-reduces of complex numbers are none of these: they run on the switch, as pairs."""
    said = tmp_path / "said"
    with Groups(N) as group:
        group.call(say_to, [said] * N)
        group.call(multiply_twice_and_add_complex)
        group.call(stop)
    assert "2 calls left to Gloo" in said.read_text()


def use_groups_of_which_two_are_alive(rank):
    for n in range(3):
        group = dist.new_group(list(range(N)))
        dist.all_reduce(ones(), group=group)
        CALLS[PRODUCT](group)
        if n == 0:
            dist.destroy_process_group(group)


def test_one_line_is_for_all_groups_but_the_first(tmp_path):
    said = tmp_path / "said"
    with Groups(N) as group:
        group.call(say_to, [said] * N)
        group.call(use_groups_of_which_two_are_alive)
        group.call(stop)
    text = said.read_text()
    assert re.findall(r"rank (\d)\]: (\d more groups: .*)", text) == [
        ("0", "3 more groups: 3 calls of 48 bytes in SwitchML; 3 left to Gloo")
    ]
    assert text.count(" has ended: ") == 1


@each_rank_of("groups")
def test_a_work_on_gloo_is_like_any_other(rank):
    """The value of a future is Gloo's, and a work can be polled."""
    tensor = torch.full((4,), rank + 2.0)
    work = dist.all_reduce(tensor, dist.ReduceOp.PRODUCT, async_op=True)
    (value,) = work.get_future().wait()
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    assert value.tolist() == tensor.tolist() == [6.0] * 4


@each_rank_of("groups")
def test_gloo_has_the_modes_of_the_caller(rank):
    """Gloo writes to a leaf, and to a tensor of inference, as its caller may."""
    leaf = torch.full((4,), 2.0, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf, dist.ReduceOp.PRODUCT)
        gathered = [torch.zeros(4, requires_grad=True) for _ in range(N)]
        dist.all_gather(gathered, leaf)
    with torch.inference_mode():
        tensor = torch.full((4,), 3.0)
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
        assert (leaf[0].item(), gathered[1][0].item(), tensor[0].item()) == (4.0, 4.0, 9.0)


@each_rank_of("new_groups")
def test_a_monitored_barrier_names_the_missing_rank(rank):
    if rank == 0:
        with pytest.raises(RuntimeError, match="[Rr]ank 1"):
            dist.monitored_barrier(timeout=timedelta(seconds=1))


@each_rank_of("new_groups")
def test_a_monitored_barrier_names_a_rank_that_is_missing_since_an_earlier_call(rank):
    group = dist.new_group(list(range(N)))
    dist.barrier(group)
    if rank == 0:
        CALLS_BEGUN["product"](group)
        with pytest.raises(RuntimeError, match="[Rr]ank 1"):
            dist.monitored_barrier(group, timedelta(seconds=2))


CALLS_BEGUN = {
    "product": lambda g: dist.all_reduce(ones(), dist.ReduceOp.PRODUCT, group=g, async_op=True),
    "all_reduce": lambda g: dist.all_reduce(ones(), group=g, async_op=True),
}


@each_rank_of("new_groups")
@pytest.mark.parametrize("name", CALLS_BEGUN)
def test_a_monitored_barrier_comes_after_the_calls_that_were_begun_before_it(rank, name):
    """Rank 0 has the results before it comes to the barrier, and rank 1 has not."""
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=20))
    for _ in range(20):
        work = CALLS_BEGUN[name](group)
        if rank == 0:
            work.wait()
        dist.monitored_barrier(group)
        work.wait()


# ---- a rank that leaves ----


LEFT = r"rank 1( \([^)]*\))? called the end of the group"


@each_rank_of("new_groups")
@pytest.mark.parametrize("how", ["switch", "gloo", "subgroup"])
def test_a_rank_that_leaves_is_not_said_to_have_called_a_barrier(rank, how):
    group = dist.new_group(list(range(N))) if how == "subgroup" else dist.group.WORLD
    dist.all_reduce(ones(), group=group)
    if rank == 1:
        dist.destroy_process_group(group)
        return
    with pytest.raises(errors.MismatchError, match=LEFT) as error:
        CALLS[PRODUCT if how == "gloo" else "4 float32, sum"](group)
    assert "barrier" not in str(error.value)


PROGRAM = """
import os, sys, torch, torch.distributed as dist, switchml.torch
dist.init_process_group("switchml")
dist.all_reduce(torch.ones(1))
if os.environ["RANK"] == "1":
    sys.exit(7)
try:
    dist.all_reduce(torch.ones(1))
except RuntimeError as error:
    print(type(error).__name__, error)
"""


def test_a_program_that_ends_is_said_to_have_left():
    codes, said = run_ranks(2, "-c", PROGRAM)
    assert codes[1] == 7
    assert "MismatchError " in said[0]
    assert re.search(LEFT + r" \(.*of the program\)", said[0])
