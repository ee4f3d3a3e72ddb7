# SPDX-License-Identifier: BSD-3-Clause
"""DistributedDataParallel's communication hook: gradients of 16 or 8 bits, with error feedback.

    model.register_comm_hook(switchml.torch.HookState(wire="int16", error_feedback=True),
                             switchml.torch.allreduce_hook)

Without error feedback, the C library converts floats to narrow integers. With error feedback,
the hook does this, because it must know the rounding errors. For each block of elements, the ranks
agree on an exponent (MAX). Each rank rounds its elements to integers, sends them in the form of
the wire (`Form` below), and adds their rounding errors to its next gradient.

The exponents go through the model's group, and the integers go through a separate job beside
it. So both are called in the order of the buckets on all ranks, although the second call is
made when the first has ended.
"""

# No `from __future__ import annotations`: DDP looks at the types in the hook's signature.
import math
from typing import Any

import torch
from torch.distributed import GradBucket, ReduceOp

from .._settings import Wire
from ._calls.callbacks import Promise, then_compute
from ._calls.tensors import is_accelerated
from ._calls.work import Work
from ._group.group import ProcessGroupSwitchML, checked
from ._group.options import Options
from ._residuals import Residuals

# Exponents of float32 are -149 … 128. Above that, the block has an infinity or a NaN.
_NOT_FINITE = 1 << 16
_SMALLEST = -160


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
        if error_feedback and wire not in FORMS:
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
    buffer = bucket.buffer()
    is_dense = buffer.layout is torch.strided  # Gloo adds sparse ones, and rounds nothing away
    rounds = buffer.dtype in (torch.float32, torch.float16, torch.bfloat16)
    if state.error_feedback and is_dense and rounds:
        return _with_feedback(state, bucket, buffer)
    group = state.group
    if not group._adds([buffer], ReduceOp(ReduceOp.AVG)):  # complex ones, for example
        work = group.allreduce([buffer.div_(group.size())])
        return then_compute(work.get_future(), _first)
    # The rounding errors of a double are not kept, so there must be none.
    wire = None if state.error_feedback else state.wire
    work = group._reduce("all_reduce", [buffer], ReduceOp(ReduceOp.AVG), wire=wire)
    return then_compute(work.get_future(), _first)


def _first(future: torch.futures.Future) -> torch.Tensor:
    return future.value()[0]


# ---- error feedback ----


