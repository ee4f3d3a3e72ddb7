# SPDX-License-Identifier: BSD-3-Clause
"""Process groups of torch.distributed: each is a job, with options, and ends or fails by itself."""

import contextlib
import re
import socket
import statistics
import time
from datetime import timedelta
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups, stop  # noqa: E402
from programs import run_python, run_ranks  # noqa: E402
from ranks import RankError  # noqa: E402
from switchml import Job  # noqa: E402

N = 3


# ---- groups ----


def subgroups(rank):
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
    return len(works)


def test_every_group_is_a_job_of_its_own(groups):
    assert groups.call(subgroups) == [2, 2, 2]


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


def with_a_thief(rank):
    """Somebody wants a port at the moment when rank 0 has chosen it for its switch."""
    from switchml.torch._joining import rendezvous as _rendezvous

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
    return tensor[0].item(), stolen


def test_a_groups_port_is_nobody_elses(groups):
    assert groups.call(with_a_thief) == [(N, [])] * N


def mixed(rank):
    group = dist.new_group(list(range(N)), backend="cpu:switchml,cuda:nccl")
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=group)
    assert type(group).__name__ == "ProcessGroupSwitchML"
    assert not group._is_ours("cuda")
    gloo = dist.new_group(list(range(N)), backend="gloo")
    dist.all_reduce(tensor, group=gloo)
    dist.destroy_process_group(group)
    dist.destroy_process_group(gloo)
    return tensor[0].item()


def test_it_stands_beside_other_backends(groups):
    assert groups.call(mixed) == [N * N] * N


def bytes_of_first_packets(counters, earlier):
    """A busy machine answers late, and late packets are sent again: without those."""
    since = [now - then for now, then in zip(counters, earlier or [0] * len(counters), strict=True)]
    since = type(counters)(*since)
    again = since.retransmits_timeout + since.retransmits_fast
    return since.bytes_sent * (1 - again / since.packets_sent)


def wires(rank):
    import switchml.torch

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
    return found


def test_the_int16_wire_is_an_option(groups):
    for (exact, full), (rough, half) in groups.call(wires):
        assert exact < 1e-6
        assert 1e-6 < rough < 1e-3
        assert 0.45 < half / full < 0.6


def metrics(rank):
    """A loss beside a count of tokens: in one block the loss would vanish."""
    import switchml.torch

    group = dist.new_group(
        list(range(N)), backend="switchml", pg_options=switchml.torch.Options(wire="exact")
    )
    values = torch.zeros(2048)
    values[0], values[1:] = 1e10 if rank == 0 else -1e10 if rank == 1 else 0, 2.5
    dist.all_reduce(values, group=group)
    gradient = torch.full((5000,), 1.0)
    dist.all_reduce(gradient, group=group)
    dist.destroy_process_group(group)
    return values[0].item(), values[1:].unique().tolist(), gradient.unique().tolist()


def test_the_exact_wire_is_an_option(groups):
    assert groups.call(metrics) == [(0, [N * 2.5], [N])] * N


def leftovers(rank):
    import os
    import threading

    def count():
        return (
            threading.active_count(),
            len(os.listdir("/proc/self/fd")),
            len(os.listdir("/proc/self/task")),
        )

    def round_of_groups():
        group = dist.new_group(list(range(N)))
        dist.all_reduce(torch.ones(10_000), group=group)
        dist.all_reduce(torch.ones(10, dtype=torch.int64), dist.ReduceOp.BOR, group=group)
        dist.destroy_process_group(group)

    round_of_groups()
    time.sleep(0.2)  # else what is about to go might hide a leak
    before = count()
    for _ in range(3):
        round_of_groups()
    # A thread that was joined may be the kernel's for a moment more, on other ranks a file, too.
    until = time.monotonic() + 60
    while (after := count())[0] != before[0] or any(
        a > b for a, b in zip(after, before, strict=True)
    ):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return before, after


def test_destroyed_groups_leave_nothing_behind(groups):
    for before, after in groups.call(leftovers):
        assert after[0] == before[0], "threads of Python"
        assert after[1] <= before[1], "files"
        assert after[2] <= before[2], "threads"


def many_groups(rank):
    """Also on the switch that is there, with a host's memory and without."""
    import os

    import switchml.torch

    def count():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return (
                len(os.listdir("/proc/self/fd")),
                len(os.listdir("/proc/self/task")),
                len(list(maps)),
            )

    def one(number):
        options = switchml.torch.Options(switch="embedded") if number % 2 else None
        group = dist.new_group(list(range(N)), backend="switchml", pg_options=options)
        tensor = torch.ones(10_000)
        dist.all_reduce(tensor, group=group)
        assert tensor.unique().tolist() == [N]
        dist.destroy_process_group(group)

    for number in range(20):
        one(number)
    before = count()
    for number in range(100):
        one(number)
    until = time.monotonic() + 60
    while any(a > b for a, b in zip(count()[:2], before[:2], strict=True)):
        if time.monotonic() > until:
            break
        time.sleep(0.01)
    return before, count()


