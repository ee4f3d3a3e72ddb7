# SPDX-License-Identifier: BSD-3-Clause
"""Process groups of torch.distributed: each is a job, with options, and ends or fails by itself."""

import contextlib
import os
import re
import socket
import statistics
import threading
import time
from datetime import timedelta
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout

import switchml.torch
from groups import Groups, start, stop
from programs import run_python, run_ranks
from ranks import each_rank_of
from switchml import Job
from switchml._wait import poll
from switchml.torch._joining import rendezvous as _rendezvous

N = 3


# ---- groups ----


@each_rank_of("groups")
def test_every_group_is_a_job_of_its_own(rank):
    """Overlapping groups at once, in another order on each rank."""
    pairs = {pair: dist.new_group(list(pair)) for pair in [(0, 1), (1, 2), (0, 2)]}
    works = []
    for pair in list(pairs)[:: -1 if rank == 1 else 1]:
        if rank in pair:
            tensor = torch.full((1000,), float(rank + 1))
            works.append(
                (tensor, sum(pair) + 2, dist.all_reduce(tensor, group=pairs[pair], async_op=True))
            )
    for tensor, expected, work in works:
        work.wait()
        assert tensor.unique().tolist() == [expected]
    for pair, group in pairs.items():
        if rank in pair:
            dist.destroy_process_group(group)
    assert len(works) == 2


def only_its_own(rank):
    """Groups that only their own ranks make: torch gives both the same name."""
    mine = [0, 1] if rank < 2 else [2, 3]
    group = dist.new_group(mine)
    found = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.BOR):  # on the switch, and on Gloo
        tensor = torch.full((1000,), 1 << rank, dtype=torch.int32)
        dist.all_reduce(tensor, op, group=group)
        found.append(tensor.unique().tolist())
    dist.destroy_process_group(group)
    return found


def test_two_subsets_never_meet():
    with Groups(4, seconds=60) as groups:
        assert groups.call(only_its_own) == [[[3], [3]]] * 2 + [[[12], [12]]] * 2
        groups.call(stop)


@each_rank_of("groups")
def test_a_groups_port_is_nobody_elses(rank):
    """Somebody wants a port at the moment when rank 0 has chosen it for its switch."""
    stolen = []

    def steal_and_join(**settings):
        with socket.socket() as thief:
            with contextlib.suppress(OSError):
                thief.bind(("127.0.0.1", settings["master_port"]))
                thief.listen()
                stolen.append(settings["master_port"])
                time.sleep(0.5)  # time to tell the other ranks of it
            return Job(**settings)

    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=30))
    tensor = torch.ones(3)
    join = steal_and_join if rank == 0 else Job
    with mock.patch.object(_rendezvous, "Job", join):
        dist.all_reduce(tensor, group=group)
    dist.destroy_process_group(group)
    assert tensor[0].item() == N and not stolen


@each_rank_of("groups")
def test_it_stands_beside_other_backends(rank):
    group = dist.new_group(list(range(N)), backend="cpu:switchml,cuda:nccl")
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=group)
    assert type(group).__name__ == "ProcessGroupSwitchML"
    assert not group._is_ours("cuda")
    gloo = dist.new_group(list(range(N)), backend="gloo")
    dist.all_reduce(tensor, group=gloo)
    dist.destroy_process_group(group)
    dist.destroy_process_group(gloo)
    assert tensor[0].item() == N * N


def bytes_of_first_packets(counters, earlier):
    """A busy machine answers late, and late packets are sent again: without those."""
    since = [now - then for now, then in zip(counters, earlier or [0] * len(counters), strict=True)]
    since = type(counters)(*since)
    again = since.retransmits_timeout + since.retransmits_fast
    return since.bytes_sent * (1 - again / since.packets_sent)


