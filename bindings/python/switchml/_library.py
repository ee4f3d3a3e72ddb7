# SPDX-License-Identifier: BSD-3-Clause
"""libswitchml through ctypes: include/switchml.h in Python, and nothing more.

ctypes is part of Python, needs no compiler and no package, and releases the GIL in every
call. Enumerations, structures and functions are read from the header, which the installed
package has, too. The structures contain their size, so a newer library accepts an older
binding.
"""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any, NamedTuple

from .errors import make

_HERE = Path(__file__).resolve().parent
_TREE = _HERE.parents[2:3]  # the source tree's root, if this can be in one


def _header() -> str:
    """switchml.h without its comments: the package's, or the source tree's."""
    places = [_HERE / "switchml.h", *(tree / "include" / "switchml.h" for tree in _TREE)]
    try:
        text = next(place for place in places if place.exists()).read_text("utf-8")
    except (StopIteration, OSError) as error:
        raise ImportError(f"{places[0]} is missing: install the whole package again") from error
    return re.sub(r"\s*/\*.*?\*/", "", text, flags=re.DOTALL)


_HEADER = _header()
_TYPES: dict[str, Any] = {"int": c_int, "size_t": c_size_t, "uint64_t": c_uint64}


def _type(words: str, stars: str) -> Any:
    """Of "const char " and "*", for example. An address is enough for what Python does not read."""
    *_, kind, name = ["", *words.split()]
    if stars == "*" and name == "char":
        return c_char_p
    if stars:
        return POINTER(_TYPES[name]) if stars == "*" and name in _TYPES else c_void_p
    return c_int if kind == "enum" else None if name == "void" else _TYPES[name]


def _declared(text: str) -> list[tuple[str, Any]]:
    """The names that a declaration declares, and their types."""
    text = re.sub(r"\(\*(\w+)\).*", r"*\1", text, flags=re.DOTALL)  # a function is an address
    words, names = re.fullmatch(r"\s*((?:\w+\s+)+)(.*?)\s*", text, re.DOTALL).groups()
    found = re.findall(r"(\**)(\w+)(?:\[(\d+)\])?", names)
    assert found, f"switchml.h declares nothing in: {text}"
    return [(name, c_char * int(n) if n else _type(words, stars)) for stars, name, n in found]


def _structure(name: str) -> type[ctypes.Structure]:
    body = re.search(rf"struct {name} \{{(.*?)\}};", _HEADER, re.DOTALL)[1]
    members = [member for text in body.split(";")[:-1] for member in _declared(text)]
    _TYPES[name] = type(name, (ctypes.Structure,), {"_fields_": members})
    return _TYPES[name]


def enumeration(name: str) -> dict[str, int]:
    """Names, without SML_, and numbers."""
    body = re.search(rf"enum {name} \{{(.*?)\}};", _HEADER, re.DOTALL)[1]
    return {name: int(number) for name, number in re.findall(r"SML_(\w+) = (\d+)", body)}


for _name in "sml_type", "sml_op", "sml_wire", "sml_job_path":
    globals().update(enumeration(_name))  # FLOAT32, SUM, WIRE_INT32, PATH_SWITCH, ...

Config = _structure("sml_config")
Membership = _structure("sml_membership")
Info = _structure("sml_info")
Options = _structure("sml_options")
CCounters = _structure("sml_counters")


class Counters(NamedTuple):
    """Counters since the job was joined. Times are in nanoseconds."""

    packets_sent: int
    packets_received: int
    bytes_sent: int
    bytes_received: int
    retransmits_timeout: int
    retransmits_fast: int
    packets_ignored: int
    rtt_ns: int
    rtt_min_ns: int
    window: int
    stalls: int
    tensors: int
    send_blocked: int


def _prototypes() -> dict[str, tuple[Any, list[Any]]]:
    """Each function's result, and its parameters."""
    found = {}
    for head, parameters in re.findall(r"\nSML_API ([^(]*)\((.*?)\);", _HEADER, re.DOTALL):
        ((name, result),) = _declared(head)
        texts = [] if parameters == "void" else parameters.split(",")
        found[name] = result, [of for text in texts for _, of in _declared(text)]
    return found


_PROTOTYPES = _prototypes()


def _candidates() -> list[str]:
    """Paths of the library, best first: as configured, in the package, in a build, installed."""
    given = os.environ.get("SWITCHML_LIBRARY")
    if given:
        return [given]
    found = [_HERE / "_libswitchml.so"]
    found += [tree / "build" / "lib" / "libswitchml.so" for tree in _TREE]
    return [str(path) for path in found if path.exists()] + ["libswitchml.so.0"]


def _of_another_release(name: str, why: str) -> ImportError:
    return ImportError(
        f"{name} is not of the same release as this package ({why}): install both from one release"
    )


def _load() -> ctypes.CDLL:
    reasons = []
    for name in _candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            reasons.append(f"{name}: {error}")
            continue
        for function, (result, arguments) in _PROTOTYPES.items():
            if not hasattr(library, function):
                raise _of_another_release(name, f"it has no {function}()")
            getattr(library, function).restype = result
            getattr(library, function).argtypes = arguments
        return library
    raise ImportError(
        "libswitchml.so cannot be loaded ("
        + "; ".join(reasons)
        + "). Build it with `make`, or install it"
    )


lib = _load()


def config_from_environment() -> Config:
    """A filled Config. Raises the error of a variable that is wrong."""
    config = Config(size=ctypes.sizeof(Config))
    check(lib.sml_config_init(ctypes.byref(config)))
    return config


def get_info(context: c_void_p | None) -> tuple[Info, int]:
    """A filled Info, and the result of sml_get_info(); members are 0 if that fails."""
    info = Info(size=ctypes.sizeof(Info))
    return info, lib.sml_get_info(context, ctypes.byref(info))


def text_of(context: c_void_p | int | None, number: int) -> str:
    """The library's text for an error, or its short text. Call it in the thread that failed."""
    text = lib.sml_error_text(context) or lib.sml_strerror(number)
    return text.decode("utf-8", "replace")


def check(number: int, context: c_void_p | None = None) -> int:
    """What C has returned, in this thread. Raises the error that it is."""
    if number < 0:
        raise make(number, text_of(context, number))
    return number
