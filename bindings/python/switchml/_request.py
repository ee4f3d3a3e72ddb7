# SPDX-License-Identifier: BSD-3-Clause
"""A collective under way.

In the main thread, Ctrl-C may come whenever a function returns, before its result is stored. So C
itself notes in a request which of its calls have begun and which have ended, and what C returns is
stored by a function in C, too (stored). The invariant: a request that was interrupted anywhere
can be waited for again, by any thread.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import math
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _library as c
from ._library import lib
from ._wait import SLICE_S, in_main_thread, in_slices, stored
from .errors import ClosedError, make

if TYPE_CHECKING:
    from .job import Job

T = TypeVar("T")

_POINTER_BYTES = ctypes.sizeof(ctypes.c_void_p)
_SLICE_MS = math.ceil(1000 * SLICE_S)
_NOT_YET = -errno.EAGAIN


@functools.cache
def _pointers(n: int) -> Any:
    return ctypes.c_void_p * n


class Request(Generic[T]):
    """A collective under way. Do not change or read its arrays before it is done."""

    def __init__(self, job: Job, keep: Any, result: Any, n_calls: int = 1) -> None:
        """`n_calls`: of C, all of which it waits for."""
        self._job, self._keep, self._result = job, keep, result
        # Of each call: C sets it when the call has begun, and clears it when it has ended.
        self._pointers = pointers = _pointers(n_calls)()
        self._address = ctypes.addressof(pointers)
        self._n_begun = 0
        self._returned: list[int] = []
        self._first_error = 0
        self._number: int | None = None
        self._error: Exception | None = None
        self._lock = threading.Lock()

    @property
    def n_begun(self) -> int:
        """How many calls have begun, although one of them may not have returned to its caller."""
        pointers, n = self._pointers, self._n_begun
        while n < len(pointers) and pointers[n]:
            n += 1
        self._n_begun = n
        return n

    @property
    def has_ended(self) -> bool:
        """Whether test() or wait() has seen it end, which they may do again."""
        return self._number is not None

    def _place(self, call: int) -> int:
        """The address where C puts the pointer of this call."""
        return self._address + call * _POINTER_BYTES

    def _await(self, milliseconds: int) -> bool:
        """Wait in C, and note the end when all calls have ended. The lock is held.

        The last call ends last, as a rule: while this thread waits for it, it does the work of all.
        """
        if self._number is None and not self._job._context:
            self._error = ClosedError("the job was closed before the call ended")
            self._number = ClosedError.number
        if self._number is not None:
            return True
        pointers, returned, call = self._pointers, self._returned, self.n_begun
        while True:
            if returned and returned[0] != _NOT_YET:  # of a wait that was interrupted, too
                self._first_error = self._first_error or returned[0]
            returned.clear()
            while call and not pointers[call - 1]:
                call -= 1
            if not call:
                break
            stored(returned, lib.sml_wait, self._place(call - 1), 1, milliseconds, None)
            if returned[0] == _NOT_YET:
                return False
            if returned[0]:  # of a call that C refuses to wait for, too
                pointers[call - 1] = None
        number = self._first_error
        if number:
            self._error = make(number, c.text_of(self._job._context, number))
        under_way.discard(self)
        self._number, self._keep = number, ()
        return True

    def test(self) -> bool:
        """Whether the call has ended. Raises the call's error if it failed."""
        done = self._number is not None or self._wait_for(0)
        if self._error:
            raise self._error
        return done

    def wait(self, timeout: float | None = None) -> T:
        """Wait for the end and return the result.

        timeout is in seconds. When it passes, TimeoutError is raised, but the call continues, and
        you may wait again. The same applies after Ctrl-C interrupted the wait.
        """
        return self._wait(timeout)

    def _wait(self, timeout: float | None = None) -> Any:
        """wait() for this package: the fence that keeps torch.compile out of it takes time."""
        if timeout is None:
            milliseconds = _SLICE_MS if in_main_thread() else -1
            with self._lock:  # another thread may have it; Ctrl-C ends this wait, too
                while not self._await(milliseconds):
                    pass
        elif math.isnan(timeout):
            raise ValueError("timeout is not a number")
        elif not in_slices(self._wait_for, timeout):
            raise TimeoutError(f"not done after {timeout} s; the call goes on")
        if self._error:
            raise self._error.with_traceback(None)
        return self._result

    def _wait_for(self, seconds: float) -> bool:
        """Wait in C for this long, at most. Another thread may have the request."""
        locked: list[bool] = []
        try:
            stored(locked, self._lock.acquire, True, seconds)
            return locked[0] and self._await(math.ceil(1000 * seconds))
        finally:
            if locked and locked[0]:
                self._lock.release()


# C uses their arrays. Held here and not by the jobs, because a job may be dropped
# meanwhile.
under_way: set[Request] = set()
