# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that run on Gloo: their place in the order of the job's calls.

    put() -> barrier, named after the call -> all ranks make this call -> Gloo -> ended

The barrier ends when all ranks make the same call. If another rank makes another call, on the
switch or on Gloo, both are told at once. Gloo would wait until its timeout, add different calls
to each other, or end the process ("op.preamble.length <= op.nbytes"). In calls whose sizes may
differ, ranks also tell each other theirs, in an all-gather instead of the barrier (sizes.py). The
invariant: Gloo begins a collective only when all ranks make it, and in the order of the job.

Sends and receives are not here: two ranks make them, and Gloo matches them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch.distributed import ReduceOp
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import TimedOutError
from ...job import Job
from .line import Line
from .sizes import NAMES, Sizes
from .tensors import Begun, describe, is_accelerated, on_stream, tensors_in
from .work import Work, barrier

# Up to 2.8 its reduce_scatter ignores the operation. 2.13 computes it; others were not tried.
_ONLY_ADDS = torch.__version__ < (2, 13)
# The argument whose elements all ranks have equally many of. Those of others are in sizes.py.
_EQUAL = {
    "allreduce": 0,
    "allreduce_coalesced": 0,
    "reduce": 0,
    "broadcast": 0,
    "allgather_coalesced": 1,
    "all_gather_single": 1,
    "all_gather_single_coalesced": 1,
    "reduce_scatter_single": 1,
    "reduce_scatter_single_coalesced": 1,
    "gather_single": 1,
}
# One tensor has the parts of all ranks, side by side.
_OF_PARTS = {
    "all_gather_single",
    "all_gather_single_coalesced",
    "gather_into_tensor",
    "gather_single",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
}


def with_dimensions(name: str, arguments: Any) -> Any:
    """The same arguments, where dense tensors without dimensions have one, if the call needs it.

    Where one tensor has the parts of all ranks, Gloo looks for the first dimension of the others,
    and ends the process if there is none. Its works of these calls have no result whose shape
    could differ. All other calls take tensors without dimensions, and return them.
    """
    return _widened(arguments) if name in _OF_PARTS else arguments


def _widened(arguments: Any) -> Any:
    if isinstance(arguments, torch.Tensor):
        is_bare = arguments.layout is torch.strided and arguments.dim() == 0
        return arguments.view(1) if is_bare else arguments
    if isinstance(arguments, (list, tuple)):
        return [_widened(argument) for argument in arguments]
    return arguments


def name_of(name: str, arguments: Sequence[Any]) -> str:
    """The call in words, the same on all ranks: "reduce of 4 int64, PRODUCT, root 1"."""
    tensors = _equal_in(name, arguments)
    if not tensors:
        return f"{name} on Gloo"
    return f"{_text_of(name, arguments, tensors)}, on Gloo"


def _equal_in(name: str, arguments: Sequence[Any]) -> list[torch.Tensor]:
    equal = _EQUAL.get(name)
    return tensors_in(arguments if equal is None else arguments[equal])


