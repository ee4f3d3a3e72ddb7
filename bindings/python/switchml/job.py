# SPDX-License-Identifier: BSD-3-Clause
"""A rank's membership in a job, and its collectives."""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import _library as c
from ._buffer import Array, Buffer, buffer_of, empty_like
from ._library import Counters, lib
from ._request import Request, under_way
from ._settings import (
    OPS,
    WIRES,
    Debug,
    Op,
    Wire,
    call_options,
    in_c,
    integer,
    milliseconds,
    one_of,
    open_job,
)
from ._untraced import untraced
from ._wait import interruptible
from .errors import ClosedError, brief

A = TypeVar("A", bound=Array)
P = ParamSpec("P")
T = TypeVar("T")


def _awaited(begin: Callable[Concatenate[Any, P], Request[T]]) -> Callable[Concatenate[Any, P], T]:
    """The method that begins a call, and waits for its result. No other thread can wait for it: an
    interrupt ends the job."""
    name = begin.__name__
    shown, shown_name = inspect.signature(begin), name.removesuffix("_async")
    returned = shown.return_annotation.removeprefix("Request[").removesuffix("]")

    @brief
    def call(self: Job, *arguments: P.args, **named: P.kwargs) -> T:
        try:
            # By its name: untraced() may have replaced it.
            return getattr(self, name)(*arguments, **named).wait()
        except TypeError as error:
            # Where arguments do not fit, Python names the method that begins the call.
            error.args = (str(error).replace(f"{name}()", f"{shown_name}()"),)
            raise
        except KeyboardInterrupt:
            self.abort("interrupted (KeyboardInterrupt)")
            raise

    call.__doc__ = begin.__doc__
    return signed(call, shown_name, shown.replace(return_annotation=returned))


def signed(function: Any, name: str, signature: inspect.Signature) -> Any:
    """What help() and errors show of a function."""
    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature
    return function


