# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's own tests of Gloo pass on our groups, except the one that asks for Gloo's name."""

import faulthandler
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from programs import BINDINGS

HERE = Path(__file__).parent
LIMIT_S = 1500
# Of 90 that Gloo itself passes without a GPU, with PyTorch 2.13.
N_PASSED = 89


@pytest.fixture(autouse=True)
def _takes_minutes(_no_test_hangs):
    faulthandler.dump_traceback_later(LIMIT_S + 100, exit=True)  # and not that of all tests


def test_pytorchs_own_tests_of_gloo_pass():
    pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's tests need it")
    suite = str(HERE / "pytorch_suite.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "-W", "ignore"]
        + ["-k", "not test_get_backend", suite],
        cwd=HERE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (BINDINGS, HERE))),
            "BACKEND": "gloo",
            "WORLD_SIZE": "3",
            "MASTER_ADDR": "127.0.0.1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    found = re.search(r"^(?:(\d+) failed, )?(\d+) passed", done.stdout, re.M)
    assert done.returncode == 0, done.stdout[-20000:]
    assert found and int(found[2]) >= N_PASSED, done.stdout[-2000:]
