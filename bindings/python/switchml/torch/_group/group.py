# SPDX-License-Identifier: BSD-3-Clause
"""The process group: the collectives that go through the switch.

It is a subclass of ProcessGroup, which PyTorch allows Python to subclass: C++ (DDP,
functional collectives) also calls its methods. Collectives without a method here go where
router.py says.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict
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
    ReduceOptions,
    ReduceScatterOptions,
)
from torch.distributed import PrefixStore, ReduceOp

from ..._settings import Wire
from ..._tensor_memory import is_plain
from ...errors import SwitchMLError, brief
from .._calls.callbacks import wire_of
from .._calls.elsewhere import Elsewhere, Monitored, check, with_dimensions
from .._calls.line import END_OF_GROUP, AbortHooks, Line
from .._calls.sizes import Sizes
from .._calls.staging import Accelerator, DeviceWork
from .._calls.summary import Summary, Usage, bytes_of, lines
from .._calls.tensors import (
    as_sum,
    describe,
    normal,
    numbers_of,
    on_dense,
    only_options,
    tensors_in,
)
from .._calls.work import Call, Work, all_gather, barrier, broadcast
from .._joining.job_name import label_of
from .._joining.meeting import keep_for_next_round, meet
from .._joining.rendezvous import join
from .adapted import adapt
from .derivation import Derivation
from .gateway import watched
from .lists import Lists, in_lists
from .options import Options
from .reconfigure import Reconfigurable
from .router import Router

_LEAVE_S, _ABORT_S = 20.0, 5.0
_NONE = timedelta(0)


def _decides(tensor: torch.Tensor) -> bool:
    """Whether its class decides what a collective does. Sparse tensors are Gloo's."""
    return tensor.layout in (torch.strided, torch.jagged) and not is_plain(tensor)


def _elsewhere(name: str) -> Callable[..., Any]:
    """A method for a collective that the switch does not have."""

    def call(self: ProcessGroupSwitchML, *arguments: Any, **named: Any) -> Any:
        tensors = tensors_in(arguments)
        return self._instead(name, "", tensors[:1])(*arguments, **named)

    call.__name__ = name
    return call


def _between_two(name: str) -> Callable[..., Any]:
    """A method for a call of two ranks, which has no place among those of all."""

    def call(self: ProcessGroupSwitchML, *arguments: Any, **named: Any) -> Any:
        tensors = tensors_in(arguments)[:1]
        self._instead(name, "", tensors)  # logs
        if self._is_left_to_gloo(tensors):
            self._count_on_gloo(name, arguments)
            if self._line.job is not None:
                self._line.job.count_elsewhere("Gloo")
        return on_dense(name, self._method(name))(*arguments, **named)

    call.__name__ = name
    return call


# Those that have not been destroyed.
groups: weakref.WeakSet[ProcessGroupSwitchML] = weakref.WeakSet()


