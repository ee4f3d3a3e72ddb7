# SPDX-License-Identifier: BSD-3-Clause
"""DataLoader's workers are forks of a rank, and have none of its connections."""

import multiprocessing
import os
import signal

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import switchml
from ranks import each_rank_of

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


@each_rank_of("prepared")
def test_a_job_is_opened_again_beside_a_worker(rank, port):
    """The second job has the first one's port, while a worker that was forked before lives."""
    with open_job(rank, port) as job:
        job.allreduce(X)
        workers = batches()
    with open_job(rank, port) as job:
        assert job.allreduce(X)[0] == N and next(workers)[0].item() == 1.0


def die_beside_a_worker(rank, port):
    with open_job(rank, port) as job:
        job.allreduce(X)
        if rank == 1:
            workers = batches()
            os.kill(os.getpid(), signal.SIGKILL)
            del workers
        job.allreduce(X)


def test_a_worker_does_not_hide_its_ranks_death(prepared, port):
    prepared.start(die_beside_a_worker, [port] * N)
    # Not by its silence, which takes a heartbeat.
    prepared.expect("RankDiedError", "its connection", only=[0])
