# SPDX-License-Identifier: BSD-3-Clause
"""Starts a program with PyTorch on a star of hosts, and reads what rank 0 has written."""
import json
import os
import subprocess
import sys
import time

import lab as common
from programs import is_ready, last_line

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_SECONDS = 300


def python_with_torch():
    """$PAPER_PYTHON, or this Python."""
    for python in (os.environ.get("PAPER_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import torch, numpy"], check=False,
                                     capture_output=True).returncode == 0:
            return python
    raise common.Skipped("no PyTorch here: pip install torch numpy, or set PAPER_PYTHON to a "
                         "Python that has both")


def library(lab):
    """The library that the Python package loads."""
    for folder, _, names in os.walk(os.path.join(lab.build, "lib")):
        if "libswitchml.so" in names:
            return os.path.join(folder, "libswitchml.so")
    raise common.Skipped(f"libswitchml.so was not built: ninja -C {lab.build}")


def train(lab, n_workers, rate_mbit, limit_s, program="train_rank.py", **options):
    """What the ranks have found, with a switch as a host beside them."""
    python, words = python_with_torch(), []
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    with lab.star(n_workers, rate_mbit, {"switch": 0}) as (star, work):
        log, output = os.path.join(work, "log"), os.path.join(work, "found.json")
        address = f"{star.address['switch']}:28500"
        processes = []
        try:
            with open(log, "ab") as said:
                def start(host, command, **environment):
                    processes.append(subprocess.Popen(
                        star.inside(host) + command, stdin=subprocess.DEVNULL, stdout=said,
                        stderr=said, env={**os.environ, **environment}))
                    return processes[-1]
                switch = start("switch", [lab.program("switchml"), "switch", "--listen", address])
                if not is_ready(switch, log, address):
                    raise common.Skipped(f"the switch did not start: {last_line(log)}")
                ranks = [start(str(rank), [python, os.path.join(HERE, program),
                                            "--output", output, *words],
                               RANK=str(rank), WORLD_SIZE=str(n_workers), LOCAL_RANK="0",
                               LOCAL_WORLD_SIZE="1", MASTER_ADDR=star.address["0"],
                               MASTER_PORT="29500", OMP_NUM_THREADS="1",
                               GLOO_SOCKET_IFNAME="eth0", SWITCHML_SWITCH=address,
                               SWITCHML_SHARED_MEMORY="0", SWITCHML_LIBRARY=library(lab))
                         for rank in range(n_workers)]
            deadline = time.monotonic() + max(limit_s, LEAST_SECONDS)
            for rank in ranks:
                if rank.wait(max(1, deadline - time.monotonic())):
                    raise RuntimeError(f"a rank failed: {last_line(log)}")
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        with open(output, encoding="utf-8") as file:
            return json.load(file)
