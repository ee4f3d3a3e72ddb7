# SPDX-License-Identifier: BSD-3-Clause
"""torchft's quorums: replicas die and come back (docs/elastic.md, examples/torchft_ddp.py)."""

import gc
import os
import re
import signal
import threading
import time
import types
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchft", reason="needs torchft (pip install torchft)")

import torch.distributed as dist  # noqa: E402
from torchft.coordination import LighthouseServer  # noqa: E402

from groups import prepare  # noqa: E402
from programs import ROOT, start_python  # noqa: E402
from ranks import Ranks  # noqa: E402
from switches import switch  # noqa: E402
from switchml import errors  # noqa: E402
from switchml._wait import poll  # noqa: E402

N = 3
SECONDS = 300
mine = None


def begin(rank):
    global mine
    from switchml.torch.torchft import ProcessGroupSwitchML

    mine = ProcessGroupSwitchML(timeout=timedelta(seconds=60))
    return mine.getBackendName()


def configure(rank, address, quorum, replicas):
    mine.configure(address.format(quorum), f"replica {rank}", replicas.index(rank), len(replicas))


def step(rank, address, quorum, replicas):
    configure(rank, address, quorum, replicas)
    x = torch.full((1000,), rank + 1.0)
    mine.allreduce([x], dist.ReduceOp.SUM).wait()
    return x.unique().tolist(), mine.errored()


def fail(rank):
    with pytest.raises(RuntimeError, match=r"rank 2 .*died"):
        mine.allreduce([torch.ones(10)], dist.ReduceOp.SUM).wait()
    return type(mine.errored()).__name__


def end(rank):
    mine.shutdown()


def die(rank):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def address():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield f"127.0.0.1:{store.port}/{{}}"
    del store  # which ends it


def test_a_quorum_goes_on_without_a_dead_replica_and_with_a_new_one(address):
    with Ranks(N, job=False) as ranks:
        ranks.call(prepare)
        assert ranks.call(begin) == ["torchft-switchml"] * N

        def run(quorum, replicas):
            arguments = ([address] * N, [quorum] * N, [replicas] * N)
            ranks.start(step, *arguments, only=replicas)
            return ranks.outcomes(only=replicas)

        assert run("1", [0, 1, 2]) == [([6.0], None)] * 3
        # No barrier between a replica's sum and its next configure().
        for quorum in range(10, 20):
            first = (quorum + 2) % 3  # the last quorum is in the order of the replicas
            replicas = [(first + r) % 3 for r in range(3)]
            assert run(str(quorum), replicas) == [([6.0], None)] * 3
        ranks.start(die, only=[2])
        ranks.processes[2].join(30)
        ranks.start(fail, only=[0, 1])
        assert ranks.outcomes(only=[0, 1]) == ["RankDiedError"] * 2
        assert run("30", [0, 1]) == [([3.0], None)] * 2


def test_a_replica_that_does_not_come_is_named_with_the_timeout(address):
    from switchml.torch.torchft import ProcessGroupSwitchML

    group = ProcessGroupSwitchML(timeout=timedelta(milliseconds=10))
    with pytest.raises(TimeoutError, match=r"rank 1 of quorum 7 .*\(timeout after 10ms\)"):
        group.configure(address.format("nobody"), "replica 0", 0, 2, 7)


# ---- replicas that are threads of one process, as in torchft's own tests ----


def threads_of(address, quorum, work, groups, quorum_id=None, place=None):
    """What work(group, rank) returns, or raises, in each group's thread."""

    def run(rank):
        groups[rank].configure(
            address.format(quorum), f"replica {rank}", rank, len(groups), quorum_id, *(place or ())
        )
        try:
            return work(groups[rank], rank)
        except Exception as error:  # the test looks at it
            return error

    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(run, range(len(groups))))


def summed(group, rank):
    x = torch.full((1000,), rank + 1.0)
    group.allreduce([x], dist.ReduceOp.SUM).wait()
    return x.unique().tolist()


def new_groups(n):
    from switchml.torch.torchft import ProcessGroupSwitchML

    return [ProcessGroupSwitchML(timeout=timedelta(seconds=60)) for _ in range(n)]


def test_replicas_may_be_threads(address):
    groups = new_groups(N)
    for quorum in range(3):
        assert threads_of(address, f"t{quorum}", summed, groups, quorum) == [[6.0]] * N
    assert threads_of(address, "t3", summed, groups[:2], 3) == [[3.0]] * 2
    for group in groups:
        group.shutdown()


def left_by_the_last(group, rank):
    summed(group, rank)
    if rank == N - 1:
        return group.shutdown()
    group.set_timeout(timedelta(seconds=60))
    error = None
    try:
        summed(group, rank)
    except RuntimeError as failure:
        error = str(failure)
    return error, str(group.errored())


def test_the_others_learn_that_a_replica_has_left(address):
    """In words that torchft's own tests look for."""
    groups = new_groups(N)
    *others, left = threads_of(address, "left", left_by_the_last, groups, 8)
    assert left is None
    for error, errored in others:
        assert re.search(
            r"rank 2 .*called the end of the quorum \(Connection closed by peer", error
        )
        assert errored.startswith("quorum 8 was aborted: ")
    for group in groups:
        group.shutdown()


