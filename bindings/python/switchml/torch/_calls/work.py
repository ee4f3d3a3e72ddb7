# SPDX-License-Identifier: BSD-3-Clause
"""One collective of a process group, from the call to its end.

Threads are in line.py, and the memory of tensors is in _group/group.py. The invariant: the line
holds a work until it has ended. So a work that the application has dropped still ends, and so
does its future.
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

from ... import _library as c
from ..._untraced import Untraced
from ...errors import TimedOutError
from ...job import Job, Request
from .callbacks import Promise, await_done, context, open_turns, wire_of
from .cpp_futures import PromiseInCpp
from .profiler import range_of
from .tensors import TYPES, describe, is_accelerated


@dataclass(slots=True)  # not frozen, which makes creating one take three times as long
class Call:
    """A call of the C library: its name, its buffers, and its other arguments before the options.

    send and recv are contiguous and may be the same. `divisible`: calling it for pieces gives the
    same result. `source`: the tensor whose elements `send` contains. `wire`: C's number. `title`:
    what all ranks must call it; None: as C does. `residual`: in host memory.
    """

    name: str
    send: torch.Tensor
    recv: torch.Tensor
    arguments: Callable[[torch.Tensor, torch.Tensor], tuple]
    divisible: bool = False
    source: torch.Tensor | None = None
    wire: int = c.WIRE_DEFAULT
    title: bytes | None = None
    residual: torch.Tensor | None = None

    @property
    def is_place(self) -> bool:
        return self.name == "barrier" and self.title is not None

    @property
    def n_bytes(self) -> int:
        return max(self.send.nbytes, self.recv.nbytes)

    def begin(self, job: Job, request: Request, number: int, waits: bool = False) -> None:
        """Make it, as the request's call of this number."""
        arguments = self.arguments(self.send, self.recv)
        kept = None if self.residual is None else self.residual.data_ptr()
        job._begin(request, number, self.name, arguments, waits, self.wire, self.title, kept)


def title_of(one: torch.Tensor, text: str) -> bytes | None:
    """The title of a call that moves such elements: `text`, if C has no name for their type."""
    return None if one.dtype in TYPES else text.encode()


def counted(one: torch.Tensor) -> tuple[int, int]:
    """How many elements of which type each rank has, as C knows them. See title_of()."""
    kind = TYPES.get(one.dtype)
    return (one.nbytes, c.BYTE) if kind is None else (one.numel(), kind)


def all_gather(send: torch.Tensor, recv: torch.Tensor, source: torch.Tensor) -> Call:
    count = counted(send)

    def arguments(send: torch.Tensor, recv: torch.Tensor) -> tuple:
        return send.data_ptr(), recv.data_ptr(), *count

    title = title_of(send, f"all_gather of {send.numel()} {describe([send])}")
    return Call("allgather", send, recv, arguments, source=source, title=title)


def broadcast(tensor: torch.Tensor, root: int, source: torch.Tensor | None = None) -> Call:
    def arguments(send: torch.Tensor, recv: torch.Tensor) -> tuple:
        return send.data_ptr(), *counted(send), root

    title = title_of(tensor, f"broadcast of {tensor.numel()} {describe([tensor])}, root {root}")
    return Call("broadcast", tensor, tensor, arguments, divisible=True, source=source, title=title)


def place(name: str) -> Call:
    """A barrier with a name: the place of something that is no call of the C library."""
    nothing = torch.empty(0, device="cpu")
    return Call("barrier", nothing, nothing, lambda send, recv: (), title=name.encode())


def request_of(job: Job, calls: Sequence[Call]) -> Request:
    """A request for these calls, which have not been made."""
    return Request(job, [(call.send, call.recv, call.residual) for call in calls], None, len(calls))


