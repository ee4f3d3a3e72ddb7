# SPDX-License-Identifier: BSD-3-Clause
"""A collective under way."""

from __future__ import annotations

import ctypes
import math
import threading
from typing import TYPE_CHECKING, Any

from . import _library as c
from ._library import lib
from ._wait import in_main_thread, in_slices
from .errors import Closed, make

if TYPE_CHECKING:
    from .job import Job


class Request:
    """A collective under way. Do not change or read its arrays before it is done."""

    def __init__(self, job: Job, pointer: ctypes.c_void_p, keep: tuple, result: Any) -> None:
        self._job, self._pointer = job, pointer
        self._keep, self._result = keep, result
        self._number: int | None = None
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def _finish(self, number: int) -> None:
        if number:
            self._error = make(number, c.text_of(self._job._context, number))
            self._job._failed.append(self._keep)
        self._number, self._keep = number, ()
        under_way.discard(self)

    def _look(self) -> bool:
        if self._number is None and not self._job._context:
            self._error, self._number = Closed("the job was closed before the call ended"), -5009
        if self._number is None:
            done = ctypes.c_int(0)
            number = lib.sml_test(self._pointer, ctypes.byref(done))
            if done.value:
                self._finish(number)
        return self._number is not None

    def test(self) -> bool:
        """Whether the call has ended. Raises the call's error if it failed."""
        with self._lock:
            done = self._look()
        if self._error:
            raise self._error
        return done

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the end and return the result.

        timeout is in seconds. When it passes, TimeoutError is raised, but the call continues, and
        you may wait again. The same applies after Ctrl-C interrupted the wait.
        """
        return self._wait(timeout)

    def _wait(self, timeout: float | None = None) -> Any:
        """wait() for this package: the fence that keeps torch.compile out of it takes time."""
        if timeout is not None and math.isnan(timeout):
            raise ValueError("timeout is not a number")
        if timeout is None and not in_main_thread():
            with self._lock:
                if self._number is None and self._job._context:
                    self._finish(lib.sml_wait(self._pointer))
                self._look()
        elif not in_slices(self._wait_for, timeout):
            raise TimeoutError(f"not done after {timeout} s; the call goes on")
        if self._error:
            raise self._error
        return self._result

    def _wait_for(self, seconds: float) -> bool:
        """Wait in C for this long, at most. Another thread may have the request."""
        if not self._lock.acquire(timeout=seconds):
            return False
        try:
            if self._number is None and self._job._context:
                done = ctypes.c_int(0)
                milliseconds = math.ceil(1000 * seconds)
                number = lib.sml_wait_for(self._pointer, milliseconds, ctypes.byref(done))
                if done.value:
                    self._finish(number)
                return bool(done.value)
            return self._look()
        finally:
            self._lock.release()


# C uses their arrays. Held here and not by the jobs, because a job may be dropped
# meanwhile.
under_way: set[Request] = set()
