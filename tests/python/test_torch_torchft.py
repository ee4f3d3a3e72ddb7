# SPDX-License-Identifier: BSD-3-Clause
"""torchft's quorums: replicas die and come back (docs/elastic.md, examples/torchft_ddp.py)."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchft", reason="needs torchft (pip install torchft)")

import torch.distributed as dist  # noqa: E402
from torchft.coordination import LighthouseServer  # noqa: E402

from groups import prepare  # noqa: E402
from programs import BINDINGS, ROOT  # noqa: E402
from ranks import Ranks  # noqa: E402

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
        assert ranks.outcomes(only=[0, 1]) == ["RankDied"] * 2
        assert run("30", [0, 1]) == [([3.0], None)] * 2


class Replica:
    """A process of the example, and the file that has what it says."""

    def __init__(self, number, lighthouse, file):
        command = [sys.executable, str(ROOT / "examples" / "torchft_ddp.py")]
        command += [f"--replica={number}", f"--replicas={N}", "--steps=1500"]
        self._file = file
        with file.open("w") as output:
            self.process = subprocess.Popen(
                command,
                env={
                    **os.environ,
                    "PYTHONPATH": str(BINDINGS),
                    "OMP_NUM_THREADS": "1",
                    "TORCHFT_LIGHTHOUSE": lighthouse.address(),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
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
