# SPDX-License-Identifier: BSD-3-Clause
"""The ranks of a group meet in the group's store, before anything else uses that store.

    rank 0                                  rank r
    begun = N (drawn) ------------------->  reads N
    reads N/r, compares the terms  <------  N/r = {nonce, terms, where it is}
    N/all = {all nonces, error} --------->  finds its own nonce: N is not an old meeting's

The store may contain the keys of earlier groups: of a round before destroy_process_group(), of
an attempt that failed, or of a run with the same file. The invariant: a rank uses only keys below
the N of a meeting in which rank 0 has seen its nonce.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed import PrefixStore

from ..._wait import poll
from ...errors import (
    AbortedError,
    ConfigError,
    MismatchError,
    RankDiedError,
    TimedOutError,
    UnreachableError,
    make,
)
from .address import common_way, host_identity, host_of_store, innermost, ways_to
from .notice import Notice, notice_seconds
from .peers import death_among
from .terms import Terms, difference, ranks_text, terms_of

T = TypeVar("T")

# A store's host may be gone a moment before the jobs know whose host it was.
_DEATH_S = 1.0
_END_S = 5.0
_KEEP_S = 30.0
# Between two looks at the store.
_SHORTEST_S, _LONGEST_S = 0.001, 0.05


def _time_text(seconds: float) -> str:
    """Less than a second as Gloo says it, because torchft's own tests look for that."""
    if seconds < 1:
        return f"{1000 * seconds:.0f}ms"
    if seconds >= 120 and seconds % 60 == 0:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds:g} s"


