# SPDX-License-Identifier: BSD-3-Clause
"""What a group's calls came to: how many went where, what they moved, and how long they took.

Each rank counts its own calls: on the switch when they end, on Gloo when they are made. The bytes
of a call are those of the larger of its input and its output. Time spent waiting for other ranks
is estimated: nobody tells a rank when the others arrived, but calls of one kind and size differ by
little else. So it is the time by which calls took longer than the fastest one of their kind and
size. A call that was made before an earlier one had ended begins when that one ends. It is not
compared with others: the C library has both under way, and the second may end at once.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ... import _library as c
from ...errors import ClosedError, SwitchMLError
from ...job import Job

# Calls of more kinds and sizes than these are counted, but not compared with each other.
_KINDS_MAX = 4096


def bytes_of(arguments: Any) -> int:
    """The bytes of a tensor, or of all tensors in nested lists."""
    if isinstance(arguments, torch.Tensor):
        if arguments.layout is torch.strided:
            return arguments.numel() * arguments.element_size()
        return arguments._nnz() * arguments.element_size() if arguments.is_sparse else 0
    if isinstance(arguments, (list, tuple)):
        return sum(map(bytes_of, arguments))
    return 0


def _in_a_ring(name: str, n_bytes: int, n_ranks: int) -> int:
    """What a rank of a ring sends on average: as src/lib/context/context.c has it."""
    part = n_bytes // n_ranks
    if name == "sml_allreduce":
        return 2 * part * (n_ranks - 1)
    return part * n_ranks if name == "sml_reduce" else part * (n_ranks - 1)


class _Duration:
    """Of calls of one kind and size, in seconds."""

    def __init__(self) -> None:
        self.calls, self.total, self.least = 0, 0.0, float("inf")

    def beyond_least(self) -> float:
        return self.total - self.calls * self.least


def _bytes_sent(job: Job | None) -> int:
    try:
        return 0 if job is None else job.counters().bytes_sent
    except ClosedError:  # it ends just now, and is counted by add_job()
        return 0


_NOWHERE = (c.PATH_NONE, "")


def _where(job: Job | None) -> tuple[int, str]:
    try:
        return _NOWHERE if job is None else job._where()
    except SwitchMLError:  # it is closed
        return _NOWHERE


class Usage:
    """Counts of one group on this rank."""

    def __init__(self, n_ranks: int) -> None:
        self._n_ranks = n_ranks
        self._lock = threading.Lock()
        self._switch: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._gloo: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._durations: dict[tuple[str, int], _Duration] = {}
        self._ring = self._sent = 0
        self._seconds, self._ended_at = 0.0, 0.0
        self._where = _NOWHERE

    def add(self, name: str, calls: Iterable[Any], begun_at: float) -> None:
        """A call on the switch has ended now. `calls`: those of the C library (work.Call)."""
        n_bytes = in_a_ring = 0
        for call in calls:
            its = call.recv.nbytes
            if call.send is not call.recv:
                its = max(its, call.send.nbytes)
            n_bytes += its
            in_a_ring += _in_a_ring(call.name, its, self._n_ranks)
        with self._lock:
            now = time.monotonic()  # in here: two lines end calls, and none ends before another
            counts = self._switch[name]
            counts[0] += 1
            counts[1] += n_bytes
            self._ring += in_a_ring
            queued = begun_at < self._ended_at
            seconds = now - (self._ended_at if queued else begun_at)
            self._ended_at = now
            self._seconds += seconds
            if queued:
                return
            kind = (name, n_bytes)
            duration = self._durations.get(kind)
            if duration is None and len(self._durations) < _KINDS_MAX:
                duration = self._durations[kind] = _Duration()
            if duration is not None:
                duration.calls += 1
                duration.total += seconds
                if seconds < duration.least:
                    duration.least = seconds

    def resize(self, n_ranks: int) -> None:
        """The group goes on with this many ranks."""
        with self._lock:
            self._n_ranks = n_ranks
            self._durations.clear()  # those of other ranks cannot be compared with

    def add_gloo(self, name: str, n_bytes: int) -> None:
        with self._lock:
            self._gloo[name][0] += 1
            self._gloo[name][1] += n_bytes

    def add_job(self, job: Job) -> None:
        """It ends."""
        sent, where = _bytes_sent(job), _where(job)
        with self._lock:
            self._sent += sent
            self._where = where if where[0] else self._where

    def summary(self, title: str, rank: int, jobs: Sequence[Job | None]) -> Summary:
        """`jobs`: those that have not ended."""
        sent = sum(map(_bytes_sent, jobs))
        where = next(filter(lambda its: its[0], map(_where, jobs)), _NOWHERE)
        with self._lock:
            sent += self._sent
            number, path = where if where[0] else self._where
            return Summary(
                number,
                group=title,
                rank=rank,
                ranks=self._n_ranks,
                path=path,
                switch=_counts(self._switch),
                gloo=_counts(self._gloo),
                bytes_sent=sent,
                bytes_in_a_ring=self._ring,
                bytes_saved=self._ring - sent,
                seconds_in_calls=self._seconds,
                seconds_waited=sum(its.beyond_least() for its in self._durations.values()),
            )


class Lines:
    """Which groups of this process say on standard error when their job begins and ends
    (`summary` of switchml.Job): the first, and each that is to; one line at the end is for all
    others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Weakly: a group that could not join just goes.
        self._alive: weakref.WeakSet[Usage] = weakref.WeakSet()
        self._silent: weakref.WeakSet[Usage] = weakref.WeakSet()
        self._is_told, self._n_others, self._sums = False, 0, [0, 0, 0]

    def begin(self, usage: Usage, rank: int, is_to: bool) -> bool:
        """Whether the group says so. `rank`: its own; the first group's rank 0 tells of others."""
        with self._lock:
            if not self._alive:
                self._is_told, self._n_others, self._sums = rank == 0, 0, [0, 0, 0]
            is_silent = bool(self._alive) and not is_to
            self._alive.add(usage)
            if is_silent:
                self._silent.add(usage)
            return not is_silent

    def end(self, usage: Usage, counts: Mapping[str, Any]) -> None:
        """The group has ended, with this summary. Again: nothing."""
        with self._lock:
            if usage in self._silent:
                self._silent.discard(usage)
                self._n_others += 1
                more = counts["switch"]["calls"], counts["switch"]["bytes"], counts["gloo"]["calls"]
                self._sums = [a + b for a, b in zip(self._sums, more, strict=True)]
            was_last = usage in self._alive and len(self._alive) == 1
            self._alive.discard(usage)
            if not (was_last and self._is_told and self._n_others):
                return
            n, (calls, n_bytes, on_gloo) = self._n_others, self._sums
        groups = "1 more group" if n == 1 else f"{n} more groups"
        left = f"; {on_gloo} left to Gloo" if on_gloo else ""
        line = f"{groups}: {calls} calls of {_size(n_bytes)} in SwitchML{left}"
        sys.stderr.write(f"switchml[rank 0]: {line}\n")  # as one write
        sys.stderr.flush()


