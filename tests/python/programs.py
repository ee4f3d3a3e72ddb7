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
# Of a program that hangs. A job in it has no limit of its own: on a busy machine, one rank compiles
# what another has long compiled.
LIMIT_S = 500
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


def start_python(*arguments, stdout=subprocess.PIPE, **variables):
    """The process of a program that can import the tree's package."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(BINDINGS), "OMP_NUM_THREADS": "1", **variables},
        stdout=stdout,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_python(*arguments, timeout=LIMIT_S, **variables):
    """What such a program says until its end, which must be a success."""
    process = start_python(*arguments, **variables)
    try:
        said, _ = process.communicate(timeout=timeout)
    finally:
        process.kill()  # nothing, if it has ended
    assert process.returncode == 0, said[-5000:]
    return said


def torchrun(*arguments, **variables):
    """Run two ranks, unless the arguments say how many. Returns what they and torchrun say."""
    launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    return run_python(*launch, *map(str, arguments), **variables)


def run_ranks(n, *arguments, **variables):
    """The exit code of each of n ranks, and what each says."""
    where = {"WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [start_python(*arguments, RANK=str(r), **where, **variables) for r in range(n)]
    try:
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [rank.returncode for rank in ranks], said


def check_example(name, *arguments, ranks=2):
    codes, said = run_ranks(ranks, str(ROOT / "examples" / name), *arguments)
    assert codes == [0] * ranks, said
    report = r"^accuracy ([\d.]+) %; parameters are the same on all \d+ ranks$"
    accuracy = re.search(report, said[0], re.MULTILINE)
    assert accuracy, said[0]
    assert float(accuracy[1]) > 80, said[0]
