# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on device memory, through pinned buffers of the host.

    device ---- copied ----> pinned ---- the switch ----> pinned ---- copied ----> device
           on our own stream        begun when it is there        when it is done

Pieces, so that copying one overlaps with the transfer of others. The invariant:
the application's streams never wait for the host; they wait for an event that
is recorded after the last copy back. Not tested on a GPU; its order of steps is,
with copies of the host's memory (tests/python/test_staging.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ..job import Job
from ._work import Call, Work

PIECE_BYTES = 4 << 20


class Cuda:
    """Copies between one device and pinned memory, in order, on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def pinned_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def follow(self) -> None:
        """What comes now comes after all that the application's stream was given."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))

    def to_host(self, host: torch.Tensor, tensor: torch.Tensor) -> Any:
        """Begin the copy; returns an event that passes when it is done."""
        with torch.cuda.stream(self._stream):
            host.copy_(tensor, non_blocking=True)
            tensor.record_stream(self._stream)
            return self._stream.record_event()

    def to_device(self, tensor: torch.Tensor, host: torch.Tensor) -> None:
        with torch.cuda.stream(self._stream):
            tensor.copy_(host, non_blocking=True)
            tensor.record_stream(self._stream)

    def record(self) -> Any:
        return self._stream.record_event()

    def lead(self, event: Any) -> None:
        """What the application's stream is given from now on comes after the event."""
        torch.cuda.current_stream(self._device).wait_event(event)

    def streams(self) -> Any:
        return torch.cuda.stream(self._stream)


class _Piece(NamedTuple):
    call: Call  # on pinned memory
    copied: Any  # the event of its copy to there
    device_recv: torch.Tensor


class DeviceWork(Work):
    """A collective whose tensors are a device's."""

    late = True

    def __init__(
        self,
        copies: Cuda,
        name: str,
        tensors: Sequence[torch.Tensor],
        calls: Sequence[Call],
        finish: Callable[[], None] | None = None,
        limit: float | None = None,
    ) -> None:
        super().__init__(name, tensors, calls, finish, limit)
        self._copies = copies
        self._end_event: Any = None
        copies.follow()
        self._pieces = [self._stage(part) for call in calls for part in _parts(call)]

    def _stage(self, call: Call) -> _Piece:
        send = self._copies.pinned_like(call.send)
        event = self._copies.to_host(send, call.send)
        recv = send if call.recv is call.send else self._copies.pinned_like(call.recv)
        return _Piece(replace(call, send=send, recv=recv), event, call.recv)

    def begin(self, job: Job) -> None:
        for piece in self._pieces:
            piece.copied.synchronize()
            self.requests.append(piece.call.begin(job))

    def progress(self, index: int) -> None:
        piece = self._pieces[index]
        self._copies.to_device(piece.device_recv, piece.call.recv)

    def _complete(self) -> None:
        with self._copies.streams():
            super()._complete()
        self._end_event = self._copies.record()

    def end(self, error: BaseException | None) -> Callable[[], None] | None:
        callbacks = super().end(error)
        self._pieces = []
        return callbacks

    def synchronize(self) -> None:
        if self._end_event is not None:
            self._copies.lead(self._end_event)

    def _streams(self) -> Any:
        return self._copies.streams()


def _parts(call: Call) -> list[Call]:
    """The call in pieces: the same on all ranks, for only size and type decide."""
    length = max(1, PIECE_BYTES // call.send.element_size())
    if not call.divisible or call.send.numel() <= length:
        return [call]
    parts = []
    for piece in call.send.view(-1).split(length):
        parts.append(replace(call, send=piece, recv=piece))
    return parts
