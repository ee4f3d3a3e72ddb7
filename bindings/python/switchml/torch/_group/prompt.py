# SPDX-License-Identifier: BSD-3-Clause
"""The short way of most calls: one contiguous tensor in the host's memory, awaited at once.

    group.allreduce -> prompt -> Line.hurry -> C
                           \\-> the group's own method, for everything else

Calls of few bytes take little longer on one host than what Python does for them, so every check
here is made once, and in its cheapest form. The invariant: the short way makes the same call of C
as the group's own method would, so ranks may go different ways. Each function here returns a work
that has ended, or None if its call must go the long way; it has then changed nothing.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from torch.distributed import ReduceOp

from ... import _library as c
from ..._tensor_memory import is_host_memory
from .._calls.one_host import passed
from .._calls.tensors import TYPES
from .._calls.work import Prompt, counted, rooted_text
from .lists import is_one_call

_NONE = timedelta(0)
# PyTorch's operations, and C's. Compared one after the other here, because PyTorch takes long to
# hash them; most calls add.
OPS = (
    (ReduceOp.SUM, c.SUM),
    (ReduceOp.AVG, c.AVG),
    (ReduceOp.MAX, c.MAX),
    (ReduceOp.MIN, c.MIN),
)
_enabled = torch.autograd._profiler_enabled
_modes = torch._C._len_torch_dispatch_stack


def _is_prompt(group: Any, opts: Any, kind: type) -> bool:
    """Whether the caller awaits the call, with the group's own settings, and nothing watches."""
    names = group._names
    return (
        type(opts) is kind
        and not opts.asyncOp
        and names is not None
        and names.get("cpu", "switchml") == "switchml"
        and group._shorter_s is None
        and not opts.timeout > _NONE
        and not _enabled()
        and not _modes()
    )


def _single(tensors: Any) -> torch.Tensor | None:
    """The only tensor, if C can take its memory as it is."""
    if type(tensors) is not list or len(tensors) != 1:
        return None
    tensor = tensors[0]
    return tensor if isinstance(tensor, torch.Tensor) and _is_taken(tensor) else None


def _is_taken(tensor: torch.Tensor) -> bool:
    return is_host_memory(tensor) and tensor.is_contiguous()


def _numbers(tensor: torch.Tensor, op: ReduceOp) -> tuple[int, int] | None:
    """Those of C for the type and the operation."""
    kind = TYPES.get(tensor.dtype)
    if kind is None:
        return None
    for theirs, ours in OPS:
        if op == theirs:
            return None if kind == c.BOOL and ours == c.AVG else (kind, ours)
    return None


def _allreduce(group: Any, tensors: Any, opts: Any) -> Prompt | None:
    tensor = _single(tensors)
    if tensor is None or not _is_prompt(group, opts, AllreduceOptions):
        return None
    numbers = _numbers(tensor, opts.reduceOp)
    if numbers is None:
        return None
    address = tensor.data_ptr()
    call = ("allreduce", (address, address, tensor.numel(), *numbers, None))
    work = Prompt("all_reduce", [tensor], tensor.nbytes, call)
    return work if group._line.hurry(work, tensor) else None


def _reduce(group: Any, tensors: Any, opts: Any) -> Prompt | None:
    tensor = _single(tensors)
    if tensor is None or not _is_prompt(group, opts, ReduceOptions):
        return None
    numbers = _numbers(tensor, opts.reduceOp)
    if numbers is None:
        return None
    address = tensor.data_ptr()
    call = ("reduce", (address, address, tensor.numel(), *numbers, opts.rootRank, None))
    work = Prompt("reduce", [tensor], tensor.nbytes, call)
    return work if group._line.hurry(work, tensor) else None


def _broadcast(group: Any, tensors: Any, opts: Any) -> Prompt | None:
    tensor = _single(tensors)
    if tensor is None or not _is_prompt(group, opts, BroadcastOptions):
        return None
    kind = TYPES.get(tensor.dtype)
    if kind is None:
        return None
    call = ("broadcast", (tensor.data_ptr(), tensor.numel(), kind, opts.rootRank))
    work = Prompt("broadcast", [tensor], tensor.nbytes, call)
    return work if group._line.hurry(work, tensor) else None


