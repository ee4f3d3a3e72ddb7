# SPDX-License-Identifier: BSD-3-Clause
"""All-reduce summed inside the network.

    import numpy as np
    import switchml

    switchml.init()                       # rank and world size from the launcher
    mean = switchml.allreduce(np.ones(1000, np.float32), op="avg")
    switchml.finalize()

All ranks of a job make the same calls in the same order. The functions here are
those of one job of the process; `Job` has the same as methods, for several.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

from .errors import (
    AbortedError,
    ClosedError,
    ConfigError,
    ForkedError,
    MismatchError,
    ProtocolError,
    RankDiedError,
    RefusedError,
    SwitchDiedError,
    SwitchMLError,
    TimedOutError,
    TlsError,
    UnreachableError,
    VersionMismatchError,
)
from .job import Counters, Job, Request

__version__ = "0.1.0"

__all__ = [
    "AbortedError",
    "ClosedError",
    "ConfigError",
    "Counters",
    "ForkedError",
    "Job",
    "MismatchError",
    "ProtocolError",
    "RankDiedError",
    "RefusedError",
    "Request",
    "SwitchDiedError",
    "SwitchMLError",
    "TimedOutError",
    "TlsError",
    "UnreachableError",
    "VersionMismatchError",
    "abort",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_async",
    "barrier",
    "barrier_async",
    "broadcast",
    "broadcast_async",
    "counters",
    "finalize",
    "init",
    "is_initialized",
    "rank",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "world_size",
]

_job: Job | None = None


def init(**settings: Any) -> Job:
    """Join the process's job. Takes the same arguments as `Job`, and returns the job.

    Raises:
        RuntimeError: the process has already joined it.
        Whatever Job() raises.
    """
    global _job
    if _job is not None and not _job.closed:
        raise RuntimeError("switchml.init() was called before; call finalize() first")
    _job = Job(**settings)
    return _job


def is_initialized() -> bool:
    """Whether init() was called and finalize() was not."""
    return _job is not None and not _job.closed


def _the_job() -> Job:
    if _job is None or _job.closed:
        raise ClosedError("no job: call switchml.init() first")
    return _job


def finalize() -> None:
    """Leave the job, together with all other ranks. Does nothing without a job."""
    global _job
    job, _job = _job, None
    if job is not None:
        job.close()


def rank() -> int:
    """This process's number in the job, from 0."""
    return _the_job().rank


def world_size() -> int:
    """The number of ranks in the job."""
    return _the_job().world_size


def allreduce(array: Any, out: Any = None, op: str = "sum", wire: str | None = None) -> Any:
    """See Job.allreduce()."""
    return _the_job().allreduce(array, out, op, wire)


def allreduce_async(
    array: Any, out: Any = None, op: str = "sum", wire: str | None = None
) -> Request:
    """See Job.allreduce_async()."""
    return _the_job().allreduce_async(array, out, op, wire)


def reduce(
    array: Any, root: int = 0, out: Any = None, op: str = "sum", wire: str | None = None
) -> Any:
    """See Job.reduce()."""
    return _the_job().reduce(array, root, out, op, wire)


def reduce_async(
    array: Any, root: int = 0, out: Any = None, op: str = "sum", wire: str | None = None
) -> Request:
    """See Job.reduce_async()."""
    return _the_job().reduce_async(array, root, out, op, wire)


def broadcast(array: Any, root: int = 0) -> Any:
    """See Job.broadcast()."""
    return _the_job().broadcast(array, root)


def broadcast_async(array: Any, root: int = 0) -> Request:
    """See Job.broadcast_async()."""
    return _the_job().broadcast_async(array, root)


def allgather(array: Any, out: Any = None) -> Any:
    """See Job.allgather()."""
    return _the_job().allgather(array, out)


def allgather_async(array: Any, out: Any = None) -> Request:
    """See Job.allgather_async()."""
    return _the_job().allgather_async(array, out)


def reduce_scatter(array: Any, out: Any = None, op: str = "sum", wire: str | None = None) -> Any:
    """See Job.reduce_scatter()."""
    return _the_job().reduce_scatter(array, out, op, wire)


def reduce_scatter_async(
    array: Any, out: Any = None, op: str = "sum", wire: str | None = None
) -> Request:
    """See Job.reduce_scatter_async()."""
    return _the_job().reduce_scatter_async(array, out, op, wire)


def barrier() -> None:
    """See Job.barrier()."""
    _the_job().barrier()


def barrier_async() -> Request:
    """See Job.barrier_async()."""
    return _the_job().barrier_async()


def abort(reason: str) -> None:
    """See Job.abort()."""
    _the_job().abort(reason)


def counters() -> Counters:
    """See Job.counters()."""
    return _the_job().counters()


# Described in Job only.
for _name in __all__:
    if hasattr(Job, _name) and callable(getattr(Job, _name)):
        globals()[_name].__doc__ = getattr(Job, _name).__doc__


@atexit.register
def _leave() -> None:
    """At the end of the program: after an uncaught exception, the other ranks must not wait."""
    error = getattr(sys, "last_value", None)
    if is_initialized() and error is not None:
        abort(f"{type(error).__name__}: {error}")
    finalize()
