# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of PyTorch's profiler that end with a collective, and not with its call.

Ending a range writes into memory of the profile in which the range began, and a profile frees
that memory when it ends. The invariant: a range is open only while its profile is, in any
thread where its collective ends. So a profile that ends first ends its open ranges, and they
are not ended again.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.autograd import profiler

_lock = threading.Lock()  # held while a range is opened or ended, and while a profile ends
_open: set[Range] = set()


class Range:
    """A range that begins now."""

    def __init__(self, name: str) -> None:
        self._end: torch.futures.Future = torch.futures.Future()
        with _lock:
            range_ = profiler.record_function(name)
            range_.__enter__()
            range_._call_end_callbacks_on_future(self._end)
            _open.add(self)

    def end(self) -> None:
        """It ends here, unless its profile has ended."""
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


is_profiled = torch.autograd._profiler_enabled  # in this thread
profiler._disable_profiler = _ending_ranges_first(profiler._disable_profiler)
