# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a group find their switch: through the group's store.

The ranks have met (meeting.py), so the store is fresh. Rank 0 draws the job's name
(job_name.py), so that no two groups have the same name. If a switch is configured, nothing else is
needed. Otherwise, the ranks meet at rank 0, which puts its host and port into the store. It also
draws a job key, so that only processes that can read the store can join, unless the user has chosen
how ranks authenticate.

The invariant: a rank that cannot join tells the others, and no rank waits for one that has died,
has left, or could not join.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from torch.distributed import PrefixStore, Store

from ... import _library as c
from ..._settings import timeout_of_job
from ..._wait import poll
from ...errors import ConfigError, RankDiedError, UnreachableError
from ...job import Job
from . import job_name
from .address import own_address
from .meeting import Meeting
from .peers import remember
from .terms import chosen

_REASON_S = 1.0  # within which a rank 0 that listens no longer says why, if it can
_KNOWN = "known"  # in the store, for a key that all ranks have without it
# Settings or SWITCHML_* variables with which the user chooses how ranks authenticate. The library
# refuses SWITCHML_JOB_KEY; a drawn key would hide that.
_PROOFS = ("job_key", "job_key_file", "tls_certificate", "tls_key", "tls_authority")


def join(
    meeting: Meeting,
    prefix: str,
    title: str,
    timeout: float,
    settings: Mapping[str, Any],
    label: str = "",
    limit: float | None = None,
) -> Job:
    """Join a job of the group, and wait until all its ranks have. `label` ends the job's name; it
    is "" for the default group. `limit`: seconds for this, if they are fewer than the timeout."""
    rank = meeting.rank
    settings = {
        **settings,
        "rank": rank,
        "world_size": meeting.size,
        "timeout": timeout_of_job(timeout),  # the arguments of Job
    }
    store = PrefixStore(prefix, meeting.store)
    deadline = time.monotonic() + (timeout if limit is None else min(limit, timeout))
    # Without a limit, the library's own timeout says more.
    until = math.inf if limit is None else deadline
    settings["_watch"] = meeting.watch(until) if meeting.size > 1 else None
    try:
        job = _join(meeting, store, label, settings, deadline)
    except Exception as error:
        known = isinstance(error, RankDiedError)  # and names the rank that died
        text = f"rank {meeting.names[rank]} could not join {title}: "
        meeting.tell_gone(error, str(error) if known else f"{text}{error}")
        raise
    remember(job, meeting.ranks)
    return job


def _join(
    meeting: Meeting, store: Store, label: str, settings: dict[str, Any], deadline: float
) -> Job:
    rank, world_size = settings["rank"], settings["world_size"]
    if rank == 0:
        drawn = json.dumps(job_name.draw(meeting, settings, label))
        meeting.ask(lambda: store.set("job", drawn))
    settings["job"] = job_name.take(json.loads(_get(meeting, store, "job", deadline)), label)
    if chosen(settings, "switch") not in ("", "embedded") or world_size == 1:
        return Job(**settings)
    settings.update(_job_key(meeting, store, settings, deadline))
    if rank == 0:
        return _join_and_tell(meeting, store, settings)
    there = json.loads(_get(meeting, store, "switch", deadline))

    def reason() -> bool:
        meeting.raise_if_gone()
        return False

    try:
        return Job(**{**settings, **there})
    except UnreachableError:
        poll(reason, _REASON_S)  # rank 0 may be about to say why
        raise


def _get(meeting: Meeting, store: Store, key: str, deadline: float) -> bytes:
    """A key that rank 0 sets when it joins."""

    def look() -> bytes | None:
        found = meeting.get(store, key)
        if found is None:
            meeting.raise_if_gone()
        return found

    def what() -> str:
        return f"rank {meeting.names[0]} to make its first call on {meeting.title}"

    def why() -> str:
        return (
            f"rank {meeting.names[0]} has made no call on {meeting.title} in time: does it make "
            "the same calls? Otherwise raise the timeout of the group"
        )

    return meeting.wait_for(look, deadline, what, why)


