# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a group find their switch: through the group's store.

Rank 0 draws the job's name, so that no two groups have the same name. If a switch is
configured, nothing else is needed. Otherwise, the ranks meet at rank 0, which puts its host and
port into the store. It also draws a job key, so that only processes that can read the store can
join, unless the user has chosen how ranks authenticate.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from torch.distributed import Store

from .._library import lib
from ..errors import ConfigError, Timeout
from ..job import Job

_LOOPBACK = "127.0.0.1"
_TCP_LISTEN = "0A"
# Settings or SWITCHML_* variables with which the user chooses how ranks authenticate.
_PROOFS = ("job_key", "job_key_file", "tls_certificate", "tls_key", "tls_authority")


def join(
    store: Store,
    rank: int,
    world_size: int,
    title: str,
    timeout: float,
    settings: Mapping[str, Any],
) -> Job:
    """Join the group's job, and wait until all its ranks have."""
    settings = {**settings, "rank": rank, "world_size": world_size}
    settings["timeout"] = min(max(timeout, 0.001), 2_000_000.0)  # the arguments of Job
    deadline = time.monotonic() + timeout
    if rank == 0:
        store.set("job", f"{title[:80]}-{uuid.uuid4().hex[:16]}")
    settings["job"] = _get(store, "job", deadline).decode()
    switch = settings.get("switch") or os.environ.get("SWITCHML_SWITCH")
    if switch not in (None, "", "embedded") or world_size == 1:
        return Job(**settings)
    settings.update(_job_key(store, rank, settings, deadline))
    store.set(f"host/{rank}", _host_identity())
    if rank == 0:
        return _join_and_tell(store, world_size, settings, deadline)
    host, port = _get(store, "switch", deadline).decode().rsplit(" ", 1)
    return Job(**{**settings, "master_address": host, "master_port": int(port)})


def _get(store: Store, key: str, deadline: float) -> bytes:
    """The key's value. Polls, because a waiting store lets no other thread ask."""
    pause = 0.001
    while not store.check([key]):
        if time.monotonic() >= deadline:
            raise Timeout(
                f"the store has no {key!r}: another rank of the group did not arrive in time; "
                "was it started? Otherwise raise the timeout of init_process_group()"
            )
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return store.get(key)


def _job_key(
    store: Store, rank: int, settings: Mapping[str, Any], deadline: float
) -> dict[str, str]:
    """The key that rank 0 draws for the group, as a setting; none if the user has made a choice.

    Rank 0 decides for all ranks, because it knows what its switch will require.
    """
    chosen = any(
        settings.get(name) or os.environ.get(f"SWITCHML_{name.upper()}") for name in _PROOFS
    )
    if rank == 0:
        drawn = not chosen and lib.sml_has_tls()
        store.set("key", f"drawn {secrets.token_urlsafe(32)}" if drawn else "none")
    key = _get(store, "key", deadline).decode()
    return {"job_key": key.removeprefix("drawn ")} if key != "none" and not chosen else {}


# ---- rank 0, with the switch ----


def _join_and_tell(store: Store, world_size: int, settings: dict[str, Any], deadline: float) -> Job:
    address = settings.get("master_address") or _own_address(store, world_size, deadline)
    told = settings.get("master_port") or os.environ.get("SWITCHML_MASTER_PORT")
    ports = settings.get("ports") or os.environ.get("SWITCHML_PORTS") or ""
    with _kept_port(ports) if not told else contextlib.nullcontext(int(told)) as port:
        over = threading.Event()
        teller = threading.Thread(
            target=_tell_when_it_listens, args=(store, address, port, over), daemon=True
        )
        teller.start()
        try:
            return Job(**{**settings, "master_address": address, "master_port": port})
        finally:
            over.set()
            teller.join()


def _tell_when_it_listens(store: Store, address: str, port: int, over: threading.Event) -> None:
    pause = 0.002
    while not over.wait(pause):
        pause = min(2 * pause, 0.05)
        if _is_listened_on(port):
            store.set("switch", f"{address} {port}")
            return


def _is_listened_on(port: int) -> bool:
    """Does a socket of this host listen on the port, at any address?

    The library chooses the address by the master's name or by the interface, so no given address
    is sure to accept a connection.
    """
    for path in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as table:
            for line in table:
                _, local, _, state = line.split()[:4]
                if state == _TCP_LISTEN and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False


@contextlib.contextmanager
def _kept_port(ports: str = "") -> Iterator[int]:
    """A port that no other group of this host gets meanwhile: any, or one of "FIRST-LAST".

    A process that asks for this port still gets it, if both sockets have SO_REUSEADDR, as the
    switch's socket does. So a port of a range also needs its name: an abstract Unix address
    (of the network namespace, as ports are), which has one owner.
    """
    with contextlib.ExitStack() as kept:
        for port in _range_of(ports):
            tcp = kept.enter_context(socket.socket())
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
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


# ---- where rank 0 is ----


def _host_identity() -> str:
    """Equal for processes that reach each other over the loopback, and different for all others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def _own_address(store: Store, world_size: int, deadline: float) -> str:
    """An address of this host where the other ranks of the group can reach it."""
    hosts = {_get(store, f"host/{r}", deadline) for r in range(world_size)}
    if len(hosts) == 1:
        return _LOOPBACK
    told = os.environ.get("SWITCHML_MASTER_ADDR")
    if told and os.environ.get("RANK") == "0":
        return told
    master = os.environ.get("MASTER_ADDR", "")
    address = _address_towards(master) if master else None
    # On the master itself, its name may resolve to the loopback, so use the name.
    if address is None or address.startswith("127.") or address == "::1":
        if os.environ.get("RANK") == "0" and master not in ("", "localhost", _LOOPBACK, "::1"):
            return master
        return socket.gethostname()
    return address


def _address_towards(host: str) -> str | None:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as udp:
            udp.connect(address)  # sends nothing
            return udp.getsockname()[0]
    except OSError:
        return None
