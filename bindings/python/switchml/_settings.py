# SPDX-License-Identifier: BSD-3-Clause
"""Settings of a job, checked and as C has them, and the calls' operations and wires."""

from __future__ import annotations

import ctypes
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from . import _library as c
from ._library import lib
from .errors import ConfigError

Op: TypeAlias = Literal["sum", "avg", "max", "min"]
Wire: TypeAlias = Literal["int32", "int16", "int8", "exact", "gradient"]
Debug: TypeAlias = Literal["error", "warn", "info", "trace"]

OPS: Mapping[Op, int] = {"sum": c.SUM, "avg": c.AVG, "max": c.MAX, "min": c.MIN}
WIRES: Mapping[Wire | None, int] = {
    None: c.WIRE_DEFAULT,
    "int32": c.WIRE_INT32,
    "int16": c.WIRE_INT16,
    "int8": c.WIRE_INT8,
    "exact": c.WIRE_EXACT,
    "gradient": c.WIRE_GRADIENT,  # of calls only
}
DEBUG: Mapping[Debug, int] = {"error": 0, "warn": 1, "info": 2, "trace": 3}


def one_of(what: str, value: Any, table: Mapping[Any, int]) -> int:
    """Words are in any case, as in the environment."""
    value = value.lower() if isinstance(value, str) else value
    if value not in table:
        names = ", ".join(repr(name) for name in table if name is not None)
        raise ValueError(f"{what} must be one of {names}, not {value!r}")
    return table[value]


_INT_MAX = 2**31 - 1  # C's int, like the members of struct sml_config


def integer(what: str, value: Any) -> int:
    """Convert to C's int; ctypes would silently keep only the low bits. C checks the range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{what} is {value!r}: it must be a whole number") from None
    if not -_INT_MAX - 1 <= number <= _INT_MAX:
        raise ConfigError(f"{what} is {number}: it must be {-_INT_MAX - 1} to {_INT_MAX}")
    return number


def timeout_of_job(seconds: float) -> float:
    """The nearest timeout that a job takes: those of PyTorch may be years, or nothing."""
    return min(max(seconds, 0.001), 2_000_000.0)


def milliseconds(what: str, seconds: Any) -> int:
    try:
        value = float(seconds)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 < value <= _INT_MAX // 1000:
        raise ConfigError(f"{what} is {seconds!r}: it must be 0.001 to {_INT_MAX // 1000} seconds")
    return max(1, round(value * 1000))


def notice(what: str, seconds: Any) -> int:
    return 0 if seconds == 0 else milliseconds(what, seconds)


def text(what: str, value: Any) -> bytes:
    if not isinstance(value, str) or "\0" in value:
        raise ConfigError(f"{what} is {value!r}: it must be a text without NUL")
    return value.encode()


@functools.lru_cache(maxsize=256)
def call_options(wire: int, waits: bool, name: bytes | None, residual: int | None) -> Any:
    """struct sml_options for C, which does not write it. `residual`: its address."""
    return ctypes.byref(c.Options(ctypes.sizeof(c.Options), wire, waits, name, residual))


_MEMBERS = dict(c.Config._fields_)
# What C calls those of Job's settings that have another name or another form there.
_OF_C: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "switch": ("switch_address", text),
    "timeout": ("timeout_ms", milliseconds),
    "heartbeat": ("heartbeat_ms", milliseconds),
    "wait_notice": ("wait_notice_ms", notice),
    "wire": ("wire", functools.partial(one_of, table=WIRES)),
    "debug": ("debug", functools.partial(one_of, table=DEBUG)),
}


def in_c(given: Mapping[str, Any]) -> dict[str, Any]:
    """Job's settings, checked, as members of struct sml_config."""
    found = {}
    for name, value in given.items():
        if value is not None:
            plain = text if _MEMBERS.get(name) is ctypes.c_char_p else integer
            member, converted = _OF_C.get(name, (name, plain))
            found[member] = converted(name, value)
    # Either of the two overrides both of them in the environment.
    if found.get("job_key") or found.get("job_key_file"):
        found = {"job_key": b"", "job_key_file": b"", **found}
    return found


def open_job(
    settings: Mapping[str, Any], interrupt: ctypes.c_int
) -> tuple[ctypes.c_void_p, c.Info]:
    config = c.config_from_environment()
    for name, value in settings.items():
        setattr(config, name, value)
    config.interrupt = ctypes.pointer(interrupt)
    context = ctypes.c_void_p()
    c.check(lib.sml_open(ctypes.byref(context), ctypes.byref(config)))
    return context, c.get_info(context)[0]
