# SPDX-License-Identifier: BSD-3-Clause
"""The short way of most calls: one contiguous tensor in the host's memory, awaited at once.

    group.allreduce -> prompt -> Line.try_run -> C
                           \\-> the group's own method, for everything else

Calls of few bytes take little longer on one host than what Python does for them, so every check
here is made once, and in its cheapest form. The invariant: the short way makes the same call of C
as the group's own method would, so ranks may go different ways. Each function here returns a work
that has ended, or None if its call must go the long way; it has then changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceOptions,
    ReduceScatterOptions,
)
from torch.distributed import ReduceOp

from ... import _library as c
from ..._tensor_memory import is_host_memory
from .._calls.tensors import TYPES
from .._calls.work import Prompt

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
    call = ("allreduce", (address, address, tensor.numel(), *numbers))
    work = Prompt("all_reduce", [tensor], tensor.nbytes, call)
    return work if group._line.try_run(work, tensor) else None


def _reduce(group: Any, tensors: Any, opts: Any) -> Prompt | None:
    tensor = _single(tensors)
    if tensor is None or not _is_prompt(group, opts, ReduceOptions):
        return None
    numbers = _numbers(tensor, opts.reduceOp)
    if numbers is None:
        return None
    address = tensor.data_ptr()
    call = ("reduce", (address, address, tensor.numel(), *numbers, opts.rootRank))
    work = Prompt("reduce", [tensor], tensor.nbytes, call)
    return work if group._line.try_run(work, tensor) else None


def _broadcast(group: Any, tensors: Any, opts: Any) -> Prompt | None:
    tensor = _single(tensors)
    if tensor is None or not _is_prompt(group, opts, BroadcastOptions):
        return None
    kind = TYPES.get(tensor.dtype)
    if kind is None:
        return None
    call = ("broadcast", (tensor.data_ptr(), tensor.numel(), kind, opts.rootRank))
    work = Prompt("broadcast", [tensor], tensor.nbytes, call)
    return work if group._line.try_run(work, tensor) else None


def _barrier(group: Any, opts: Any) -> Prompt | None:
    if not _is_prompt(group, opts, BarrierOptions):
        return None
    if (device := opts.device) is not None and device.type != "cpu":
        return None
    work = Prompt("barrier", [], 0, ("barrier", ()))
    return work if group._line.try_run(work, None) else None


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
    return work if group._line.try_run(work, (input, output)) else None


def _reduce_scatter(group: Any, output: Any, input: Any, opts: Any) -> Prompt | None:
    if not _is_prompt(group, opts, ReduceScatterOptions) or not _are_parts(group, output, input):
        return None
    numbers = _numbers(input, opts.reduceOp)
    if numbers is None:
        return None
    arguments = (input.data_ptr(), output.data_ptr(), output.numel(), *numbers)
    work = Prompt("reduce_scatter_single", [output], input.nbytes, ("reduce_scatter", arguments))
    return work if group._line.try_run(work, (input, output)) else None


# For each method of a group.
_PROMPT = {
    "allreduce": (_allreduce, 2),
    "reduce": (_reduce, 2),
    "broadcast": (_broadcast, 2),
    "barrier": (_barrier, 1),
    "all_gather_single": (_all_gather, 3),
    "reduce_scatter_single": (_reduce_scatter, 3),
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