def _job_key(
    meeting: Meeting, store: Store, settings: Mapping[str, Any], deadline: float
) -> dict[str, str]:
    """The key that rank 0 draws for the group, as a setting; none if the user has made a choice.

    Rank 0 decides for all ranks, because it knows what its switch will require.
    """
    is_chosen = any(chosen(settings, name) for name in _PROOFS)
    if meeting.rank == 0:
        drawn = not is_chosen and c.get_info(None)[0].has_tls
        secret = _KNOWN if meeting.secret else f"drawn {secrets.token_urlsafe(32)}"
        meeting.ask(lambda: store.set("key", secret if drawn else "none"))
    key = _get(meeting, store, "key", deadline).decode()
    if key == "none" or is_chosen:
        return {}
    return {"job_key": meeting.secret if key == _KNOWN else key.removeprefix("drawn ")}


# ---- rank 0, with the switch ----


def _join_and_tell(meeting: Meeting, store: Store, settings: dict[str, Any]) -> Job:
    address = settings.get("master_address") or own_address(meeting.hosts, meeting.stores)
    given, ports = chosen(settings, "master_port"), chosen(settings, "ports")
    with contextlib.nullcontext(int(given)) if given else kept_port(ports) as port:
        place = {"master_address": address, "master_port": port}
        # At a port that was given, an earlier group may still listen, and close it before this one.
        there = json.dumps({**place, "master_listens": not given})
        over = threading.Event()
        teller = threading.Thread(
            target=_tell_when_it_listens, args=(store, there, port, over), daemon=True
        )
        teller.start()
        try:
            return Job(**{**settings, **place})
        finally:
            over.set()
            teller.join()


def _tell_when_it_listens(store: Store, there: str, port: int, over: threading.Event) -> None:
    pause = 0.002
    while not over.wait(pause):
        pause = min(2 * pause, 0.05)
        if _is_listened_on(port):
            with contextlib.suppress(RuntimeError):  # the store is gone, as the watch will notice
                store.set("switch", there)
            return


def _is_listened_on(port: int) -> bool:
    """Does a socket of this host listen on the port, at any address?

    The library chooses the address by the master's name or by the interface, so no given address
    is sure to accept a connection. But of sockets with SO_REUSEADDR, as all of these have, any
    number may be bound to a port that nobody listens on, and none to one with a listener.
    """
    with _any_host_socket() as tcp:
        try:
            tcp.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _any_host_socket() -> socket.socket:
    """For a port of all addresses of this host, of IPv4 and IPv6."""
    try:
        tcp = socket.socket(socket.AF_INET6)
        tcp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    except OSError:  # a kernel without IPv6
        tcp = socket.socket()
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return tcp


@contextlib.contextmanager
def kept_port(ports: str = "") -> Iterator[int]:
    """A port that no other group of this host gets meanwhile: any, or one of "FIRST-LAST".

    A process that asks for this port still gets it, if both sockets have SO_REUSEADDR, as the
    switch's socket does. So a port of a range also needs its name: an abstract Unix address
    (of the network namespace, as ports are), which has one owner.
    """
    with contextlib.ExitStack() as kept:
        for port in _range_of(ports):
            tcp = kept.enter_context(_any_host_socket())
            try:
                tcp.bind(("", port))
                if port:
                    name = kept.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                    name.bind(f"\0switchml port {port}")
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                continue
            yield tcp.getsockname()[1]
            return
        raise ConfigError(
            f"all TCP ports of SWITCHML_PORTS={ports} are in use on this host. The first rank of "
            "each group needs one: set SWITCHML_PORTS to a wider range"
        )


def _range_of(ports: str) -> range:
    """The ports to try; [0]: any."""
    if not ports:
        return range(1)
    first, dash, last = ports.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
        return range(1)  # the C library says what is wrong
    return range(int(first), min(int(last), 65535) + 1)
