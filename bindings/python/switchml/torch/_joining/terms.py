# SPDX-License-Identifier: BSD-3-Clause
"""The settings that all ranks of a group must share, and the text that says how they differ.

Each rank describes its own settings, and rank 0 compares the descriptions. The invariant: no
description contains a secret. A job key is described by 32 bits of a digest with the meeting's
number, which show that two keys differ and do not help to guess one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ... import _library as c
from ..._settings import WIRES

# For each setting: what must be equal, and what the text shows.
Terms = dict[str, tuple[str, str]]

_CERTIFICATES = ("tls_certificate", "tls_key", "tls_authority")


def chosen(settings: Mapping[str, Any], name: str) -> str:
    """What the user has set, as an option of the group or in the environment; "": nothing."""
    return str(settings.get(name) or os.environ.get(f"SWITCHML_{name.upper()}") or "")


def terms_of(settings: Mapping[str, Any], number: str) -> Terms:
    """This rank's terms: those of the group's options, or else of the environment."""
    config = c.config_from_environment()

    def text(name: str, member: str) -> str:
        given = settings.get(name)
        value = getattr(config, member) if given is None else str(given).encode()
        return (value or b"").decode("utf-8", "replace").strip()

    wire = settings.get("wire")
    switch = text("switch", "switch_address")
    return {
        "SWITCHML_SWITCH": (_kind_of_switch(switch), switch or "none"),
        "SWITCHML_JOB": _shown(chosen(settings, "job")),
        "SWITCHML_WIRE": _shown(_name_of_wire(WIRES[wire] if wire else config.wire)),
        "SWITCHML_SLOTS": _shown(str(settings.get("slots") or config.slots or "")),
        "SWITCHML_JOB_KEY_FILE": _key(
            text("job_key", "job_key"), text("job_key_file", "job_key_file"), number
        ),
        "SWITCHML_TLS_CERTIFICATE": _shown(
            "certificates" if any(text(name, name) for name in _CERTIFICATES) else ""
        ),
        "SWITCHML_LIBRARY (the library's version)": _shown(c.lib.sml_version().decode()),
    }


def _shown(text: str) -> tuple[str, str]:
    return text, text or "none"


def _kind_of_switch(switch: str) -> str:
    """What the ranks must agree on. They may name one switch differently, or be at different
    leaves of a tree."""
    if not switch or switch.lower() == "embedded":
        return switch.lower()
    return f"{len(_stripes(switch))} stripes"


def _stripes(switch: str) -> list[str]:
    """The first switch of each stripe."""
    return [item.strip() for item in switch.partition("|")[0].split(",")]


def _name_of_wire(number: int) -> str:
    return next((name for name, n in WIRES.items() if n == number and name), "default")


def _key(secret: str, path: str, number: str) -> tuple[str, str]:
    """As src/control/key.c reads it; what is wrong with a file, the library says."""
    if not secret and not path:
        return _shown("")
    if path:
        try:
            with open(path, "rb") as file:
                value = file.read(4096).removesuffix(b"\n").removesuffix(b"\r")
        except OSError:
            return path, "a file that cannot be read"
    else:
        value = secret.encode()
    digest = hmac.new(value, f"switchml {number}".encode(), hashlib.sha256).hexdigest()[:8]
    return digest, f"a key (check value {digest})"


# ---- comparing ----


def difference(terms: Sequence[Terms], names: Sequence[int], title: str) -> str | None:
    """How the ranks' terms differ; None: they do not. `names`: what each rank is called."""
    for variable in terms[0]:
        if len({its[variable][0] for its in terms}) > 1:
            found = _by_value([its[variable][1] for its in terms], names)
            return (
                f"the ranks of {title} have different values of {variable}: {found}. "
                f"{_remedy(variable)}"
            )
    return _swapped([its["SWITCHML_SWITCH"][1] for its in terms], names, title)


def _remedy(variable: str) -> str:
    if "(" in variable:
        return "Install the same release on all hosts"
    return "Give all ranks the same: the variable, or the option of the group"


def _swapped(switches: Sequence[str], names: Sequence[int], title: str) -> str | None:
    """Stripes in different orders: then no two ranks meet at one switch with one stripe."""
    first = _stripes(switches[0])
    for switch in switches[1:]:
        theirs = _stripes(switch)
        if theirs != first and sorted(theirs) == sorted(first):
            return (
                f"the ranks of {title} name the switches of SWITCHML_SWITCH in different orders: "
                f"{_by_value(switches, names)}. Give all ranks the same order, because its place "
                "in the list is a switch's stripe"
            )
    return None


def _by_value(values: Sequence[str], names: Sequence[int]) -> str:
    """'ranks 0, 2-5: none; rank 1: 10.0.0.1'"""
    groups: dict[str, list[int]] = {}
    for value, name in zip(values, names, strict=True):
        groups.setdefault(value, []).append(name)
    shown = [f"{ranks_text(ranks)}: {value[:120]}" for value, ranks in groups.items()]
    more = [f"{len(shown) - 8} more values"] if len(shown) > 8 else []
    return "; ".join(shown[:8] + more)


def ranks_text(ranks: Sequence[int]) -> str:
    """'rank 3', or 'ranks 0, 2-5'"""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1][1:] = [rank]
        else:
            parts.append([rank])
    text = ", ".join("-".join(map(str, part)) for part in parts[:16])
    return f"rank{'s' if len(ranks) > 1 else ''} {text}{', …' if len(parts) > 16 else ''}"
