# SPDX-License-Identifier: BSD-3-Clause
"""Which collectives go to the switch, and where all others go.

`self._others` has Gloo for the devices that are ours, and we call it for collectives that the
switch does not take. `self` has a gateway for them (gateway.py). For other devices, both have the
backend that the user requested. The invariant: this decision depends only on what is the same on
all ranks, because otherwise ranks would wait for each other.
"""

from __future__ import annotations

import functools
import logging
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, ProcessGroup, ProcessGroupGloo
from torch.distributed import distributed_c10d as c10d

from ..._tensor_memory import is_host_memory, is_plain
from ..._untraced import Untraced
from .._calls.tensors import DEVICE_TYPES, dense, on_dense
from .._joining.address import address_along, interface_of, loopback
from .._joining.meeting import Meeting
from .._joining.terms import chosen
from .gateway import COLLECTIVES, IS_DISPATCHED, Gateway, unsent
from .retiring import discard

log = logging.getLogger("switchml.torch")

_CPU = torch.device("cpu")
# Of the groups that are there. A device has a thread, and three descriptors and a socket.
_devices: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


def gloo_devices(meeting: Meeting, settings: Mapping[str, Any]) -> list[Any]:
    """Where Gloo listens: for all groups of this process that listen there. It reads
    GLOO_SOCKET_IFNAME only if it is given no devices."""
    names = os.environ.get("GLOO_SOCKET_IFNAME")
    if names:
        return [_device(interface=name) for name in dict.fromkeys(names.split(","))]
    return [_device(**_listens_at(meeting, settings))]


def _device(**where: str) -> Any:
    # A child has no thread of its parent's; PyTorch reads the variable when it makes a device.
    key = (os.getpid(), os.environ.get("TORCH_GLOO_LAZY_INIT"), *where.items())
    if (device := _devices.get(key)) is None:
        create = ProcessGroupGloo.create_device if where else ProcessGroupGloo.create_default_device
        device = _devices[key] = create(**where)
    return device


def _listens_at(meeting: Meeting, settings: Mapping[str, Any]) -> dict[str, str]:
    """By itself, Gloo takes the address of the host's name, and that is 127.0.1.1 where Debian's
    installer has written /etc/hosts. Empty: let it."""
    wanted = settings.get("interface") or os.environ.get("SWITCHML_SOCKET_IFNAME", "")
    interface = interface_of(wanted)
    if meeting.on_one_host:
        return {"hostname": loopback()}
    if interface:
        return {"interface": interface}
    address = address_along(meeting.way, chosen(settings, "switch"))
    return {"hostname": address} if address else {}


