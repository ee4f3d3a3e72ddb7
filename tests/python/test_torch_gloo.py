# SPDX-License-Identifier: BSD-3-Clause
"""Calls that run on Gloo: their place among those on the switch, and ranks that leave."""

import os
import re
import sys
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from gloo_calls import BEFORE_2_13, CALLS, MISSING_BEFORE_2_13, ON_GLOO, PRODUCT, N, ones  # noqa: E402
from groups import Groups, stop  # noqa: E402
from programs import run_ranks  # noqa: E402
from switchml.torch._group.router import gloo_devices  # noqa: E402

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
    try:
        CALLS[names[rank]](group)
    except RuntimeError as error:
        return type(error).__name__, str(error), time.monotonic() - began
    finally:
        if not default:
            dist.destroy_process_group(group)
    return None


def check_told(found, names):
    for kind, text, seconds in found:
        assert kind == "MismatchError"
        assert seconds < 60  # the timeout is 150
        for name in names:
            assert name in text


@pytest.mark.parametrize("names", PAIRS, ids="; ".join)
def test_ranks_that_disagree_are_told_both_calls_at_once(pair, names):
    """In a group's first call, and in a later one; on every rank's side."""
    for warm, order in ((False, names), (True, names[::-1])):
        check_told(pair.call(disagree, [order] * N, [warm] * N, timeout=100), names)


def test_ranks_that_disagree_in_the_default_group_are_told_so():
    with Groups(N) as groups:
        found = groups.call(disagree, [PAIRS[0]] * N, [False] * N, [True] * N, timeout=100)
    check_told(found, PAIRS[0])


def agree(rank):
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
    return taken.tolist()


def multiply_twice_and_add_complex(rank, said):
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT), sys.stderr.fileno())
    for dtype in COMPLEX:
        numbers = torch.full((4,), 1 + 2j, dtype=dtype)
        dist.all_reduce(numbers)
        assert numbers.tolist() == [N * (1 + 2j)] * 4
    for _ in range(2):
        CALLS[PRODUCT](None)


def test_the_last_line_of_the_job_counts_calls_on_gloo(tmp_path):
    """All-reduces of complex numbers are none of these: they run on the switch, as pairs.

    The ranks' standard error is that of the server that forks them: it gets a file here.
    """
    said = tmp_path / "said"
    with Groups(N) as group:
        group.call(multiply_twice_and_add_complex, [str(said)] * N)
        group.call(stop)
    assert "2 calls left to Gloo" in said.read_text()


def use_groups_of_which_two_are_alive(rank, said):
    os.dup2(os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT), sys.stderr.fileno())
    for n in range(3):
        group = dist.new_group(list(range(N)))
        dist.all_reduce(ones(), group=group)
        CALLS[PRODUCT](group)
        if n == 0:
            dist.destroy_process_group(group)


def test_one_line_is_for_all_groups_but_the_first(tmp_path):
    said = tmp_path / "said"
    with Groups(N) as group:
        group.call(use_groups_of_which_two_are_alive, [str(said)] * N)
        group.call(stop)
    text = said.read_text()
    assert re.findall(r"rank (\d)\]: (\d more groups: .*)", text) == [
        ("0", "3 more groups: 3 calls of 48 bytes in SwitchML; 3 left to Gloo")
    ]
    assert text.count(" has ended: ") == 1


def test_ranks_that_agree_hear_nothing_of_it(pair):
    assert pair.call(agree) == [[0.0] * 3 + [1.0] * 3, [0.0, 1.0]]


def futures_of_gloo(rank):
    """The value of a future is Gloo's, and a work can be polled."""
    tensor = torch.full((4,), rank + 2.0)
    work = dist.all_reduce(tensor, dist.ReduceOp.PRODUCT, async_op=True)
    (value,) = work.get_future().wait()
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    return value.tolist(), tensor.tolist()


def test_a_work_on_gloo_is_like_any_other(pair):
    assert pair.call(futures_of_gloo) == [([6.0] * 4, [6.0] * 4)] * N


def modes(rank):
    """Gloo writes to a leaf, and to a tensor of inference, as its caller may."""
    leaf = torch.full((4,), 2.0, requires_grad=True)
    with torch.no_grad():
        dist.all_reduce(leaf, dist.ReduceOp.PRODUCT)
        gathered = [torch.zeros(4, requires_grad=True) for _ in range(N)]
        dist.all_gather(gathered, leaf)
    with torch.inference_mode():
        tensor = torch.full((4,), 3.0)
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
        return leaf[0].item(), gathered[1][0].item(), tensor[0].item()


def test_gloo_has_the_modes_of_the_caller(pair):
    assert pair.call(modes) == [(4.0, 4.0, 9.0)] * N


def missing(rank):
    if rank == 1:
        return None
    with pytest.raises(RuntimeError, match="[Rr]ank 1"):
        dist.monitored_barrier(timeout=timedelta(seconds=1))
    return True


def test_a_monitored_barrier_names_the_missing_rank():
    with Groups(N) as groups:
        assert groups.call(missing) == [True, None]


def missing_since_an_earlier_call(rank):
    group = dist.new_group(list(range(N)))
    dist.barrier(group)
    if rank == 1:
        return None
    CALLS_BEGUN["product"](group)
    with pytest.raises(RuntimeError, match="[Rr]ank 1"):
        dist.monitored_barrier(group, timedelta(seconds=2))
    return True


def test_a_monitored_barrier_names_a_rank_that_is_missing_since_an_earlier_call():
    with Groups(N) as groups:
        assert groups.call(missing_since_an_earlier_call) == [True, None]


CALLS_BEGUN = {
    "product": lambda g: dist.all_reduce(ones(), dist.ReduceOp.PRODUCT, group=g, async_op=True),
    "all_reduce": lambda g: dist.all_reduce(ones(), group=g, async_op=True),
}


def begin_before_monitored_barriers(rank, name, rounds=20):
    """Rank 0 has the results before it comes to the barrier, and rank 1 has not."""
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=20))
    for _ in range(rounds):
        work = CALLS_BEGUN[name](group)
        if rank == 0:
            work.wait()
        dist.monitored_barrier(group)
        work.wait()
    return True


@pytest.mark.parametrize("name", CALLS_BEGUN)
def test_a_monitored_barrier_comes_after_the_calls_that_were_begun_before_it(name):
    with Groups(N) as groups:
        assert groups.call(begin_before_monitored_barriers, [name] * N) == [True] * N


# ---- a rank that leaves ----


def leave(rank, how):
    """The text that rank 0 reads of rank 1's end."""
    group = dist.new_group(list(range(N))) if how == "subgroup" else dist.group.WORLD
    dist.all_reduce(ones(), group=group)
    if rank == 1:
        dist.destroy_process_group(group)
        return None
    call = CALLS[PRODUCT] if how == "gloo" else CALLS["4 float32, sum"]
    try:
        call(group)
    except RuntimeError as error:
        return type(error).__name__, str(error)
    return None


@pytest.mark.parametrize("how", ["switch", "gloo", "subgroup"])
def test_a_rank_that_leaves_is_not_said_to_have_called_a_barrier(how):
    with Groups(N) as groups:
        kind, text = groups.call(leave, [how] * N)[0]
    assert kind == "MismatchError"
    assert re.search(r"rank 1( \([^)]*\))? called the end of the group", text)
    assert "barrier" not in text


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
    left = r"rank 1( \([^)]*\))? called the end of the group \(.*of the program\)"
    assert re.search(left, said[0])
