# SPDX-License-Identifier: BSD-3-Clause
"""The package from the tree, unless another is installed; time limits for every test; groups."""

import faulthandler
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings" / "python"), str(Path(__file__).parent)]

NEED_TORCH = ("test_torch", "test_staging.py", "test_ports.py")


class _Skipped(pytest.Module):
    """A module that cannot be imported: pytest lists it and counts it."""

    def collect(self):
        pytest.skip(f"{self.path.name}: there is no PyTorch", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.name.startswith(NEED_TORCH) and importlib.util.find_spec("torch") is None:
        return _Skipped.from_parent(parent, path=module_path)
    return None


@pytest.fixture(autouse=True)
def _no_test_hangs():
    faulthandler.dump_traceback_later(600, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def ranks(request):
    """The ranks of a job of NumPy's package: as many as the module's N says."""
    from ranks import Ranks

    with Ranks(request.module.N) as them:
        yield them


@pytest.fixture
def new_ranks(request):
    """As ranks, for one test, after which they may have failed."""
    from ranks import Ranks

    with Ranks(request.module.N) as them:
        yield them


@pytest.fixture(scope="module")
def gloo(request):
    """As groups, with Gloo."""
    from groups import Groups, stop

    with Groups(request.module.N, "gloo") as ranks:
        yield ranks
        ranks.call(stop)


@pytest.fixture(scope="module")
def groups(request):
    """As many ranks as the module's N says, in the default group of our backend."""
    from groups import Groups, stop

    with Groups(request.module.N) as ranks:
        yield ranks
        ranks.call(stop)


@pytest.fixture
def new_groups(request):
    """As groups, for one test, which need not end them."""
    from groups import Groups

    with Groups(request.module.N) as ranks:
        yield ranks


@pytest.fixture
def prepared(request):
    """As many ranks, which are in no group, for one test."""
    from groups import Prepared

    with Prepared(request.module.N) as ranks:
        yield ranks


@pytest.fixture
def port():
    from ranks import free_port

    return free_port()
