# SPDX-License-Identifier: BSD-3-Clause
"""Futures that hold a list of C++.

    our future (holds a Python object) --ended--> TorchScript waited for it --> its future (a list)

A future that Python makes holds a Python object, whatever is put into it. A communication hook that
is written in C++ looks for a list of tensors (IValue::isTensorList()) and fails without one. Python
cannot make a future of that type, but TorchScript can: its future ends when a function of
TorchScript, which waits for ours, has returned the tensors.

The invariant: threads of TorchScript run no callback of Python. There are as few of them as cores,
so callbacks that wait for each other could use them up. What Python attaches to such a future is
attached to ours (callbacks.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .callbacks import attach_instead

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


def list_after(future: torch.futures.Future, tensors: Sequence[torch.Tensor]) -> Any:
    """A future of a list of tensors in the host's memory. It ends, or fails, after `future`."""
    found = _compiled().list_after(future, list(tensors))
    attach_instead(found, future)
    return found
