# SPDX-License-Identifier: BSD-3-Clause
"""torchft's quorums: replicas die and come back (docs/elastic.md)."""

import os
import signal
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchft", reason="needs torchft (pip install torchft)")

import torch.distributed as dist  # noqa: E402

from groups import prepare  # noqa: E402
from ranks import Ranks  # noqa: E402

N = 3
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