@each_rank_of("groups")
def test_the_int16_wire_is_an_option(rank):
    found = []
    for wire in ("int32", "int16"):
        # Ranks that share memory send nothing.
        options = switchml.torch.Options(wire=wire, switch="embedded")
        group = dist.new_group(list(range(N)), backend="switchml", pg_options=options)
        before = torch.linspace(-1, 1, 100_000)
        sent = []
        for _ in range(9):
            earlier = group._line.job.counters() if sent else None
            after = before.clone()
            dist.all_reduce(after, group=group)
            sent.append(bytes_of_first_packets(group._line.job.counters(), earlier))
        # Others' stalls have results sent again, too, and nobody counts those.
        found.append(((after - N * before).abs().max().item(), statistics.median(sent)))
        dist.destroy_process_group(group)
    (exact, full), (rough, half) = found
    assert exact < 1e-6
    assert 1e-6 < rough < 1e-3
    assert 0.45 < half / full < 0.6


@each_rank_of("groups")
def test_the_exact_wire_is_an_option(rank):
    """A loss beside a count of tokens: in one block the loss would vanish."""
    group = dist.new_group(
        list(range(N)), backend="switchml", pg_options=switchml.torch.Options(wire="exact")
    )
    values = torch.zeros(2048)
    values[0], values[1:] = 1e10 if rank == 0 else -1e10 if rank == 1 else 0, 2.5
    dist.all_reduce(values, group=group)
    gradient = torch.full((5000,), 1.0)
    dist.all_reduce(gradient, group=group)
    dist.destroy_process_group(group)
    assert values[0].item() == 0 and values[1:].unique().tolist() == [N * 2.5]
    assert gradient.unique().tolist() == [N]


def n_left():
    """Files, threads, and Python's threads."""
    files, threads = (len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task"))
    return files, threads, threading.active_count()


def await_no_more(before):
    """A thread that has ended may be the kernel's for a moment more, elsewhere a file, too."""
    poll(lambda: all(a <= b for a, b in zip(n_left(), before, strict=True)), 60)
    assert all(a <= b for a, b in zip(n_left(), before, strict=True)), (n_left(), before)


@each_rank_of("groups")
def test_destroyed_groups_leave_nothing_behind(rank):
    def round_of_groups():
        group = dist.new_group(list(range(N)))
        dist.all_reduce(torch.ones(10_000), group=group)
        dist.all_reduce(torch.ones(10, dtype=torch.int64), dist.ReduceOp.BOR, group=group)
        dist.destroy_process_group(group)

    round_of_groups()
    time.sleep(0.2)  # else what is about to go might hide a leak
    before = n_left()
    for _ in range(3):
        round_of_groups()
    await_no_more(before)


@each_rank_of("groups")
def test_a_hundred_groups_leave_no_file_no_thread_and_no_mapping(rank):
    """Also on the switch that is there, with a host's memory and without."""

    def n_mappings():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return len(list(maps))

    def one(number):
        options = switchml.torch.Options(switch="embedded") if number % 2 else None
        group = dist.new_group(list(range(N)), backend="switchml", pg_options=options)
        tensor = torch.ones(10_000)
        dist.all_reduce(tensor, group=group)
        assert tensor.unique().tolist() == [N]
        dist.destroy_process_group(group)

    for number in range(20):
        one(number)
    before, mappings_before = n_left(), n_mappings()
    for number in range(100):
        one(number)
    await_no_more(before)
    # An arena of malloc() may have come, and not one for each group.
    assert n_mappings() <= mappings_before + 20


@each_rank_of("new_groups")
def test_the_default_group_can_be_made_again(rank, port):
    dist.all_reduce(torch.ones(3))
    dist.destroy_process_group()
    start(rank, N, port, "switchml", 150, None)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0].item() == N


# ---- failures ----


def reduce_big(rank):
    dist.all_reduce(torch.ones(200_000))


def test_a_killed_rank_raises_on_the_others(new_groups):
    new_groups.call(reduce_big)
    new_groups.start(reduce_big, only=[0, 1])
    time.sleep(0.3)  # most likely they wait by then; a later call raises the same
    new_groups.processes[2].kill()
    # Not by its silence, which takes a heartbeat.
    new_groups.expect("RankDiedError", "rank 2", "its connection", only=[0, 1], timeout=60)


def reduce_in_vain(rank):
    """Seconds until the call, which no other rank makes, timed out."""
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        dist.all_reduce(torch.ones(200_000))
    return time.monotonic() - began


