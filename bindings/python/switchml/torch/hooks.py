# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel's communication hook: gradients of 16 or 8 bits, with error feedback.

    model.register_comm_hook(switchml.torch.HookState(wire="int16", error_feedback=True),
                             switchml.torch.allreduce_hook)

The C library converts floats to narrow integers, and feeds back what this rank has rounded away
(struct sml_options, residual); a state keeps that from one step to the next.
"""

# No `from __future__ import annotations`: DDP looks at the types in the hook's signature.
from typing import Any

import torch
from torch.distributed import GradBucket, ReduceOp

from .._settings import Wire
from ._calls.callbacks import then_compute
from ._group.group import ProcessGroupSwitchML, checked
from ._group.options import Options
from ._residuals import Residuals

_FED_BACK = (torch.float32, torch.float16, torch.bfloat16)


class HookState:
    """The state of the hook for one model. All ranks of the group create it, and no others.

    Args:
        group: the model's process group; None: the default one.
        wire: "int32", "int16", "int8" or "exact"; None: the group's.
        error_feedback: add the rounding error of a step to the next; only with "int16" or "int8".
    """

    def __init__(
        self,
        group: ProcessGroupSwitchML | None = None,
        *,
        wire: Wire | None = None,
        error_feedback: bool = False,
    ) -> None:
        if error_feedback and wire not in ("int16", "int8"):
            raise ValueError(
                "error_feedback needs wire='int16' or 'int8': other wires' errors are not fed back"
            )
        self.group, self.wire = checked(group), Options(wire=wire).wire
        self.error_feedback = error_feedback
        self.residuals = Residuals()

    @property
    def group(self) -> ProcessGroupSwitchML:
        """May be set: a state that was loaded from a file begins with the default group."""
        if self._group is None:
            self._group = checked(None)
        return self._group

    @group.setter
    def group(self, group: ProcessGroupSwitchML | None) -> None:
        self._group = None if group is None else checked(group)

    def state_dict(self) -> dict[str, Any]:
        """The settings and this rank's rounding errors, in a form that torch.save() takes and
        torch.load() reads. Every rank saves and loads its own."""
        found = self.residuals.by_parameter()
        return {
            "wire": self.wire,
            "error_feedback": self.error_feedback,
            "residuals": {number: errors.clone() for number, errors in found.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.wire, self.error_feedback = state["wire"], state["error_feedback"]
        self.residuals.load(state["residuals"])

    def __getstate__(self) -> dict[str, Any]:
        return self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._group, self.residuals = None, Residuals()
        self.load_state_dict(state)


@torch.compiler.disable
def allreduce_hook(
    state: HookState | None, bucket: GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """The mean of a bucket of gradients over all ranks. `state` None is HookState()."""
    if state is None:
        state = HookState()
    buffer, group, wire, residual = bucket.buffer(), state.group, state.wire, None
    mean = ReduceOp(ReduceOp.AVG)
    added = group._adds([buffer], mean)
    if not added:  # complex or sparse ones, for example
        work = group.allreduce([buffer.div_(group.size())])
        return then_compute(work.get_future(), _first)
    if state.error_feedback and buffer.dtype in _FED_BACK:
        residual = state.residuals.of(bucket.index(), bucket.parameters(), buffer.numel())
    elif state.error_feedback:  # of a double, nothing is kept, so nothing must be lost
        wire = None
    work = group._reduce("all_reduce", [buffer], added, wire=wire, residual=residual)
    return then_compute(work.get_future(), _first)


def _first(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]