class Meeting:
    """A store that only the ranks of one group use, and what they have told each other.

    `ranks` are their numbers in the default group, or () if there is none that they share.
    `store` is fresh. On rank 0, `hosts` are the ranks' hosts, and `stores` the hosts that they
    know as the store's. `secret`: a job key that all ranks have without the store; None: they
    have none.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        ranks: Sequence[int] | None,
        title: str,
        notice: float = 0.0,
        secret: str | None = None,
        patience: float = 0.0,
    ) -> None:
        self._all = PrefixStore("switchml meeting/", store)
        self.rank, self.size, self.title = rank, size, title
        self.ranks = tuple(ranks or ())
        self.names = self.ranks or tuple(range(size))
        self.store: dist.Store = self._all
        self.hosts: list[str] = []
        self.stores: list[str | None] = []
        self.on_one_host = size == 1
        self.way = ""  # an address that all hosts reach (address.common_way)
        self._notice, self._patience = notice, patience
        self.secret = secret

    # ---- what may fail ----

    def ask(self, operation: Callable[[], T]) -> T:
        """Use the store. If it does not answer, a rank has died; say so if a job knows which."""
        try:
            return operation()
        except RuntimeError as error:
            poll(lambda: death_among(self.ranks) is not None, _DEATH_S)
            self.raise_if_dead()
            reason = str(error).partition("\n")[0][:200]
            raise UnreachableError(
                f"the store of {self.title} does not answer: {reason}. Has the process that "
                "contains the store (in most programs rank 0) ended?"
            ) from error

    def raise_if_dead(self) -> None:
        """Raise if a job of this process knows that a rank of this group has died."""
        death = death_among(self.ranks)
        if death is not None:
            raise RankDiedError(f"rank {death[0]} of {self.title} will not come: {death[1]}")

    def get(self, store: dist.Store, key: str) -> bytes | None:
        """The key's value; None: there is none yet. A store that waits lets no other thread
        ask."""
        return self.ask(lambda: store.get(key) if store.check([key]) else None)

    def wait_for(
        self,
        look: Callable[[], T | None],
        deadline: float,
        what: Callable[[], str],
        why: Callable[[], str],
    ) -> T:
        """What `look` finds. Raises if a rank of the group has died, or, with the text of `why`,
        at the deadline. Says that it waits for `what`."""
        began = time.monotonic()
        notice = Notice(self.rank, self._notice, deadline)
        while (found := look()) is None:
            self.raise_if_dead()
            if (now := time.monotonic()) >= deadline:
                raise TimedOutError(why())
            notice.look(what)
            # At most an eighth of the wait too long, twice: each rank looks for the last rank, and
            # then for what rank 0 says.
            time.sleep(min(max((now - began) / 8, _SHORTEST_S), _LONGEST_S))
        return found

    def awaited(self, absent: Sequence[int]) -> str:
        here = self.size - len(absent)
        return (
            f"{ranks_text(absent)} of {self.title} to make this group; "
            f"{here} of its {self.size} ranks {'has' if here == 1 else 'have'}"
        )

    def missing(self, absent: Sequence[int]) -> str:
        return (
            f"{ranks_text(absent)} of {self.title} did not arrive "
            f"(timeout after {_time_text(self._patience)}). Was it started, and does it make the "
            "same groups? Otherwise raise the timeout of the group"
        )

    # ---- ranks that leave, or that cannot join ----

    def tell_gone(self, error: BaseException | None, text: str) -> None:
        """Tell the ranks that still join, or will, that this one does not take part. The first
        cause counts, and not what follows from it."""
        number = getattr(error, "number", None) or -(getattr(error, "errno", None) or 0)
        told = json.dumps([number or (AbortedError if error else MismatchError).number, text[:900]])
        with contextlib.suppress(RuntimeError):  # no store: whoever waits learns of that
            self.store.compare_set("gone", "", told)

    def raise_if_gone(self) -> None:
        """Raise if a rank has died, or what a rank has told by tell_gone()."""
        self.raise_if_dead()
        told = self.get(self.store, "gone")
        if told is not None:
            raise make(*json.loads(told))

    def watch(self, deadline: float) -> Callable[[], None]:
        """raise_if_gone() for a long wait: it asks the store ever less often."""
        pause, due = 0.05, 0.0

        def look() -> None:
            nonlocal pause, due
            self.raise_if_dead()
            if time.monotonic() >= deadline:
                raise TimedOutError(
                    f"not all ranks of {self.title} have joined its job before the timeout"
                )
            if time.monotonic() >= due:
                self.raise_if_gone()
                pause = min(2 * pause, 1.0)
                due = time.monotonic() + pause

        return look

    def end_together(self) -> None:
        """All ranks fail, and the process of rank 0, where most stores are, may end: so rank 0
        waits a moment until the others know why."""
        with contextlib.suppress(RuntimeError):
            self.store.add("ended", 1)
            if self.rank == 0:
                poll(lambda: self.store.add("ended", 0) >= self.size, _END_S)


def meet(
    store: dist.Store,
    rank: int,
    size: int,
    ranks: Sequence[int] | None,
    title: str,
    timeout: float,
    settings: Mapping[str, Any],
    secret: str | None = None,
) -> Meeting:
    """Meet all `size` ranks of the group.

    Raises ConfigError on every rank if they have different terms.
    """
    notice = notice_seconds(settings)
    meeting = Meeting(store, rank, size, ranks, title, notice, secret, timeout)
    deadline = time.monotonic() + timeout
    place = {"host": host_identity(), "store": host_of_store(store), "ways": ways_to(store)}
    if rank == 0:
        error = _receive(meeting, settings, place, deadline)
    else:
        error = _greet(meeting, settings, place, deadline)
    if error:
        meeting.end_together()
        raise ConfigError(error)
    return meeting


# ---- rank 0 ----


def _receive(
    meeting: Meeting, settings: Mapping[str, Any], place: dict[str, Any], deadline: float
) -> str | None:
    number = secrets.token_hex(8)
    store = meeting.store = PrefixStore(f"{number}/", meeting._all)
    greetings = [{"nonce": "", "terms": terms_of(settings, number), **place}]
    meeting.ask(lambda: meeting._all.set("begun", number))
    for r in range(1, meeting.size):
        told = meeting.wait_for(
            lambda r=r: meeting.get(store, str(r)),
            deadline,
            lambda: meeting.awaited(_absent(meeting, store)),
            lambda: meeting.missing(_absent(meeting, store)),
        )
        greetings.append(json.loads(told))
    meeting.hosts = [its["host"] for its in greetings]
    meeting.stores = [its["store"] for its in greetings]
    terms: list[Terms] = [its["terms"] for its in greetings]
    error = difference(terms, meeting.names, meeting.title)
    meeting.on_one_host = len(set(meeting.hosts)) == 1
    meeting.way = common_way(meeting.hosts, [its["ways"] for its in greetings])
    verdict = {
        "nonces": [its["nonce"] for its in greetings],
        "error": error,
        "on_one_host": meeting.on_one_host,
        "way": meeting.way,
    }
    meeting.ask(lambda: store.set("all", json.dumps(verdict)))
    return error


def _absent(meeting: Meeting, store: dist.Store) -> list[int]:
    return [
        meeting.names[r]
        for r in range(1, meeting.size)
        if r != meeting.rank and meeting.get(store, str(r)) is None
    ]


# ---- all other ranks ----


def _greet(
    meeting: Meeting, settings: Mapping[str, Any], place: dict[str, Any], deadline: float
) -> str | None:
    nonce = secrets.token_hex(8)
    greeted: str | None = None

    def verdict() -> dict[str, Any] | None:
        """That of a meeting in which rank 0 has read this rank's greeting."""
        nonlocal greeted
        begun = meeting.get(meeting._all, "begun")
        if begun is None:
            return None
        number = begun.decode()
        store = PrefixStore(f"{number}/", meeting._all)
        if number != greeted:
            greeting = {"nonce": nonce, "terms": terms_of(settings, number), **place}
            meeting.ask(lambda: store.set(str(meeting.rank), json.dumps(greeting)))
            greeted = number
        told = meeting.get(store, "all")
        found: dict[str, Any] = json.loads(told) if told else {"nonces": []}
        if nonce not in found["nonces"]:
            return None
        meeting.store = store
        meeting.on_one_host, meeting.way = found["on_one_host"], found["way"]
        return found

    def absent() -> list[int]:
        found: list[int] = []
        if greeted is not None:
            store = PrefixStore(f"{greeted}/", meeting._all)
            if meeting.get(store, "all") is None:
                found = _absent(meeting, store)
        return found or [meeting.names[0]]

    def what() -> str:
        missing = absent()
        if missing == [meeting.names[0]]:  # then nobody can say which others are there
            return f"{ranks_text(missing)} of {meeting.title} to make this group"
        return meeting.awaited(missing)

    def why() -> str:
        return meeting.missing(absent())

    error: str | None = meeting.wait_for(verdict, deadline, what, why)["error"]
    return error


# ---- from one round to the next ----

# The store, and the timer that drops it: another one must not outlive the next round.
_kept: tuple[list[Any], threading.Timer] | None = None


def keep_for_next_round(store: dist.Store) -> None:
    """Keep the default group's store for a while, or until the next one is kept.

    All ranks leave at the same time. The others may connect for the next round before rank 0 has
    dropped its store, which would cut them off. While the store is there, PyTorch serves the next
    round from the same port with it.
    """
    global _kept
    if _kept is not None:
        _kept[0].clear()
        _kept[1].cancel()
    stores = [innermost(store)]
    timer = threading.Timer(_KEEP_S, stores.clear)
    timer.daemon = True
    _kept = stores, timer
    with contextlib.suppress(RuntimeError):  # at the interpreter's exit, no thread can be started
        timer.start()
