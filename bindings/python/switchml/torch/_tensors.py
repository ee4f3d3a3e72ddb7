# SPDX-License-Identifier: BSD-3-Clause
"""Converts tensors and arguments of torch.distributed to the form that this package needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed import ReduceOp


def normal(tensors: Any, opts: Any, op: Any, timeout: Any, kind: type) -> tuple[list, Any]:
    """Convert the different ways of calling a method to one: a list, and options."""
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    if opts is not None and not isinstance(opts, kind):
        opts, op = None, opts
    opts = opts or kind()
    if op is not None:
        opts.reduceOp = op
    if timeout is not None:
        opts.timeout = timeout
    return list(tensors), opts


def is_awaited(opts: Any) -> bool:
    """Whether the application waits for the call at once, because it has not asked for a work."""
    return not getattr(opts, "asyncOp", True)


def describe(tensors: Sequence[torch.Tensor], op: ReduceOp | None = None) -> str:
    if not tensors:
        return "no tensors"
    first = tensors[0]
    text = str(first.dtype).removeprefix("torch.")
    if first.layout is not torch.strided:
        text += f" ({str(first.layout).removeprefix('torch.')})"
    if first.device.type != "cpu":
        text += f" on {first.device.type}"
    return text if op is None else f"{text}, {str(op.op).rpartition('.')[2]}"


def dense(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Callable[[], None] | None]:
    """The tensors in contiguous form, and a function that copies their elements back, or None."""
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    flat = []
    for tensor in tensors:
        tensor = tensor.detach()
        if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
            flat.append(tensor)
            continue
        copy = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        copies.append((tensor, copy))
        flat.append(copy)

    def finish() -> None:
        for tensor, copy in copies:
            tensor.copy_(copy)

    return flat, finish if copies else None


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the two tensors may share a byte."""
    if a.device != b.device or not a.numel() or not b.numel():
        return False
    return a.data_ptr() < _end_of(b) and b.data_ptr() < _end_of(a)


def _end_of(tensor: torch.Tensor) -> int:
    """The address behind its last element."""
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()
