# SPDX-License-Identifier: BSD-3-Clause
"""The errors of the C library as exceptions, each with the library's error text."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "AbortedError",
    "ClosedError",
    "ConfigError",
    "ForkedError",
    "MismatchError",
    "ProtocolError",
    "RankDiedError",
    "RefusedError",
    "SwitchDiedError",
    "SwitchMLError",
    "TimedOutError",
    "TlsError",
    "UnreachableError",
    "VersionMismatchError",
]


class SwitchMLError(RuntimeError):
    """A call failed. `number` is the C library's error, and its text is the message."""

    number: int = 0

    def __init__(self, text: str, number: int | None = None) -> None:
        super().__init__(text)
        if number is not None:
            self.number = number


class ConfigError(SwitchMLError, ValueError):
    """A setting is missing or wrong."""

    number = -5001


class UnreachableError(SwitchMLError, ConnectionError):
    """The switch could not be reached."""

    number = -5002


class RefusedError(SwitchMLError):
    """The switch refused the job."""

    number = -5003


class MismatchError(SwitchMLError):
    """Another rank made a different call."""

    number = -5004


class RankDiedError(SwitchMLError, ConnectionError):
    """Another rank of the job died."""

    number = -5005


class SwitchDiedError(SwitchMLError, ConnectionError):
    """The connection to the switch was lost."""

    number = -5006


class TimedOutError(SwitchMLError, TimeoutError):
    """The deadline passed. The text has the word that others look for: PyTorch's tests, retries."""

    number = -5007

    def __init__(self, text: str, number: int | None = None) -> None:
        super().__init__(
            text if " timeout " in text else f"{text} (the timeout has passed)", number
        )


class AbortedError(SwitchMLError):
    """A rank has called abort()."""

    number = -5008


class ClosedError(SwitchMLError):
    """The job is closed, or was never opened."""

    number = -5009


class ForkedError(SwitchMLError):
    """The job belongs to the parent process."""

    number = -5010


class ProtocolError(SwitchMLError):
    """The peer broke the protocol."""

    number = -5011


class VersionMismatchError(SwitchMLError):
    """Library and switch are of different versions."""

    number = -5012


class TlsError(SwitchMLError, ConnectionError):
    """TLS with the switch failed: one end does not trust the other."""

    number = -5013


_CLASSES: dict[int, type[SwitchMLError]] = {c.number: c for c in SwitchMLError.__subclasses__()}
_EINVAL, _ENOMEM = -22, -12


def make(number: int, text: str) -> Exception:
    """The exception for a C error: one of this module, ValueError, MemoryError or OSError."""
    if number in _CLASSES:
        return _CLASSES[number](text)
    if number == _EINVAL:
        return ValueError(text)
    if number == _ENOMEM:
        return MemoryError(text)
    if -4096 < number < 0:
        return OSError(-number, text or os.strerror(-number))
    return SwitchMLError(text, number)


def brief(function: Callable[P, T]) -> Callable[P, T]:
    """Let our errors begin here: the sentence says more than the lines of ours that led to it."""

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return function(*arguments, **named)
        except SwitchMLError as error:
            raise error.with_traceback(None) from error.__cause__

    return call
