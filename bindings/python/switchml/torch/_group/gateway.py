# SPDX-License-Identifier: BSD-3-Clause
"""The backend that PyTorch itself finds in our groups, so that nothing goes past them.

    PyTorch 2.14   group.allreduce -> dispatcher -> Gateway.allreduce -> our method
    before 2.14    group.allreduce ------------------------------------> our method

PyTorch's dispatcher serves pre and post hooks, the flight recorder, the check for NaN, modes such
as CommDebugMode, and torch.ops.c10d. Then it calls the group's backend. Since PyTorch 2.14 a
backend can be written in Python, and a Gateway is the one of every device of ours. Before 2.14 our
groups have no backend that C++ could find: a call that reaches the dispatcher fails there. The
invariant: C++ never finds our inner Gloo.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d
from torch.distributed import ProcessGroup

from ..._tensor_memory import is_host_memory, is_lazy, is_plain
from .._calls.tensors import DEVICE_TYPES, all_ready, tensors_in

# Each with the names that PyTorch had for it before 2.13, and has beside the new one.
COLLECTIVES = {
    "allgather": (),
    "allgather_coalesced": (),
    "all_gather_single": ("_allgather_base",),
    "all_gather_single_coalesced": ("allgather_into_tensor_coalesced",),
    "allreduce": (),
    "allreduce_coalesced": (),
    "alltoall": (),
    "all_to_all_single": ("alltoall_base",),
    "barrier": (),
    "broadcast": (),
    "gather": (),
    "gather_single": ("gather_into_tensor",),
    "recv": (),
    "recv_anysource": (),
    "reduce": (),
    "reduce_scatter": (),
    "reduce_scatter_single": ("_reduce_scatter_base",),
    "reduce_scatter_single_coalesced": ("reduce_scatter_tensor_coalesced",),
    "scatter": (),
    "send": (),
}
# What its methods call their tensors, in the order of their arguments.
_TENSORS = (
    *("tensors", "tensor"),
    *("outputs", "output", "output_tensors", "output_tensor", "output_lists", "outputTensor"),
    *("inputs", "input", "input_tensors", "input_tensor", "input_list", "inputTensor"),
)


def _takes_subclasses() -> bool:
    try:
        _c10d.Backend(0, 1)
    except TypeError:  # PyTorch's class has no constructor
        return False
    return True


# Whether a backend can be written in Python.
IS_DISPATCHED = _takes_subclasses()
_Backend: Any = _c10d.Backend if IS_DISPATCHED else object


class Gateway(_Backend):
    """The backend of a group, for C++ and get_backend_impl(). It makes the group's own calls."""

    # PyTorch's own properties would ask this object, which would ask them.
    supports_coalescing = False
    supports_splitting = False
    supports_shrinking = False
    supports_time_estimate = False
    supports_window = False

    def __init__(self, group: Any, rank: int, size: int) -> None:
        if IS_DISPATCHED:
            super().__init__(rank, size)
        self._place = rank, size
        self._find = weakref.ref(group)  # which has this gateway

    @property
    def group(self) -> Any:
        found = self._find()
        if found is None:
            raise RuntimeError("the group of this backend does not exist any more")
        return found

    @property
    def options(self) -> Any:
        return _c10d.Backend.Options("switchml", self.group._gloo.options._timeout)

    def rank(self) -> int:
        return self._place[0]

    def size(self) -> int:
        return self._place[1]

    def name(self) -> str:
        return "switchml"

    def getBackendName(self) -> str:
        return "switchml"

    @property
    def supports_reconfigure(self) -> bool:
        return bool(self.group.supports_reconfigure)

    def get_error(self) -> Any:
        """Why the group's calls fail, as PyTorch knows it."""
        failure, kind = self.group.failure, _c10d.ErrorType
        if failure is None:
            return kind.SUCCESS
        return kind.TIMEOUT if isinstance(failure, TimeoutError) else kind.REMOTE_ERROR

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        self.group.monitored_barrier(getattr(opts, "timeout", opts), wait_all_ranks)

    def _set_sequence_number_for_group(self) -> None:
        """It is 0 on every rank when the group begins."""

    # The group ends both of its backends; PyTorch may also tell this one.

    def abort(self) -> None:
        if self.group.supports_reconfigure:  # it goes on with other ranks
            self.group.abort()

    def shutdown(self) -> None:
        pass


def _of_the_group(name: str) -> Callable[..., Any]:
    def call(self: Gateway, *arguments: Any, **named: Any) -> Any:
        return getattr(self.group, name)(*arguments, **named)

    return call


for _name, *_more in (
    ("set_timeout",),
    ("get_reconfigure_handle",),
    ("reconfigure",),
    ("register_abort_hook", "registerAbortHook"),
    ("unregister_abort_hook", "unregisterAbortHook"),
    ("_get_sequence_number_for_group",),
):
    for _alias in (_name, *_more):
        setattr(Gateway, _alias, _of_the_group(_name))


