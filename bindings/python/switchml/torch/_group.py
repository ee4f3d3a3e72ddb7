# SPDX-License-Identifier: BSD-3-Clause
"""The process group: which collective goes to the switch, and which to Gloo.

A subclass of ProcessGroup, for that is what PyTorch lets Python subclass: C++
(DDP, functional collectives) calls its methods, too. Whatever has no method
here, or does not suit the switch, goes to a plain process group with a Gloo
backend on the same store. The invariant: that choice depends on nothing but
what is the same on all ranks, or they would wait for each other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceScatterOptions,
)
from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo, ReduceOp

from .. import _library as c
from ..job import WIRES, Job, Request, _options
from ._line import Line, seconds_of
from ._rendezvous import join
from ._work import Begin, Work

log = logging.getLogger("switchml.torch")

_TYPES = {
    torch.float32: c.FLOAT32,
    torch.float16: c.FLOAT16,
    torch.bfloat16: c.BFLOAT16,
    torch.int32: c.INT32,
}
_OPS = {
    ReduceOp.SUM: c.SUM,
    ReduceOp.AVG: c.AVG,
    ReduceOp.MAX: c.MAX,
    ReduceOp.MIN: c.MIN,
}
_CPU = torch.device("cpu")
_LEAVE_S = 20.0


@dataclass(frozen=True)
class Options:
    """Settings of a group: `pg_options` of init_process_group() and new_group().

    What is None comes from the environment (docs/environment.md).

    Args:
        wire: "int32" or "int16", what floats become on the wire.
        switch: "host[:port][,…]", or "embedded": the group's rank 0 runs one.
        master_address, master_port: where an embedded one is found; else any free port.
        heartbeat, slots, threads, mtu, interface, spin, debug: as in switchml.Job.
    """

    wire: str | None = None
    switch: str | None = None
    master_address: str | None = None
    master_port: int | None = None
    heartbeat: float | None = None
    slots: int | None = None
    threads: int | None = None
    mtu: int | None = None
    interface: str | None = None
    spin: bool | None = None
    debug: str | None = None

    def __post_init__(self) -> None:
        if self.wire not in WIRES:
            raise ValueError(f"wire must be 'int32' or 'int16', not {self.wire!r}")


class ProcessGroupSwitchML(ProcessGroup):
    """Ranks that reduce through a switch. Made by torch.distributed, not by hand."""

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        options: Options | None = None,
        title: str = "",
        eager: bool = True,
    ) -> None:
        super().__init__(rank, size)  # the constructor with a store makes no subclass
        self._store, self._title = store, title or "the process group"
        self._timeout = timeout.total_seconds()
        self._told: set[str] = set()
        self._gloo = ProcessGroupGloo(PrefixStore("gloo/", store), rank, size, timeout=timeout)
        self._others = ProcessGroup(store, rank, size)
        self._add_backend(_CPU, ProcessGroup.BackendType.GLOO, self._gloo)
        settings = asdict(options or Options())

        def opener(store: dist.Store = PrefixStore("switchml/", store)) -> Job:
            return join(store, rank, size, title, timeout.total_seconds(), settings)

        self._line = Line(self._title, opener)
        if eager:
            self._line.open()

    def _add_backend(self, device: torch.device, kind: Any, backend: Any) -> None:
        """For what comes here from C++ without a method below, and for what we hand on."""
        for group in (super(), self._others):
            group._register_backend(device, kind, backend)
            group._set_default_backend(kind)

    def getBackendName(self) -> str:
        return "switchml"

    def get_group_store(self) -> dist.Store:
        return self._store

    # ---- what goes where ----

    def _takes(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the switch can move these. Not of their strides: those may differ."""
        return bool(tensors) and all(t.layout is torch.strided and t.is_cpu for t in tensors)

    def _adds(self, tensors: Sequence[torch.Tensor], op: ReduceOp) -> bool:
        return self._takes(tensors) and tensors[0].dtype in _TYPES and op.op in _OPS

    def _instead(self, name: str, why: str = "") -> Any:
        """The group for what the switch does not do; the log says so, once."""
        what = f"{name} of {why}" if why else name
        if what not in self._told:
            self._told.add(what)
            level = logging.WARNING if self.rank() == 0 else logging.DEBUG
            log.log(level, "%s: %s does not run on the switch, but on Gloo", self._title, what)
        return getattr(self._others, name)

    # ---- how it goes ----

    def _run(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        begin: Begin,
        finish: Callable[[], None] | None = None,
        timeout: timedelta = timedelta(0),
    ) -> Work:
        limit = seconds_of(timeout) or seconds_of(self._gloo.options._timeout)
        if limit is not None and limit >= self._timeout:
            limit = None  # the C library's own
        work = Work(name, tensors, begin, finish, limit)
        if not torch.autograd._profiler_enabled():
            self._line.put(work)
            return work
        # The range ends with the work, not with the call.
        with torch.autograd.profiler.record_function(f"switchml:{name}") as range_:
            self._line.put(work)
            range_._call_end_callbacks_on_future(work.get_future())
        return work

    def _reduce(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        op: ReduceOp,
        timeout: timedelta,
        wire: str | None = None,
    ) -> Work:
        """All-reduce each of the tensors in place."""
        flat, finish = _dense(tensors)
        kind, number, options = _TYPES[tensors[0].dtype], _OPS[op.op], _options(wire)

        def begin(job: Job) -> list[Request]:
            return [
                job._submit(
                    "allreduce",
                    (t.data_ptr(), t.data_ptr(), t.numel(), kind, number, options),
                    (t,),
                    None,
                )
                for t in flat
            ]

        return self._run(name, tensors, begin, finish, timeout)

    # ---- the collectives of the switch ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None, op: Any = None) -> Any:
        tensors, opts = _normal(tensors, opts, op, timeout, AllreduceOptions)
        if len(tensors) != 1 or not self._adds(tensors, opts.reduceOp):
            why = _describe(tensors, opts.reduceOp)
            return self._instead("allreduce", why)(tensors, opts)
        return self._reduce("all_reduce", tensors, opts.reduceOp, opts.timeout)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        opts = opts or AllreduceCoalescedOptions()
        if not self._adds(tensors, opts.reduceOp) or len({t.dtype for t in tensors}) != 1:
            why = _describe(tensors, opts.reduceOp)
            return self._instead("allreduce_coalesced", why)(tensors, opts)
        return self._reduce("all_reduce_coalesced", tensors, opts.reduceOp, opts.timeout)

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: Any = None, root: Any = None
    ) -> Any:
        if isinstance(opts, int):
            opts, root = None, opts
        tensors, opts = _normal(tensors, opts, None, timeout, BroadcastOptions)
        if root is not None:
            opts.rootRank = root
        if len(tensors) != 1 or not self._takes(tensors):
            return self._instead("broadcast", _describe(tensors))(tensors, opts)
        (flat,), finish = _dense(tensors)
        root, sends = opts.rootRank, opts.rootRank == self.rank()

        def begin(job: Job) -> list[Request]:
            arguments = (flat.data_ptr(), flat.nbytes, c.BYTE, root)
            return [job._submit("broadcast", arguments, (flat,), None)]

        return self._run("broadcast", tensors, begin, None if sends else finish, opts.timeout)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Any:
        opts = opts or BarrierOptions()
        if timeout is not None:
            opts.timeout = timeout
        return self._run("barrier", [], lambda job: [job.barrier_async()], None, opts.timeout)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        return self._gather("all_gather_single", [output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._gather("all_gather_single_coalesced", outputs, inputs, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather(self, name: str, outputs: Any, inputs: Any, opts: Any) -> Any:
        opts = opts or AllgatherOptions()
        if not self._takes([*inputs, *outputs]):
            arguments = (outputs, inputs) if name.endswith("coalesced") else (*outputs, *inputs)
            return self._instead(name, _describe(inputs))(*arguments, opts)
        for i, o in zip(inputs, outputs, strict=True):
            if i.dtype != o.dtype or o.numel() != i.numel() * self.size():
                raise ValueError(
                    f"all-gather of {_describe([i])} wants {i.numel() * self.size()} elements "
                    f"of that type for its result, not {_describe([o])}"
                )
        sends, _ = _dense(inputs)
        takes, finish = _dense(outputs)

        def begin(job: Job) -> list[Request]:
            return [
                job._submit(
                    "allgather", (i.data_ptr(), o.data_ptr(), i.nbytes, c.BYTE), (i, o), None
                )
                for i, o in zip(sends, takes, strict=True)
            ]

        return self._run("all_gather_into_tensor", outputs, begin, finish, opts.timeout)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        return self._scatter("reduce_scatter_single", [output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._scatter("reduce_scatter_single_coalesced", outputs, inputs, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _scatter(self, name: str, outputs: Any, inputs: Any, opts: Any) -> Any:
        opts = opts or ReduceScatterOptions()
        if not self._takes(outputs) or not self._adds(inputs, opts.reduceOp):
            arguments = (outputs, inputs) if name.endswith("coalesced") else (*outputs, *inputs)
            return self._instead(name, _describe(inputs, opts.reduceOp))(*arguments, opts)
        for i, o in zip(inputs, outputs, strict=True):
            if i.dtype != o.dtype or i.numel() != o.numel() * self.size():
                raise ValueError(
                    f"reduce-scatter of {_describe([i])} wants a part of it, a "
                    f"{self.size()}-th, for its result, not {_describe([o])}"
                )
        sends, _ = _dense(inputs)
        takes, finish = _dense(outputs)
        number, options = _OPS[opts.reduceOp.op], _options(None)

        def begin(job: Job) -> list[Request]:
            return [
                job._submit(
                    "reduce_scatter",
                    (i.data_ptr(), o.data_ptr(), o.numel(), _TYPES[i.dtype], number, options),
                    (i, o),
                    None,
                )
                for i, o in zip(sends, takes, strict=True)
            ]

        return self._run("reduce_scatter_tensor", outputs, begin, finish, opts.timeout)

    # ---- the end ----

    def shutdown(self) -> None:
        """Leave, together with all other ranks; or tell them, if this one is in trouble."""
        self._leave(_LEAVE_S)

    def abort(self) -> None:
        """End the collectives of all ranks."""
        self._line.abort(f"rank {self.rank()} aborted {self._title}")
        self._others.abort()
        self._leave(5.0)

    def _leave(self, seconds: float, trouble: BaseException | None = None) -> None:
        import sys

        trouble = trouble or sys.exc_info()[1]
        if trouble is not None:
            # The others may wait in a call that this rank won't make.
            text = f"rank {self.rank()}: {type(trouble).__name__}: {trouble}"
            self._line.abort(text[:400])
        self._line.close(seconds)


def _instead_of(name: str) -> Callable[..., Any]:
    def call(self: ProcessGroupSwitchML, *arguments: Any, **named: Any) -> Any:
        return self._instead(name)(*arguments, **named)

    call.__name__ = name
    return call


for _name in (
    "allgather",
    "allgather_coalesced",
    "alltoall",
    "all_to_all_single",
    "alltoall_base",
    "gather",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
):
    setattr(ProcessGroupSwitchML, _name, _instead_of(_name))


def _normal(tensors: Any, opts: Any, op: Any, timeout: Any, kind: type) -> tuple[list, Any]:
    """The several ways to call a method as one: a list, and options."""
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    if opts is not None and not isinstance(opts, kind):
        opts, op = None, opts
    opts = opts or kind()
    if op is not None:
        opts.reduceOp = op
    if timeout is not None:
        opts.timeout = timeout
    return list(tensors), opts


def _describe(tensors: Sequence[torch.Tensor], op: ReduceOp | None = None) -> str:
    if not tensors:
        return "no tensors"
    first = tensors[0]
    text = str(first.dtype).removeprefix("torch.")
    if first.layout is not torch.strided:
        text += f" ({str(first.layout).removeprefix('torch.')})"
    if first.device.type != "cpu":
        text += f" on {first.device.type}"
    return text if op is None else f"{text}, {str(op.op).rpartition('.')[2]}"


def _dense(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], Callable[[], None] | None]:
    """The tensors' elements one after the other, and what brings them back from there."""
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    flat = []
    for tensor in tensors:
        tensor = tensor.detach()
        if tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
            flat.append(tensor)
            continue
        dense = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        copies.append((tensor, dense))
        flat.append(dense)

    def finish() -> None:
        for tensor, dense in copies:
            tensor.copy_(dense)

    return flat, finish if copies else None


def create(options: Any, backend_options: Any) -> ProcessGroupSwitchML:
    """What torch.distributed calls for a group that is to have this backend."""
    if backend_options is not None and not isinstance(backend_options, Options):
        raise TypeError(
            f"pg_options must be switchml.torch.Options, not {type(backend_options).__name__}"
        )
    ranks = list(options.global_ranks_in_group)
    title = f"group {options.group_id} of ranks {ranks}" if ranks else "the default group"
    return ProcessGroupSwitchML(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        backend_options,
        title,
        eager=not ranks,
    )