def _text_of(name: str, arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> str:
    op, root = _op_in(arguments), _root_in(arguments)
    count = f"{sum(t.numel() for t in tensors)} " if name in _EQUAL else ""
    where = "" if root is None else f", root {root}"
    return f"{name} of {count}{describe(tensors, op)}{where}"


def _op_in(arguments: Sequence[Any]) -> ReduceOp | None:
    for argument in arguments:
        if isinstance(found := getattr(argument, "reduceOp", argument), ReduceOp):
            return found if hasattr(found, "op") else ReduceOp(found)
    return None


def _root_in(arguments: Sequence[Any]) -> int | None:
    for argument in arguments:
        root = getattr(argument, "rootRank", argument)
        if isinstance(root, int) and not isinstance(root, bool):
            return root
    return None


def check(name: str, arguments: Sequence[Any]) -> None:
    """Refuse what Gloo does not compute, though it may return as if it had."""
    op = _op_in(arguments)
    if op is None:
        return
    tensors, why = tensors_in(arguments), None
    if op.op == ReduceOp.PREMUL_SUM:
        why = "Gloo does not multiply: multiply the tensor, and use SUM"
    elif op.op == ReduceOp.AVG and tensors and tensors[0].dtype is torch.bool:
        why = "bool has no average: use SUM, MAX or MIN"
    elif name.startswith("reduce_scatter") and op.op != ReduceOp.SUM and _ONLY_ADDS:
        why = f"Gloo of PyTorch {torch.__version__} only adds: use SUM, or PyTorch 2.13"
    if why:
        raise NotImplementedError(f"{name} of {describe(tensors, op)} is not computed: {why}")


class Modes:
    """What a thread has set for what it calls, for a call that another thread makes for it."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._inference = torch.is_inference_mode_enabled()
        self._grad = torch.is_grad_enabled()
        devices = {t.device for t in tensors if is_accelerated(t)}
        self._streams = [torch.accelerator.current_stream(device) for device in devices]

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            if torch._C._len_torch_dispatch_stack():  # they have seen the call
                stack.enter_context(_disable_current_modes())
            stack.enter_context(torch.inference_mode(self._inference))
            stack.enter_context(torch.set_grad_enabled(self._grad))
            for stream in self._streams:
                stack.enter_context(on_stream(stream))
            yield


class Elsewhere(Work):
    """A collective on Gloo. `call` begins it (tensors.on_dense)."""

    _runs_on = "gloo"
    is_counted = False  # in here: the group counts it when it is made
    has_steps = True

    def __init__(
        self,
        name: str,
        arguments: Sequence[Any],
        call: Callable[[Begun], Any],
        limit: float | None,
        among: tuple[int, int],
        sizes: Sizes | None = None,
    ) -> None:
        title = name_of(name, arguments)
        self._sizes = sizes
        if sizes is None and name in NAMES:
            self._sizes = Sizes(name, title, arguments, _root_in(arguments), among)
        its_place = barrier(title) if self._sizes is None else self._sizes.call
        self._call: Callable[[Begun], Any] | None = call
        self._begun = Begun()
        tensors = tensors_in(arguments)
        super().__init__(name, tensors, [its_place], None, limit)
        self._outputs = tensors_in(arguments[:1])
        self._modes = Modes(tensors)

    def begin(self, job: Job, waits: bool = False) -> None:
        if not self.requests:
            job.count_elsewhere("Gloo")
        super().begin(job, waits)

    def proceed(self) -> Callable[[], None] | None:
        if self._sizes is not None:
            self._sizes.check()
        if not self._begun.works:  # otherwise the caller was interrupted after this
            assert self._call is not None
            # The application's thread has its own modes.
            here = self.is_here and not torch._C._len_torch_dispatch_stack()
            with contextlib.nullcontext() if here else self._modes():
                self._call(self._begun)
        return self._finish_there if self._begun.copies else self._inner.wait

    def _finish_there(self) -> None:
        with self._modes():
            self._begun.finish()

    @property
    def _inner(self) -> Any:
        return self._begun.works[0]

    def end(self, error: BaseException | None) -> Callable[[], None] | None:
        self._call = None
        self._begun.copies = []
        return super().end(error)

    def synchronize(self) -> None:
        if self._devices and self._begun.works:
            self._inner.wait()  # has ended: now this thread's streams wait for Gloo's

    def result(self) -> list[torch.Tensor]:
        result: list[torch.Tensor] = self._inner.result()
        return result

    def _value(self, _: torch.futures.Future) -> Any:
        if self._error is not None:
            raise self._error
        try:
            future = self._inner.get_future()
        except RuntimeError:  # works of Gloo's reduce_scatter have none
            return self._outputs
        return future.value()


class Monitored:
    """A barrier that finds missing ranks, so it cannot wait until none is missing.

    It runs in its own thread, beside the barrier that has its place in the job's order. The first
    of the two that fails tells the caller why.

    Gloo numbers its calls, so on every rank it begins what was called earlier before this. It may
    wait half of the timeout for that: a rank that is missing in an earlier call is named, too.
    """

    def __init__(
        self, line: Line, on_gloo: Callable[[timedelta], None], timeout: timedelta
    ) -> None:
        self._on_gloo, self._timeout = on_gloo, timeout
        self._earlier = Work("monitored_barrier", [], [])  # ends when its turn comes
        self._work = Work("monitored_barrier", [], [barrier("monitored_barrier on Gloo")])
        self._earlier.is_counted = self._work.is_counted = False
        line.put(self._earlier)
        self._changed = threading.Event()
        self._error: BaseException | None = None
        self._passed = False
        self._work.when_ended = lambda _: self._changed.set()
        line.put(self._work)

    def _watch(self) -> None:
        try:
            self._on_gloo(self._left())
            self._passed = True
        except BaseException as failure:  # raised by run()
            self._error = failure
        self._changed.set()

    def _left(self) -> timedelta:
        try:  # 0 would be the group's timeout
            self._earlier.wait(max(self._timeout / 2, timedelta(microseconds=1)))
        except TimedOutError:
            return self._timeout / 2
        return self._timeout

    def run(self) -> None:
        threading.Thread(target=self._watch, name="switchml-monitor", daemon=True).start()
        while not self._passed:
            self._changed.wait()
            self._changed.clear()
            if self._error is not None:
                raise self._error
            if self._work.is_completed():
                self._work.wait()  # raises, if ranks made different calls
        self._work.wait()