def test_a_group_that_is_dropped_leaves_its_job(address):
    """torchft's Manager does not end its group, and a replica may begin again in its process."""
    groups = new_groups(2)
    assert threads_of(address, "dropped", summed, groups, 9) == [[3.0]] * 2
    line = groups[1]._pg._line
    dropped = weakref.ref(groups.pop()._pg)
    assert poll(lambda: gc.collect() >= 0 and dropped() is None, 30)
    assert poll(lambda: line.closed, 30)
    with pytest.raises(RuntimeError, match="called the end of the quorum"):
        summed(groups[0], 0)
    groups[0].shutdown()


def test_a_group_that_is_left_keeps_its_gloo_until_the_others_have_ended(address):
    """retire() waits for them; the end of the group must not end its Gloo before that."""
    from switchml.torch._calls.line import Line

    groups = new_groups(2)
    assert threads_of(address, "kept", summed, groups, 12) == [[3.0]] * 2
    dropped, line = weakref.ref(groups[0]._pg), groups[0]._pg._line
    others, wait = groups[0]._pg._others, Line._end_of_awaited
    others_left, closing, aborted = threading.Event(), threading.Event(), threading.Event()

    def waits(self, deadline):
        if self is line:
            closing.set()
            others_left.wait(SECONDS)
        return wait(self, deadline)

    with (
        mock.patch.object(Line, "_end_of_awaited", waits),
        mock.patch.object(type(others), "abort", lambda its: its is others and aborted.set()),
    ):
        groups[0].shutdown()
        assert closing.wait(SECONDS)
        assert poll(lambda: gc.collect() >= 0 and dropped() is None, 30)
        left = [thread for thread in threading.enumerate() if thread.name == "switchml-retire"]
        assert poll(lambda: sum(thread.is_alive() for thread in left) == 1, 30)
        assert not aborted.is_set()
        others_left.set()
        groups[1].shutdown()
        assert aborted.wait(SECONDS)


def test_errors_are_asked_for_while_another_thread_ends_the_group():
    from switchml.torch.torchft import ProcessGroupSwitchML

    failure = errors.AbortedError("it has failed", errors.AbortedError.number)
    failed = types.SimpleNamespace(failure=failure, title="quorum 3")

    class Ending(ProcessGroupSwitchML):
        _pg = property(lambda self: self.groups.pop(0), lambda self, group: None)

    group = Ending()
    group.groups = [failed, None, None]
    assert str(group.errored()) == "quorum 3 was aborted: it has failed"
    group.groups = [None]
    assert group.errored() is None


def of_a_replica(rank, address):
    """Replicas of two ranks each: a rank's quorum has the ranks of its place in all replicas."""
    replica, place = divmod(rank, 2)
    store = address.format(f"places {place}")
    mine.configure(store, f"replica {replica}", replica, 2, 5, place, 2, [place, place + 2])
    x = torch.full((10,), 10.0**rank)
    mine.allreduce([x], dist.ReduceOp.SUM).wait()
    return x.unique().tolist()


def test_ranks_of_one_replica_have_jobs_of_their_own(address, monkeypatch):
    """At the same time, also where the user has named the job, and all are at one switch."""
    with switch() as where:
        monkeypatch.setenv("SWITCHML_SWITCH", where)
        monkeypatch.setenv("SWITCHML_JOB", "train")
        with Ranks(4, job=False) as ranks:
            ranks.call(prepare)
            ranks.call(begin)
            assert ranks.call(of_a_replica, [address] * 4) == [[101.0], [1010.0]] * 2
            ranks.call(end)


class Replica:
    """A process of the example, and the file that has what it says."""

    def __init__(self, number, lighthouse, file):
        self._file = file
        with file.open("w") as output:
            self.process = start_python(
                str(ROOT / "examples" / "torchft_ddp.py"),
                *(f"--replica={number}", f"--replicas={N}", "--steps=1500"),
                stdout=output,
                TORCHFT_LIGHTHOUSE=lighthouse.address(),
            )

    @property
    def said(self):
        return self._file.read_text()


def wait_for(look, replicas):
    deadline = time.monotonic() + SECONDS
    while not look():
        said = [replica.said[-2000:] for replica in replicas]
        assert time.monotonic() < deadline, said
        assert all(replica.process.poll() in (None, 0) for replica in replicas), said
        time.sleep(0.01)


def test_the_example_ends_with_the_same_parameters_after_a_kill(tmp_path):
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=60000)
    replicas = [Replica(r, lighthouse, tmp_path / f"{r}") for r in range(N)]
    started = [*replicas]
    try:
        whole = re.compile(rf"step \d+: loss .*, {N} replicas\n")
        wait_for(lambda: len(whole.findall(replicas[1].said)) >= 10, replicas)
        replicas[1].process.kill()
        replicas[1].process.wait()
        before = len(replicas[0].said)
        others = [replicas[0], replicas[2]]
        wait_for(lambda: f", {N - 1} replicas\n" in replicas[0].said[before:], others)
        replicas[1] = Replica(1, lighthouse, tmp_path / "again")
        started.append(replicas[1])
        wait_for(lambda: all(r.process.poll() == 0 for r in replicas), replicas)
    finally:
        for replica in started:
            replica.process.kill()  # nothing, if it has ended
            replica.process.wait()
        lighthouse.shutdown()
    ends = [re.findall(r"^end: .*", replica.said, re.M) for replica in replicas]
    assert ends == [ends[0]] * N, ends
    assert len(ends[0]) == 1
    # The new process went on where the others were.
    assert not re.search(r"^step [0-9]: loss", replicas[1].said, re.M)
