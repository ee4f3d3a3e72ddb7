# SPDX-License-Identifier: BSD-3-Clause
"""Where rank 0 of a group is: an address of its host that the other ranks can reach."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

import torch.distributed as dist

_LOOPBACKS = ("127.0.0.1", "::1")
# No host has this address (RFC 5737): the way to it is the default route.
_ANYWHERE = "192.0.2.1"


def host_identity() -> str:
    """Equal for processes that reach each other over the loopback, and different for all others."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return socket.gethostname()


def innermost(store: Any) -> Any:
    """The store without prefixes."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def host_of_store(store: dist.Store) -> str | None:
    """The host where this rank has found the store; None: the store is not on a host."""
    return getattr(innermost(store), "host", None) or None


def address_for_others(store: dist.Store) -> str:
    """An address of this host for ranks of other hosts, of which nothing is known yet."""
    return _address_for(host_of_store(store), os.environ.get("MASTER_ADDR"))


def ways_to(store: dist.Store) -> list[str]:
    """The addresses of the store's host to which this host has a way."""
    host = host_of_store(store) or os.environ.get("MASTER_ADDR") or ""
    if not host or is_loopback(host):
        return []
    found = [a for a in _addresses(host) if not is_loopback(a) and _address_towards(a)]
    return list(dict.fromkeys(found))


def common_way(hosts: Sequence[str], ways: Sequence[Sequence[str]]) -> str:
    """An address that is reached from all hosts, so a host's way to it is where others reach that
    host; "": none is known. The host that has the address may not know it by the store's name.
    """
    theirs = [w for h, w in zip(hosts, ways, strict=True) if w and h != hosts[0]]
    shared = [a for w in theirs[:1] for a in w if all(a in other for other in theirs)]
    return next(iter(shared or sum(theirs, [])), "")


def address_along(way: str, switch: str) -> str | None:
    """This host's address on the way to the other hosts; None: only its name can tell.

    `way`: common_way(). Without one, the way to the switch is as good, and then any default route.
    """
    first = switch.partition("|")[0].partition(",")[0].strip()
    host = first[1:].partition("]")[0] if first.startswith("[") else first
    host = host if host.count(":") != 1 else host.partition(":")[0]
    known = [h for h in (way, host if host != "embedded" else "", _ANYWHERE) if h]
    found = (_address_towards(target) for target in known)
    return next((a for a in found if a and not is_loopback(a)), None)


def interface_of(wanted: str) -> str | None:
    """The first interface that SWITCHML_SOCKET_IFNAME names; None: it only excludes some."""
    if not wanted or wanted.startswith("^"):
        return None
    names = [name for _, name in socket.if_nameindex()]
    parts = [part.strip() for part in wanted.split(",")]
    return next((n for part in parts for n in sorted(names) if n.startswith(part)), None)


def own_address(hosts: Sequence[str], stores: Sequence[str | None]) -> str:
    """An address of this host, rank 0's, where all ranks reach it.

    `hosts` and `stores` are each rank's host, and what it knows as the store's host: where
    another host's rank has found the store, it also finds a rank that is there.
    """
    if len(set(hosts)) == 1:
        return loopback()
    given = os.environ.get("SWITCHML_MASTER_ADDR")
    if given and os.environ.get("RANK") == "0":
        return given
    theirs = [s for h, s in zip(hosts, stores, strict=True) if s and h != hosts[0]]
    return _address_for(*theirs, os.environ.get("MASTER_ADDR"))


def loopback() -> str:
    """The loopback address of this host: ::1 if it has no other."""
    for address in _LOOPBACKS:
        if _can_bind(address):
            return address
    return _LOOPBACKS[0]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _can_bind(address: str) -> bool:
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as udp:
            udp.bind((address, 0))
        return True
    except OSError:
        return False


def _address_for(*masters: str | None) -> str:
    """This host's address on the way to the first of the masters to which there is one. Without
    any, no other rank knows an address: that of this host's name, or of the default route."""
    for master in masters:
        if master and not is_loopback(master):
            address = _address_towards(master)
            if address is not None:
                # On the master itself, its name may resolve to the loopback: others know the name.
                return master if is_loopback(address) else address
    name = socket.gethostname()
    candidates: Iterable[str | None] = (_address_towards(name), _address_towards(_ANYWHERE))
    return next((a for a in candidates if a and not is_loopback(a)), name)


def _addresses(host: str) -> list[str]:
    try:
        found = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return []
    return [str(address[0]) for *_, address in found]


def _address_towards(host: str) -> str | None:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as udp:
            udp.connect(address)  # sends nothing
            return str(udp.getsockname()[0])
    except OSError:
        return None
