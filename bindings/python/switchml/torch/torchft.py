# SPDX-License-Identifier: BSD-3-Clause
"""torchft: a process group for its Manager. Needs the package torchft, 0.2.0 or newer.

    import torchft
    from switchml.torch.torchft import ProcessGroupSwitchML

    manager = torchft.Manager(pg=ProcessGroupSwitchML(timeout=timedelta(seconds=30)), ...)

Each configure() makes a group, and so a job, of the quorum's members. The invariant: this rank
never makes calls on two of them. It may still be in the job of the last quorum, because other
members have not ended their calls there.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torchft.process_group import ProcessGroupWrapper

from ._group import group as _group
from ._group.options import Options
from ._group.retiring import discard, leave_behind, retire
from ._joining.job_name import label_of_members

__all__ = ["ProcessGroupSwitchML"]


class _QuorumGroup(_group.ProcessGroupSwitchML):
    """A group that joins its job when it is made. `place`: see label_of_members()."""

    # In Gloo's words, which torchft's own tests look for, too.
    _end_title = "the end of the quorum (Connection closed by peer)"
    _is_alone = True
    dropped: weakref.finalize[..., Any]  # what leaves its job if nothing else has ended it

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        options: Options | None,
        quorum: int,
        place: int | None,
    ) -> None:
        self._label = label_of_members(quorum, place)
        super().__init__(store, rank, size, timeout, options, f"quorum {quorum}", eager=False)

    def _start(self, store: dist.Store, rank: int, size: int, ranks: Sequence[int] | None) -> None:
        self._begin(store, rank, size, ranks, self._label, self._timeout.total_seconds())
        self._open()


class ProcessGroupSwitchML(ProcessGroupWrapper):
    """A process group of torchft that reduces through a switch, or in the memory of one host.

    Args:
        timeout: of configure(), and of the calls on the group.
        options: the settings of each quorum's group.
    """

    def __init__(
        self, timeout: timedelta = timedelta(seconds=60), options: Options | None = None
    ) -> None:
        super().__init__(timeout)
        self._options = options
        self._retiring: threading.Thread | None = None

    def getBackendName(self) -> str:
        return "torchft-switchml"

    def _create_pg(self, store: dist.Store, rank: int, world_size: int) -> _QuorumGroup:
        if self._retiring is not None and (self._options or Options()).master_port:
            self._retiring.join()  # the next job listens at the same port
        number = self._quorum_id or 0  # torchft's tests give none
        place = self._group_rank if (self._group_world_size or 1) > 1 else None
        group = _QuorumGroup(store, rank, world_size, self._timeout, self._options, number, place)
        group.dropped = weakref.finalize(group, leave_behind, group._line, group._others)
        group.dropped.atexit = False
        return group

    def abort(self, errored: bool = True) -> None:
        """End the calls of all members; errored=False: leave without ending theirs."""
        held, self._pg = [self._pg], None
        if held[0] is not None:
            self._end(held[0], errored)
            discard(held)
        super().abort(errored)  # logs

    def _end(self, group: _QuorumGroup, errored: bool) -> None:
        group.dropped.detach()  # it would end the old Gloo while others still use it
        if errored:
            group.abort()
        else:
            why = f"rank {group.rank()} has left"
            self._retiring = retire(group._line, group._others, why)

    def shutdown(self) -> None:
        """Leave, for the last time."""
        self.abort(errored=False)

    def errored(self) -> Exception | None:
        group = self._pg  # another thread may configure or end it
        failure = None if group is None else group.failure
        if failure is None:
            return None
        text = f"{group.title} was aborted: {failure}"  # as torchft's other groups say
        return type(failure)(text, failure.number)

    def set_timeout(self, timeout: timedelta) -> None:
        """Of later quorums, and of this one's later calls."""
        super().set_timeout(timeout)
        if (group := self._pg) is not None:
            group.set_timeout(timeout)
