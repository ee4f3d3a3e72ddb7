# SPDX-License-Identifier: BSD-3-Clause
"""Threads for the callbacks of futures.

A callback may wait for another collective, so it does not run in the thread that completes
collectives (line.py).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable


class Callbacks:
    """Threads that run callbacks: always one more than those that wait in a callback. The first
    one starts on demand."""

    def __init__(self) -> None:
        self._more = threading.Condition()
        self._due: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def run(self, callback: Callable[[], None]) -> None:
        """Run it soon, even if earlier callbacks wait."""
        with self._more:
            self._due.append(callback)
            if self._idle >= len(self._due):
                self._more.notify()
                return
            thread = threading.Thread(target=self._serve, name="switchml-callbacks", daemon=True)
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no thread can be started when the interpreter exits
            with self._more:
                self._threads.discard(thread)
            while (callback := self._take(False)) is not None:
                callback()

    def _serve(self) -> None:
        while (callback := self._take(True)) is not None:
            callback()
            del callback
        with self._more:
            self._threads.discard(threading.current_thread())

    def _take(self, waits: bool) -> Callable[[], None] | None:
        """The next callback; None: this thread is no longer needed."""
        with self._more:
            while not self._due:
                if not waits or self._closed or self._idle:
                    return None
                self._idle += 1
                self._more.wait()
                self._idle -= 1
            return self._due.popleft()

    def close(self, seconds: float) -> None:
        """Let callbacks under way return; wait at most this long."""
        with self._more:
            self._closed = True
            self._more.notify_all()
            threads = self._threads - {threading.current_thread()}
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