def _with_feedback(state: HookState, bucket: GradBucket, buffer: torch.Tensor) -> Any:
    form = FORMS[state.wire]
    padded = -(-buffer.numel() // (2 * form.block)) * 2 * form.block
    blocks = torch.zeros(padded, dtype=torch.float32, device=buffer.device)
    blocks[: buffer.numel()] = buffer
    parameters = bucket.parameters()
    residual = state.residuals.of(bucket.index(), parameters, padded, buffer.device)
    blocks += residual
    blocks = blocks.view(-1, form.block)
    exponents = exponents_of(blocks)
    group = state.group
    bits = form.bits_of(group.size())
    promise = Promise(_buffer_or_error, [buffer.device] if is_accelerated(buffer) else [])

    def exponents_are_known(_: Work) -> None:
        packed = form.pack(rounded(blocks, exponents, bits, residual), exponents, bits)
        group._reduce(
            "all_reduce",
            [packed],
            ReduceOp(form.op),
            wire=form.wire,
            line=group._hooks_line,
            when_ended=guarded(sums_are_known),
        )

    def sums_are_known(work: Work) -> None:
        (packed,) = work.result()
        mean = form.unpack(packed, exponents, group.size())
        buffer.copy_(mean.view(-1)[: buffer.numel()])
        group._line.call_back(lambda: promise.keep((buffer, None)))

    def guarded(step: Any) -> Any:
        def run(work: Work) -> None:
            error = work.exception()
            try:
                if error is None:
                    work.synchronize()
                    step(work)
            except Exception as failure:
                error = failure
            if error is not None:  # raised when the result is requested
                group._line.call_back(lambda: promise.keep((buffer, error)))

        return run

    group._reduce(
        "all_reduce",
        [exponents],
        ReduceOp(ReduceOp.MAX),
        when_ended=guarded(exponents_are_known),
    )
    return promise.future


def _buffer_or_error(future: torch.futures.Future) -> torch.Tensor:
    buffer, error = future.value()
    if error is not None:
        raise error.with_traceback(None)
    return buffer


def exponents_of(blocks: torch.Tensor) -> torch.Tensor:
    """For each row, the least e, as int32, such that all its elements are below 2^e."""
    largest = blocks.abs().amax(dim=1)
    exponents = torch.frexp(largest).exponent.to(torch.int32).clamp_(min=_SMALLEST)
    exponents[largest == 0] = _SMALLEST
    exponents[~torch.isfinite(largest)] = _NOT_FINITE
    return exponents


def _powers_of_two(exponents: torch.Tensor) -> torch.Tensor:
    """Exact on every device, as float32. exponents: int32, from -126 to 127."""
    return ((exponents + 127) << 23).view(torch.float32)


def _scaled(blocks: torch.Tensor, powers: torch.Tensor) -> torch.Tensor:
    """blocks x 2^powers, in two steps: float32 may be too small for the whole factor.

    torch.ldexp() does the same, and takes thirty times as long.
    """
    half = powers // 2
    scaled = blocks * _powers_of_two(half)[:, None]
    return scaled.mul_(_powers_of_two(powers - half)[:, None])


def rounded(
    blocks: torch.Tensor, exponents: torch.Tensor, bits: int, residual: torch.Tensor
) -> torch.Tensor:
    """The blocks in units of 2^(exponent - bits): integers below 2^bits, as float32. What they
    lose goes into `residual`."""
    finite = exponents < _NOT_FINITE
    exponents = torch.where(finite, exponents, 0)
    limit = 2**bits - 1
    unit = exponents - bits
    units = _scaled(blocks, -unit).nan_to_num_(0.0, 0.0, 0.0)
    units = units.round_().clamp_(-limit, limit)
    lost = (blocks - _scaled(units, unit)).nan_to_num_(0.0, 0.0, 0.0)
    residual.copy_((lost * finite[:, None]).view(-1))
    return units


def _with_units(units: torch.Tensor, exponents: torch.Tensor, bits: int) -> torch.Tensor:
    """What rounded() has rounded to. NaN in blocks that have a number that is not finite."""
    finite = exponents < _NOT_FINITE
    floats = _scaled(units, torch.where(finite, exponents, 0) - bits)
    return floats.mul_(torch.where(finite, 1.0, torch.nan)[:, None])


class Int16Pairs:
    """Two integers in an int32. They have so few bits that the sum of all ranks has at most 16:
    no switch rounds it, and all that is lost is fed back."""

    block = 256
    op, wire = ReduceOp.SUM, None

    @staticmethod
    def bits_of(n_ranks: int) -> int:
        return 15 - math.ceil(math.log2(n_ranks))

    @staticmethod
    def pack(units: torch.Tensor, exponents: torch.Tensor, bits: int) -> torch.Tensor:
        # The first half of the elements is below, and the second above. A negative one below
        # borrows from the one above.
        low_and_high = units.to(torch.int32).view(2, -1)
        return (low_and_high[1] << 16) + low_and_high[0]

    @classmethod
    def unpack(cls, packed: torch.Tensor, exponents: torch.Tensor, n_ranks: int) -> torch.Tensor:
        """The mean, as float32 blocks, of what n ranks packed and the switch added."""
        low = (packed << 16) >> 16  # with its sign
        high = (packed - low) >> 16
        sums = torch.cat([low, high]).to(torch.float32).view(-1, cls.block)
        return _with_units(sums, exponents, cls.bits_of(n_ranks)) / n_ranks


class Int8Floats:
    """Floats that the int8 wire takes exactly: its blocks are these blocks, and its exponents are
    at most these exponents, so its units divide these. What the switch rounds is not fed back."""

    block = 64
    op = ReduceOp.AVG
    wire: Wire = "int8"

    @staticmethod
    def bits_of(n_ranks: int) -> int:
        return 7

    @staticmethod
    def pack(units: torch.Tensor, exponents: torch.Tensor, bits: int) -> torch.Tensor:
        return _with_units(units, exponents, bits).view(-1)

    @classmethod
    def unpack(cls, packed: torch.Tensor, exponents: torch.Tensor, n_ranks: int) -> torch.Tensor:
        return packed.view(-1, cls.block)


Form = type[Int16Pairs] | type[Int8Floats]
FORMS: dict[Wire | None, Form] = {"int16": Int16Pairs, "int8": Int8Floats}
