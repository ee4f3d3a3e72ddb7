# SPDX-License-Identifier: BSD-3-Clause
"""Keeps torch.compile out of public methods.

Dynamo, which compiles, follows the calls of a compiled function into methods that are written
in Python. It cannot trace ours: they use ctypes, threads and the addresses of tensors. So the
compiled function is cut at each call of such a method, as it is at methods that are written in
C++. The invariant: this holds for every public method of a class, because nobody lists them.
"""

from __future__ import annotations

import inspect
import types
from typing import Any


def untraced(kind: type, only_overriding: bool = False) -> None:
    """Let torch.compile call the public methods of this class, and not trace them.

    Methods that override one of PyTorch's are public, whatever their names. `only_overriding`:
    no others are. PyTorch must be installed.
    """
    import torch

    theirs = {name for base in kind.__mro__ if _is_torchs(base) for name in vars(base)}
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        if name.startswith("__") or not isinstance(method, types.FunctionType):
            continue
        public = name in theirs or not (only_overriding or name.startswith("_"))
        if public and not hasattr(method, "_is_untraced"):
            method = torch.compiler.disable(method)
            method._is_untraced = True
            setattr(kind, name, method)


def _is_torchs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


class Untraced:
    """A base of classes whose public methods are untraced."""

    _only_overriding = False

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        untraced(cls, cls._only_overriding)
