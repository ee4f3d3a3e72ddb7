# SPDX-License-Identifier: BSD-3-Clause
"""Groups whose ranks may change: init_process_group(enable_reconfigure=True) of PyTorch 2.14, or
Options(reconfigure=True) with any version.

    member A: get_reconfigure_handle() ---\\
    member B: get_reconfigure_handle() ----> the application brings the list of all handles to all
    member C: get_reconfigure_handle() ---/

    A, B, C: reconfigure(uuid, [A, B, C]) -> meet in A's store (_joining/meeting.py) -> a new job

Each member has a store of its own, and its handle says where. The group uses that of its first
member, so it needs nothing of a process that is not a member: the store that init_process_group()
got may be gone. The invariant: members that have got different lists, or the same list with
different numbers, never meet, because the digest of both is in the name of everything that they put
into the store. A handle also has a secret, so only processes that know all handles can join
(docs/security.md).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore
from torch.distributed import distributed_c10d as c10d

from ...errors import ClosedError, TimedOutError, brief
from .._calls.work import Work
from .._joining.address import address_for_others, host_identity, loopback
from .._joining.job_name import label_of_members
from .._joining.meeting import Meeting
from .._joining.rendezvous import kept_port
from .._joining.terms import chosen
from .retiring import retire

_PREFIX = "switchml:"


@dataclass(frozen=True)
class Handle:
    """What the other members must know of one. `host` is equal where the loopback is shared."""

    member: str
    secret: str
    host: str
    address: str
    port: int

    def __str__(self) -> str:
        text = json.dumps(asdict(self), separators=(",", ":"))
        return _PREFIX + base64.urlsafe_b64encode(text.encode()).decode()


def parse(text: str) -> Handle:
    """The handle that a member has given away. Raises ValueError for anything else."""
    try:
        if not text.startswith(_PREFIX):
            raise ValueError("no prefix")
        found = Handle(**json.loads(base64.urlsafe_b64decode(text[len(_PREFIX) :])))
    except (AttributeError, TypeError, ValueError, binascii.Error):
        raise ValueError(
            f"{str(text)[:60]!r} is not the handle of a switchml group: give what "
            "get_reconfigure_handle() returns on each member"
        ) from None
    if not isinstance(found.port, int) or not all(
        isinstance(its, str) for its in (found.member, found.secret, found.host, found.address)
    ):
        raise ValueError("a reconfigure handle has a part of another type")
    return found


class Membership:
    """This process as a member of a group: its handle, its store, and the numbers it has used."""

    def __init__(self, store: dist.Store, ports: str) -> None:
        self.member, self._secret = secrets.token_hex(8), secrets.token_hex(16)
        self._address = address_for_others(store)
        with kept_port(ports) as port:
            self._server = dist.TCPStore(
                loopback(), port, is_master=True, wait_for_workers=False, multi_tenant=False
            )
        self._used: set[int] = set()

    @property
    def handle(self) -> Handle:
        return Handle(self.member, self._secret, host_identity(), self._address, self._server.port)

    def ordered(self, handles: Iterable[str]) -> list[Handle]:
        """The members, in the order of their ranks. A set has none: then by their names."""
        found = [parse(text) for text in handles]
        if isinstance(handles, (set, frozenset)):
            found.sort(key=lambda handle: handle.member)
        members = [handle.member for handle in found]
        if len(set(members)) < len(members):
            raise ValueError("reconfigure: two of the handles are of the same member")
        if self.member not in members:
            raise ValueError(
                "reconfigure: this member's handle is not among them; a process that leaves does "
                "not reconfigure"
            )
        return found

    def use(self, uuid: int) -> None:
        if uuid in self._used:
            raise RuntimeError(
                f"reconfigure: the uuid {uuid} was already used: take another number each time"
            )
        self._used.add(uuid)

    def store_of(self, members: Sequence[Handle], uuid: int, seconds: float) -> dist.Store:
        """The first member's, for this uuid and these members only."""
        first, store = members[0], self._server
        if first.member != self.member:
            address = loopback() if first.host == host_identity() else first.address
            try:
                store = dist.TCPStore(
                    address,
                    first.port,
                    is_master=False,
                    wait_for_workers=False,
                    timeout=timedelta(seconds=seconds),
                )
            except RuntimeError as error:
                raise TimedOutError(
                    f"reconfigure: rank 0 of the new ranks did not answer at {address} port "
                    f"{first.port} in a timeout of {seconds:g} s. Has its process ended, or is a "
                    "firewall between the hosts?"
                ) from error
        return PrefixStore(f"members {uuid} {digest(members, uuid)}/", store)


def digest(members: Sequence[Handle], uuid: int) -> str:
    """Equal for equal lists and numbers only. Says nothing of the secrets."""
    text = f"{uuid} " + " ".join(map(str, members))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def key(members: Sequence[Handle], uuid: int) -> str:
    """A job key that only processes can know that have all handles."""
    text = f"key {uuid} " + " ".join(handle.secret for handle in members)
    return hashlib.sha256(text.encode()).hexdigest()


