# SPDX-License-Identifier: BSD-3-Clause
"""The package from the tree, unless another is installed; time limits for every test; groups."""

import contextlib
import faulthandler
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bindings" / "python"), str(Path(__file__).parent)]


@pytest.fixture(autouse=True)
def _no_test_hangs():
    faulthandler.dump_traceback_later(600, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="module")
def groups(request):
    """As many ranks as the module's N says, in the default group of our backend."""
    from groups import Groups, stop

    with Groups(request.module.N) as ranks:
        yield ranks
        ranks.call(stop)


@pytest.fixture(scope="module")
def pair(request):
    """As groups, for tests after which ranks may have failed."""
    from groups import Groups, stop
    from ranks import RankError

    with Groups(request.module.N) as ranks:
        yield ranks
        with contextlib.suppress(RankError):
            ranks.call(stop)