class Job:
    """A rank of a job. All ranks create it, and all ranks close it.

    A value of None comes from the environment (SWITCHML_*, torchrun, Open MPI, MPICH, Slurm), or
    is the C library's default. See docs/environment.md.

    Args:
        rank, world_size: 0 <= rank < world_size <= 4096.
        job: a name that all ranks share.
        switch: "host[:port][,…]"; "embedded": each rank runs a part of one.
        master_address, master_port: where ranks find an embedded switch.
        master_listens: rank 0 has told them after it listened there (switchml.h).
        timeout: seconds, for every call; 0.001 to 1000000.
        heartbeat: seconds of silence after which a peer counts as dead; 0.1 to 60.
        wire: "int32", "int16" or "int8", the form of floats on the wire; "exact": sums are
            exact, and rounded once (docs/numbers.md).
        slots, threads, mtu, interface, spin, faults, record, shared_memory: as in switchml.h.
        tls_certificate, tls_key, tls_authority: PEM files (docs/security.md).
        ports: "first-last", the ports that this rank may open (docs/deploying.md).
        job_key, job_key_file: a secret instead of these files, or a file with the secret.
        debug: "error", "warn", "info" or "trace".
        summary: whether rank 0 logs a line when the job begins and one when it ends.
        wait_notice: seconds after which a rank that waits logs what it waits for; 0: never.
        join, min_ranks, max_ranks: a new process of an elastic job (docs/elastic.md).

    Raises:
        ConfigError, UnreachableError, RefusedError, TimedOutError, VersionMismatchError,
        TlsError, OSError.
    """

    @brief
    def __init__(
        self,
        *,
        rank: int | None = None,
        world_size: int | None = None,
        job: str | None = None,
        switch: str | None = None,
        master_address: str | None = None,
        master_port: int | None = None,
        timeout: float | None = None,
        heartbeat: float | None = None,
        wire: Wire | None = None,
        slots: int | None = None,
        threads: int | None = None,
        mtu: int | None = None,
        interface: str | None = None,
        debug: Debug | None = None,
        spin: bool | None = None,
        faults: str | None = None,
        record: str | None = None,
        tls_certificate: str | None = None,
        tls_key: str | None = None,
        tls_authority: str | None = None,
        job_key: str | None = None,
        job_key_file: str | None = None,
        ports: str | None = None,
        shared_memory: bool | None = None,
        wait_notice: float | None = None,
        summary: bool | None = None,
        join: bool | None = None,
        min_ranks: int | None = None,
        max_ranks: int | None = None,
        master_listens: bool | None = None,
        _watch: Callable[[], None] | None = None,
    ) -> None:
        given = dict(locals())  # first, when these are the arguments alone
        del given["self"], given["_watch"]
        settings = in_c(given)
        self._context: ctypes.c_void_p | None = None
        self._guard = threading.Lock()  # _failure() in one thread, close() in another
        if "torch" in sys.modules:
            _leave_to_python()
        # Ctrl-C ends sml_open(), and the switch forgets this rank.
        stop = ctypes.c_int(0)
        self._context, info = interruptible(
            lambda: open_job(settings, stop),
            lambda: setattr(stop, "value", 1),
            _leave_at_once,
            _watch,
        )
        self._note_members(info)

    def _note_members(self, info: c.Info) -> None:
        """Of a membership that has just begun."""
        self.rank, self.world_size = info.rank, info.world_size
        self._previous = info.previous_ranks[: info.world_size] if info.previous_ranks else []

    def _open(self, why: str = "no more calls can be made") -> ctypes.c_void_p:
        """The context. Raises ClosedError if the job is closed, and says what it has not then."""
        if not self._context:
            raise ClosedError(f"the job is closed: {why}")
        return self._context

    @property
    def _pending(self) -> list[Request]:
        return [request for request in tuple(under_way) if request._job is self]

    def _submit(
        self,
        name: str,
        arguments: tuple,
        keep: Any,
        result: Any,
        wire: int = c.WIRE_DEFAULT,
        title: bytes | None = None,
        residual: Buffer | None = None,
    ) -> Request:
        """Make a call of C."""
        request = Request(self, (keep, residual), result)
        address = None if residual is None else residual.address
        self._begin(request, 0, name, arguments, wire=wire, title=title, residual=address)
        return request

    def _combine(
        self,
        name: str,
        send: Buffer,
        recv: Buffer | None,
        count: int,
        result: Any,
        op: Op,
        wire: Wire | None,
        residual: Array | None,
        *root: int,
    ) -> Request:
        """Make a call of C that combines elements. `recv`: None on a rank that gets none."""
        number, on_wire = one_of("op", op, OPS), one_of("wire", wire, WIRES)
        address = None if recv is None else recv.address
        arguments = (send.address, address, count, send.number_type(), number, *root)
        fed = kept(send.type_name, send.count, op, residual)
        return self._submit(name, arguments, (send, recv), result, on_wire, residual=fed)

    def _begin(
        self,
        request: Request,
        call: int,
        name: str,
        arguments: tuple,
        waits: bool = False,
        wire: int = c.WIRE_DEFAULT,
        title: bytes | None = None,
        residual: int | None = None,
    ) -> None:
        """Make call number `call` of the request. `arguments`: before C's options, whose members
        `waits`, `wire`, `title` (the name) and `residual` are."""
        if not self._context:
            raise ClosedError("the job is closed: no more calls can be made")
        # Before C gets the arrays: from then on, Ctrl-C may come at any time.
        under_way.add(request)
        try:
            options = call_options(wire, waits, title, residual)
            number = getattr(lib, name)(self._context, *arguments, options, request._place(call))
            if number:
                c.check(number, self._context)
        except BaseException as error:
            # After Ctrl-C, C may use its arrays.
            if isinstance(error, Exception) and not request.n_begun:
                under_way.discard(request)
            raise

    def allreduce_async(
        self,
        array: Array,
        out: Array | None = None,
        *,
        op: Op = "sum",
        wire: Wire | None = None,
        residual: Array | None = None,
    ) -> Request[Any]:
        """Combine the arrays of all ranks, element by element. All ranks get the same bits.

        Args:
            array: float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 or
                bool, of any shape, the same on all ranks; contiguous, in this host's memory.
            out: the array for the result; may be `array` itself. None: a new array.
            op: "sum", "avg", "max" or "min".
            wire: "int32", "int16" or "int8"; "exact": the exact sum, rounded once;
                "gradient": at XDP and P4 switches int32, or int16 for 16-bit types; None: the
                job's.
            residual: float32, as many as the array has, and zeros at first: error feedback. They
                are added to the elements, and become what this rank rounds away of them, for the
                next call; if the call fails, they stay. Only for sums and averages of float32,
                float16 and bfloat16. The default wire is "gradient" then.

        Returns:
            out. allreduce_async() returns a Request for it, as all calls that end so do.

        Raises:
            TypeError: not an array, or an array of an unsupported type.
            ValueError: not contiguous, read-only, arrays that differ, or an unknown op or wire.
            MismatchError: another rank made a different call.
            RankDiedError, SwitchDiedError, TimedOutError, AbortedError,
            ClosedError: the job is over.
        """
        send = buffer_of(array)
        recv, out = _like(send, array, out)
        return self._combine("sml_allreduce", send, recv, send.count, out, op, wire, residual)

    allreduce = _awaited(allreduce_async)

    def reduce_async(
        self,
        array: Array,
        root: int = 0,
        *,
        out: Array | None = None,
        op: Op = "sum",
        wire: Wire | None = None,
        residual: Array | None = None,
    ) -> Request[Any]:
        """Combine the arrays of all ranks, as allreduce() does, for one of them.

        Rank `root` gets the result in `out`, and returns it. Other ranks return None, and do not
        use `out`. Everything else is as in allreduce().
        """
        send, root = buffer_of(array), integer("root", root)
        recv, out = _like(send, array, out) if root == self.rank else (None, None)
        return self._combine("sml_reduce", send, recv, send.count, out, op, wire, residual, root)

    reduce = _awaited(reduce_async)

    def broadcast_async(self, array: A, root: int = 0) -> Request[A]:
        """Copy root's elements into the arrays of all other ranks, and return `array`.

        `array` may have any type of fixed size and any shape; both must be the same on all ranks.
        Raises the same errors as allreduce().
        """
        data = buffer_of(array, writable=root != self.rank)
        root = integer("root", root)
        kind, count, title = data.moved(f"broadcast from rank {root}")
        return self._submit(
            "sml_broadcast", (data.address, count, kind, root), (data,), array, title=title
        )

    broadcast = _awaited(broadcast_async)

    def allgather_async(self, array: Array, out: Array | None = None) -> Request[Any]:
        """Collect the arrays of all ranks: row r of the result is rank r's array.

        `array` has the same type (any of fixed size) and shape on all ranks. `out` has
        `world_size` times as many elements. By default, it is a new array of shape (world_size,
        *array.shape). Returns out. Raises the same errors as allreduce().
        """
        send = buffer_of(array)
        if out is None:
            out = empty_like(array, (self.world_size, *send.shape))
        recv = buffer_of(out, writable=True)
        if recv.nbytes != send.nbytes * self.world_size or recv.type_name != send.type_name:
            raise ValueError(
                f"out must have {self.world_size} x {send.count} {send.type_name}, but has "
                f"{recv.count} {recv.type_name}"
            )
        kind, count, title = send.moved("allgather")
        arguments = (send.address, recv.address, count, kind)
        return self._submit("sml_allgather", arguments, (send, recv), out, title=title)

    allgather = _awaited(allgather_async)

    def reduce_scatter_async(
        self,
        array: Array,
        out: Array | None = None,
        *,
        op: Op = "sum",
        wire: Wire | None = None,
        residual: Array | None = None,
    ) -> Request[Any]:
        """Combine the arrays of all ranks, and keep this rank's part of the result.

        Rank r gets part r of `world_size` equal parts along the first dimension. Everything else
        is as in allreduce().
        """
        send = buffer_of(array)
        if not send.shape or send.shape[0] % self.world_size:
            raise ValueError(
                f"the first dimension of {list(send.shape)} must be a multiple of the "
                f"{self.world_size} ranks"
            )
        if out is None:
            out = empty_like(array, (send.shape[0] // self.world_size, *send.shape[1:]))
        recv = buffer_of(out, writable=True)
        if recv.count * self.world_size != send.count or recv.type_name != send.type_name:
            raise ValueError(
                f"out must have {send.count // self.world_size} {send.type_name}, but has "
                f"{recv.count} {recv.type_name}"
            )
        return self._combine("sml_reduce_scatter", send, recv, recv.count, out, op, wire, residual)

    reduce_scatter = _awaited(reduce_scatter_async)

    def barrier_async(self) -> Request[None]:
        """Return when all ranks have called it. Raises the same errors as allreduce()."""
        return self._submit("sml_barrier", (), (), None)

    barrier = _awaited(barrier_async)

    def abort(self, reason: str) -> None:
        """End the job for all ranks. Their calls raise AbortedError with this reason."""
        if self._context:
            lib.sml_abort(self._context, reason.encode())

    def set_timeout(self, timeout: float) -> None:
        """Give later calls this many seconds. Those under way keep theirs."""
        number = lib.sml_set_timeout(self._open(), milliseconds("timeout", timeout))
        c.check(number, self._context)

    def counters(self, stripe: int | None = None) -> Counters:
        """Counters since the job was joined; of one of its switches, since this membership."""
        counters = c.CCounters(size=ctypes.sizeof(c.CCounters))
        which = -1 if stripe is None else integer("stripe", stripe)
        number = lib.sml_get_counters(self._open(), which, ctypes.byref(counters), None)
        c.check(number, self._context)
        return Counters(*(getattr(counters, name) for name in Counters._fields))

    def path(self) -> str:
        """Where numbers are added, for people: "the switch at box:28500", "this host's memory"."""
        return self._where()[1]

    def _where(self) -> tuple[int, str]:
        """The same as a number of C, and for people."""
        info, number = c.get_info(self._open("it has no path"))
        c.check(number, self._context)
        return info.path, info.path_text.decode(errors="replace")

    def event_fd(self) -> int:
        """A descriptor for poll() or asyncio's add_reader(): readable when calls have ended.

        Read its 8 bytes, and then test() the requests. It may become readable without a reason.
        close() closes it.
        """
        return c.check(lib.sml_event_fd(self._open()), self._context)

    def _failure(self) -> str | None:
        """The text of the error that has ended the job; None: it runs, or it is closed."""
        with self._guard:
            text = lib.sml_error_text(self._context) if self._context else b""
        return text.decode("utf-8", "replace") or None

    @brief
    def reconfigure(
        self,
        *,
        job: str | None = None,
        rank: int = 0,
        world_size: int = 0,
        master_address: str | None = None,
        master_port: int = 0,
        min_ranks: int = 0,
        max_ranks: int = 0,
        wait: float | None = None,
        timeout: float | None = None,
        previous_ranks: Sequence[int | None] | None = None,
    ) -> None:
        """Go on as another membership (docs/elastic.md): `rank` and `world_size` change.

        With `job`, `rank` and `world_size`, the caller has decided on the members; without them,
        the switch decides. `wait`: seconds for other old ranks to ask. `timeout`: of this call.
        `previous_ranks`: of each rank, the one that it had in this job's last membership, or None:
        at that membership's switch, nobody waits more than a heartbeat for one that has gone.
        """
        if previous_ranks is not None and len(previous_ranks) != world_size:
            raise ValueError(
                f"previous_ranks has {len(previous_ranks)} ranks, and world_size is {world_size}"
            )
        previous = [-1 if rank is None else rank for rank in previous_ranks or ()]
        members = c.Membership(
            size=ctypes.sizeof(c.Membership),
            job=None if job is None else job.encode(),
            rank=rank,
            world_size=world_size,
            master_address=None if master_address is None else master_address.encode(),
            master_port=master_port,
            min_ranks=min_ranks,
            max_ranks=max_ranks,
            wait_ms=0 if wait is None else milliseconds("wait", wait),
            timeout_ms=0 if timeout is None else milliseconds("timeout", timeout),
            previous_ranks=(ctypes.c_int * len(previous))(*previous) if previous else None,
        )
        context = self._open("it has no other membership")

        def change() -> None:
            c.check(lib.sml_reconfigure(context, ctypes.byref(members)))

        interruptible(change, lambda: lib.sml_abort(context, b"interrupted (KeyboardInterrupt)"))
        info, number = c.get_info(context)
        c.check(number)  # another thread changes the members again, or has closed the job
        self._note_members(info)

    @property
    def waiting(self) -> int:
        """How many processes wait to join this job, as the switch last said."""
        return c.get_info(self._context)[0].waiting

    def previous_rank(self, rank: int) -> int | None:
        """The rank that this one had in the membership before; None: it has joined."""
        previous = self._previous[rank] if 0 <= rank < len(self._previous) else -1
        return None if previous < 0 else previous

    def count_elsewhere(self, where: str, calls: int = 1) -> None:
        """Count calls that were made elsewhere, for the line at the job's end."""
        with self._guard:
            lib.sml_count_elsewhere(self._context, where.encode(), calls)

    @property
    def closed(self) -> bool:
        return not self._context

    def close(self) -> None:
        """Leave the job, together with all other ranks. Closing twice is allowed."""
        with self._guard:
            context, self._context = self._context, None
        if context:
            # A failed close has the text of the calls that failed before it.
            interruptible(lambda: lib.sml_close(context))
        under_way.difference_update(self._pending)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        if error is not None:
            # The other ranks wait in a call that this rank will not make.
            self.abort(f"{kind.__name__ if kind else 'error'}: {error}")
        self.close()


@functools.cache
def _leave_to_python() -> None:
    """torch.compile may have functions that call a job's methods."""
    for kind in (Request, Job):
        untraced(kind)


def _like(send: Buffer, array: Array, out: Array | None) -> tuple[Buffer, Any]:
    """The buffer of a result that is like the array, and the array that has it."""
    if out is None:
        out = empty_like(array, send.shape)
    recv = buffer_of(out, writable=True)
    if recv.count != send.count or recv.type_name != send.type_name:
        raise ValueError(
            f"out is {recv.type_name}{list(recv.shape)}, but the array is "
            f"{send.type_name}{list(send.shape)}: they must be alike"
        )
    return recv, out


def kept(type_name: str, count: int, op: Op, residual: Array | None) -> Buffer | None:
    """The residual's memory. Raises ValueError if a call with such elements cannot take it."""
    if residual is None:
        return None
    if type_name not in ("float32", "float16", "bfloat16") or op.lower() not in ("sum", "avg"):
        raise ValueError("a residual is only for SUM and AVG of float32, float16 and bfloat16")
    found = buffer_of(residual, writable=True)
    if found.type_name != "float32" or found.count != count:
        raise ValueError(
            f"residual must have {count} float32, but has {found.count} {found.type_name}"
        )
    return found


def _leave_at_once(opened: tuple[ctypes.c_void_p, c.Info]) -> None:
    """The others would wait for a rank that has gone."""
    lib.sml_abort(opened[0], b"interrupted while it joined (KeyboardInterrupt)")
    lib.sml_close(opened[0])
