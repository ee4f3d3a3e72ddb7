# SPDX-License-Identifier: BSD-3-Clause
"""Futures that hold a list of C++.

    a future of Python --ended--> TorchScript waited for it --> its future (a list) --> our future

A future that Python makes holds a Python object, whatever is put into it. A communication hook that
is written in C++ looks for a list of tensors (IValue::isTensorList()) and fails without one. Python
cannot make a future of that type, but TorchScript can: its future ends when a function of
TorchScript, which waits for one of Python, has returned the tensors.

The invariants: who has waited for a work has waited for both of its futures. And threads of
TorchScript run no callback of Python. There are as few of them as cores, so callbacks that wait for
each other could use them up. What Python attaches to such a future is attached to ours
(callbacks.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .callbacks import Promise, attach_instead, await_done

_SOURCE = """
def _after(ended: Future[Any], tensors: List[Tensor]) -> List[Tensor]:
    torch.jit.wait(ended)
    return tensors

def list_after(ended: Future[Any], tensors: List[Tensor]) -> Future[List[Tensor]]:
    return torch.jit.fork(_after, ended, tensors)
"""


@functools.cache
def _compiled() -> Any:
    return torch.jit.CompilationUnit(_SOURCE)


class PromiseInCpp:
    """A future of a list of tensors in the host's memory.

    `promise`: nothing else may be attached to it. `ours`: the work's future for Python.
    """

    def __init__(
        self, promise: Promise, tensors: Sequence[torch.Tensor], ours: torch.futures.Future
    ) -> None:
        self._promise = promise
        self.future = _compiled().list_after(promise.future, list(tensors))
        attach_instead(self.future, ours)

    def keep(self, value: Any) -> None:
        """Resolve the future, or let it fail, and wait until that is seen."""
        self._promise.keep(value)
        await_done(self.future, None)