def _forwarded(name: str) -> Callable[..., Any]:
    def call(self: Gateway, *arguments: Any, **named: Any) -> Any:
        group = self.group
        own = getattr(group, f"_own_{name}")
        call = getattr(_here, "call", None)
        if call is None or not call.is_this(group, name, arguments):
            return own(*arguments, **named)  # one of torch.ops.c10d, perhaps from a hook
        bare = getattr(group, f"_bare_{name}")
        if call.lazy:
            arguments, named = all_ready(call.arguments), call.named
        call.work = bare(*arguments, **named)
        return call.work

    call.__name__ = name
    return call


for _name, _older in COLLECTIVES.items():
    for _alias in (_name, *_older):
        setattr(Gateway, _alias, _forwarded(_name))
Gateway.allreduce_sparse = Gateway.allreduce


# ---- the group's methods ----

_here = threading.local()
_modes = torch._C._len_torch_dispatch_stack


def watched(kind: type) -> None:
    """Let all that watches collectives in PyTorch see the collectives of this group class.

    The methods that the class has stay there with the prefix _own_; and with _bare_, without what
    keeps torch.compile out, because what replaces them does that, too, and twice takes time.
    """
    for name, older in COLLECTIVES.items():
        own = getattr(kind, name)
        bare = getattr(own, "_torchdynamo_orig_callable", own)
        base = next(filter(None, (getattr(ProcessGroup, n, None) for n in (name, *older))), None)
        setattr(kind, f"_own_{name}", own)
        setattr(kind, f"_bare_{name}", bare)
        if base is None:
            continue  # this version of PyTorch does not have it
        if IS_DISPATCHED:
            setattr(kind, name, torch.compiler.disable(_dispatched(name, base)))
            for alias in older:  # PyTorch's call the newer ones, which would call these again
                if alias in vars(kind):
                    delattr(kind, alias)
        else:
            for alias in (name, *older):
                setattr(kind, alias, torch.compiler.disable(_announced(bare, base.__name__)))


class _Call:
    """A call of a group's method, while it goes through the dispatcher.

    The dispatcher resolves conjugate and negative bits in copies, which would get the results. So
    the gateway takes the tensors of this call if some are lazy.
    """

    def __init__(self, target: tuple[Any, str], arguments: Any, named: Any) -> None:
        self.target, self.arguments, self.named = target, arguments, named
        self.tensors = tensors_in(arguments)
        self.lazy = not all(map(is_host_memory, self.tensors)) and any(
            is_plain(t) and is_lazy(t) for t in self.tensors
        )
        self.work: Any = None

    def is_this(self, group: Any, name: str, arguments: Any) -> bool:
        """Whether the dispatcher brings this call, and not one that a hook makes meanwhile."""
        if self.work is not None or self.target != (group, name):
            return False
        return self.lazy or all(map(operator.is_, self.tensors, tensors_in(arguments)))

    @property
    def device_type(self) -> str:
        return self.tensors[0].device.type if self.tensors else "cpu"


def _dispatched(name: str, base: Callable[..., Any]) -> Callable[..., Any]:
    """The group's method goes to PyTorch's dispatcher, which calls the group's gateway."""

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        call = _Call((self, name), arguments, named)
        self._add_backend(call.device_type)
        outer = getattr(_here, "call", None)
        _here.call = call
        try:
            work = base(self, *arguments, **named)
        finally:
            _here.call = outer
        # C++ returns another object for our work, with fewer methods.
        return work if call.work is None else call.work

    # `base` calls the overriding method, unless that has this name and called `base` itself.
    call.__code__ = call.__code__.replace(co_name=name)
    call.__name__ = name
    return call


def _announced(own: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The group's method, which tells modes such as CommDebugMode of the call.

    They see it through the dispatcher, with a backend that sends nothing.
    """

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if named:
            arguments = (*arguments, *[named.pop(name) for name in _TENSORS if name in named])
        arguments = all_ready(arguments)
        if not _modes() or self._decides(arguments):
            return own(self, *arguments, **named)
        seen = getattr(self._unsent, name)(*arguments, **named)
        # Under FakeTensorMode there is nothing to send, as with PyTorch's own groups.
        return seen if _is_fake() else own(self, *arguments, **named)

    call.__name__ = name
    return call


def _is_fake() -> bool:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def unsent(rank: int, size: int) -> ProcessGroup:
    """A group whose collectives send nothing."""
    create = getattr(_c10d.FakeProcessGroup, "_create_internal", _c10d.FakeProcessGroup)
    group = ProcessGroup(rank, size)
    kind = ProcessGroup.BackendType.CUSTOM
    backend = create(rank, size)
    for device_type in DEVICE_TYPES:
        group._register_backend(torch.device(device_type), kind, backend)
    group._set_default_backend(kind)
    return group
