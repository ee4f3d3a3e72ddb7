# SPDX-License-Identifier: BSD-3-Clause
"""What this process knows of ranks that died: the jobs of its groups tell.

A group that waits for its ranks looks here, because a rank that died before it came will never
come. The invariant: a death counts only for groups that contain the dead rank.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Sequence

from ...job import Job

_lock = threading.Lock()
# The ranks of each job, by the numbers that they have in the default group.
_jobs: weakref.WeakKeyDictionary[Job, tuple[int, ...]] = weakref.WeakKeyDictionary()
# src/job/states/job.c, src/job/states/liveness.c and src/job/rank/session.c write this.
_DEATH = re.compile(r"\brank (\d+)(?: \([^)]*\))? died\b")
# What follows is the text of a rank, and may quote a death in another group.
_QUOTED = " aborted the job: "


def remember(job: Job, ranks: Sequence[int]) -> None:
    """Look at this job, too, until it is closed."""
    with _lock:
        _jobs[job] = tuple(ranks)


def death_among(ranks: Sequence[int]) -> tuple[int, str] | None:
    """One of these ranks that has died, and the text of the job that says so."""
    with _lock:
        jobs = list(_jobs.items())
    for job, members in jobs:
        text = job._failure() or ""
        found = _DEATH.search(text.partition(_QUOTED)[0])
        if found and int(found[1]) < len(members) and members[int(found[1])] in ranks:
            return members[int(found[1])], text
    return None
