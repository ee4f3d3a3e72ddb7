# SPDX-License-Identifier: BSD-3-Clause
"""Several arrays in one call, for frameworks that pass all gradients of a step at once.

The arrays may be read-only, so results are new arrays. All calls start before the first wait,
so they use the wire without a pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from . import _the_job
from ._buffer import Array, buffer_of, check_type, empty_like
from ._settings import OPS, WIRES, Op, Wire, one_of
from .job import Job, kept


def check(op: Op, wire: Wire | None, types: Iterable[str] = ()) -> None:
    """Check before the framework does, because it would fail in the middle of a computation."""
    one_of("op", op, OPS)
    one_of("wire", wire, WIRES)
    for name in types:
        check_type(name)


def check_residuals(elements: Iterable[tuple[str, int]], op: Op, residuals: Sequence[Any]) -> None:
    """`elements`: the type and the count of each array."""
    found = [
        kept(type_name, count, op, residual)
        for (type_name, count), residual in zip(elements, residuals, strict=True)
    ]
    ends = sorted((its.address, its.address + its.nbytes) for its in found if its and its.nbytes)
    if any(end > start for (_, end), (start, _) in pairwise(ends)):
        raise ValueError("two residuals overlap: each array needs its own")


def gradient_wire(op: Op, wire: Wire | None, error: type[Exception]) -> Wire:
    """What the gradient of an all-reduce travels as. `error` is the framework's own."""
    if op.lower() not in ("sum", "avg"):
        raise error(f"allreduce() has no gradient with op={op!r}: use 'sum' or 'avg'")
    return wire or "gradient"


def allreduce_all(
    arrays: Sequence[Array],
    op: Op,
    wire: Wire | None,
    job: Job | None,
    residuals: Sequence[Any] | None = None,
) -> list[np.ndarray]:
    """Combine each array over all ranks. job None is the process's job."""
    job = job or _the_job()
    if residuals is None:
        residuals = [None] * len(arrays)
    # All of them first: a mistake then leaves no call under way, and the job stays usable.
    elements = [(its.type_name, its.count) for its in map(buffer_of, arrays)]
    check(op, wire, (type_name for type_name, _ in elements))
    check_residuals(elements, op, residuals)
    results = [empty_like(array, tuple(array.shape)) for array in arrays]
    requests = [
        job.allreduce_async(array, result, op=op, wire=wire, residual=residual)
        for array, result, residual in zip(arrays, results, residuals, strict=True)
    ]
    return [request.wait() for request in requests]


def broadcast_all(arrays: Sequence[Array], root: int, job: Job | None) -> list[np.ndarray]:
    """Root's arrays, on every rank. job None is the process's job."""
    job = job or _the_job()
    results = [np.array(array, order="C") for array in arrays]
    requests = [job.broadcast_async(result, root) for result in results]
    return [request.wait() for request in requests]
