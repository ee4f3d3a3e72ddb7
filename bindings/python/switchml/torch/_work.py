# SPDX-License-Identifier: BSD-3-Clause
"""One collective of a process group, from the call to its end.

Not in here: threads (_line.py) and where bytes go (_group.py). The invariant:
the line holds a work until it has ended, so one that nobody else holds still
ends, and its future with it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work as _Work

from ..errors import Timeout
from ..job import Job, Request

# Makes the C calls of a work, and returns their requests.
Begin = Callable[[Job], list[Request]]


class Work(_Work):
    """What torch.distributed hands out: waited for, asked, or made a future."""

    def __init__(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        begin: Begin,
        finish: Callable[[], None] | None = None,
        limit: float | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.begin, self._finish = begin, finish
        self.requests: list[Request] = []
        self.begin_error: BaseException | None = None
        self.late = False  # it cannot begin at once: device memory is to be copied first
        self.limit = limit
        self.deadline = None if limit is None else time.monotonic() + limit
        self._tensors = list(tensors)
        self._devices = sorted({t.device for t in tensors if t.is_cuda}, key=str)
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._inner: torch.futures.Future | None = None
        self._future: torch.futures.Future | None = None

    # ---- by the line ----

    def progress(self, index: int) -> None:
        """The index-th request has succeeded."""

    def end(self, error: BaseException | None) -> None:
        """It has come to this. In the line's thread, once."""
        if error is None and self._finish:
            try:
                self._finish()
            except Exception as failure:  # told to whoever waits
                error = failure
        self._error = error
        with self._lock:
            self._ended.set()
            inner = self._inner
        self.requests, self._finish, self.begin = [], None, None  # type: ignore[assignment]
        if inner is not None:
            self._resolve(inner)

    def _resolve(self, inner: torch.futures.Future) -> None:
        with self._current_streams():
            inner.set_result(self._tensors)

    def _current_streams(self) -> Any:
        """The streams that a future's events are recorded on. None, of the host's memory."""
        return contextlib.nullcontext()

    # ---- by the application, and by C++ ----

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return True when the tensors are as they should be; raise what went wrong.

        timeout 0 is the group's. Another one only ends the waiting.
        """
        seconds = timeout.total_seconds()
        if not self._ended.wait(seconds if seconds > 0 else None):
            raise Timeout(f"{self.name} has not ended after {seconds:g} s; it goes on")
        if self._error is not None:
            raise self._error
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Of the host's memory, nothing is left to be done."""

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def get_future(self) -> torch.futures.Future:
        """A future of the tensors.

        Future.set_exception() would be a value to C++, and DDP would take it for a
        gradient. What a callback raises is an error there, too.
        """
        with self._lock:
            if self._future is not None:
                return self._future
            inner = torch.futures.Future(devices=self._devices)
            self._future = inner.then(self._value)
            self._inner = inner
            ended = self._ended.is_set()
        if ended:
            self._resolve(inner)
        return self._future

    def _value(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._tensors
