# SPDX-License-Identifier: BSD-3-Clause
"""Callbacks of futures: the order of the collectives that they begin.

All ranks must begin the same collectives in the same order. But if its future is already done,
a callback runs at then(); otherwise it runs later in another thread (threads.py). The
invariant: what a callback begins comes after everything that its thread began or attached
before then(), and before everything after that. This is as if the callback ran at then(), as
with NCCL's futures.

That holds for every future whose callbacks may come late because of ours: those of works, what
then() and collect_all() make of them, and any future that a callback may yet resolve.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ... import _library as c
from ..._settings import WIRES, Wire, one_of
from ..._wait import poll

_lock = threading.Lock()  # guards all contexts, turns and sources
_watchers: weakref.WeakSet[Any] = weakref.WeakSet()
# For each future: what resolves it, or leads to its resolution.
_sources: weakref.WeakKeyDictionary[Any, frozenset[Source]] = weakref.WeakKeyDictionary()
# For each future that holds a list of C++: the one of ours that it comes from.
_origins: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

_backward_pass = torch._C._current_graph_task_id
_future_then = torch._C.Future.then
_collect_all = torch._C._collect_all


class Source:
    """Something that may resolve futures, until it is closed."""

    def __init__(self) -> None:
        self.closed = False
        self._dependents: set[Turn] = set()

    def _close(self) -> None:
        self.closed = True
        dependents, self._dependents = self._dependents, set()
        for turn in dependents:
            turn._lose(self)


class Context:
    """Code that runs in one order: that of a thread, or that of one callback."""

    def __init__(self) -> None:
        self.open: set[Turn] = set()  # what it begins from now on comes after these turns
        self.of_backward = False  # what it begins belongs to a backward pass

    def within(self) -> set[Context]:
        """This context, and those whose then() led to it."""
        return {self}

    def earlier(self) -> set[Turn]:
        """The turns that come before what it begins now."""
        return set(self.open)


class _Here(threading.local):
    """In each thread: the context of the code that runs there, and what it resolves futures for."""

    def __init__(self) -> None:
        self.context = Context()
        self.kept: Source | None = None


_here = _Here()


class Turn(Context, Source):
    """A callback, in its place. Closed when the callback, and those that it attached, returned.

    Also closed if nothing is left that could run the callback: a future that nothing of ours
    resolves may wait for what comes after it.
    """

    _numbers = itertools.count()

    def __init__(self, future: Any, callback: Any, sources: Iterable[Source]) -> None:
        Context.__init__(self)
        Source.__init__(self)
        self._future: Any = future
        self._callback: Any = callback
        self._number = next(self._numbers)
        self._early: torch.futures.Future | None = None
        self._opener = opener = _here.context
        self._before = opener.earlier()
        self._left = set(sources)
        self._begun = self._returned = False
        self._within: Context | None = None  # what runs it
        for source in self._left:
            source._dependents.add(self)
        opener.open.add(self)

    def within(self) -> set[Context]:
        return {self} | self._opener.within()

    def earlier(self) -> set[Turn]:
        return {turn for turn in self.open | self._before if not turn.closed}

    def run(self, future: Any) -> Any:
        """Run the callback, or return what it has returned if it has been run early."""
        if self._early is None:
            return self._run(future)
        return self._early.value()

    def _run(self, future: Any) -> Any:
        with _lock:
            late = self.closed  # too late for a place of its own
            if not late:
                self._begin(_here.context)
            stuck = [] if late else self._stuck_behind_this()
        for turn in stuck:
            turn._run_early()
        outer = _here.context
        if not late:
            _here.context = self
        try:
            return self._callback(future)
        finally:
            _here.context = outer
            self._callback = self._future = None  # they may hold tensors
            with _closing():
                self._returned = True
                self._close_if_over()

    def _begin(self, runner: Context) -> None:
        """A callback that resolves the future runs this one, and cannot return before it."""
        self._begun, self._within = True, runner
        while isinstance(runner, Turn):
            self._before.discard(runner)
            assert runner._within is not None
            runner = runner._within

    def _stuck_behind_this(self) -> list[Turn]:
        """Turns that come before this one, though this thread would run them after it."""
        kept = _here.kept
        stuck = [t for t in self._before if not t._begun and kept in t._left]
        # What cannot run yet must come after this one instead.
        self._before.difference_update(t for t in stuck if not t._future.done())
        return sorted((t for t in stuck if t._future.done()), key=lambda turn: turn._number)

    def _run_early(self) -> None:
        early: torch.futures.Future = torch.futures.Future()
        try:
            early.set_result(self._run(self._future))
        except Exception as error:  # raised where PyTorch runs the callback
            early.set_exception(error)
        self._early = early

    def _lose(self, source: Source) -> None:
        self._left.discard(source)
        if not (self._left or self._begun):
            self._returned = True
            self._close_if_over()

    def _close_if_over(self) -> None:
        if self.closed or self.open or not self._returned:
            return
        for source in self._left:
            source._dependents.discard(self)
        self._left, self._before = set(), set()
        self._opener.open.discard(self)
        self._close()
        if isinstance(self._opener, Turn):
            self._opener._close_if_over()


@contextlib.contextmanager
def _closing() -> Iterator[None]:
    """Holds the lock, and then tells the watchers that turns may have closed."""
    with _lock:
        yield
        watchers = list(_watchers)
    for watcher in watchers:
        watcher.turns_have_closed()


def in_backward() -> bool:
    """Whether a call made here adds gradients: in a backward pass, or in what it has attached."""
    return _backward_pass() != -1 or _here.context.of_backward


@contextlib.contextmanager
def as_in_backward() -> Iterator[None]:
    """What begins here belongs to a backward pass of other ranks."""
    here = _here.context
    outer, here.of_backward = here.of_backward, True
    try:
        yield
    finally:
        here.of_backward = outer


def _of_backward(callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """It belongs to the pass in which it is attached, in whichever thread it runs."""

    def run(future: Any) -> Any:
        with as_in_backward():
            return callback(future)

    return run


def wire_of(wire: Wire | None = None) -> int:
    """C's number for a sum: without a wire, sums of gradients may be less exact than others."""
    if wire is not None:
        return one_of("wire", wire, WIRES)
    return c.WIRE_GRADIENT if in_backward() else c.WIRE_DEFAULT


