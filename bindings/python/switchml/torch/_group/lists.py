# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of lists, with a tensor for each rank: all_gather, gather and scatter.

    all_gather   all-gather into one tensor, and a copy of each rank's part;
                 above LIMIT_BYTES a broadcast by each rank, which needs no copy
    gather       all-gather into one tensor, of which only root copies the parts
    scatter      broadcast of root's list as one tensor, of which each rank copies its own part

PyTorch's collectives of objects are made of these. With gather and scatter, every rank gets what
only one needs, so above LIMIT_BYTES they run on Gloo, if it takes their type. The invariant:
whether they do depends only on what is the same on all ranks; a list that Gloo would refuse for its
form goes there, and it says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import AllgatherOptions, GatherOptions, ScatterOptions

from .._calls.tensors import copy_to, dense, describe, is_awaited, normal, tensors_in, writable
from .._calls.work import Call, all_gather, broadcast, place

# Of the parts of all ranks. On one host with two cores and four ranks, this is about where
# broadcasts overtake the all-gather, and Gloo overtakes this gather and scatter.
LIMIT_BYTES = 1 << 20

# What Gloo gathers and scatters.
_ON_GLOO = {
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
}


def _in_lists(several: Any, one: Any) -> tuple[Any, Any]:
    """Both as lists of what each device has, though there is only one."""
    return ([several], [one]) if isinstance(one, torch.Tensor) else (several, list(one))


def gather_text(inputs: Sequence[torch.Tensor], root: int) -> str:
    """What the ranks of a gather must agree on, beyond its all-gather."""
    return f"gather of {inputs[0].numel()} {describe(inputs)}, root {root}"


class Lists:
    """The part of a ProcessGroupSwitchML that has collectives of lists."""

    def allgather(
        self: Any, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None
    ) -> Any:
        outputs, inputs = _in_lists(outputs, inputs)
        inputs, opts = normal(inputs, opts, AllgatherOptions, timeout=timeout)
        if not self._has_parts(outputs, inputs):
            what = describe(tensors_in(inputs))
            return self._instead("allgather", what, inputs[:1])(outputs, inputs, opts)
        if self._bytes_of_all(inputs[0]) > LIMIT_BYTES:
            return self._broadcast_each(outputs[0], inputs[0], opts)
        whole, call = self._all_gathered(inputs[0])
        return self._copy_parts("all_gather", [call], outputs[0], whole, opts)

    def gather(
        self: Any,
        outputs: Any,
        inputs: Any,
        opts: Any = None,
        timeout: Any = None,
        root: Any = None,
    ) -> Any:
        if isinstance(inputs, torch.Tensor):
            outputs = [outputs] if outputs else []
        inputs, opts = normal(inputs, opts, GatherOptions, timeout=timeout, root=root)
        if not self._has_parts(outputs, inputs, opts):
            what = describe(tensors_in(inputs))
            return self._instead("gather", what, inputs[:1])(outputs, inputs, opts)
        whole, call = self._all_gathered(inputs[0])
        # The all-gather would not find that ranks name different roots.
        calls = [call, place(gather_text(inputs, opts.rootRank), whole)]
        return self._copy_parts("gather", calls, tensors_in(outputs), whole, opts)

    def scatter(
        self: Any,
        outputs: Any,
        inputs: Any,
        opts: Any = None,
        timeout: Any = None,
        root: Any = None,
    ) -> Any:
        if isinstance(outputs, torch.Tensor):
            inputs = [inputs] if inputs else []
        outputs, opts = normal(outputs, opts, ScatterOptions, timeout=timeout, root=root)
        if not self._has_parts(inputs, outputs, opts):
            what = describe(tensors_in(outputs))
            return self._instead("scatter", what, outputs[:1])(outputs, inputs, opts)
        parts = tensors_in(inputs)
        whole = self._empty_for_all(outputs[0])
        for part, one in zip(parts, whole, strict=False):
            copy_to(one, part.detach())
        calls = [broadcast(whole, opts.rootRank)]
        own = whole[self.rank() : self.rank() + 1]
        return self._copy_parts("scatter", calls, outputs, own, opts)

    def _has_parts(self: Any, lists: Any, ones: Any, rooted: Any = None) -> bool:
        """Whether there is one tensor on this rank, and one list of tensors like it.

        `rooted`: options, where only root has the list.
        """
        has_list = rooted is None or rooted.rootRank == self.rank()
        if len(ones) != 1 or len(lists) != has_list:
            return False
        tensors = [*ones, *tensors_in(lists)]
        if len(tensors) != 1 + has_list * self.size() or not self._takes(tensors):
            return False
        if rooted is not None and not self._may_spread(ones[0], rooted.rootRank):
            return False
        return len({(tensor.dtype, tensor.shape) for tensor in tensors}) == 1

    def _may_spread(self: Any, one: torch.Tensor, root: int) -> bool:
        """Whether every rank may get what only root has or needs."""
        short = self._bytes_of_all(one) <= LIMIT_BYTES
        return root in range(self.size()) and (short or one.dtype not in _ON_GLOO)

    def _bytes_of_all(self: Any, one: torch.Tensor) -> int:
        return self.size() * one.numel() * one.element_size()

    def _broadcast_each(
        self: Any, outputs: Sequence[torch.Tensor], own: torch.Tensor, opts: Any
    ) -> Any:
        flat, finish = dense(outputs)
        rank = self.rank()
        copy_to(flat[rank], own.detach())
        calls = [broadcast(t, root, own if root == rank else None) for root, t in enumerate(flat)]
        awaited = is_awaited(opts)
        return self._run("all_gather", outputs, calls, finish, opts.timeout, awaited=awaited)

    def _empty_for_all(self: Any, one: torch.Tensor) -> torch.Tensor:
        return torch.empty((self.size(), *one.shape), dtype=one.dtype, device=one.device)

    def _all_gathered(self: Any, one: torch.Tensor) -> tuple[torch.Tensor, Call]:
        """A tensor for the elements of all ranks, and the call that fills it."""
        (send,), _ = dense([one])
        whole = self._empty_for_all(one)
        return whole, all_gather(send, whole, one)

    def _copy_parts(
        self: Any,
        name: str,
        calls: Sequence[Call],
        outputs: Sequence[torch.Tensor],
        whole: torch.Tensor,
        opts: Any,
    ) -> Any:
        """Make the calls, and then copy row r of `whole` to output r."""
        targets = [writable(output) for output in outputs]

        def finish() -> None:
            for target, part in zip(targets, whole, strict=False):
                copy_to(target, part)

        awaited = is_awaited(opts)
        return self._run(name, outputs, calls, finish, opts.timeout, awaited=awaited)
