# SPDX-License-Identifier: BSD-3-Clause
"""Process groups of torch.distributed in Ranks' processes."""

import multiprocessing
import os
from datetime import timedelta

from ranks import Ranks, free_port

# Processes of a group are forked from one that has imported PyTorch and has done nothing else:
# each of them would need seconds of a core to import it.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["torch", "torch.distributed", "torch._dynamo"])


def prepare(rank):
    """What takes one rank seconds longer than another, before a group's timeout begins."""
    import torch

    import switchml.torch  # noqa: F401

    torch.set_num_threads(1)
    os.environ.pop("RANK", None)


def choose_port(rank):
    """Rank 0's, in its network: nobody else there gets it."""
    return free_port() if rank == 0 else None


def start(rank, n, port, backend, seconds, options):
    """init_process_group() in one rank."""
    import torch.distributed as dist

    import switchml.torch

    dist.init_process_group(
        backend,
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=n,
        timeout=timedelta(seconds=seconds),
        pg_options=switchml.torch.Options(**options) if options is not None else None,
    )


def say_to(rank, path):
    """Its standard error is a file: until now it was that of the server which forks ranks."""
    os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)


def stop(rank):
    import torch.distributed as dist

    dist.destroy_process_group()


class Prepared(Ranks):
    """n ranks that have imported PyTorch and us, and are in no group."""

    how_to_start = FORKED

    def __init__(self, n, network=None):
        super().__init__(n, job=False, network=network)
        self.call(prepare)


class Groups(Prepared):
    """n ranks in the default group of a backend."""

    def __init__(self, n, backend="switchml", seconds=150, options=None, network=None):
        super().__init__(n, network)
        port = self.call(choose_port)[0]
        for rank in range(n):
            self.pipes[rank].send((start, (n, port, backend, seconds, options)))
        for outcome in self.outcomes():
            if isinstance(outcome, Exception):
                self.close()
                raise outcome