def test_a_hundred_groups_leave_no_file_no_thread_and_no_mapping(groups):
    for before, after in groups.call(many_groups):
        assert after[0] <= before[0], "files"
        assert after[1] <= before[1], "threads"
        # An arena of malloc() may have come, and not one for each group.
        assert after[2] <= before[2] + 20, "mappings"


def begin_again(rank, n, port):
    from groups import start

    dist.all_reduce(torch.ones(3))
    dist.destroy_process_group()
    start(rank, n, port, "switchml", 150, None)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor[0].item()


def test_the_default_group_can_be_made_again():
    from ranks import free_port

    with Groups(2) as groups:
        assert groups.call(begin_again, [2] * 2, [free_port()] * 2) == [2.0, 2.0]
        groups.call(stop)


# ---- failures ----


def reduce_big(rank):
    dist.all_reduce(torch.ones(200_000))


def test_a_killed_rank_raises_on_the_others():
    with Groups(N) as groups:
        groups.call(reduce_big)
        groups.start(reduce_big, only=[0, 1])
        time.sleep(0.3)  # most likely they wait by then; a later call raises the same
        groups.processes[2].kill()
        for outcome in groups.outcomes(only=[0, 1], timeout=60):
            assert isinstance(outcome, RankError)
            assert outcome.kind == "RankDiedError"
            assert "rank 2" in str(outcome)
            assert "its connection" in str(outcome), "silence takes a heartbeat"


def reduce_in_vain(rank):
    """Seconds until the call, which no other rank makes, timed out."""
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        dist.all_reduce(torch.ones(200_000))
    return time.monotonic() - began


def test_the_groups_timeout_is_honoured():
    # Making the group has no more time than that, either.
    with Groups(2, seconds=10) as groups:
        groups.start(reduce_in_vain, only=[0])
        (seconds,) = groups.outcomes(only=[0])
        assert 9.5 < seconds < 25


def shortened(rank):
    from torch.distributed.distributed_c10d import _set_pg_timeout

    _set_pg_timeout(timedelta(seconds=1))
    return reduce_in_vain(rank)


def test_a_shortened_timeout_is_honoured():
    with Groups(2) as groups:
        groups.start(shortened, only=[0])
        (seconds,) = groups.outcomes(only=[0])
        assert 0.8 < seconds < 30


def fail_in_the_middle(rank):
    """A script that cleans up when it fails, while the others wait for it."""
    try:
        if rank == 1:
            raise OverflowError("the loss is infinite")
        dist.all_reduce(torch.ones(200_000))
    finally:
        dist.destroy_process_group()


def test_a_rank_that_fails_tells_the_others_why():
    with Groups(N) as groups:
        groups.start(fail_in_the_middle)
        outcomes = groups.outcomes()
        assert outcomes[1].kind == "OverflowError"
        for outcome in (outcomes[0], outcomes[2]):
            assert outcome.kind == "AbortedError"
            assert "the loss is infinite" in str(outcome)


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
def test_other_types_are_a_mismatch(name, types):
    with Groups(N) as groups:
        groups.start(move, [name] * N, [types] * N)
        for outcome in groups.outcomes():
            assert outcome.kind == "MismatchError"
            for dtype in types:
                assert str(dtype).rpartition(".")[2] in str(outcome)


def leave_early(rank):
    if rank == 1:
        dist.destroy_process_group()
        return None
    return reduce_big(rank)


def test_a_rank_that_leaves_while_others_reduce_is_a_mismatch():
    with Groups(2) as groups:
        groups.start(leave_early)
        outcomes = groups.outcomes()
        assert outcomes[0].kind == "MismatchError"


def test_options_are_checked():
    import switchml.torch

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


# As Python 3.12.1 says it at the end of a program.
NO_MORE_THREADS = """
started = threading.Thread.start

def start(thread):
    if thread.name == "switchml-retire":
        raise RuntimeError("can't create new thread at interpreter shutdown")
    started(thread)

threading.Thread.start = start
"""


@pytest.mark.parametrize("more", ["", NO_MORE_THREADS])
def test_a_process_leaves_all_its_groups_at_once(more):
    """At its end, where two of their ranks are threads of it."""
    said = run_python("-c", RANKS_AS_THREADS + more)
    assert len(re.findall("job .* has ended: ", said)) == 2, said
    assert "aborted" not in said


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
