# SPDX-License-Identifier: BSD-3-Clause
"""What a group leaves behind when it goes on with other ranks: its old job, and its old Gloo.

Both are ended in other threads, because the caller needs its new ranks soon. The old job waits for
ranks that have not ended their calls. The destructor of Gloo's mesh waits for its thread once for
each connection, up to 10 ms each: so the caller must never drop the last reference to one.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..._wait import poll
from .._calls.line import Line

# For calls of the old ranks that this one has ended, and others have not yet.
RETIRE_S = 10.0
# The caller of a call may go on a moment before the line knows that the call has ended.
_MOMENT_S = 0.1

# Each ends soon after RETIRE_S, whatever the old ranks do.
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def retire(line: Line | Any, others: Any, why: str, seconds: float = RETIRE_S) -> threading.Thread:
    """Leave the job of the old ranks, in another thread.

    A rank that has ended all its calls stays there until the others have, too, and at most this
    long. So no rank loses a result because another one goes on. Calls that this rank has not ended
    fail on all ranks. `others`: the group's other backends.
    """
    if not poll(lambda: line.idle, _MOMENT_S):
        line.abort(why)
    return _begin(functools.partial(_leave, line, others, seconds))


def leave_behind(line: Line, others: Any) -> None:
    """Leave the job of a group that nothing refers to any more, and that did not leave it."""
    if not line.closed:
        with contextlib.suppress(RuntimeError):  # at the interpreter's exit: the process leaves it
            _begin(functools.partial(_leave, line, others, RETIRE_S))


def _leave(line: Line | Any, others: Any, seconds: float) -> None:
    line.close(seconds)
    others.abort()


def discard(held: list[Any]) -> None:
    """Let go of what the list holds, in another thread. The caller has no other references."""
    if _try_to_begin(held.clear) is None:
        held.clear()


def _begin(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="switchml-retire", daemon=True)
    thread.start()
    _threads.add(thread)
    return thread


def _try_to_begin(run: Callable[[], None]) -> threading.Thread | None:
    """None: at the end of the interpreter, some versions of Python start no more threads."""
    try:
        return _begin(run)
    except RuntimeError:
        return None


def leave_all(groups: Sequence[Any], seconds: float, trouble: BaseException | None) -> None:
    """Leave groups at the end of the program: at once, because their ranks may be threads of this
    process. Where no thread can be started any more, this one leaves them one after the other."""
    threads = []
    for group in groups:
        leave = functools.partial(group.leave, seconds, trouble)
        # Not while an exception is handled: a group would take it for the program's.
        if (thread := _try_to_begin(leave)) is None:
            leave()
        else:
            threads.append(thread)
    for thread in threads:
        thread.join()


def await_retired() -> None:
    """At the end of the program: let other ranks end their calls of old jobs."""
    for thread in list(_threads):
        thread.join(RETIRE_S)
