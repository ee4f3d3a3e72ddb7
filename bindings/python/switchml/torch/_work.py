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
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work as _Work

from ..errors import Timeout
from ..job import Job, Request
from ._callbacks import Promise, context, open_turns
from ._profiler import range_of


@dataclass(frozen=True)
class Call:
    """A call of the C library: its name there, its buffers, and what else it wants to know.

    send and recv are contiguous, and may be one. `divisible`: cut into pieces,
    it would come to the same. `source`: what send has the elements of.
    """

    name: str
    send: torch.Tensor
    recv: torch.Tensor
    arguments: Callable[[torch.Tensor, torch.Tensor], tuple]
    divisible: bool = False
    source: torch.Tensor | None = None

    def begin(self, job: Job) -> Request:
        arguments = self.arguments(self.send, self.recv)
        return job._submit(self.name, arguments, (self.send, self.recv), None)


class Work(_Work):
    """What torch.distributed hands out: waited for, asked, or made a future."""

    late = False  # it cannot begin at once: device memory is to be copied first

    def __init__(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        calls: Sequence[Call],
        finish: Callable[[], None] | None = None,
        limit: float | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self._calls, self._finish = calls, finish
        self.requests: list[Request] = []
        self.begin_error: BaseException | None = None
        self.limit = limit
        self.deadline = None if limit is None else time.monotonic() + limit
        self._tensors = list(tensors)
        self._devices = sorted({t.device for t in tensors if t.is_cuda}, key=str)
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._promise: Promise | None = None
        self.when_ended: Callable[[Work], None] | None = None  # in the line's thread: never waits
        self.context = context()
        self.after = open_turns()
        self._range = range_of(f"switchml:{name}")

    # ---- by the line ----

    def begin(self, job: Job) -> None:
        """Make the C calls."""
        for call in self._calls:
            self.requests.append(call.begin(job))

    def progress(self, index: int) -> None:
        """The index-th request has succeeded."""

    @property
    def held(self) -> bool:
        """Whether callbacks that come before it have not returned."""
        return any(not turn.closed for turn in self.after)

    def end(self, error: BaseException | None) -> Callable[[], None] | None:
        """It has come to this. In the line's thread, once.

        Returns what runs the application's callbacks, for another thread: they may wait.
        """
        if error is None:
            try:
                self._complete()
            except Exception as failure:  # told to whoever waits
                error = failure
        self._error = error
        if self._range is not None:  # before anybody who waits goes on, and ends the profile
            self._range.end()
        with self._lock:
            self._ended.set()
            promise = self._promise
        self.requests, self._calls, self._finish = [], (), None
        if self.when_ended is not None:
            self.when_ended(self)
            self.when_ended = None
        return None if promise is None else lambda: self._keep(promise)

    def _complete(self) -> None:
        if self._finish:
            self._finish()

    def _keep(self, promise: Promise) -> None:
        with self._streams():
            promise.keep(self._tensors)

    def _streams(self) -> Any:
        """Where the tensors are ready: for the events of a future of device memory."""
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
        """In the host's memory there is nothing left to do."""

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def get_future(self) -> torch.futures.Future:
        """A future of the tensors."""
        with self._lock:
            if self._promise is not None:
                return self._promise.future
            promise = self._promise = Promise(self._value, self._devices)
            ended = self._ended.is_set()
        if ended:
            self._keep(promise)
        return promise.future

    def _value(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._tensors
