# SPDX-License-Identifier: BSD-3-Clause
"""A dedicated switch for a test: the program of the build."""

import contextlib
import os
import re
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "switchml"


@contextlib.contextmanager
def switch(*arguments, **environment):
    """Its address, at a free port of the loopback."""
    process = subprocess.Popen(
        [PROGRAM, "switch", "--listen", "127.0.0.1:0", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready = process.stdout.readline()
        yield re.search(r" ready on (\S+)", ready)[1]
    finally:
        process.terminate()
        process.communicate(timeout=60)
