# SPDX-License-Identifier: BSD-3-Clause
"""One collective of a process group, from the call to its end.

Threads are in line.py, and the memory of tensors is in _group/group.py. The invariant: the line
holds a work until it has ended. So a work that the application has dropped still ends, and so
does its future.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work as _Work

from ... import _library as c
from ..._untraced import Untraced
from ...errors import TimedOutError
from ...job import Job, Request
from .callbacks import Promise, await_done, order_here
from .cpp_futures import PromiseInCpp
from .profiler import Range, is_profiled
from .tensors import TYPES, describe, is_accelerated


@dataclass(slots=True)  # not frozen, which makes creating one take three times as long
class Call:
    """A call of the C library: its name, its buffers, and its arguments between these and the
    options, of which the first is the count.

    send and recv are contiguous and may be the same. `divisible`: calling it for pieces gives the
    same result. `source`: the tensor whose elements `send` contains. `wire`: C's number. `title`:
    what all ranks must call it; None: as C does. `residual`: in host memory.
    """

    name: str
    send: torch.Tensor
    recv: torch.Tensor
    numbers: tuple[int, ...] = ()
    divisible: bool = False
    source: torch.Tensor | None = None
    wire: int = c.WIRE_DEFAULT
    title: bytes | None = None
    residual: torch.Tensor | None = None

    def begin(self, job: Job, request: Request, number: int, waits: bool = False) -> None:
        """Make it, as the request's call of this number."""
        if self.name == "sml_barrier":
            arguments: tuple = ()
        elif self.name == "sml_broadcast":
            arguments = (self.send.data_ptr(), *self.numbers)
        else:
            arguments = (self.send.data_ptr(), self.recv.data_ptr(), *self.numbers)
        kept = None if self.residual is None else self.residual.data_ptr()
        job._begin(request, number, self.name, arguments, waits, self.wire, self.title, kept)


def all_gather(send: torch.Tensor, recv: torch.Tensor, source: torch.Tensor) -> Call:
    numbers, title = _moved(send, "all_gather")
    return Call("sml_allgather", send, recv, numbers, False, source, title=title)


def broadcast(tensor: torch.Tensor, root: int, source: torch.Tensor | None = None) -> Call:
    numbers, title = _moved(tensor, "broadcast", root)
    return Call("sml_broadcast", tensor, tensor, numbers, True, source, title=title)


def _moved(one: torch.Tensor, name: str, *root: int) -> tuple[tuple[int, ...], bytes | None]:
    """How many elements of which type each rank has, as C knows them, and the root; and the call's
    title, if C has no name for the type."""
    if (kind := TYPES.get(one.dtype)) is not None:
        return (one.numel(), kind, *root), None
    text = f"{name} of {one.numel()} {describe([one])}" + "".join(f", root {r}" for r in root)
    return (one.nbytes, c.BYTE, *root), text.encode()


_NOTHING = torch.empty(0, device="cpu")


def barrier(name: str | None = None) -> Call:
    """With a name, it is the place of something that is no call of the C library."""
    return Call("sml_barrier", _NOTHING, _NOTHING, title=None if name is None else name.encode())