def _barrier(group: Any, opts: Any) -> Prompt | None:
    if not _is_prompt(group, opts, BarrierOptions):
        return None
    if (device := opts.device) is not None and device.type != "cpu":
        return None
    work = Prompt("barrier", [], 0, ("barrier", ()))
    return work if group._line.hurry(work, None) else None


def _are_parts(group: Any, part: Any, whole: Any) -> bool:
    """Whether `whole` has one `part` for each rank, and C can take both."""
    if not isinstance(part, torch.Tensor) or not isinstance(whole, torch.Tensor):
        return False
    job = group._line.job
    return (
        job is not None
        and part.dtype == whole.dtype
        and part.numel() * job.world_size == whole.numel()
        and _is_taken(part)
        and _is_taken(whole)
    )


def _all_gather(group: Any, output: Any, input: Any, opts: Any) -> Prompt | None:
    if not _is_prompt(group, opts, AllgatherOptions) or not _are_parts(group, input, output):
        return None
    kind = TYPES.get(input.dtype)
    if kind is None:
        return None
    call = ("allgather", (input.data_ptr(), output.data_ptr(), input.numel(), kind))
    work = Prompt("all_gather_single", [output], output.nbytes, call)
    return work if group._line.hurry(work, (input, output)) else None


def _reduce_scatter(group: Any, output: Any, input: Any, opts: Any) -> Prompt | None:
    if not _is_prompt(group, opts, ReduceScatterOptions) or not _are_parts(group, output, input):
        return None
    numbers = _numbers(input, opts.reduceOp)
    if numbers is None:
        return None
    arguments = (input.data_ptr(), output.data_ptr(), output.numel(), *numbers, None)
    work = Prompt("reduce_scatter_single", [output], input.nbytes, ("reduce_scatter", arguments))
    return work if group._line.hurry(work, (input, output)) else None


# ---- lists (lists.py) ----


def _addresses(job: Any, lists: Any, one: torch.Tensor, root: int) -> list[int] | None:
    """Of root's tensors, one for each rank; on other ranks, which have none, []."""
    if not 0 <= root < job.world_size:
        return None
    if root != job.rank:
        return [] if type(lists) is list and not lists else None
    if type(lists) is not list or len(lists) != 1 or len(lists[0]) != job.world_size:
        return None
    dtype, shape = one.dtype, one.shape
    for part in lists[0]:
        if not isinstance(part, torch.Tensor) or part.dtype is not dtype or part.shape != shape:
            return None
        if not _is_taken(part):
            return None
    return [part.data_ptr() for part in lists[0]]


class _Rooted:
    """A gather or a scatter: this rank's tensor, and the addresses of root's."""

    whole: torch.Tensor | None = None  # C uses its memory, also after Ctrl-C

    def __init__(
        self,
        name: str,
        job: Any,
        one: torch.Tensor,
        root: int,
        addresses: list[int],
        at_once: bool,
    ) -> None:
        self.rank, self.size = job.rank, job.world_size
        self.root, self.addresses, self.is_root = root, addresses, root == job.rank
        self.name, self.one, self.own, self.n_bytes = name, one, one.data_ptr(), one.nbytes
        self.n_all = self.size * self.n_bytes
        self.is_one_call = at_once

    @property
    def title(self) -> bytes | None:
        """As the long way has it."""
        if self.is_one_call and self.one.dtype in TYPES:
            return None
        return rooted_text(self.name, self.one, self.root).encode()

    @property
    def counted(self) -> tuple[int, int, int]:
        return *counted(self.one), self.root

    def are_joined(self) -> bool:
        """Whether root's parts are one piece of memory, which C can take as it is."""
        start, end = self.addresses[0], self.addresses[0] + self.n_all
        place = start + self.root * self.n_bytes
        return self.addresses == list(range(start, end, self.n_bytes or 1)) and (
            self.own == place or self.own >= end or self.own + self.n_bytes <= start
        )

    def join(self) -> int:
        """The address of memory for the parts of all, which root copies to or from its own."""
        self.whole = torch.empty(self.n_all, dtype=torch.uint8, device="cpu")
        return self.whole.data_ptr()

    def passed(self, other: int, root: int) -> tuple[str, tuple]:
        """A broadcast by `root` of the part that rank `other` gives or takes."""
        if self.is_root:
            address: int | None = self.addresses[other]
        else:
            address = self.own if other == self.rank else None
        return "broadcast", passed(address, self.n_bytes, root)