def order_here() -> tuple[Context, tuple[Turn, ...]]:
    """The context of a call made here, and the turns that must be closed before it begins."""
    here = _here.context
    if type(here) is Context and not here.open:  # only this thread adds turns
        return here, ()
    with _lock:
        return here, tuple(here.earlier())


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
        self.future = _future_then(self._inner, value)
        self._source = Source()
        _sources[self.future] = frozenset({self._source})

    def keep(self, value: Any) -> None:
        """Resolve the future and run its callbacks, in a thread where they may wait."""
        outer, _here.kept = _here.kept, self._source
        try:
            self._inner.set_result(value)
        finally:
            _here.kept = outer
            with _closing():
                self._source._close()


def await_done(future: Any, seconds: float | None) -> bool:
    """Wait until the future has its value or its error, but not for its callbacks. False: it has
    neither after this time.

    A promise is kept in another thread than the end of the work. Who has waited for a work of Gloo
    or NCCL may ask its future for the value at once, as torchft does.
    """
    if seconds is not None:
        return poll(future.done, seconds)
    if not future.done():
        with contextlib.suppress(Exception):  # it is the work's
            future.wait()
    return True


# ---- what is attached to futures ----


def attach_instead(future: Any, origin: Any) -> None:
    """Callbacks of `future`, which comes from `origin`, are attached to that instead."""
    _origins[future] = origin


def _sources_of(future: Any) -> frozenset[Source]:
    """The lock is held. A future that is not ours may be resolved by callbacks under way."""
    found = _sources.get(future)
    return frozenset(_here.context.earlier()) if found is None else found


def then_compute(future: Any, callback: Callable[[Any], Any]) -> Any:
    """then() for a callback that begins nothing: no call waits until it has returned."""
    future = _origins.get(future, future)
    with _lock:
        sources = _sources_of(future)
    following = _future_then(future, callback)
    if sources:
        _sources[following] = sources
    return following


def _computes(callback: Any) -> bool:
    """Is it one of PyTorch's functions of default_hooks that only compute?

    Buckets need not wait for those. The code decides, and not the name of a module, which a
    decorated function may have from another one. What is chained on them has its place.
    """
    code = getattr(callback, "__code__", None)
    hooks = sys.modules.get("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    return code is not None and hooks is not None and code in _codes_of(hooks)


@functools.cache
def _codes_of(hooks: types.ModuleType) -> frozenset[types.CodeType]:
    """The functions of a future in its functions: decompress(fut), lambda fut: …"""

    def nested(code: types.CodeType) -> Iterator[types.CodeType]:
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                yield part
                yield from nested(part)

    outer = [f for f in vars(hooks).values() if isinstance(f, types.FunctionType)]
    return frozenset(
        code
        for function in outer
        if function.__module__ == hooks.__name__
        for code in nested(function.__code__)
        if code.co_varnames[: code.co_argcount] == ("fut",)
    )


def _in_turn(original: Any) -> Any:
    def attach(self: Any, callback: Any) -> Any:
        self = _origins.get(self, self)
        computes = _computes(callback)
        if not computes and in_backward():
            callback = _of_backward(callback)
        with _lock:
            sources = _sources_of(self)
            left = [source for source in sources if not source.closed]
            turn = Turn(self, callback, left) if left and not computes else None
        following = original(self, callback if turn is None else turn.run)
        if following is not None and left:
            _sources[following] = sources
        return following

    attach.__doc__ = original.__doc__
    return torch.compiler.disable(attach)


def _collect(futures: Any) -> Any:
    futures = [_origins.get(future, future) for future in futures]
    with _lock:
        sources = frozenset().union(*(_sources_of(future) for future in futures))
    collected = _collect_all(futures)
    if sources:
        _sources[collected] = sources
    return collected


def order_callbacks() -> None:
    """From now on. C++ does not call these methods, so callbacks attached by DDP delay nothing."""
    for name in ("then", "add_done_callback"):
        setattr(torch._C.Future, name, _in_turn(getattr(torch._C.Future, name)))
    torch._C._collect_all = _collect
