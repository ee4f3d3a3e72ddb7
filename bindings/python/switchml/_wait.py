# SPDX-License-Identifier: BSD-3-Clause
"""Waiting so that Ctrl-C works.

A signal's Python handler runs in the main thread, between two bytecodes: there
we never sit in C for long. Other threads may.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 20e-6, 5e-3


def in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def poll(done: Callable[[], bool], timeout: float | None = None) -> bool:
    """Ask again and again, at most a sixteenth later than needed. False: timed out."""
    began = time.monotonic()
    while not done():
        waited = time.monotonic() - began
        if timeout is not None and waited >= timeout:
            return False
        time.sleep(min(max(waited / 16, _SHORTEST_S), _LONGEST_S))
    return True


def interruptible(call: Callable[[], T]) -> T:
    """Make a long C call; from the main thread in another one, so that signals get through.

    Without a thread where there can be none: since Python 3.12 that is so when it exits.
    """
    if not in_main_thread():
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised again below
            errors.append(error)

    thread = threading.Thread(target=run, name="switchml-call", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return call()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