class Unset:
    """In place of a line, while the group has no ranks."""

    job = None
    idle = True
    failure = None

    def __init__(self, title: str, n_put: int) -> None:
        self._title, self.n_put = title, n_put

    def put(self, work: Any) -> None:
        self.check_open()

    def check_open(self) -> None:
        raise ClosedError(
            f"{self._title} has no ranks: call reconfigure() first, also after abort() and after a "
            "reconfigure() that failed"
        )

    def set_timeout(self, seconds: float) -> None:
        pass

    def abort(self, reason: str) -> None:
        pass

    def close(self, seconds: float) -> None:
        pass


class Reconfigurable:
    """The part of a group that changes its ranks, before ProcessGroupSwitchML."""

    supports_reconfigure = True  # PyTorch 2.14 asks

    def _start(
        self: Any, store: dist.Store, rank: int, size: int, ranks: Sequence[int] | None
    ) -> None:
        """Begin without other ranks. `store` only says where others reach this host."""
        self._retiring: list[threading.Thread] = []  # each ends soon, whatever the old ranks do
        self._membership = Membership(store, chosen(self._settings, "ports"))
        self._unset(0)

    def _unset(self: Any, calls: int) -> None:
        nobody = dist.HashStore()
        self._meeting = Meeting(nobody, *self._place, None, self._title)
        self._connect(Meeting(nobody, 0, 1, None, self._title), 0, 1, self._timeout)
        self._line = Unset(self._title, calls)

    def get_reconfigure_handle(self: Any) -> str:
        """What the other members need for reconfigure(). It stays the same."""
        return str(self._checked_membership().handle)

    @brief
    def reconfigure(
        self: Any,
        opts: Any,
        handles: Iterable[str] | None = None,
        timeout: timedelta | None = None,
    ) -> Any:
        """Leave the ranks that this group has, and wait for those of the handles.

        Args:
            opts: PyTorch's ReconfigureOptions; or the uuid, a number that is new each time.
            handles: one of each member, in the order of their new ranks.
            timeout: None is the group's. When it has passed, TimedOutError names who has not come.

        Returns a work that has ended. After an error, the group has no ranks, and may be
        reconfigured again with another uuid.
        """
        membership = self._checked_membership()
        if handles is None:
            opts, handles, timeout = opts.uuid, opts.handles, opts.timeout
        uuid = int(opts)
        members = membership.ordered(handles)
        membership.use(uuid)
        seconds = (self._timeout if timeout is None else timeout).total_seconds()
        self._leave_old_ranks(f"rank {self.rank()} goes on with other ranks (reconfigure)")
        rank = [its.member for its in members].index(membership.member)
        self._set_place(rank, len(members))
        try:
            store = membership.store_of(members, uuid, seconds)
            self._begin(
                store,
                rank,
                len(members),
                None,
                label_of_members(uuid),
                seconds,
                key(members, uuid),
            )
            self._open()
        except Exception:
            self._leave_old_ranks("reconfigure() has failed")
            raise
        work = Work("reconfigure", [], [])
        work.end(None)
        return work

    def _checked_membership(self: Any) -> Membership:
        self._name_of("cpu")  # finds the names
        if set((self._names or {}).values()) - {"switchml"}:
            raise NotImplementedError(
                "a group with several backends cannot be reconfigured, because the others would "
                "keep their ranks"
            )
        found: Membership = self._membership
        return found

    def _leave_old_ranks(self: Any, why: str) -> None:
        self._retiring = [thread for thread in self._retiring if thread.is_alive()]
        self._retiring.append(retire(self._line, self._others, why))
        self._unset(self._line.n_put)
        self._abort_hooks.arm()
        if chosen(self._settings, "master_port"):
            for thread in self._retiring:
                thread.join()  # the next job listens at the same port

    def _set_place(self: Any, rank: int, size: int) -> None:
        self._place = self._gateway._place = rank, size
        self._usage.resize(size)
        self.__dict__.pop("_unsent", None)
        if self in c10d._world.pg_group_ranks:
            c10d._world.pg_group_ranks[self] = {r: r for r in range(size)}

    # PyTorch's object cannot change these. Its C++ asks the last two.

    def rank(self) -> int:
        return self._place[0]

    def size(self) -> int:
        return self._place[1]

    getRank, getSize = rank, size

    # ---- the end of its ranks, and its own ----

    def abort(self: Any) -> None:
        """End the collectives of all ranks. The group has no ranks then, and may get others."""
        self._abort_lines()
        self._leave_old_ranks("aborted")

    def leave(self: Any, seconds: float, trouble: BaseException | None = None) -> None:
        super().leave(seconds, trouble)
        for thread in self._retiring:
            thread.join(seconds)
