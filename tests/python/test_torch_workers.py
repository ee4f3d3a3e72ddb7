# SPDX-License-Identifier: BSD-3-Clause
"""DataLoader's workers are forks of a rank, and have none of its connections."""

import multiprocessing
import os
import signal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import switchml  # noqa: E402
from ranks import RankError, Ranks, free_port  # noqa: E402

N = 2
X = np.ones(1000, np.float32)


def open_job(rank, port):
    return switchml.Job(rank=rank, world_size=N, job="fork", master_port=port, timeout=60)


def batches():
    """An iterator whose worker has been forked, and lives as long as it does."""
    multiprocessing.current_process()._config["daemon"] = False  # those may have no children
    loader = DataLoader(
        TensorDataset(torch.ones(100)), num_workers=1, multiprocessing_context="fork"
    )
    found = iter(loader)
    next(found)
    return found


def reopen(rank, port):
    """The second job has the first one's port, while a worker that was forked before lives."""
    with open_job(rank, port) as job:
        job.allreduce(X)
        workers = batches()
    with open_job(rank, port) as job:
        return job.allreduce(X)[0], next(workers)[0].item()


def test_a_job_is_opened_again_beside_a_worker():
    with Ranks(N, job=False) as ranks:
        assert ranks.call(reopen, [free_port()] * N) == [(N, 1.0)] * N


def die_beside_a_worker(rank, port):
    with open_job(rank, port) as job:
        job.allreduce(X)
        if rank == 1:
            workers = batches()
            os.kill(os.getpid(), signal.SIGKILL)
            del workers
        job.allreduce(X)


def test_a_worker_does_not_hide_its_ranks_death():
    with Ranks(N, job=False) as ranks:
        ranks.start(die_beside_a_worker, [free_port()] * N)
        (outcome,) = ranks.outcomes(only=[0])
        assert isinstance(outcome, RankError) and outcome.kind == "RankDiedError"
        assert "its connection" in str(outcome), "silence takes a heartbeat"
