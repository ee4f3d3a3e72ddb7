# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of PyTorch's profiler that end with a collective, and not with its call.

Whoever ends a range writes into memory of the profile in which it began, and a
profile frees that when it ends. The invariant: a range is open only while its
profile is, in whatever thread its collective ends. So a profile that ends
first ends the ranges that are open, and they are not ended again.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.autograd import profiler

_lock = threading.Lock()  # held by whoever opens or ends a range, or ends a profile
_open: set[Range] = set()


class Range:
    """A range from now on."""

    def __init__(self, name: str) -> None:
        self._end: torch.futures.Future = torch.futures.Future()
        with _lock:
            range_ = profiler.record_function(name)
            range_.__enter__()
            range_._call_end_callbacks_on_future(self._end)
            _open.add(self)

    def end(self) -> None:
        """It ends here, if its profile has not."""
        with _lock:
            if self in _open:
                _open.remove(self)
                self._end.set_result(None)


def _ending_ranges_first(original: Any) -> Any:
    def disable() -> Any:
        with _lock:
            while _open:
                _open.pop()._end.set_result(None)
            return original()

    return disable


def range_of(name: str) -> Range | None:
    """A range, where the profiler is on in this thread."""
    return Range(name) if torch.autograd._profiler_enabled() else None


profiler._disable_profiler = _ending_ranges_first(profiler._disable_profiler)
