# SPDX-License-Identifier: BSD-3-Clause
"""Collectives that bring a rank only what it needs, where all ranks share one host's memory.

    gather       a broadcast by each rank, which only root takes; by root, too, so that ranks that
                 name different roots make the same calls but one, and the error is about that
    scatter      a broadcast by root for each other rank, which only that one takes
    all_to_all   all ranks tell each other the sizes of their parts, and short parts themselves;
                 then a broadcast for each other part, which only one rank takes

Gathers and scatters are made so only if they are long: others are one call (lists.py).
Every byte is copied into that memory and out of it, whatever the number of ranks. Between hosts, a
broadcast brings its packets to all ranks, whether they take it or not. The invariant: all ranks
make these calls alike, whichever of them have or want the elements.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import _library as c
from ...job import Job
from .elsewhere import Elsewhere, plain_name_of
from .tensors import Begun, copy_to, dense
from .work import Call, Plan, all_gather, rooted_text, titled


def passed(address: int | None, n_bytes: int, root: int) -> tuple[int | None, int, int, int]:
    """The arguments of a broadcast. `address`: None on ranks that do not want the elements."""
    return address, n_bytes, c.BYTE, root


def _pass(tensor: torch.Tensor | None, n_bytes: int, root: int) -> Call:
    memory = torch.empty(0, device="cpu") if tensor is None else tensor
    arguments = passed(None if tensor is None else tensor.data_ptr(), n_bytes, root)
    return Call("broadcast", memory, memory, lambda send, recv: arguments)


def gather(
    own: torch.Tensor, outputs: Sequence[torch.Tensor], root: int, rank: int, size: int
) -> Callable[[], Plan]:
    """`outputs`: a tensor for each rank, on root."""

    def plan() -> Plan:
        (send,), _ = dense([own])
        targets, finish = dense(outputs)
        calls = []
        for source in range(size):
            target = targets[source] if targets else None
            calls.append(_pass(send if source == rank else target, own.nbytes, source))
        if targets:
            copy_to(targets[root], send)
        calls = titled(rooted_text("gather", own, root), calls)
        return Plan(calls, ("gather", size * own.nbytes), finish)

    return plan


def scatter(
    own: torch.Tensor, inputs: Sequence[torch.Tensor], root: int, rank: int, size: int
) -> Callable[[], Plan]:
    """`inputs`: a tensor for each rank, on root."""

    def plan() -> Plan:
        (target,), copy_back = dense([own])
        sources, _ = dense(inputs)
        calls = []
        for taker in range(size):
            if taker != root:
                source = sources[taker] if sources else None
                calls.append(_pass(target if taker == rank else source, own.nbytes, root))

        def finish() -> None:
            if sources:  # not before the others have theirs: one of them may be in this memory
                copy_to(target, sources[root])
            if copy_back is not None:
                copy_back()

        calls = titled(rooted_text("scatter", own, root), calls)
        return Plan(calls, ("scatter", size * own.nbytes), finish)

    return plan


# An all-to-all has a broadcast for each pair of ranks. 2 and 4 ranks were measured, where it took
# less time than Gloo's.
EXCHANGE_RANKS = 8
# What a rank tells the others with the sizes: all of its parts, if they are together no longer.
_ROOM = 8192


# Dense tensors, one for each rank: where its part comes, and what it gets. And what copies the
# former to the application's tensors.
Parts = tuple[list[torch.Tensor], list[torch.Tensor], Callable[[], None] | None]


def _numbers(n_ranks: int) -> Any:
    """How many bytes a rank has for each rank, and then how many it takes from each."""
    return ctypes.c_int64 * (2 * n_ranks)


class Exchange(Elsewhere):
    """An all-to-all. Its parts may have any sizes, and each rank knows only those of its own."""

    asks = True

    def __init__(
        self,
        name: str,
        arguments: Sequence[Any],
        call: Callable[[Begun], Any],
        limit: float | None,
        rank: int,
        parts: Callable[[], Parts],
    ) -> None:
        super().__init__(name, arguments, call, limit)
        self._rank, self._text = rank, ""
        self._parts: Any = parts
        self._told: Any = None
        self._sources: Any = None
        self._targets: Any = None
        self._has_answers = False
        self.plan = self._ask

    def begin(self, job: Job, waits: bool = False) -> None:
        if self._has_answers:  # it was interrupted after this
            self._make_calls(job, waits)
        else:
            super().begin(job, waits)

    def _ask(self) -> Plan:
        self._text = plain_name_of(self.name, self._arguments)
        self._targets, self._sources, copy_back = self._parts()
        sent, wanted = ([part.nbytes for part in its] for its in (self._sources, self._targets))
        numbers = _numbers(len(sent))
        head_bytes = ctypes.sizeof(numbers)
        block = torch.empty(head_bytes + _ROOM, dtype=torch.uint8, device="cpu")
        address = block.data_ptr()
        numbers.from_address(address)[:] = [*sent, *wanted]
        if sum(sent) <= _ROOM:
            address += head_bytes
            for part in self._sources:
                ctypes.memmove(address, part.data_ptr(), part.nbytes)
                address += part.nbytes
        self._told = torch.empty((len(sent), len(block)), dtype=torch.uint8, device="cpu")
        calls = titled(self._text, [all_gather(block, self._told, block)])
        return Plan(calls, ("alltoall", sum(sent)), copy_back)

    def end(self, error: BaseException | None) -> Callable[[], None] | None:
        callbacks = super().end(error)
        self._told = self._sources = self._targets = self._parts = None
        return callbacks

    def answered(self, job: Job, waits: bool) -> None:
        calls = self._take_answers()
        self._calls, self.requests, self._has_answers = calls, [], True
        self._make_calls(job, waits)

    @property
    def is_asking(self) -> bool:  # type: ignore[override]
        return self.planned is not None and not self._has_answers

    def _take_answers(self) -> list[Call]:
        """Take the parts of other ranks that have come. Returns the calls for all others."""
        n, rank = len(self._sources), self._rank
        numbers, stride = _numbers(n), self._told.size(1)
        starts = [self._told.data_ptr() + giver * stride for giver in range(n)]
        sizes = [numbers.from_address(start)[:] for start in starts]
        for giver, taker in itertools.product(range(n), repeat=2):
            if (gives := sizes[giver][taker]) != (takes := sizes[taker][n + giver]):
                raise ValueError(
                    f"{self._text}: rank {giver} has {gives} bytes for rank {taker}, which takes "
                    f"{takes}"
                )
        calls = []
        for step, giver in itertools.product(range(1, n), range(n)):
            taker = (giver + step) % n
            n_bytes, row = sizes[giver][taker], sizes[giver][:n]
            if sum(row) > _ROOM:
                mine = self._sources[taker] if giver == rank else None
                tensor = self._targets[giver] if taker == rank else mine
                if n_bytes:
                    calls.append(_pass(tensor, n_bytes, giver))
            elif taker == rank:
                start = starts[giver] + ctypes.sizeof(numbers) + sum(row[:taker])
                ctypes.memmove(self._targets[giver].data_ptr(), start, n_bytes)
        own = self._targets[rank]
        ctypes.memmove(own.data_ptr(), self._sources[rank].data_ptr(), own.nbytes)
        return calls


def parts_of_lists(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> Parts:
    """What Exchange needs, of lists with a tensor for each rank."""
    targets, finish = dense(outputs)
    sources, _ = dense(inputs)
    return targets, sources, finish


def parts_of_single(
    output: torch.Tensor,
    input: torch.Tensor,
    output_sizes: Sequence[int],
    input_sizes: Sequence[int],
) -> Parts:
    """What Exchange needs, of tensors with parts for all ranks along their first dimension."""
    (target,), finish = dense([output])
    (source,), _ = dense([input])
    return list(target.split(output_sizes)), list(source.split(input_sizes)), finish


def sizes_of_parts(tensor: torch.Tensor, sizes: Sequence[int], n_ranks: int) -> list[int] | None:
    """Along the first dimension. No sizes: they are equal. None: this is impossible."""
    if tensor.dim() == 0:
        return None
    whole = tensor.size(0)
    found = list(sizes) or [whole // n_ranks] * n_ranks
    fits = len(found) == n_ranks and sum(found) == whole and min(found) >= 0
    return found if fits else None
