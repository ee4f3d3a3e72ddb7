# SPDX-License-Identifier: BSD-3-Clause
"""Collectives on device memory, through pinned buffers of the host.

    device ---- copied ----> pinned ---- the switch ----> pinned ---- copied ----> device
           on our own stream        begun when it is there        when it is done

Tensors are cut into pieces, so that the copy of one piece overlaps with the transfer of
others. If an earlier collective will still write what a later one sends, the later one copies
it from the device after that, in the order of a stream. The invariant: the application's
streams never wait for the host. They wait for an event that is recorded after the last copy
back. This has never run on a GPU. tests/python/test_torch_accelerator.py runs it on a device that
PyTorch emulates, and test_staging.py tests the order of steps with slow copies of host memory.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ...job import Job, Request
from .tensors import copy_to, on_stream, overlap
from .work import Call, Work

PIECE_BYTES = 4 << 20
# For each device, the works that have not ended, in the order of their calls.
_unfinished: weakref.WeakKeyDictionary[Any, list[DeviceWork]] = weakref.WeakKeyDictionary()


class Accelerator:
    """Copies between one device and pinned memory, in order, on a separate stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.Stream(device)
        # What the stream may still use, with an event that tells when it does not any more.
        self._held: deque[tuple[torch.Event, Any]] = deque()
        self._lock = threading.Lock()

    def pinned_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)

    def follow(self) -> None:
        """Later copies wait for everything that is now on the application's stream."""
        self._release()
        self._stream.wait_stream(torch.accelerator.current_stream(self._device))

    def to_host(self, host: torch.Tensor, tensor: torch.Tensor) -> Any:
        """Begin the copy. Returns an event that completes when the copy is done."""
        with on_stream(self._stream):
            copy_to(host, tensor, non_blocking=True)
        return self.record()

    def to_device(self, tensor: torch.Tensor, source: torch.Tensor) -> None:
        """Begin to copy `source`, pinned or on the device, to the device's tensor."""
        with on_stream(self._stream):
            copy_to(tensor, source, non_blocking=True)

    def record(self) -> Any:
        return self._stream.record_event()

    def hold(self, tensors: Any) -> None:
        """Keep their memory until all that was begun on our stream is done.

        Tensor.record_stream() would do that, too, but not every device has it.
        """
        with self._lock:
            self._held.append((self.record(), tensors))
        self._release()

    def _release(self) -> None:
        with self._lock:
            while self._held and self._held[0][0].query():
                self._held.popleft()

    def lead(self, event: Any) -> None:
        """Let later work on the application's stream wait for the event."""
        torch.accelerator.current_stream(self._device).wait_event(event)

    def streams(self) -> Any:
        return on_stream(self._stream)


class _Piece(NamedTuple):
    call: Call  # with pinned buffers
    device_send: torch.Tensor
    device_recv: torch.Tensor


class DeviceWork(Work):
    """A collective on tensors of a device."""

    late = has_steps = True

    def __init__(
        self,
        copies: Accelerator,
        name: str,
        tensors: Sequence[torch.Tensor],
        calls: Sequence[Call],
        finish: Callable[[], None] | None = None,
        limit: float | None = None,
    ) -> None:
        super().__init__(name, tensors, calls, finish, limit)
        self._copies = copies
        self._end_event: Any = None
        self._begun = False
        self._inputs = [call.send if call.source is None else call.source for call in calls]
        copies.follow()
        self._pieces = [self._stage(part) for call in calls for part in _parts(call)]
        others = _unfinished.setdefault(copies, [])
        self._copied = None if self._after(others) else self._copy()
        others.append(self)

    def _stage(self, call: Call) -> _Piece:
        send = self._copies.pinned_like(call.send)
        recv = send if call.recv is call.send else self._copies.pinned_like(call.recv)
        return _Piece(replace(call, send=send, recv=recv), call.send, call.recv)

    def _after(self, others: list[DeviceWork]) -> list[DeviceWork]:
        """Earlier works that will still write what this work sends."""
        return [
            other
            for other in list(others)
            if any(overlap(a, b) for a in self._inputs for b in other._tensors)
        ]

    def _copy(self) -> list:
        """Begin to copy to the host. Returns the events of the pieces."""
        for call in self.calls:
            # The call's own copy was made in the order of the application's stream. Earlier works
            # may still write the source on ours, even if they have ended.
            if call.source is not None and not overlap(call.send, call.source):
                self._copies.to_device(call.send, call.source)
        return [self._copies.to_host(p.call.send, p.device_send) for p in self._pieces]

    def _copy_after_others(self) -> list:
        # Works that wait for this one's callbacks to return are not earlier works.
        for other in self._after(_unfinished[self._copies]):
            if other is not self and other._begun:
                other.await_end()
        return self._copy()

    def begin(self, job: Job, waits: bool = False) -> None:
        self._begun = True
        copied = self._copied or self._copy_after_others()
        for piece, event in zip(self._pieces, copied, strict=True):
            event.synchronize()
            self.requests.append(Request(job, [piece.call], None))
            piece.call.begin(job, self.requests[-1], 0)

    def progress(self, index: int) -> None:
        piece = self._pieces[index]
        self._copies.to_device(piece.device_recv, piece.call.recv)

    def _complete(self) -> None:
        with self._copies.streams():
            super()._complete()
        self._end_event = self._copies.record()

    def end(self, error: BaseException | None) -> Callable[[], None] | None:
        used = (self._tensors, self._inputs, self._pieces, self._finish, self.when_ended)
        callbacks = super().end(error)
        self._copies.hold(used)
        _unfinished[self._copies].remove(self)
        self._pieces, self._inputs = [], []
        return callbacks

    def synchronize(self) -> None:
        if self._end_event is not None:
            self._copies.lead(self._end_event)

    def _streams(self) -> Any:
        return self._copies.streams()


def _parts(call: Call) -> list[Call]:
    """The call in pieces. They are the same on all ranks, because only size and type decide."""
    length = max(1, PIECE_BYTES // call.send.element_size())
    if not call.divisible or call.send.numel() <= length:
        return [call]
    pieces = call.send.view(-1).split(length)
    kept: Any = (None,) * len(pieces) if call.residual is None else call.residual.split(length)
    count, *others = call.numbers  # of bytes, if C does not know the elements' type
    each = count // call.send.numel()
    return [
        replace(
            call,
            send=piece,
            recv=piece,
            numbers=(each * piece.numel(), *others),
            source=None,
            residual=residual,
        )
        for piece, residual in zip(pieces, kept, strict=True)
    ]
