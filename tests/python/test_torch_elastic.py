# SPDX-License-Identifier: BSD-3-Clause
"""A training in which a worker dies and comes back: examples/torch_elastic.py."""

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from programs import BINDINGS, ROOT  # noqa: E402


def test_the_others_go_on_and_a_new_process_gets_their_parameters():
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "examples" / "torch_elastic.py"),
            "--workers=3",
            "--kill=1",
            "--at=10",
            "--steps=60",
        ],
        env={**os.environ, "PYTHONPATH": str(BINDINGS), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,  # five times, a process starts PyTorch
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert "killed worker 1; it starts again" in done.stdout
    joined = re.search(r"^worker 1 joined at step (\d+): 3 workers$", done.stdout, re.MULTILINE)
    assert joined, done.stdout
    died = re.search(r"\[[02]\] RankDiedError: rank (\d) ", done.stdout)
    assert died, done.stdout
    # Each membership's job begins with a line of its rank 0, and ends with one if that one lives.
    begun = re.findall(r'^switchml\[rank 0\]: job ".*": (\d) ranks', done.stderr, re.MULTILINE)
    assert begun[0] == begun[-1] == "3", done.stderr
    assert re.search(r'^switchml\[rank 0\]: job ".*" has ended: ', done.stderr, re.MULTILINE)
    named = re.search(r"has failed: rank (\d) \(host .*, pid \d+\) died; ", done.stderr)
    assert (named.group(1) if named else "0") == died.group(1), done.stderr
    assert re.search(r"\[[02]\] went on \d+ ms after the error", done.stdout), done.stdout
    assert done.stdout.splitlines()[-1].endswith("the same on all workers")
