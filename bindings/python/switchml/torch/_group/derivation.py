# SPDX-License-Identifier: BSD-3-Clause
"""Groups that are made from a group: split_group() and merge_remote_group().

C++ has methods with these names. They use the store and the backends of the C++ object, and know
nothing of a job, so we need our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore


class Derivation:
    """The part of a ProcessGroupSwitchML that makes other groups from it."""

    def split_group(
        self: Any,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Sequence[torch.device] | None = None,
    ) -> Any:
        """A group of some of this group's ranks, in this order; None on all other ranks."""
        ranks = [int(rank) for rank in ranks]
        if not ranks or len(set(ranks)) < len(ranks) or not set(ranks) <= set(range(self.size())):
            raise ValueError(
                f"split_group: the ranks must be different numbers from 0 to {self.size() - 1}, "
                f"not {ranks}"
            )
        if self.rank() not in ranks:
            return None
        theirs = [self._meeting.names[rank] for rank in ranks]
        name = group_name or f"{self.group_name}:split:{','.join(map(str, ranks))}"
        child = self._fixed_kind(
            PrefixStore(f"split {name}/", self._store),
            ranks.index(self.rank()),
            len(ranks),
            self._timeout if timeout is None else timeout,
            self._checked(opts) or self._options,
            f"group {name} of ranks {theirs}",
            eager=False,
            ranks=theirs if self._meeting.ranks else None,
        )
        return self._named(child, name, group_desc)

    def merge_remote_group(
        self: Any,
        store: dist.Store,
        size: int,
        timeout: timedelta = timedelta(minutes=30),
        group_name: str | None = None,
        group_desc: str | None = None,
    ) -> Any:
        """A group of all `size` processes that call this with a common store. Their ranks are the
        order in which they come."""
        rank = store.add("switchml merge rank", 1) - 1
        if rank >= size:
            raise ValueError(
                f"merge_remote_group: {rank + 1} processes use this store, and size is {size}: "
                "use a new store, or a new prefix, for each merged group"
            )
        name = group_name or f"{self.group_name}:merge"
        merged = self._fixed_kind(
            PrefixStore("switchml merge/", store),
            rank,
            size,
            timeout,
            self._options,
            f"merged group {name}",
            eager=False,
        )
        return self._named(merged, name, group_desc)

    def _named(self: Any, group: Any, name: str, description: str | None) -> Any:
        self._name_of("cpu")  # finds the names of this group's backends
        group._names = self._names
        group._set_group_name(name)
        if description is not None:
            group._set_group_desc(description)
        return group