def _rooted(name: str, group: Any, ones: Any, lists: Any, opts: Any, kind: type) -> _Rooted | None:
    one, job = _single(ones), group._line.job
    if one is None or job is None or not _is_prompt(group, opts, kind):
        return None
    at_once = is_one_call(one, job.world_size)
    if not at_once and not job.is_on_one_host:
        return None
    addresses = _addresses(job, lists, one, opts.rootRank)
    return None if addresses is None else _Rooted(name, job, one, opts.rootRank, addresses, at_once)


def _gather(group: Any, outputs: Any, inputs: Any, opts: Any) -> Prompt | None:
    call = _rooted("gather", group, inputs, outputs, opts, GatherOptions)
    if call is None:
        return None
    finish = None
    if not call.is_one_call:
        calls = [call.passed(rank, rank) for rank in range(call.size)]
        if call.is_root:  # at once, as the long way: what comes may be for the same memory
            ctypes.memmove(call.addresses[call.root], call.own, call.n_bytes)
    else:
        recv = None
        if call.is_root and call.are_joined():
            recv = call.addresses[0]
        elif call.is_root:
            recv = call.join()
            finish = functools.partial(_copy_to_list, call, recv)
        calls = [("gather", (call.own, recv, *call.counted))]

    targets = list(outputs[0]) if call.is_root else []  # the application may change its own
    work = Prompt("gather", targets, call.n_all, *calls, finish=finish)
    work.title, work.moved_as = call.title, "gather"
    return work if group._line.hurry(work, (call, targets)) else None


def _copy_to_list(call: _Rooted, start: int) -> None:
    for rank, address in enumerate(call.addresses):
        ctypes.memmove(address, start + rank * call.n_bytes, call.n_bytes)


def _scatter(group: Any, outputs: Any, inputs: Any, opts: Any) -> Prompt | None:
    call = _rooted("scatter", group, outputs, inputs, opts, ScatterOptions)
    if call is None or (call.size == 1 and not call.is_one_call):  # alone: nothing is passed on
        return None
    finish = None
    if not call.is_one_call:
        others = [rank for rank in range(call.size) if rank != call.root]
        calls = [call.passed(rank, call.root) for rank in others]

        def finish() -> None:
            if call.is_root:
                ctypes.memmove(call.own, call.addresses[call.root], call.n_bytes)

    else:
        send = None
        if call.is_root and call.are_joined():
            send = call.addresses[0]
        elif call.is_root:
            send = call.join()
            for rank, address in enumerate(call.addresses):
                ctypes.memmove(send + rank * call.n_bytes, address, call.n_bytes)
        calls = [("scatter", (send, call.own, *call.counted))]

    parts = list(inputs[0]) if call.is_root else []  # the application may change its own
    work = Prompt("scatter", outputs, call.n_all, *calls, finish=finish)
    work.title, work.moved_as = call.title, "scatter"
    return work if group._line.hurry(work, (call, parts)) else None


# For each method of a group.
_PROMPT = {
    "allreduce": (_allreduce, 2),
    "reduce": (_reduce, 2),
    "broadcast": (_broadcast, 2),
    "barrier": (_barrier, 1),
    "all_gather_single": (_all_gather, 3),
    "reduce_scatter_single": (_reduce_scatter, 3),
    "gather": (_gather, 3),
    "scatter": (_scatter, 3),
}


def prompted(name: str, own: Callable[..., Any]) -> Callable[..., Any]:
    """The group's own method, with the short way before it, if there is one."""
    if name not in _PROMPT:
        return own
    attempt, n_arguments = _PROMPT[name]

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if named and len(named) == 1 and "opts" in named:
            arguments, named = (*arguments, named["opts"]), {}
        if not named and len(arguments) == n_arguments:
            work = attempt(self, *arguments)
            if work is not None:
                work.for_cpp = self.for_cpp
                return work
        return own(self, *arguments, **named)

    call.__name__ = name
    return call
