# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own tests of backends, which come with it, as they are for Gloo, on our groups.

    BACKEND=gloo WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 python -m pytest tests/python/pytorch_suite.py

BACKEND chooses the tests. Where one makes a group of Gloo, it gets ours, which has its own name.
test_torch_suite.py runs this. Processes are forked from one that has imported this module.
"""

import functools
import multiprocessing
import os

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.testing._internal.distributed import distributed_test

import switchml.torch  # noqa: F401

torch.set_num_threads(1)
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])


def on_ours(function):
    @functools.wraps(function)
    def call(*arguments, **named):
        def ours(value):
            return "switchml" if value == "gloo" else value

        return function(*map(ours, arguments), **{k: ours(v) for k, v in named.items()})

    return call


for _name in ("init_process_group", "new_group"):
    for _module in (dist, c10d):
        setattr(_module, _name, on_ours(getattr(_module, _name)))


def run(environment, target, *arguments, **named):
    """In a process of its own, which has the environment of the server that forks."""
    os.environ.update(environment)
    target(*arguments, **named)


def process(target, args, **others):
    return FORKED.Process(target=run, args=(dict(os.environ), target, *args), **others)


class TestOnOurs(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(process)


del distributed_test  # its classes are not to be collected