class ProcessGroupSwitchML(Derivation, Lists, Router):
    """Ranks that reduce through a switch. torch.distributed creates it; users do not."""

    _end_title = END_OF_GROUP
    _is_alone = False  # its job is not beside that of a default group

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        options: Options | None = None,
        title: str = "the process group",
        eager: bool = True,
        ranks: Sequence[int] | None = None,
    ) -> None:
        adapt(ProcessGroupSwitchML, groups)
        super().__init__(rank, size, timeout, title)
        self._options, self._is_default = options, eager
        self._settings = asdict(options or Options())
        del self._settings["reconfigure"]  # all others are a job's
        self.for_cpp = self._settings.pop("cpp_futures")
        self._copies: dict[torch.device, Accelerator] = {}
        self._usage = Usage(size)
        # The user, if he has said which, decides on the lines of all jobs.
        if self._settings["summary"] is None and "SWITCHML_SUMMARY" not in os.environ:
            self._settings["summary"] = lines.begin(self._usage, rank, eager or self._is_alone)
        self._abort_hooks = AbortHooks(title)
        self._start(store, rank, size, ranks)
        groups.add(self)

    def _start(self, store: dist.Store, rank: int, size: int, ranks: Sequence[int] | None) -> None:
        self._begin(store, rank, size, ranks, "" if self._is_default else label_of)
        if self._is_default:
            self._open()

    def _begin(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        ranks: Sequence[int] | None,
        label: str | Callable[[tuple[int, ...]], str],
        limit: float | None = None,
        secret: str | None = None,
    ) -> None:
        """Meet the other ranks, and be ready for calls.

        `label`: what ends the job's name, or makes it from the ranks. `limit`: seconds until the
        ranks must be there, if they are fewer than the timeout. `secret`: the job's key, if all
        ranks know it.
        """
        settings, title, seconds = self._settings, self._title, self._timeout.total_seconds()
        patience = seconds if limit is None else limit
        meeting = meet(store, rank, size, ranks, title, patience, settings, secret)
        self._meeting = meeting
        self._connect(meeting, rank, size, timedelta(seconds=patience))
        label = label if isinstance(label, str) else label(meeting.ranks)
        # The line must not refer to the group: it goes when nothing else does.
        opener = functools.partial(
            join, meeting, "switchml/", title, seconds, settings, label, limit
        )
        self._line = Line(title, opener, seconds, self._usage, self._abort_hooks, self._end_title)

    def _open(self) -> None:
        try:
            self._line.open()
        except Exception:
            self._meeting.end_together()
            raise

    @staticmethod
    def _checked(options: Any) -> Options | None:
        """What is given as options of a group."""
        if options is not None and not isinstance(options, Options):
            raise TypeError(
                f"pg_options must be switchml.torch.Options, not {type(options).__name__}"
            )
        return options

    # ---- the path of a collective ----

    def _run(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        calls: Sequence[Call],
        finish: Callable[[], None] | None = None,
        opts: Any = None,
        sizes: Sizes | None = None,
    ) -> Work:
        timeout = getattr(opts, "timeout", _NONE)
        limit = None if timeout <= _NONE else self._limit(timeout)
        if calls and not calls[0].send.is_cpu:
            copies = self._copies_of(calls[0].send.device)
            work: Work = DeviceWork(copies, name, tensors, calls, finish, limit)
        else:
            work = Work(name, tensors, calls, finish, limit)
        work.awaited = not getattr(opts, "asyncOp", True)  # the application asks for no work
        if not work.awaited:  # it may give its tensors other memory before the call ends
            for call in calls:
                send = call.send.detach()
                call.recv = send if call.recv is call.send else call.recv.detach()
                call.send = send
        if sizes is not None:
            work.late, work.sizes = True, sizes
        work.for_cpp = self.for_cpp
        self._line.put(work)
        return work

    def _limit(self, timeout: timedelta) -> float | None:
        """Seconds, where the call has a timeout that is not the group's. Those of torch are above
        0."""
        return None if timeout <= _NONE or timeout == self._timeout else timeout.total_seconds()

    def _on_gloo(
        self, name: str, method: Any, *arguments: Any, sizes: Sizes | None = None, **named: Any
    ) -> Any:
        everything = [*arguments, *named.values()]
        self._count_on_gloo(name, everything)
        if self._decides(everything):
            return method(*arguments, **named)  # it may send nothing
        check(name, everything)
        given = with_dimensions(name, list(arguments))
        timeouts = [t for a in everything if isinstance(t := getattr(a, "timeout", a), timedelta)]
        limit = self._limit(timeouts[0] if timeouts else _NONE)
        work = Elsewhere(
            name,
            everything,
            lambda begun: method(*given, begun=begun, **named),
            limit,
            (self.rank(), self.size()),
            sizes,
        )
        work.awaited = not all(getattr(argument, "asyncOp", True) for argument in everything)
        work.for_cpp = self.for_cpp
        self._line.put(work)
        return work

    def _decides(self, arguments: Any) -> bool:
        """Whether a tensor's class decides what the call does."""
        return any(_decides(tensor) for tensor in tensors_in(arguments))

    def _count_on_gloo(self, name: str, arguments: Sequence[Any]) -> None:
        self._usage.add_gloo(name, max(map(bytes_of, arguments), default=0))

    def _copies_of(self, device: torch.device) -> Accelerator:
        if device not in self._copies:
            self._copies[device] = Accelerator(device)
        return self._copies[device]

    def _reduce(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        added: tuple,
        opts: Any = None,
        wire: Wire | None = None,
        residual: torch.Tensor | None = None,
    ) -> Work:
        """Add each of the tensors in place, for all ranks or for one. `added`: of _adds().
        `residual`: of the only one."""
        numbers, flat, _, finish = added
        of_c, on_wire = "sml_allreduce", wire_of(wire)
        if name == "reduce":
            root = opts.rootRank
            of_c, numbers = "sml_reduce", (*numbers, root)
            finish = finish if root == self._place[0] else None
        calls = []  # not a comprehension, which would make cells of all of these
        for t, source in zip(flat, tensors, strict=True):
            all_numbers = (t.numel(), *numbers)
            calls.append(Call(of_c, t, t, all_numbers, True, source, on_wire, None, residual))
        return self._run(name, tensors, calls, finish, opts)

    def _as_sum(
        self, name: str, inputs: list, opts: Any, in_place: bool = True
    ) -> tuple[list, Any, Callable[[], None] | None]:
        """PREMUL_SUM as a SUM, where this group computes it (tensors.as_sum)."""
        if opts.reduceOp.op != ReduceOp.PREMUL_SUM or not self._is_left_to_gloo(inputs):
            return inputs, opts, None
        return as_sum(name, inputs, opts, in_place)

    def _adds(
        self, inputs: list[torch.Tensor], op: ReduceOp, outputs: Sequence[torch.Tensor] = ()
    ) -> tuple | None:
        """What C calls the tensors' type and the operation, and then what _taken() returns; None:
        the switch does not add them."""
        all_of_them = [*inputs, *outputs] if outputs else inputs
        if not (numbers := numbers_of(all_of_them, op)):
            return None
        taken = self._taken(inputs, outputs)
        return None if taken is None else (numbers, *taken)

    def _would_add(self, tensors: Sequence[torch.Tensor], op: ReduceOp) -> bool:
        """Whether _adds() is not None: nothing is copied."""
        return self._takes(tensors) and numbers_of(tensors, op) != ()

    # ---- the collectives ----

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None, op: Any = None) -> Any:
        tensors, opts = normal(tensors, opts, AllreduceOptions, op, timeout)
        return self._add_in_place("allreduce", "all_reduce", tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        opts = only_options("allreduce_coalesced", opts, AllreduceCoalescedOptions)
        title = "all_reduce_coalesced"
        return self._add_in_place("allreduce_coalesced", title, list(tensors), opts)

    def reduce(
        self,
        tensors: Any,
        opts: Any = None,
        timeout: Any = None,
        op: Any = None,
        root: Any = None,
    ) -> Any:
        tensors, opts = normal(tensors, opts, ReduceOptions, op, timeout, root)
        return self._add_in_place("reduce", "reduce", tensors, opts)

    def _add_in_place(self, name: str, title: str, tensors: Any, opts: Any) -> Any:
        fits = len(tensors) == 1 or name == "allreduce_coalesced"
        if fits and (added := self._adds(tensors, opts.reduceOp)):
            return self._reduce(title, tensors, added, opts)
        tensors, opts, scale = self._as_sum(title, tensors, opts)
        if not (scale and fits and self._would_add(tensors, opts.reduceOp)):
            what = describe(tensors, opts.reduceOp)
            return self._instead(name, what, tensors, scale)(tensors, opts)
        self._line.check_open()
        scale()  # what the switch adds
        added = self._adds(tensors, opts.reduceOp)
        return self._reduce(title, tensors, added, opts)

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: Any = None, root: Any = None
    ) -> Any:
        tensors, opts = normal(tensors, opts, BroadcastOptions, timeout=timeout, root=root)
        taken = self._taken(tensors) if len(tensors) == 1 else None
        if not taken:
            return self._instead("broadcast", describe(tensors), tensors)(tensors, opts)
        (flat,), _, finish = taken
        root = opts.rootRank
        calls = [broadcast(flat, root, tensors[0])]
        finish = None if root == self._place[0] else finish
        return self._run("broadcast", tensors, calls, finish, opts)

    def barrier(self, opts: Any = None, timeout: Any = None) -> Any:
        _, opts = normal([], opts, BarrierOptions, timeout=timeout)
        device = opts.device
        if device is not None and not self._is_ours(device.type):
            self._add_backend(device.type)
            return self._others.barrier(opts)
        return self._run("barrier", [], [barrier()], None, opts)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier on Gloo that names the ranks that are missing when the timeout passes.

        timeout: a timedelta, or seconds, as torch.distributed takes them.
        """
        if timeout is not None and not isinstance(timeout, timedelta):
            timeout = timedelta(seconds=timeout)
        if timeout is None or timeout < _NONE:  # options without one have -1 ms
            timeout = self._gloo.options._timeout  # as set_timeout() has left it
        self._instead("monitored_barrier")  # logs
        self._count_on_gloo("monitored_barrier", [])
        gloo = self._method("monitored_barrier")
        Monitored(self._line, lambda left: gloo(left, wait_all_ranks), timeout).run()

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        return self._gather("all_gather_single", output, input, opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._gather("all_gather_single_coalesced", outputs, inputs, opts)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather(self, name: str, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Of one tensor, or of several at once."""
        opts = only_options(name, opts, AllgatherOptions)
        wholes, parts = in_lists(outputs, inputs)
        taken = self._taken(parts, wholes)
        if not taken:
            given = (outputs, inputs) if isinstance(inputs, torch.Tensor) else (wholes, parts)
            return self._instead(name, describe(parts), parts)(*given, opts)
        sends, recvs, finish = taken
        calls = []
        for part, whole, send, recv in zip(parts, wholes, sends, recvs, strict=True):
            self._check_parts(name, part, whole)
            calls.append(all_gather(send, recv, part))
        return self._run(name, wholes, calls, finish, opts)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        return self._scatter_single("reduce_scatter_single", output, input, opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._scatter_single("reduce_scatter_single_coalesced", outputs, inputs, opts)

    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _scatter_single(self, name: str, outputs: Any, inputs: Any, opts: Any) -> Any:
        """Of one tensor, or of several at once."""
        opts = only_options(name, opts, ReduceScatterOptions)
        parts, wholes = in_lists(outputs, inputs)
        added = self._adds(wholes, opts.reduceOp, parts)
        if not added:
            wholes, opts, _ = self._as_sum(name, wholes, opts, False)
            added = self._adds(wholes, opts.reduceOp, parts)
        if not added:
            instead = self._instead(name, describe(wholes, opts.reduceOp), wholes)
            is_one = isinstance(outputs, torch.Tensor)
            return instead(*((outputs, wholes[0]) if is_one else (parts, wholes)), opts)
        return self._scatter(name, parts, wholes, added, opts)

    def reduce_scatter(
        self, outputs: Any, inputs: Any, opts: Any = None, timeout: Any = None, op: Any = None
    ) -> Any:
        if isinstance(outputs, torch.Tensor):
            inputs = [inputs]
        outputs, opts = normal(outputs, opts, ReduceScatterOptions, op, timeout)
        inputs = [self._as_sum("reduce_scatter", of_one, opts, False)[0] for of_one in inputs]
        _, opts, _ = self._as_sum("reduce_scatter", [], opts, False)
        parts = tensors_in(inputs)
        what = describe(outputs, opts.reduceOp)
        if len(outputs) != 1 or not self._would_add([*parts, *outputs], opts.reduceOp):
            return self._instead("reduce_scatter", what, parts[:1])(outputs, inputs, opts)
        # Ranks compare their lists before they take the same way.
        among = self.rank(), self.size()
        sizes = Sizes("reduce_scatter", f"reduce_scatter of {what}", (outputs, inputs), None, among)
        if len(parts) != self.size() or len({part.numel() for part in parts}) != 1:
            instead = self._instead("reduce_scatter", what, outputs)
            return instead(outputs, inputs, opts, sizes=sizes)
        whole = [torch.cat([part.detach().reshape(-1) for part in parts])]
        added = self._adds(whole, opts.reduceOp, outputs)
        return self._scatter("reduce_scatter", outputs, whole, added, opts, sizes)

    def _scatter(
        self,
        name: str,
        outputs: Any,
        inputs: Any,
        added: Any,
        opts: Any,
        sizes: Sizes | None = None,
    ) -> Work:
        numbers, sends, recvs, finish = added
        of_c, wire, calls = "sml_reduce_scatter", wire_of(), []
        for part, whole, send, recv in zip(outputs, inputs, sends, recvs, strict=True):
            if sizes is None:
                self._check_parts(name, part, whole)
            calls.append(Call(of_c, send, recv, (recv.numel(), *numbers), False, whole, wire))
        return self._run(name, outputs, calls, finish, opts, sizes)

    def _check_parts(self, name: str, part: torch.Tensor, whole: torch.Tensor) -> None:
        size = self._place[1]
        if part.dtype != whole.dtype or part.numel() * size != whole.numel():
            raise ValueError(
                f"{name}: {whole.numel()} {describe([whole])} must be {size} times "
                f"{part.numel()} {describe([part])}, once for each rank"
            )

    # ---- what the switch does not have ----

    all_to_all_single = alltoall_base = _elsewhere("all_to_all_single")
    alltoall = _elsewhere("alltoall")
    allgather_coalesced = _elsewhere("allgather_coalesced")
    gather = _elsewhere("gather")
    gather_into_tensor = _elsewhere("gather_into_tensor")
    gather_single = _elsewhere("gather_single")
    scatter = _elsewhere("scatter")
    recv = _between_two("recv")
    recv_anysource = _between_two("recv_anysource")
    send = _between_two("send")

    # ---- what it has done ----

    def _get_sequence_number_for_group(self) -> int:
        """How many collectives it has begun, on the switch and on Gloo."""
        return self._line.n_put

    def _set_sequence_number_for_group(self) -> None:
        """It is 0 on every rank when the group begins."""

    def register_abort_hook(self, hook_id: int, hook: Callable[[], None]) -> None:
        """Call it once, before this rank aborts the group, or when the first call has failed."""
        self._abort_hooks.add(hook_id, hook)

    def unregister_abort_hook(self, hook_id: int) -> None:
        self._abort_hooks.remove(hook_id)

    def summary(self) -> Summary:
        """What this rank's calls came to until now, or until the group was destroyed."""
        return self._usage.summary(self._title, self.rank(), [self._line.job])

    # ---- the end ----

    @property
    def title(self) -> str:
        return self._title

    @property
    def has_job(self) -> bool:
        return self._line.job is not None

    @property
    def failure(self) -> SwitchMLError | None:
        """Why its calls fail; None: they do not, as far as this rank knows."""
        failed = self._line.failure
        job = self._line.job
        text = job._failure() if failed is None and job is not None else None
        return SwitchMLError(text) if text else failed

    def shutdown(self) -> None:
        """Leave, together with all other ranks. If this rank has failed, tell the others."""
        if self._is_default and self.rank() == 0:
            keep_for_next_round(self._store)
        self.leave(_LEAVE_S)

    def abort(self) -> None:
        """End the collectives of all ranks."""
        self._abort_lines()
        self._others.abort()
        self.leave(_ABORT_S)

    def _abort_lines(self) -> None:
        self._abort_hooks.run()
        self._line.abort(f"rank {self.rank()} aborted {self._title}")

    def leave(self, seconds: float, trouble: BaseException | None = None) -> None:
        """Wait for the other ranks, at most this long."""
        trouble = trouble or sys.exc_info()[1]
        if trouble is not None:
            # The others may wait in a call that this rank will not make.
            text = f"rank {self.rank()}: {type(trouble).__name__}: {trouble}"
            self._line.abort(text[:400])
            if not self.has_job:
                self._tell_gone(trouble)  # also ends this rank's own attempt to join
        self._line.close(seconds)
        lines.end(self._usage, self.summary())
        if not self.has_job:
            self._tell_gone(trouble)

    def _tell_gone(self, trouble: BaseException | None) -> None:
        """Tell ranks that make this group's first call, now or later, that this one will not."""
        rank = self._meeting.names[self.rank()]
        why = f": {type(trouble).__name__}: {trouble}" if trouble else " and makes no call on it"
        self._meeting.tell_gone(trouble, f"rank {rank} has left {self._title}{why}")


watched(ProcessGroupSwitchML)
ProcessGroupSwitchML._fixed_kind = ProcessGroupSwitchML


class ReconfigurableGroup(Reconfigurable, ProcessGroupSwitchML):
    """A group whose ranks may change (reconfigure.py). Those made from it are fixed."""


@brief
def create(options: Any, backend_options: Any) -> ProcessGroupSwitchML:
    """torch.distributed calls this for each group that uses this backend."""
    backend_options = ProcessGroupSwitchML._checked(backend_options)
    changes = getattr(options, "enable_reconfigure", False)
    changes = changes or (backend_options is not None and backend_options.reconfigure)
    kind = ReconfigurableGroup if changes else ProcessGroupSwitchML
    store = options.store
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if attempt and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # torchrun's store outlives the workers and contains values from before a restart.
        store = PrefixStore(f"attempt {attempt}/", store)
    ranks = list(options.global_ranks_in_group)
    if ranks:
        # If only its own ranks create a group, PyTorch may give two groups the same name.
        store = PrefixStore(f"ranks {','.join(map(str, ranks))}/", store)
    title = f"group {options.group_id} of ranks {ranks}" if ranks else "the default group"
    return kind(
        store,
        options.group_rank,
        options.group_size,
        options.timeout,
        backend_options,
        title,
        eager=not ranks,
        ranks=ranks or range(options.group_size),
    )


def checked(group: Any) -> ProcessGroupSwitchML:
    """The group, or the default one for None. Raises TypeError if it is none of ours."""
    chosen = dist.group.WORLD if group is None else group
    if not isinstance(chosen, ProcessGroupSwitchML):
        raise TypeError("the group's backend is not switchml: call init_process_group('switchml')")
    return chosen