class Work(_Work, Untraced):
    """What torch.distributed returns: an object to wait for, to query, or to make a future of."""

    _only_overriding = True  # the others are called by the line
    _runs_on = "switchml"
    late = False  # it cannot begin at once: device memory must be copied, or sizes compared first
    sizes: Any = None  # to compare before it begins (sizes.py)
    awaited = False  # the application waits for it next: the call may return when it has ended
    for_cpp = False  # its future holds a list of C++
    is_here = has_turn = False  # in the application's thread; and no later work may begin (line.py)
    limit: float | None = None
    deadline: float | None = None
    after: Sequence[Any] = ()
    begin_error: BaseException | None = None
    when_ended: Callable[[Work], None] | None = None  # must never wait
    _calls: Sequence[Call] = ()
    _finish: Callable[[], None] | None = None
    _devices: Sequence[torch.device] = ()
    _range: Any = None
    _has_ended = _is_kept = False  # it has; and its promise is kept, or is being kept
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
        super().__init__()
        self.name = name
        self._calls, self._finish = calls, finish
        self.begun_at = 0.0
        self.requests: list[Request] = []
        if limit is not None:
            self.limit, self.deadline = limit, time.monotonic() + limit
        self._tensors = self._outputs = list(tensors)
        if devices := {t.device for t in tensors if is_accelerated(t)}:
            self._devices = sorted(devices, key=str)
        self._lock = threading.Lock()
        self.context = context()
        self.after = open_turns()
        self._range = range_of(f"{self._runs_on}:{name}")

    # ---- by the line ----

    def begin(self, job: Job, waits: bool = False) -> None:
        """Make the C calls. `waits`: this thread waits for them next.

        Called again if the application was interrupted in here. What has been made stays.
        """
        if not self.requests:
            self.begun_at = time.monotonic()
        self._make_calls(job, waits)

    def _make_calls(self, job: Job, waits: bool) -> None:
        """Make those of the C calls that have not been made."""
        if not self._calls:
            return
        if not self.requests:
            self.requests = [request_of(job, self._calls)]
        (request,) = self.requests
        for number in range(request.n_begun, len(self._calls)):
            self._calls[number].begin(job, request, number, waits)

    @property
    def moved(self) -> list[tuple[str, int]]:
        """The calls of the C library that a user asked for, and their bytes."""
        return [(call.name, call.n_bytes) for call in self._calls if not call.is_place]

    def progress(self, index: int) -> None:
        """Request number `index` has succeeded."""

    def proceed(self) -> Callable[[], None] | None:
        """All requests have succeeded. Returns what else to wait for, in another thread."""
        return None

    @property
    def has_ended(self) -> bool:
        """Whether end() has ended it; its callbacks may still run."""
        return self._has_ended

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
                self._complete()
            except Exception as failure:  # reported to the waiting caller
                error = failure
        self._error = error
        if self._range is not None:  # before waiting callers continue and possibly end the profile
            self._range.end()
        with self._lock:
            self._has_ended = True
            signal, promise = self._end_signal, self._promise
        if signal is not None:
            signal.set()
        self.requests, self._calls, self._finish = [], (), None
        if self.when_ended is not None:
            self.when_ended(self)
            self.when_ended = None
        return None if promise is None else lambda: self._keep(promise)

    def await_end(self, seconds: float | None = None) -> bool:
        """Wait for end(). False: it has not come within this time."""
        if self._has_ended:
            return True
        with self._lock:
            if self._has_ended:
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

        timeout 0 is the group's timeout. Any other timeout only ends the wait.
        """
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
        return self._has_ended and (self._promise is None or self._promise.future.done())

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

    def _promised(self) -> torch.futures.Future:
        with self._lock:
            if self._promise is not None:
                return self._promise.future
            promise = self._promise = Promise(self._value, self._devices)
            ended = self._has_ended
        if ended:
            self._keep(promise)
        return promise.future

    def _value(self, _: torch.futures.Future) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._tensors


class Prompt(Work):
    """A collective that the application awaits, and that has ended when the application gets it
    (Line.try_run).

    Its constructor does much less than that of Work: what a call in progress needs is made when
    the call does not end at once, or when it is asked for. Calls of few bytes take little longer
    than this. `call`: its name in C, and its arguments; `n_bytes` is what it moves.
    """

    awaited = True
    keep: Any = None  # the tensors whose memory C uses

    def __init__(
        self, name: str, tensors: list[torch.Tensor], n_bytes: int, call: tuple[str, tuple]
    ) -> None:
        _Work.__init__(self)
        self.name, self.call, self._n_bytes = name, call, n_bytes
        self._tensors = self._outputs = tensors
        self._wire = wire_of()  # only sums look at it
        self._lock = threading.Lock()
        self.requests = []

    @property
    def moved(self) -> list[tuple[str, int]]:
        return [(self.call[0], self._n_bytes)]

    def begin(self, job: Job, waits: bool = False) -> None:
        if not self.requests:
            self.begun_at = time.monotonic()
            self.requests = [Request(job, self.keep, None)]
        (request,) = self.requests
        if not request.n_begun:
            job._begin(request, 0, *self.call, waits, self._wire)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """As Work.wait(), but so short that torch.compile can trace it: no fence keeps it out."""
        if not self._has_ended or self._promise is not None:
            return super().wait(timeout)  # the application was interrupted, and its call goes on
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    wait._is_untraced = True  # type: ignore[attr-defined]
