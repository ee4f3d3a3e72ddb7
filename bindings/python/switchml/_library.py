# SPDX-License-Identifier: BSD-3-Clause
"""libswitchml through ctypes: include/switchml.h in Python, and nothing more.

ctypes is part of Python, needs no compiler and no package, and releases the GIL in every
call. Keep these equal to the header: the members of Config and Counters, and the numbers of
the enumerations. The structures contain their size, so a newer library accepts an older
binding.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

FLOAT32, FLOAT16, BFLOAT16, INT32, BYTE, FLOAT64, INT64, UINT8, INT8, INT16, BOOL = range(11)
SUM, AVG, MAX, MIN = range(4)
WIRE_DEFAULT, WIRE_INT32, WIRE_INT16, WIRE_INT64, WIRE_EXACT, WIRE_INT8, WIRE_GRADIENT = range(7)
MAX_WORLD_SIZE = 4096


class Config(ctypes.Structure):
    """struct sml_config"""

    _fields_ = [
        ("size", c_size_t),
        ("switch_address", c_char_p),
        ("job", c_char_p),
        ("rank", c_int),
        ("world_size", c_int),
        ("master_address", c_char_p),
        ("master_port", c_int),
        ("timeout_ms", c_int),
        ("heartbeat_ms", c_int),
        ("wire", c_int),
        ("slots", c_int),
        ("threads", c_int),
        ("mtu", c_int),
        ("interface", c_char_p),
        ("debug", c_int),
        ("spin", c_int),
        ("faults", c_char_p),
        ("record", c_char_p),
        ("tls_certificate", c_char_p),
        ("tls_key", c_char_p),
        ("tls_authority", c_char_p),
        ("job_key", c_char_p),
        ("job_key_file", c_char_p),
        ("log", c_void_p),
        ("log_self", c_void_p),
        ("interrupt", POINTER(c_int)),
        ("ports", c_char_p),
        ("shared_memory", c_int),
        ("wait_notice_ms", c_int),
        ("summary", c_int),
        ("join", c_int),
        ("min_ranks", c_int),
        ("max_ranks", c_int),
        ("master_listens", c_int),
    ]


class Membership(ctypes.Structure):
    """struct sml_membership"""

    _fields_ = [
        ("size", c_size_t),
        ("job", c_char_p),
        ("rank", c_int),
        ("world_size", c_int),
        ("master_address", c_char_p),
        ("master_port", c_int),
        ("timeout_ms", c_int),
        ("min_ranks", c_int),
        ("max_ranks", c_int),
        ("wait_ms", c_int),
        ("previous_ranks", POINTER(c_int)),
    ]


PATH_NONE, PATH_MEMORY, PATH_RANKS, PATH_HOSTS, PATH_SWITCH, PATH_MEMORY_AND_SWITCH = range(6)


class Info(ctypes.Structure):
    """struct sml_info"""

    _fields_ = [
        ("size", c_size_t),
        ("has_tls", c_int),
        ("rank", c_int),
        ("world_size", c_int),
        ("previous_ranks", POINTER(c_int)),
        ("waiting", c_int),
        ("stripes", c_int),
        ("path", c_int),
        ("path_text", c_char * 160),
    ]


class Options(ctypes.Structure):
    """struct sml_options"""

    _fields_ = [
        ("size", c_size_t),
        ("wire", c_int),
        ("waits", c_int),
        ("name", c_char_p),
        ("residual", c_void_p),
    ]


COUNTERS = (
    "packets_sent",
    "packets_received",
    "bytes_sent",
    "bytes_received",
    "retransmits_timeout",
    "retransmits_fast",
    "packets_ignored",
    "rtt_ns",
    "rtt_min_ns",
    "window",
    "stalls",
    "tensors",
    "send_blocked",
)


class CCounters(ctypes.Structure):
    """struct sml_counters"""

    _fields_ = [("size", c_size_t), *((name, c_uint64) for name in COUNTERS)]


_REQUEST = c_void_p  # where its pointer is to be, as an address
_OPTIONS = POINTER(Options)
_PROTOTYPES = {
    "sml_config_init": (c_int, [POINTER(Config)]),
    "sml_open": (c_int, [POINTER(c_void_p), POINTER(Config)]),
    "sml_close": (c_int, [c_void_p]),
    "sml_reconfigure": (c_int, [c_void_p, POINTER(Membership)]),
    "sml_get_info": (c_int, [c_void_p, POINTER(Info)]),
    "sml_allreduce": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _OPTIONS, _REQUEST],
    ),
    "sml_reduce": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, _OPTIONS, _REQUEST],
    ),
    "sml_broadcast": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_int, _OPTIONS, _REQUEST]),
    "sml_allgather": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_size_t, c_int, _OPTIONS, _REQUEST],
    ),
    "sml_reduce_scatter": (
        c_int,
        [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, _OPTIONS, _REQUEST],
    ),
    "sml_barrier": (c_int, [c_void_p, _OPTIONS, _REQUEST]),
    "sml_wait": (c_int, [_REQUEST, c_size_t, c_int, POINTER(c_size_t)]),
    "sml_event_fd": (c_int, [c_void_p]),
    "sml_version": (c_char_p, []),
    "sml_abort": (c_int, [c_void_p, c_char_p]),
    "sml_set_timeout": (c_int, [c_void_p, c_int]),
    "sml_error_text": (c_char_p, [c_void_p]),
    "sml_strerror": (c_char_p, [c_int]),
    "sml_count_elsewhere": (None, [c_void_p, c_char_p, c_uint64]),
    "sml_get_counters": (c_int, [c_void_p, c_int, POINTER(CCounters), POINTER(c_char_p)]),
}


def _candidates() -> list[str]:
    """Paths of the library, best first: as configured, in the package, in a build, installed."""
    given = os.environ.get("SWITCHML_LIBRARY")
    if given:
        return [given]
    here = Path(__file__).resolve().parent
    found = [here / "_libswitchml.so", here.parents[2] / "build" / "lib" / "libswitchml.so"]
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


def config_from_environment() -> tuple[Config, int]:
    """A filled Config, and the result of sml_config_init()."""
    config = Config(size=ctypes.sizeof(Config))
    return config, lib.sml_config_init(ctypes.byref(config))


def get_info(context: c_void_p | None) -> tuple[Info, int]:
    """A filled Info, and the result of sml_get_info(); members are 0 if that fails."""
    info = Info(size=ctypes.sizeof(Info))
    return info, lib.sml_get_info(context, ctypes.byref(info))


def text_of(context: c_void_p | int | None, number: int) -> str:
    """The library's text for an error, or its short text. Call it in the thread that failed."""
    text = lib.sml_error_text(context) or lib.sml_strerror(number)
    return text.decode("utf-8", "replace")
