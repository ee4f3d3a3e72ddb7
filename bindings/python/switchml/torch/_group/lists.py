# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of parts, one for each rank: all_gather, gather, scatter and all_to_all.

    all_gather   all-gather into one tensor, and a copy of each rank's part;
                 above LIMIT_BYTES a broadcast by each rank, which needs no copy
    gather       gather into one tensor at root, and a copy of each rank's part
    scatter      scatter of root's list as one tensor
    all_to_all   on Gloo

PyTorch's collectives of objects are made of these. Between hosts, every rank's link carries what
only root has or needs; so above LIMIT_BYTES gather and scatter run on Gloo, if it takes their type.
Where all ranks share one host's memory, such long ones and all_to_all are made of broadcasts, which
need no copies (one_host.py). The invariant: where they run depends only on what is the same on all
ranks; a list that Gloo would refuse for its form goes there, and it says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import AllgatherOptions, GatherOptions, ScatterOptions

from .._calls import one_host
from .._calls.elsewhere import Elsewhere
from .._calls.tensors import copy_to, dense, describe, is_awaited, normal, tensors_in, writable
from .._calls.work import Call, Plan, all_gather, broadcast, rooted

# Of the parts of all ranks. On one host with two cores and four ranks, this is about where
# broadcasts overtake the all-gather.
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


def is_one_call(one: torch.Tensor, n_ranks: int) -> bool:
    """Whether a gather or a scatter is one call of C: both ways must ask this."""
    return n_ranks * one.nbytes <= LIMIT_BYTES or one.dtype not in _ON_GLOO


def _in_lists(several: Any, one: Any) -> tuple[Any, Any]:
    """Both as lists of what each device has, though there is only one."""
    return ([several], [one]) if isinstance(one, torch.Tensor) else (several, list(one))


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
        (one,), targets, root = inputs, tensors_in(outputs), opts.rootRank
        if not is_one_call(one, self.size()):
            plan = one_host.gather(one, targets, root, self.rank(), self.size())
            return self._rooted_on_gloo("gather", outputs, inputs, opts, plan)
        (send,), _ = dense([one])
        whole = self._empty_for_all(one, at_root=root)
        calls = [rooted("gather", send, whole, one, root, self.size())]
        return self._copy_parts("gather", calls, targets, whole, opts)

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
        (one,), parts = outputs, tensors_in(inputs)
        root = opts.rootRank
        if not is_one_call(one, self.size()):
            plan = one_host.scatter(one, parts, root, self.rank(), self.size())
            return self._rooted_on_gloo("scatter", outputs, inputs, opts, plan)
        whole = self._empty_for_all(one, at_root=root)
        for part, place_of_part in zip(parts, whole, strict=False):
            copy_to(place_of_part, part.detach())
        own = whole[root : root + 1] if parts else one.new_empty((1, *one.shape))
        calls = [rooted("scatter", whole, own, own, root, self.size())]
        return self._copy_parts("scatter", calls, outputs, own, opts)

    def alltoall(
        self: Any, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Any = None
    ) -> Any:
        outputs, inputs = list(output_tensors), list(input_tensors)
        parts = None
        if len(outputs) == len(inputs) == self.size() and self._has_memory([*inputs, *outputs]):
            parts = functools.partial(one_host.parts_of_lists, outputs, inputs)
        return self._exchange("alltoall", parts, outputs, inputs, opts or timeout)

    def all_to_all_single(
        self: Any,
        output: Any,
        input: Any,
        output_split_sizes: Any = (),
        input_split_sizes: Any = (),
        opts: Any = None,
        timeout: Any = None,
    ) -> Any:
        arguments = (output, input, output_split_sizes or [], input_split_sizes or [])
        parts = None
        if self._has_memory([input, output]):
            sizes = [
                one_host.sizes_of_parts(tensor, given, self.size())
                for tensor, given in zip(arguments[:2], arguments[2:], strict=True)
            ]
            if None not in sizes:
                parts = functools.partial(one_host.parts_of_single, output, input, *sizes)
        return self._exchange("all_to_all_single", parts, *arguments, opts or timeout)

    def _has_memory(self: Any, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether a host's memory can pass them on."""
        kind = tensors[0].dtype
        return (
            self.size() <= one_host.EXCHANGE_RANKS
            and all(tensor.is_cpu and tensor.dtype == kind for tensor in tensors)
            and self._takes(tensors)
        )

    def _exchange(self: Any, name: str, parts: Any, *arguments: Any) -> Any:
        """`parts`: makes those of each rank; None: Gloo is to see the call as it is."""
        arguments = arguments if arguments[-1] is not None else arguments[:-1]
        if parts is None:
            return self._instead(name, "", tensors_in(arguments)[:1])(*arguments)
        make = functools.partial(one_host.Exchange, rank=self.rank(), parts=parts)
        return self._in_memory_or_on_gloo(make, name, "", *arguments)

    def _rooted_on_gloo(
        self: Any, name: str, outputs: Any, inputs: Any, opts: Any, plan: Callable[[], Plan]
    ) -> Any:
        ones = tensors_in(inputs if name == "gather" else outputs)[:1]
        if not ones[0].is_cpu:
            return self._instead(name, describe(ones), ones)(outputs, inputs, opts)

        def make(*arguments: Any) -> Elsewhere:
            work = Elsewhere(*arguments)
            work.plan = plan
            return work

        return self._in_memory_or_on_gloo(make, name, describe(ones), outputs, inputs, opts)

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
        if rooted is not None and rooted.rootRank not in range(self.size()):
            return False
        return len({(tensor.dtype, tensor.shape) for tensor in tensors}) == 1

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

    def _empty_for_all(self: Any, one: torch.Tensor, at_root: int | None = None) -> torch.Tensor:
        """Memory for the parts of all, if this rank needs it."""
        n = self.size() if at_root in (None, self.rank()) else 0
        return torch.empty((n, *one.shape), dtype=one.dtype, device=one.device)

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
