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
import inspect
import sys
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from . import errors
from ._buffer import Array
from ._settings import Debug, Op, Wire
from .errors import *  # noqa: F403
from .job import Counters, Job, Request, signed

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Counters",
    "Debug",
    "Job",
    "Op",
    "Request",
    "Wire",
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
    "event_fd",
    "finalize",
    "init",
    "is_initialized",
    "path",
    "rank",
    "reconfigure",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "set_timeout",
    "world_size",
]
__all__ += errors.__all__

P = ParamSpec("P")
T = TypeVar("T")

_job: Job | None = None


def _joining(make: Callable[P, Job]) -> Callable[P, Job]:
    def init(*arguments: P.args, **settings: P.kwargs) -> Job:
        """Join the process's job. Takes the same arguments as `Job`, and returns the job.

        Raises:
            RuntimeError: the process has already joined it.
            Whatever Job() raises.
        """
        global _job
        if is_initialized():
            raise RuntimeError("switchml.init() was called before; call finalize() first")
        _job = make(*arguments, **settings)
        return _job

    return signed(init, "init", inspect.signature(make).replace(return_annotation="Job"))


def _of_the_job(method: Callable[Concatenate[Job, P], T]) -> Callable[P, T]:
    """A method of Job as a function: that of the process's job."""
    name, shown = method.__name__, inspect.signature(method)

    def function(*arguments: P.args, **named: P.kwargs) -> T:
        # By its name: untraced() may have replaced it.
        result: T = getattr(_the_job(), name)(*arguments, **named)
        return result

    function.__doc__ = method.__doc__
    return signed(function, name, shown.replace(parameters=[*shown.parameters.values()][1:]))


def is_initialized() -> bool:
    """Whether init() was called and finalize() was not."""
    return _job is not None and not _job.closed


def _the_job() -> Job:
    if _job is None or _job.closed:
        raise errors.ClosedError("no job: call switchml.init() first")
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


init = _joining(Job)
allreduce = _of_the_job(Job.allreduce)
allreduce_async = _of_the_job(Job.allreduce_async)
reduce = _of_the_job(Job.reduce)
reduce_async = _of_the_job(Job.reduce_async)
broadcast = _of_the_job(Job.broadcast)
broadcast_async = _of_the_job(Job.broadcast_async)
allgather = _of_the_job(Job.allgather)
allgather_async = _of_the_job(Job.allgather_async)
reduce_scatter = _of_the_job(Job.reduce_scatter)
reduce_scatter_async = _of_the_job(Job.reduce_scatter_async)
barrier = _of_the_job(Job.barrier)
barrier_async = _of_the_job(Job.barrier_async)
abort = _of_the_job(Job.abort)
counters = _of_the_job(Job.counters)
path = _of_the_job(Job.path)
event_fd = _of_the_job(Job.event_fd)
set_timeout = _of_the_job(Job.set_timeout)
reconfigure = _of_the_job(Job.reconfigure)


@atexit.register
def _leave() -> None:
    """At the end of the program: after an uncaught exception, the other ranks must not wait."""
    error = getattr(sys, "last_value", None)
    if is_initialized() and error is not None:
        abort(f"{type(error).__name__}: {error}")
    finalize()
