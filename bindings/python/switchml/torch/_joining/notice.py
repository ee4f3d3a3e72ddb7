# SPDX-License-Identifier: BSD-3-Clause
"""What a rank says that waits in the group's store: as src/lib/settings/notice.h has it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from ... import _library as c

_PAUSE_MAX_S = 60.0


def notice_seconds(settings: Mapping[str, Any]) -> float:
    """The seconds until a wait is reported: the group's option, or the environment's; 0: never."""
    config, debug = c.config_from_environment(), settings.get("debug")
    if config.debug == 0 if debug is None else debug.lower() == "error":
        return 0.0
    given = settings.get("wait_notice")
    return float(config.wait_notice_ms / 1000 if given is None else given)


def speaks(rank: int) -> bool:
    """Of a launcher's ranks of one host, the first. And the first two of the group, because one
    may wait for the other."""
    return rank <= 1 or os.environ.get("LOCAL_RANK", "0") == "0"


class Notice:
    """Ask is_due() now and then; `what` is asked only when there is something to say."""

    def __init__(self, rank: int, seconds: float, deadline: float) -> None:
        self._rank, self._deadline = rank, deadline
        self._began = time.monotonic()
        self._pause = seconds
        self._due = self._began + seconds if seconds and speaks(rank) else float("inf")

    def look(self, what: Callable[[], str]) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._pause = min(2 * self._pause, _PAUSE_MAX_S)
        self._due = now + self._pause
        waited, most = now - self._began, self._deadline - self._began
        line = f"waiting {waited:.0f} s (of at most {most:.0f}) for {what()}"
        if waited >= most / 2:
            line += (
                ". Half of the time is over: a longer timeout of the group lets this rank wait on"
            )
        # As one write: the lines of several ranks do not mix.
        sys.stderr.write(f"switchml[rank {self._rank}]: {line}\n")
        sys.stderr.flush()
