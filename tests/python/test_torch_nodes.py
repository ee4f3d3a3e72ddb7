# SPDX-License-Identifier: BSD-3-Clause
"""torchrun's elastic launch: a node joins, another is lost, and the switch has a job of each size.

A node is an agent of torchrun and its worker, on this host.
"""

import os
import signal
import time

import pytest

pytest.importorskip("torch")

from programs import start_python  # noqa: E402
from ranks import free_port  # noqa: E402
from switches import switch  # noqa: E402

SECONDS = 300

WORKER = """
import os, sys, time
import torch
import torch.distributed as dist
import switchml.torch

here = sys.argv[1]
dist.init_process_group("switchml")
n, told, stop = dist.get_world_size(), False, torch.zeros(1)
while not stop.item():
    x = torch.full((1000,), dist.get_rank() + 1.0)
    dist.all_reduce(x)
    assert x.unique().tolist() == [n * (n + 1) / 2], x
    if not told:  # this job works
        told = True
        with open(f"{here}/log", "a") as file:
            print(n, os.getpid(), os.getppid(), file=file)
    stop.fill_(os.path.exists(f"{here}/stop"))
    dist.all_reduce(stop)
    time.sleep(0.01)
dist.destroy_process_group()
"""


def wait_for(look, agents):
    deadline = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < deadline
        assert all(agent.poll() is None for agent in agents), "an agent has ended"
        time.sleep(0.1)


def test_a_job_grows_with_a_new_node_and_shrinks_when_one_is_lost(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    log = tmp_path / "log"
    rendezvous = f"--rdzv-endpoint=localhost:{free_port()}"
    with switch() as address:

        def node(name):
            with open(tmp_path / name, "w") as output:
                return start_python(
                    *("-m", "torch.distributed.run"),
                    *("--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=10"),
                    *("--rdzv-id=train", "--rdzv-backend=c10d", rendezvous),
                    *("--rdzv-conf=last_call_timeout=5", "--monitor-interval=0.2"),
                    *(str(tmp_path / "worker.py"), str(tmp_path)),
                    stdout=output,
                    SWITCHML_SWITCH=address,
                    # Otherwise new nodes wait for an address that rank 0 has only told the first.
                    TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
                )

        def rows(n):
            """The workers that have had a sum of a job of n ranks."""
            found = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
            return [(int(worker), int(agent)) for ranks, worker, agent in found if int(ranks) == n]

        agents = [node("first")]
        try:
            wait_for(lambda: rows(1), agents)
            agents.append(node("second"))
            wait_for(lambda: len(rows(2)) >= 2, agents)
            n_alone, lost = len(rows(1)), agents.pop()
            lost.kill()
            os.kill([worker for worker, agent in rows(2) if agent == lost.pid][-1], signal.SIGKILL)
            lost.wait()
            wait_for(lambda: len(rows(1)) > n_alone, agents)
            (tmp_path / "stop").touch()
            assert agents[0].wait(SECONDS) == 0
        except BaseException:
            for file in ("first", "second"):
                print((tmp_path / file).read_text() if (tmp_path / file).exists() else "")
            raise
        finally:
            for agent in agents:
                agent.terminate()  # its worker, too
                agent.wait()