lines = Lines()


def _counts(found: Mapping[str, list[int]]) -> dict[str, Any]:
    each = {name: {"calls": calls, "bytes": its} for name, (calls, its) in sorted(found.items())}
    return {
        "calls": sum(one["calls"] for one in each.values()),
        "bytes": sum(one["bytes"] for one in each.values()),
        "by_operation": each,
    }


class Summary(dict[str, Any]):
    """A dict of numbers; str() and print() make text of it."""

    def __init__(self, where: int, /, **found: Any) -> None:
        super().__init__(found)
        self._where = where

    def __str__(self) -> str:
        path = f", through {self['path']}" if self["path"] else ""
        return "\n".join(
            [
                f"switchml: {self['group']}, rank {self['rank']} of {self['ranks']}{path}",
                f"  in SwitchML: {_counts_text(self['switch'])}",
                f"  on Gloo:     {_counts_text(self['gloo'])}",
                f"  sent:        {self._sent_text()}",
                f"  in calls:    {self['seconds_in_calls']:.3g} s, about "
                f"{self['seconds_waited']:.3g} s more than if each had been as fast as "
                "the fastest like it",
            ]
        )

    def _sent_text(self) -> str:
        """Where a host's ranks add in its memory, one of them sends for all."""
        sent, saved = _size(self["bytes_sent"]), self["bytes_saved"]
        ring = f"in a ring: {_size(self['bytes_in_a_ring'])}"
        if self._where == c.PATH_MEMORY:
            return f"no packets ({ring})"
        if self._where == c.PATH_MEMORY_AND_SWITCH:
            own = f"{sent} for all ranks of its host"
            other = "nothing: another rank of its host does"
            return f"{own if self['bytes_sent'] else other} ({ring} by each rank)"
        saving = f"saved: {_size(saved)}" if saved >= 0 else f"{_size(-saved)} more"
        return f"{sent} ({ring}; {saving})"


def _counts_text(counts: Mapping[str, Any]) -> str:
    each = ", ".join(f"{its['calls']} {name}" for name, its in counts["by_operation"].items())
    calls = f"{counts['calls']} call{'' if counts['calls'] == 1 else 's'}"
    return f"{calls}, {_size(counts['bytes'])} ({each})" if each else calls


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if n_bytes < 999.5:
            digits = 0 if unit == "bytes" or n_bytes >= 99.5 else 1
            return f"{n_bytes:.{digits}f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} PB"
