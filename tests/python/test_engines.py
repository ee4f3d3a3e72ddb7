# SPDX-License-Identifier: BSD-3-Clause
"""Engines that people already use train through the switch: their packages, and our examples."""

import faulthandler
import os
import re
import shutil
import subprocess
import sys

import pytest

from programs import BINDINGS, ROOT, as_installed

# Ray starts many processes beside our two. On two cores that 40 other processes wanted, its script
# took 330 s.
LIMIT_S = 1500
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def by_name_only(folder):
    """The examples without an import of switchml: only the backend's name is left. A PYTHONPATH."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "demo").mkdir()
    shutil.copy(ROOT / "demo" / "digits.csv", folder / "demo")
    changes = {
        "torch_ddp.py": r"try:\n    import switchml.torch\n.*\n.*\n    import switchml.torch\n",
        "ray_digits.py": r' *"worker_process_setup_hook": register,\n',
    }
    for name, what in changes.items():
        path = folder / "examples" / name
        text, n = re.subn(what, "", path.read_text())
        assert n == 1
        path.write_text(text)
    return as_installed(folder)


@pytest.fixture(autouse=True)
def _no_engine_hangs(_no_test_hangs):
    faulthandler.dump_traceback_later(LIMIT_S + 100, exit=True)  # and not that of all tests


@pytest.mark.parametrize("imported", [True, False], ids=["imported", "by_name"])
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
def test_an_engine_trains_through_the_switch(package, command, imported, tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip(package)
    if not imported and torch.__version__ < (2, 14):
        pytest.skip("PyTorch looks for entry points since 2.14")
    environment = {
        **os.environ,
        "PYTHONPATH": str(BINDINGS) if imported else by_name_only(tmp_path),
        "OMP_NUM_THREADS": "1",
        "SWITCHML_DEBUG": "info",
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT if imported else tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
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
