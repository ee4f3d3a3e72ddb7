# SPDX-License-Identifier: BSD-3-Clause
"""Engines that people already use train through the switch: their packages, and our examples."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("lightning", [*TORCHRUN, "examples/lightning_digits.py"]),
        ("accelerate", [*TORCHRUN, "examples/accelerate_digits.py"]),
        ("transformers", [*TORCHRUN, "examples/transformers_digits.py"]),
        ("ray.train", ["examples/ray_digits.py", "--workers", "2"]),
    ],
    ids=["lightning", "accelerate", "transformers", "ray"],
)
def test_an_engine_trains_through_the_switch(package, command):
    pytest.importorskip("torch")
    pytest.importorskip(package)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "bindings" / "python"),
        "OMP_NUM_THREADS": "1",
        "SWITCHML_DEBUG": "info",
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    # Nothing of ours has run then, and no setting of Ray's makes it wait longer.
    if "The current node timed out during startup" in done.stdout:
        pytest.skip("Ray's own daemon did not start within Ray's 30 s on this machine")
    assert done.returncode == 0, done.stdout[-5000:]
    report = r"accuracy ([\d.]+) %; parameters are the same on all 2 ranks of switchml"
    accuracy = re.search(report, done.stdout)
    assert accuracy, done.stdout[-5000:]
    assert float(accuracy[1]) > 80
    # At their end ranks say what they did: a step is a call, or several.
    calls = dict(re.findall(r"switchml\[rank (\d)\]: (\d+) calls", done.stdout))
    assert set(calls) == {"0", "1"}, done.stdout[-5000:]
    assert all(int(n) > 200 for n in calls.values()), calls
