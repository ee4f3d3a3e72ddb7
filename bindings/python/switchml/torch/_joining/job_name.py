# SPDX-License-Identifier: BSD-3-Clause
"""What a group's job is called at the switch: in `switchml top`, in logs, and in metrics.

    train                  the default group: SWITCHML_JOB, or torchrun's --rdzv-id
    alice-digits-3fa9      the same without either: the user, the script, and four random digits
    train.restart-1        after torchrun has restarted the ranks
    train.ranks-2-3        another group
    train.members-7        the default group after reconfigure() with the uuid 7
    train.members-7.rank-1 torchft's quorum 7, of the ranks 1 of replicas that have several
    train.2                the second one of that name, in a process whose first may not be gone

Rank 0 of each group draws the name, and the others read it in the group's store. The invariant: two
jobs that can be at one switch at the same time have different names, unless the user has named
two runs alike. So every process counts the names of its groups, and rank 0 is in a group's name.
"""

from __future__ import annotations

import getpass
import os
import secrets
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .meeting import Meeting
from .terms import chosen, ranks_text

_MOST_BYTES = 127  # of a job's name: SML_MAX_JOB_NAME
_LABEL_BYTES = 48
_NUMBER_BYTES = 6
_MEMBERS = ".members-"

_lock = threading.Lock()
# How often each name has been drawn for a group of this process.
_used: dict[str, int] = {}
# What the default group's rank 0 has drawn for the run, where the user has not named it: all groups
# have the same digits.
_run: str | None = None


def draw(meeting: Meeting, settings: Mapping[str, Any], label: str) -> tuple[str, str, int]:
    """On the group's rank 0: for take() on all ranks. `label`: "" for the default group."""
    named = chosen(settings, "job")
    run = named or _run or _of_torchrun(meeting, label) or _of_script()
    ending = f"{_restart()}{label}"
    if ending:
        run = _cut(run, _MOST_BYTES - len(ending.encode()) - _NUMBER_BYTES)
    name = run + ending
    with _lock:  # groups join in their own threads
        _used[name] = _used.get(name, 0) + 1
        return "" if named else run, name, _used[name]


def take(drawn: Sequence[Any], label: str) -> str:
    """The job's name, from what rank 0 has drawn."""
    global _run
    run, name, number = drawn
    with _lock:
        _used[name] = max(_used.get(name, 0), number)
    if run and (not label or label.startswith(_MEMBERS)):
        _run = run
    return f"{name}.{number}" if number > 1 else name


def label_of(ranks: tuple[int, ...]) -> str:
    """How the name of a group's job ends. `ranks`: none, if they have no common numbers."""
    if not ranks:
        return f".merged-{secrets.token_hex(2)}"
    text = ranks_text(ranks).partition(" ")[2].replace(", ", ",")
    # Where the list is cut off, other groups could have the same name: those of this rank 0, which
    # counts them.
    first = f"{ranks[0]}:" if ranks[0] != min(ranks) else ""
    return f".ranks-{first}{_cut(text, _LABEL_BYTES)}"


def label_of_members(uuid: int, place: int | None = None) -> str:
    """How the name of a group's job ends after reconfigure(). `place`: that of its ranks in their
    replicas, where each replica has several ranks, and so a group for each."""
    return f"{_MEMBERS}{uuid}" if place is None else f"{_MEMBERS}{uuid}.rank-{place}"


def _cut(text: str, n: int) -> str:
    return text.encode()[: max(n, 0)].decode("utf-8", "ignore")


def _restart() -> str:
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f".restart-{attempt}" if attempt not in ("", "0") else ""


def _of_torchrun(meeting: Meeting, label: str) -> str:
    """The run's id, if a user has chosen it: --standalone draws 32 digits. "": there is none."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    if name in ("", "none") or _is_drawn(name):
        return ""
    # Ranks of one run that make several default groups.
    if not label and str(meeting.size) != os.environ.get("WORLD_SIZE"):
        name = f"{name}-{secrets.token_hex(2)}"
    return name


def _is_drawn(name: str) -> bool:
    """Is it a UUID?"""
    digits = name.replace("-", "")
    return len(digits) == 32 and all(digit in "0123456789abcdef" for digit in digits)


def _of_script() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # nobody in the list of users
        user = str(os.getuid())
    script = Path(sys.argv[0] if sys.argv else "")
    name = script.parent.name if script.name == "__main__.py" else script.stem
    name = name if name not in ("", "-c", "-m") else "python"
    return f"{_cut(_clean(user), 24)}-{_cut(_clean(name), 40)}-{secrets.token_hex(2)}"


def _clean(text: str) -> str:
    """The switch takes printable UTF-8 only, but files may be called anything."""
    return "".join(sign if sign.isprintable() else "_" for sign in text)
