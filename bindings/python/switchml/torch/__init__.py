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

import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d

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


register()
