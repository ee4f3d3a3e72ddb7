# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch: a process-group backend whose all-reduce is summed in the network.

    import torch.distributed as dist
    import switchml.torch

    dist.init_process_group("switchml")

docs/pytorch.md lists what runs on the switch and what runs on Gloo.
"""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d
from torch.nn.parallel import DistributedDataParallel as DDP

from ._calls.callbacks import as_in_backward
from ._calls.summary import Summary
from ._calls.tensors import DEVICE_TYPES
from ._group.group import ProcessGroupSwitchML, checked, create, groups
from ._group.options import Options
from ._group.retiring import await_retired, leave_all
from .hooks import HookState, allreduce_hook

__all__ = [
    "HookState",
    "Options",
    "ProcessGroupSwitchML",
    "allreduce_hook",
    "register",
    "summary",
]

_EXIT_S = 5.0
_process = os.getpid()


def summary(group: ProcessGroupSwitchML | None = None) -> Summary:
    """What this rank's calls on a group came to: on the switch, on Gloo, and what they took.

    The result is a dict; print() makes text of it (docs/is-it-used.md). Other ranks need not call
    it. `group`: None is the default group; a group that was destroyed has its last numbers.
    """
    return checked(group).summary()


@atexit.register
def _leave() -> None:
    """At the end of the program: close the groups that were not destroyed."""
    if os.getpid() == _process:
        trouble = getattr(sys, "last_value", None)
        left = sorted(groups, key=lambda group: group.title)  # which all ranks know
        # Those without a job first: they only tell the store, which the end of a job may end.
        for has_job in (False, True):
            chosen = [group for group in left if group.has_job == has_job]
            leave_all(chosen, _EXIT_S, trouble)
        await_retired()


def _with_monitored_barrier(original: Any) -> Any:
    """torch's function refuses every backend but Gloo by name. Our groups contain Gloo."""

    def monitored_barrier(
        group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        chosen = group or dist.group.WORLD
        if not isinstance(chosen, ProcessGroupSwitchML):
            return original(group, timeout, wait_all_ranks)
        return chosen.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)

    monitored_barrier.__doc__ = original.__doc__
    return torch.compiler.disable(monitored_barrier)


def _with_our_timeout(original: Any) -> Any:
    """Before 2.14, torch's function looks for Gloo and NCCL, and leaves other backends alone."""

    def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        chosen = group or dist.group.WORLD
        if isinstance(chosen, ProcessGroupSwitchML):
            chosen.set_timeout(timeout)
        else:
            original(timeout, group)

    _set_pg_timeout.__doc__ = original.__doc__
    return _set_pg_timeout


def _with_cpp_futures(original: Any) -> Any:
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


def register() -> None:
    """Make the backend known to torch.distributed. Importing this module does.

    PyTorch 2.14 and newer call it for init_process_group("switchml"), because the package names it
    as an entry point.
    """
    if "switchml" in _c10d.Backend.backend_list:
        return
    # Registering may also make it the backend that a new device gets without being asked for.
    defaults = dict(dist.Backend.default_device_backend_map)
    dist.Backend.register_backend("switchml", create, extended_api=True, devices=list(DEVICE_TYPES))
    dist.Backend.default_device_backend_map = defaults
    dist.monitored_barrier = _c10d.monitored_barrier = _with_monitored_barrier(
        dist.monitored_barrier
    )
    if not hasattr(dist, "set_timeout"):
        _c10d._set_pg_timeout = _with_our_timeout(_c10d._set_pg_timeout)
    if hasattr(DDP, "_match_all_reduce_for_bwd_pass"):
        DDP._match_all_reduce_for_bwd_pass = _as_in_backward(DDP._match_all_reduce_for_bwd_pass)
    dist._register_builtin_comm_hook = _with_cpp_futures(dist._register_builtin_comm_hook)


register()
