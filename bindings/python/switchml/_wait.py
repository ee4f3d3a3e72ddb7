# SPDX-License-Identifier: BSD-3-Clause
"""Waits that Ctrl-C can interrupt.

Python runs a signal handler in the main thread, between two bytecodes. So the main thread
never stays in C for long. Other threads may.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from itertools import starmap
from typing import Any, TypeVar

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 20e-6, 5e-3
SLICE_S = 0.02
_WATCH_S = 0.05


_main = threading.main_thread().ident


def _note_main_thread() -> None:
    """In a child: the one that has forked it."""
    global _main
    _main = threading.get_ident()


os.register_at_fork(after_in_child=_note_main_thread)


def in_main_thread() -> bool:
    return threading.get_ident() == _main  # threading.main_thread() takes longer


def stored(results: list, function: Callable[..., Any], *arguments: Any) -> None:
    """Append what the function of C returns. Ctrl-C cannot come between the two."""
    results.extend(starmap(function, (arguments,)))


def poll(done: Callable[[], bool], timeout: float | None = None) -> bool:
    """Poll, and notice the end at most a sixteenth of the wait later. False: timed out."""
    began = time.monotonic()
    while not done():
        waited = time.monotonic() - began
        if timeout is not None and waited >= timeout:
            return False
        time.sleep(min(max(waited / 16, _SHORTEST_S), _LONGEST_S))
    return True


def in_slices(wait: Callable[[float], bool], timeout: float) -> bool:
    """Wait in C, and return between slices to where Python handles signals. `wait` waits for a
    number of seconds, at most, and returns whether the wait is over. False: timed out."""
    end = time.monotonic() + timeout
    while not wait(min(SLICE_S, max(0.0, end - time.monotonic()))):
        if time.monotonic() >= end:
            return False
    return True


def interruptible(
    call: Callable[[], T],
    interrupt: Callable[[], None] | None = None,
    undo: Callable[[T], object] | None = None,
    watch: Callable[[], None] | None = None,
) -> T:
    """Make a long C call. The main thread uses another thread, so that it can handle signals.

    After Ctrl-C, `interrupt` makes the call return soon. If it has succeeded nevertheless, `undo`
    gets its result. `watch` is called now and then, and raises if the call would wait in vain:
    this, too, interrupts the call, unless it has succeeded. If no thread can be started, the call
    is made directly: since Python 3.12, this happens at exit.
    """
    if not in_main_thread() and watch is None:
        return call()
    results: list[T] = []
    errors: list[BaseException] = []
    # Not Thread.join(): after an interrupt, Python 3.11 takes the thread for dead.
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised again below
            errors.append(error)
        ended.set()

    thread = threading.Thread(target=run, name="switchml-call", daemon=True)
    in_vain: Exception | None = None
    try:
        if not _can_start(thread):
            run()
        in_vain = _await(ended, watch)
        if in_vain and interrupt:
            interrupt()
            ended.wait()
    except BaseException:
        if interrupt:
            interrupt()
            # Who was interrupted before the thread began waits for nothing.
            ended.wait(None if thread.ident else 5)
        if undo and results:
            undo(results[0])
        raise
    if results:
        return results[0]
    if in_vain:
        raise in_vain
    raise errors[0]


def _can_start(thread: threading.Thread) -> bool:
    try:
        thread.start()
        return True
    except RuntimeError:
        return False


def _await(ended: threading.Event, watch: Callable[[], None] | None) -> Exception | None:
    """Wait for the end; returns what `watch` has raised before it."""
    while not ended.wait(_WATCH_S if watch else None):
        try:
            if watch:
                watch()
        except Exception as error:  # raised by the caller, after it has interrupted the call
            return error
    return None
