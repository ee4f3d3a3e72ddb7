# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs on several ranks: under torchrun, or an example, which says its accuracy."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

from ranks import free_port

ROOT = Path(__file__).resolve().parents[2]
BINDINGS = ROOT / "bindings" / "python"
ENTRIES = '[project.entry-points."torch.distributed.backends"]\n'


def as_installed(folder):
    """A PYTHONPATH with which the package is installed: as it is, or else the tree's with its
    metadata."""
    if any(importlib.metadata.distributions(name="switchml")):
        return ""
    entries = (ROOT / "pyproject.toml").read_text().partition(ENTRIES)[2].partition("\n\n")[0]
    metadata = folder / "switchml-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: switchml\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[torch.distributed.backends]\n" + entries.replace('"', "") + "\n"
    )
    return os.pathsep.join(map(str, (folder, BINDINGS)))


def torchrun(*arguments, **variables):
    """Run two ranks to their end, which must be a success. Returns what they and torchrun say."""
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *arguments],
        env={**os.environ, "PYTHONPATH": str(BINDINGS), "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def check_example(name, *arguments, ranks=2):
    environment = {
        **os.environ,
        "PYTHONPATH": str(BINDINGS),
        "SWITCHML_WORLD_SIZE": str(ranks),
        "SWITCHML_MASTER_PORT": str(free_port()),
        "SWITCHML_TIMEOUT": "120",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / name), *arguments],
            env={**environment, "SWITCHML_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        said = [process.communicate(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()  # nothing, if it has ended
    for process, its in zip(processes, said, strict=True):
        assert process.returncode == 0, its
    last = said[0][0].splitlines()[-1]
    accuracy = re.match(r"accuracy ([\d.]+) %; parameters are the same on all \d+ ranks$", last)
    assert accuracy, said[0]
    assert float(accuracy[1]) > 80, said[0]