def test_the_groups_timeout_is_honoured():
    # Making the group has no more time than that, either.
    with Groups(2, seconds=10) as groups:
        (seconds,) = groups.call(reduce_in_vain, only=[0])
        assert 9.5 < seconds < 25


@each_rank_of("new_groups")
def test_a_shortened_timeout_is_honoured(rank):
    _set_pg_timeout(timedelta(seconds=1))
    if rank == 0:
        assert 0.8 < reduce_in_vain(rank) < 30


def fail_in_the_middle(rank):
    """A script that cleans up when it fails, while the others wait for it."""
    try:
        if rank == 1:
            raise OverflowError("the loss is infinite")
        dist.all_reduce(torch.ones(200_000))
    finally:
        dist.destroy_process_group()


def test_a_rank_that_fails_tells_the_others_why(new_groups):
    new_groups.start(fail_in_the_middle)
    new_groups.expect("OverflowError", only=[1])
    new_groups.expect("AbortedError", "the loss is infinite", only=[0, 2])


def move(rank, name, types):
    """As many bytes on all ranks."""
    dtype = types[rank == 1]
    tensor = torch.zeros(1024 // dtype.itemsize, dtype=dtype)
    if name == "broadcast":
        dist.broadcast(tensor, 0)
    else:
        whole = torch.empty(3 * len(tensor), dtype=dtype)
        dist.all_gather_into_tensor(whole, tensor)


@pytest.mark.parametrize("name", ["broadcast", "all_gather"])
@pytest.mark.parametrize(
    "types",
    [(torch.float32, torch.float64), (torch.float32, torch.uint8), (torch.uint16, torch.bfloat16)],
)
def test_other_types_are_a_mismatch(new_groups, name, types):
    new_groups.start(move, [name] * N, [types] * N)
    new_groups.expect("MismatchError", *(str(dtype).rpartition(".")[2] for dtype in types))


def test_options_are_checked():
    with pytest.raises(ValueError, match="wire"):
        switchml.torch.Options(wire="int4")
    with (
        pytest.raises(Exception, match="reached"),
        Groups(1, options={"switch": "127.0.0.1:1"}),
    ):
        pass


RANKS_AS_THREADS = """
import sys, threading, torch, torch.distributed as dist
from datetime import timedelta
from switchml.torch import ProcessGroupSwitchML
store, made, sums = dist.HashStore(), {}, {}

def run(rank, name):
    own = dist.PrefixStore(name, store)
    group = made[rank, name] = ProcessGroupSwitchML(own, rank, 2, timedelta(seconds=100))
    tensor = torch.ones(1000)
    group.allreduce([tensor]).wait()
    sums[rank, name] = tensor.unique().tolist()

threads = [threading.Thread(target=run, args=(r, name)) for r in range(2) for name in ("a", "b")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert list(sums.values()) == [[2.0]] * 4, sums
"""


def test_a_process_leaves_all_its_groups_at_once():
    """At its end, where two of their ranks are threads of it."""
    said = run_python("-c", RANKS_AS_THREADS)
    assert len(re.findall("job .* has ended: ", said)) == 2, said
    assert "aborted" not in said


# As Python 3.12.1 says it at the end of a program.
NO_MORE_THREADS = """
started = threading.Thread.start

def start(thread):
    if thread.name == "switchml-retire":
        raise RuntimeError("can't create new thread at interpreter shutdown")
    started(thread)

threading.Thread.start = start
"""
ONE_SUM = """
import os, sys, threading, torch, torch.distributed as dist
import switchml.torch

dist.init_process_group(
    "switchml", init_method=f"file://{sys.argv[1]}", rank=int(os.environ["RANK"]), world_size=2
)
dist.all_reduce(torch.ones(8))
"""


def test_the_end_of_a_program_is_no_failure_where_no_thread_can_start_any_more(tmp_path):
    """Some versions of Python start none then. The groups are left in the program's own thread."""
    codes, said = run_ranks(2, "-c", ONE_SUM + NO_MORE_THREADS, str(tmp_path / "store"))
    assert codes == [0, 0], said
    assert re.search("job .* has ended: ", "".join(said)), said
    assert "aborted" not in "".join(said)