class Work(_Work, Untraced):
    """What torch.distributed returns: an object to wait for, to query, or to make a future of."""

    _only_overriding = True  # the others are called by the line
    _runs_on = "switchml"
    has_steps = False  # progress(), proceed() and synchronize() do something
    is_counted = True  # as a call that a user asked for
    late = False  # it cannot begin at once: device memory must be copied, or sizes compared first
    sizes: Any = None  # to compare before it begins (sizes.py)
    awaited = False  # the application waits for it next: the call may return when it has ended
    for_cpp = False  # its future holds a list of C++
    is_here = False  # in the application's thread (line.py)
    ended_here = False  # and before the application got it
    has_ended = False  # by end(); its callbacks may still run
    limit: float | None = None
    deadline: float | None = None
    begun_at = 0.0
    begin_error: BaseException | None = None
    when_ended: Callable[[Work], None] | None = None  # must never wait
    _range: Range | None = None
    _is_kept = False  # its promise is, or is being kept
    _end_signal: threading.Event | None = None  # made by the first who must wait
    _error: BaseException | None = None
    _promise: Promise | None = None
    _in_cpp: PromiseInCpp | None = None

    def __init__(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        calls: Sequence[Call],
        finish: Callable[[], None] | None = None,
        limit: float | None = None,
    ) -> None:
        _Work.__init__(self)  # super() takes longer
        self.name = name
        self.calls, self._finish = calls, finish
        self.requests: list[Request] = []
        if limit is not None:
            self.limit, self.deadline = limit, time.monotonic() + limit
        self._tensors = self._outputs = list(tensors)
        self._lock = threading.Lock()
        self.context, self.after = order_here()
        if is_profiled():
            self._range = Range(f"{self._runs_on}:{name}")

    # ---- by the line ----

    def begin(self, job: Job, waits: bool = False) -> None:
        """Make the C calls. `waits`: this thread waits for them next.

        Called again if the application was interrupted in here. What has been made stays.
        """
        calls, n_begun = self.calls, 0
        if not self.requests:
            self.begun_at = time.monotonic()
            if not calls:
                return
            self.requests = [Request(job, calls, None, len(calls))]
        else:
            n_begun = self.requests[0].n_begun
        for number in range(n_begun, len(calls)):
            calls[number].begin(job, self.requests[0], number, waits)

    def progress(self, index: int) -> None:
        """Request number `index` has succeeded."""

    def proceed(self) -> Callable[[], None] | None:
        """All requests have succeeded. Returns what else to wait for, in another thread."""
        return None

    @property
    def held(self) -> bool:
        """Whether callbacks that come before this work have not returned yet."""
        return any(not turn.closed for turn in self.after)

    def end(self, error: BaseException | None) -> Callable[[], None] | None:
        """End the work with this result. Called once, by the line.

        Returns a function that runs the application's callbacks. Another thread calls it, because
        they may wait.
        """
        if error is None:
            try:
                if self._finish is not None or self.has_steps:
                    self._complete()
            except Exception as failure:  # reported to the waiting caller
                error = failure
        self._error = error
        if self._range is not None:  # before waiting callers continue and possibly end the profile
            self._range.end()
        with self._lock:
            self.has_ended = True
            signal, promise = self._end_signal, self._promise
        if signal is not None:
            signal.set()
        self.requests, self.calls, self._finish = [], (), None
        if self.when_ended is not None:
            self.when_ended(self)
            self.when_ended = None
        return None if promise is None else functools.partial(self._keep, promise)

    def await_end(self, seconds: float | None = None) -> bool:
        """Wait for end(). False: it has not come within this time."""
        if self.has_ended:
            return True
        with self._lock:
            if self.has_ended:
                return True
            signal = self._end_signal = self._end_signal or threading.Event()
        return signal.wait(seconds)

    def _complete(self) -> None:
        if self._finish:
            self._finish()

    def _keep(self, promise: Promise) -> None:
        with self._lock:
            self._is_kept, in_cpp = True, self._in_cpp
        try:
            with self._streams():
                if in_cpp is not None:
                    in_cpp.keep(self._tensors)  # first: who has waited for ours may ask that one
                promise.keep(self._tensors)
        except Exception as failure:  # of the device's, for example: who waits must learn of it
            self._error = self._error or failure
            for its in (in_cpp, promise):
                if its is not None and not its.future.done():
                    its.keep(None)

    def _streams(self) -> Any:
        """The streams on which the tensors are ready: for the events of a future of device
        memory."""
        return contextlib.nullcontext()

    # ---- by the application, and by C++ ----

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return True when the tensors have their results; raise the error if the work failed.

        timeout 0 is the group's timeout. Any other timeout only ends the wait. No fence keeps
        torch.compile out: it can trace this, because no other thread changes what is read here.
        """
        if not self.ended_here or self._promise is not None:
            return self._wait(timeout)
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    wait._is_untraced = True  # type: ignore[attr-defined]

    @torch.compiler.disable
    def _wait(self, timeout: timedelta) -> bool:
        seconds = timeout.total_seconds()
        end = time.monotonic() + seconds if seconds > 0 else None
        if not self.await_end(None if end is None else seconds) or not self._await_future(end):
            raise TimedOutError(
                f"{self.name} has not ended after a timeout of {seconds:g} s; it goes on"
            )
        if self._error is not None:
            raise self._error.with_traceback(None)
        self.synchronize()
        return True

    def _await_future(self, end: float | None) -> bool:
        """False: it has no value at this time."""
        if self._promise is None:
            return True
        left = None if end is None else max(0.0, end - time.monotonic())
        return await_done(self._promise.future, left)

    def synchronize(self) -> None:
        """Tensors in the host's memory need nothing more."""

    def is_completed(self) -> bool:
        return self.has_ended and (self._promise is None or self._promise.future.done())

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        return self._error

    def result(self) -> list[torch.Tensor]:
        return self._tensors

    def get_future(self) -> torch.futures.Future:
        """A future with the tensors."""
        future = self._promised()
        if not self.for_cpp:
            return future
        if self._in_cpp is None:
            if self._devices:
                self.wait()  # a future of TorchScript knows no streams
            promise = PromiseInCpp(Promise(self._value, self._devices), self._outputs, future)
            with self._lock:
                self._in_cpp = self._in_cpp or promise
                is_late = self._is_kept and self._in_cpp is promise
            if is_late:
                promise.keep(self._tensors)
        return self._in_cpp.future

    @property
    def _devices(self) -> list[torch.device]:
        return sorted({t.device for t in self._tensors if is_accelerated(t)}, key=str)

    def _promised(self) -> torch.futures.Future:
        with self._lock:
            if self._promise is not None:
                return self._promise.future
            promise = self._promise = Promise(self._value, self._devices)
            ended = self.has_ended
        if ended:
            self._keep(promise)
        return promise.future

    def _value(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._tensors
