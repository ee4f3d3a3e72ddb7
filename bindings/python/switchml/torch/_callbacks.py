# SPDX-License-Identifier: BSD-3-Clause
"""Callbacks of futures: which thread runs them, and the order of the collectives they begin.

A callback may wait for another collective, so it does not run in the thread that completes
collectives (_line.py). A callback may also begin collectives, and all ranks must begin the
same ones in the same order. But if its future is already done, a callback runs at then();
otherwise it runs later in another thread. The invariant: what a thread begins after then()
comes after everything that the callback begins, on every rank. This is as if the callback ran
at then(), as with NCCL's futures.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

_lock = threading.Lock()  # guards all contexts and turns
_here = threading.local()
_turns: weakref.WeakKeyDictionary[Any, Turn] = weakref.WeakKeyDictionary()
_watchers: weakref.WeakSet[Any] = weakref.WeakSet()

# Their callbacks compute and begin nothing, so buckets need not wait for each other.
_BEGIN_NOTHING = {
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    f"{__package__}.hooks",
}


class Context:
    """Code that runs in one order: that of a thread, or that of one future's callbacks."""

    def __init__(self) -> None:
        self.open: set[Turn] = set()  # what it begins comes after these turns

    def within(self) -> set[Context]:
        """This context, and those whose then() led to it."""
        return {self}


class Turn(Context):
    """The callbacks of a future. Closed when they, and those of what they began, have returned."""

    def __init__(self) -> None:
        super().__init__()
        self._openers: list[Context] = []
        self._returned = False
        self.closed = False

    def within(self) -> set[Context]:
        found: set[Context] = {self}
        for opener in self._openers:
            found |= opener.within()
        return found

    def open_in(self, context: Context) -> None:
        with _lock:
            if not self._returned and self not in context.open:
                self._openers.append(context)
                context.open.add(self)

    def run(self, resolve: Callable[[], None]) -> None:
        """Resolve the future, with its callbacks, in this thread."""
        outer, _here.context = context(), self
        try:
            resolve()
        finally:
            _here.context = outer
            with _lock:
                self._returned = True
                self._close()
                watchers = list(_watchers)
            for watcher in watchers:
                watcher.turns_have_closed()

    def _close(self) -> None:
        if self.closed or self.open or not self._returned:
            return
        self.closed = True
        openers, self._openers = self._openers, []
        for opener in openers:
            opener.open.discard(self)
            if isinstance(opener, Turn):
                opener._close()


def context() -> Context:
    """The context of the code that runs here."""
    found = getattr(_here, "context", None)
    if found is None:
        found = _here.context = Context()
    return found


def open_turns() -> tuple[Turn, ...]:
    """The turns that must be closed before a call made here begins."""
    with _lock:
        return tuple(context().open)


def watch(watcher: Any) -> None:
    """Call its turns_have_closed() whenever turns may have closed."""
    with _lock:
        _watchers.add(watcher)


class Promise:
    """A future of value(result), where `result` is the result of the promise.

    C++ would treat Future.set_exception() as a value, and DDP would use it as a gradient. An
    exception of `value` is an error in this future, too.
    """

    def __init__(self, value: Callable[[torch.futures.Future], Any], devices: list) -> None:
        self._inner: torch.futures.Future = torch.futures.Future(devices=devices)
        self.future = self._inner.then(value)
        self._turn = _turns[self.future] = Turn()

    def keep(self, value: Any) -> None:
        """Resolve the future and run its callbacks, in a thread where they may wait."""
        self._turn.run(lambda: self._inner.set_result(value))


def _seen(original: Any) -> Any:
    def attach(self: Any, callback: Any) -> Any:
        turn = _turns.get(self)
        if turn is not None and getattr(callback, "__module__", None) not in _BEGIN_NOTHING:
            turn.open_in(context())
        return original(self, callback)

    attach.__doc__ = original.__doc__
    return torch.compiler.disable(attach)


# C++ does not call these methods, so callbacks attached by DDP delay nothing.
for _name in ("then", "add_done_callback"):
    setattr(torch._C.Future, _name, _seen(getattr(torch._C.Future, _name)))


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
