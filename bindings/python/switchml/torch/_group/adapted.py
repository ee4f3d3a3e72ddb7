# SPDX-License-Identifier: BSD-3-Clause
"""Functions of PyTorch that have no hook for other backends, from the first group on.

Importing switchml.torch changes nothing. When a group of ours is first made, these functions are
replaced by ones that pass on what is not ours.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d
from torch.nn.parallel import DistributedDataParallel as DDP

from .._calls.callbacks import as_in_backward, order_callbacks


def _with_monitored_barrier(original: Any, kind: type) -> Any:
    """torch's function refuses every backend but Gloo by name. Our groups contain Gloo."""

    def monitored_barrier(
        group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        chosen = group or dist.group.WORLD
        if not isinstance(chosen, kind):
            return original(group, timeout, wait_all_ranks)
        return chosen.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    monitored_barrier.__doc__ = original.__doc__
    return torch.compiler.disable(monitored_barrier)


def _with_our_timeout(original: Any, kind: type) -> Any:
    """Before 2.14, torch's function looks for Gloo and NCCL, and leaves other backends alone."""

    def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        chosen = group or dist.group.WORLD
        if isinstance(chosen, kind):
            chosen.set_timeout(timeout)
        else:
            original(timeout, group)

    _set_pg_timeout.__doc__ = original.__doc__
    return _set_pg_timeout


def _with_cpp_futures(original: Any, groups: Iterable[Any]) -> Any:
    """DDP's FP16_COMPRESS is written in C++, and needs futures that hold a list of C++. A reducer
    does not say which group it has, so all groups make such futures from now on."""

    def _register_builtin_comm_hook(reducer: Any, comm_hook_type: Any) -> None:
        if comm_hook_type == dist.BuiltinCommHookType.FP16_COMPRESS:
            for group in list(groups):
                group.for_cpp = True
        original(reducer, comm_hook_type)

    _register_builtin_comm_hook.__doc__ = original.__doc__
    return _register_builtin_comm_hook


def _as_in_backward(original: Any) -> Any:
    """DDP's join() adds zeros outside of a backward pass to the gradients of ranks that are in one.
    They must ask for the same wire."""

    def _match_all_reduce_for_bwd_pass(model: Any) -> None:
        with as_in_backward():
            original(model)

    return _match_all_reduce_for_bwd_pass


_done = threading.Lock()


def adapt(kind: type, groups: Iterable[Any]) -> None:
    """Once in a process, for groups of this kind; `groups` are those that there are."""
    if not _done.acquire(blocking=False):
        return
    order_callbacks()
    dist.monitored_barrier = _c10d.monitored_barrier = _with_monitored_barrier(
        dist.monitored_barrier, kind
    )
    if not hasattr(dist, "set_timeout"):
        _c10d._set_pg_timeout = _with_our_timeout(_c10d._set_pg_timeout, kind)
    if hasattr(DDP, "_match_all_reduce_for_bwd_pass"):
        DDP._match_all_reduce_for_bwd_pass = _as_in_backward(DDP._match_all_reduce_for_bwd_pass)
    dist._register_builtin_comm_hook = _with_cpp_futures(dist._register_builtin_comm_hook, groups)
