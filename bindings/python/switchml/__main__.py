# SPDX-License-Identifier: BSD-3-Clause
"""The command `switchml`, and `python -m switchml`: runs the C program inside the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def main() -> None:
    """Replace this process with the program."""
    for place in (_HERE / "_switchml", _HERE.parents[2] / "build" / "switchml"):
        if place.exists():
            if sys.stdout is not None:  # it is None where the descriptor is closed
                sys.stdout.flush()
            os.execv(place, ["switchml", *sys.argv[1:]])
    sys.exit("switchml: the program is not in this package; `make` builds it in a source tree")


if __name__ == "__main__":
    main()
