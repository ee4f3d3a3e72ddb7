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
    for master in (host_of_store(store), os.environ.get("MASTER_ADDR")):
        if master and not is_loopback(master):
            address = _address_towards(master)
            if address is not None:
                return master if is_loopback(address) else address
    return _any_address()


def own_address(hosts: Sequence[str], stores: Sequence[str | None]) -> str:
    """An address of this host, rank 0's, where all ranks reach it.

    `hosts` and `stores` are each rank's host, and what it knows as the store's host: where
    another host's rank has found the store, it also finds a rank that is there.
    """
    if len(set(hosts)) == 1:
        return loopback()
    told = os.environ.get("SWITCHML_MASTER_ADDR")
    if told and os.environ.get("RANK") == "0":
        return told
    theirs = [s for h, s in zip(hosts, stores, strict=True) if s and h != hosts[0]]
    for master in [*theirs, os.environ.get("MASTER_ADDR", "")]:
        if master and not is_loopback(master):
            address = _address_towards(master)
            if address is not None:
                # On the master itself, its name may resolve to the loopback: others know the name.
                return master if is_loopback(address) else address
    return _any_address()


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


def _any_address() -> str:
    """No other rank knows an address: that of this host's name, or of the default route."""
    name = socket.gethostname()
    candidates: Iterable[str | None] = (_address_towards(name), _address_towards(_ANYWHERE))
    return next((a for a in candidates if a and not is_loopback(a)), name)


def _address_towards(host: str) -> str | None:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as udp:
            udp.connect(address)  # sends nothing
            return str(udp.getsockname()[0])
    except OSError:
        return None
