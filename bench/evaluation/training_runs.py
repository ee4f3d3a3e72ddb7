# SPDX-License-Identifier: BSD-3-Clause
"""Starts a program with PyTorch by bench/on-links, and reads what rank 0 has written."""
import json
import os
import subprocess
import sys
import tempfile

import figure
import lab as common

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_SECONDS = 300


def train(lab, n_workers, rate_mbit, limit_s, program="train_rank.py", **options):
    """What the ranks have found, with a switch as a host beside them. options: of the program's find()."""
    # $PAPER_PYTHON, or this Python.
    python = figure.python_with("torch, numpy", os.environ.get("PAPER_PYTHON"), sys.executable)
    if python is None:
        raise common.Skipped("no PyTorch here: pip install torch numpy, or set PAPER_PYTHON to a "
                             "Python that has both")
    with tempfile.NamedTemporaryFile() as found:
        done = subprocess.run(
            [os.path.join(common.ROOT, "bench", "on-links"), "--build", lab.build, "--workers", str(n_workers),
             "--rate", str(rate_mbit), python, os.path.join(HERE, program), found.name, json.dumps(options)],
            env={**os.environ, "SWITCHML_SHARED_MEMORY": "0", "SWITCHML_LIBRARY": lab.program("lib/libswitchml.so")},
            capture_output=True, text=True, timeout=max(limit_s, LEAST_SECONDS), check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())
        return json.load(found)


def chosen(data, model, way):
    return [row for row in data["rows"] if row["model"] == model and row["way"] == way]


def at_the_end(rows):
    """Accuracies after the last epoch, in percent: the median, and the worst and the best seed."""
    right = [100 * row["curve"][-1][1] for row in rows]
    return common.between([min(right), common.quartiles(right)[1], max(right)], 1)