class Router(ProcessGroup, Untraced):
    """A process group that contains Gloo, and NCCL if it was requested."""

    _settings: dict[str, Any]

    def __init__(self, rank: int, size: int, timeout: timedelta, title: str) -> None:
        super().__init__(rank, size)  # the constructor with a store creates no subclass
        self._title, self._timeout = title, timeout
        self._place = rank, size  # rank() and size() of C++ take as long as ten calls of Python
        self._told: set[str] = set()
        self._names: dict[str, str] | None = None
        self._ours: set[str] = set()  # devices, as far as it has been asked
        self._gateway = Gateway(self, rank, size)
        self._add_gateway("cpu")
        super()._set_default_backend(ProcessGroup.BackendType.CUSTOM)

    def _connect(self, meeting: Meeting, rank: int, size: int, limit: timedelta) -> None:
        """Create the other backends, for these ranks. Gloo may wait this long for them."""
        self._store = store = meeting.store
        self._added: set[str] = set()
        options = ProcessGroupGloo._Options()
        self._devices = gloo_devices(meeting, self._settings)  # keeps them in the table
        options._devices = self._devices
        options._threads = 2  # for each device, as without options
        options._timeout = limit
        gloo = ProcessGroupGloo(PrefixStore("gloo/", store), rank, size, options)
        if limit != self._timeout:
            gloo._set_default_timeout(self._timeout)
        others = ProcessGroup(store, rank, size)
        others._register_backend(_CPU, ProcessGroup.BackendType.GLOO, gloo)
        others._set_default_backend(ProcessGroup.BackendType.GLOO)
        old = [vars(self).get(name) for name in ("_others", "_gloo")]
        self._gloo, self._others = gloo, others
        if old[0] is not None:
            discard(old)

    def getBackendName(self) -> str:
        return "switchml"

    # PyTorch asks the backend of C++, if there is one.
    use_pg_for_symm_mem_rendezvous = False

    def set_timeout(self, timeout: timedelta) -> None:
        """Of all later calls, also of a longer one: who trains begins with a short timeout, and
        lengthens it for the first checkpoint."""
        self._gloo._set_default_timeout(timeout)
        if timeout > timedelta(0):
            self._timeout = timeout
            self._line.set_timeout(timeout.total_seconds())

    # PyTorch keeps these in that backend.

    def setGroupName(self, name: str) -> None:
        self._others._set_group_name(name)

    def getGroupName(self) -> str:
        name: str = self._others.group_name
        return name

    def setGroupDesc(self, description: str) -> None:
        self._others._set_group_desc(description)

    def getGroupDesc(self) -> str:
        description: str = self._others.group_desc
        return description

    def get_group_store(self) -> dist.Store:
        return self._store

    def _get_backend(self, device: torch.device) -> Any:
        device = torch.device(device)
        self._add_backend(device.type)
        return self._gateway if self._is_ours(device.type) else super()._get_backend(device)

    get_backend = _get_backend  # its name since PyTorch 2.14

    def boxed(self) -> Any:
        """The group as torch.ops.c10d takes it."""
        if not IS_DISPATCHED:
            raise NotImplementedError(
                f"torch.ops.c10d of PyTorch {torch.__version__} does not reach a switchml group: "
                "call the functions of torch.distributed, or use PyTorch 2.14"
            )
        return super().boxed()

    @functools.cached_property
    def _unsent(self) -> ProcessGroup:
        return unsent(self.rank(), self.size())

    # ---- what groups with fixed ranks do not have (reconfigure.py) ----

    supports_reconfigure = False  # PyTorch 2.14 asks

    def get_reconfigure_handle(self) -> str:
        self._refuse_reconfigure()

    def reconfigure(self, *arguments: Any, **named: Any) -> Any:
        self._refuse_reconfigure()

    def _refuse_reconfigure(self) -> NoReturn:
        raise NotImplementedError(
            "this switchml group cannot be reconfigured: create it with "
            "init_process_group(enable_reconfigure=True) of PyTorch 2.14, or with "
            "pg_options=switchml.torch.Options(reconfigure=True)"
        )

    # ---- devices ----

    def _name_of(self, device_type: str) -> str:
        """The requested backend: for "cpu:switchml,cuda:nccl", one of the two."""
        if self._names is None:
            config = c10d._world.pg_backend_config.get(self)
            if config is None:  # torch.distributed has not finished creating this group
                return "switchml"
            self._names = dict(part.split(":", 1) for part in str(config).split(","))
        return self._names.get(device_type, "switchml")

    def _add_backend(self, device_type: str) -> None:
        """The backend of a device that is not ours, created at first use."""
        if device_type in self._added:
            return
        name = self._name_of(device_type)
        if name == "switchml":
            if self._names is not None:
                self._added.add(device_type)
            if device_type != "cpu":
                self._others._register_backend(
                    torch.device(device_type), ProcessGroup.BackendType.GLOO, self._gloo
                )
                self._add_gateway(device_type)
            return
        backend: Any = self._gloo
        kind = ProcessGroup.BackendType.GLOO
        if name == "nccl":
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = self._timeout
            store = PrefixStore(f"{device_type}/", self._store)
            backend = dist.ProcessGroupNCCL(store, self.rank(), self.size(), options)
            backend._set_sequence_number_for_group()
            kind = ProcessGroup.BackendType.NCCL
        elif name != "gloo":
            raise ValueError(f"the other backend must be nccl or gloo, not {name!r}")
        for group in (super(), self._others):
            group._register_backend(torch.device(device_type), kind, backend)
        self._added.add(device_type)

    def _add_gateway(self, device_type: str) -> None:
        gateway = self._gateway if IS_DISPATCHED else None
        kind = ProcessGroup.BackendType.CUSTOM
        super()._register_backend(torch.device(device_type), kind, gateway)

    def _is_ours(self, device_type: str) -> bool:
        if device_type not in DEVICE_TYPES or self._name_of(device_type) != "switchml":
            return False
        if self._names is not None:
            self._ours.add(device_type)
        return True

    # ---- which collective goes where ----

    def _takes(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether the switch can move these tensors. Ignores strides, which may differ between
        ranks."""
        if not tensors or not all(map(is_plain, tensors)):
            return False
        device = tensors[0].device
        return all(t.device == device for t in tensors[1:]) and self._is_ours(device.type)

    def _taken(
        self, inputs: list[torch.Tensor], outputs: Sequence[torch.Tensor] = ()
    ) -> tuple[list, Sequence, Callable[[], None] | None] | None:
        """The tensors as C takes them, and what copies the results back (tensors.dense); None: the
        switch cannot move them. Without outputs, the results are in the inputs."""
        for tensor in (*inputs, *outputs):
            if not is_host_memory(tensor) or not tensor.is_contiguous():
                break
        else:
            if inputs and "cpu" in self._ours:  # quickly, for nearly all are
                return inputs, outputs, None
        if not self._takes([*inputs, *outputs]):
            return None
        sends, finish = dense(inputs)
        return (sends, *dense(outputs)) if outputs else (sends, (), finish)

    def _instead(
        self,
        name: str,
        what: str = "",
        tensors: Sequence[torch.Tensor] = (),
        before: Callable[[], None] | None = None,
    ) -> Any:
        """The group's method for a collective that the switch does not do. Logs this once.

        `before`: what to do when Gloo begins.
        """
        if not self._is_left_to_gloo(tensors):
            return self._method(name)  # as the user requested
        self._tell(name, what)
        method = on_dense(name, self._method(name))

        def after(*arguments: Any, **named: Any) -> Any:
            if before is not None:
                before()
            return method(*arguments, **named)

        return functools.partial(self._on_gloo, name, after)

    def _tell(self, name: str, what: str) -> None:
        """Log once that this runs on Gloo."""
        text = f"{name} of {what}" if what else name
        if text not in self._told:
            self._told.add(text)
            level = logging.INFO if self.rank() == 0 else logging.DEBUG
            log.log(level, "%s: %s does not run on the switch, but on Gloo", self._title, text)

    def _is_left_to_gloo(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether we choose Gloo for these tensors, and not the user."""
        device_type = tensors[0].device.type if tensors else "cpu"
        self._add_backend(device_type)
        return self._name_of(device_type) == "switchml"

    def _on_gloo(self, name: str, method: Any, *arguments: Any, **named: Any) -> Any:
        raise NotImplementedError

    def _method(self, name: str) -> Any:
        """Of the other backends, also under the name that PyTorch had for it before 2.13."""
        return getattr(self._others, name, None) or getattr(self._others, COLLECTIVES[name][0])
