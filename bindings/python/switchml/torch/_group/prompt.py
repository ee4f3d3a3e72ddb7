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

from ..._tensor_memory import is_host_memory
from .._calls.tensors import TYPES, numbers_of
from .._calls.work import Prompt

_NONE = timedelta(0)
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


def _in_place(name: str, title: str, options: type) -> Callable[..., Prompt | None]:
    """For a call of C in the tensor's own memory, with an operation or a root or both."""
    has_op, has_root = hasattr(options, "reduceOp"), hasattr(options, "rootRank")

    def attempt(group: Any, tensors: Any, opts: Any) -> Prompt | None:
        tensor = _single(tensors)
        if tensor is None or not _is_prompt(group, opts, options):
            return None
        address = tensor.data_ptr()
        if has_op:
            if not (numbers := numbers_of(tensor, opts.reduceOp)):
                return None
            arguments: tuple = (address, address, tensor.numel(), *numbers)
        elif (kind := TYPES.get(tensor.dtype)) is not None:
            arguments = (address, tensor.numel(), kind)
        else:
            return None
        call = (name, (*arguments, opts.rootRank) if has_root else arguments)
        work = Prompt(title, [tensor], tensor.nbytes, call)
        return work if group._line.try_run(work, tensor) else None

    return attempt


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
    if not (numbers := numbers_of(input, opts.reduceOp)):
        return None
    arguments = (input.data_ptr(), output.data_ptr(), output.numel(), *numbers)
    work = Prompt("reduce_scatter_single", [output], input.nbytes, ("reduce_scatter", arguments))
    return work if group._line.try_run(work, (input, output)) else None


# For each method of a group.
_PROMPT = {
    "allreduce": (_in_place("allreduce", "all_reduce", AllreduceOptions), 2),
    "reduce": (_in_place("reduce", "reduce", ReduceOptions), 2),
    "broadcast": (_in_place("broadcast", "broadcast", BroadcastOptions), 2),
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
