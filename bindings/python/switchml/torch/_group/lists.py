# SPDX-License-Identifier: BSD-3-Clause
"""all_gather into lists: an all-gather into one tensor, and a copy of each rank's part. Above
LIMIT_BYTES it is a broadcast by each rank, which needs no copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import AllgatherOptions

from .._calls.tensors import copy_to, dense, describe, normal, tensors_in, writable
from .._calls.work import all_gather, broadcast

# Of the parts of all ranks. On one host with two cores and four ranks, this is about where
# broadcasts overtake the all-gather.
LIMIT_BYTES = 1 << 20


def in_lists(several: Any, one: Any) -> tuple[Any, Any]:
    """Both as lists of what each device has, though there is only one. The application may change
    its own when the call has returned."""
    return ([several], [one]) if isinstance(one, torch.Tensor) else (list(several), list(one))


class Lists:
    """The part of a ProcessGroupSwitchML that gathers into lists."""

    def allgather(
        self: Any, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None
    ) -> Any:
        outputs, inputs = in_lists(outputs, inputs)
        inputs, opts = normal(inputs, opts, AllgatherOptions, timeout=timeout)
        if not self._has_parts(outputs, inputs):
            what = describe(tensors_in(inputs))
            return self._instead("allgather", what, inputs[:1])(outputs, inputs, opts)
        (outputs,), (own,) = outputs, inputs
        if self.size() * own.numel() * own.element_size() > LIMIT_BYTES:
            return self._broadcast_each(outputs, own, opts)
        (send,), _ = dense([own])
        whole = own.new_empty((self.size(), *own.shape))
        targets = [writable(output) for output in outputs]

        def finish() -> None:
            for target, part in zip(targets, whole, strict=True):
                copy_to(target, part)

        return self._run("all_gather", outputs, [all_gather(send, whole, own)], finish, opts)

    def _has_parts(self: Any, lists: Any, ones: Any) -> bool:
        """Whether there is one tensor on this rank, and one list of tensors like it."""
        if len(ones) != 1 or len(lists) != 1:
            return False
        tensors = [*ones, *tensors_in(lists)]
        if len(tensors) != 1 + self.size() or not self._takes(tensors):
            return False
        return len({(tensor.dtype, tensor.shape) for tensor in tensors}) == 1

    def _broadcast_each(
        self: Any, outputs: Sequence[torch.Tensor], own: torch.Tensor, opts: Any
    ) -> Any:
        flat, finish = dense(outputs)
        rank = self.rank()
        copy_to(flat[rank], own.detach())
        calls = [broadcast(t, root, own if root == rank else None) for root, t in enumerate(flat)]
        return self._run("all_gather", outputs, calls, finish, opts)
