# SPDX-License-Identifier: BSD-3-Clause
"""How many elements ranks have for each other, in collectives that take lists or parts.

Every rank tells all others, in the place of a call on Gloo (elsewhere.py) or before one on the
switch (line.py), what it has for each rank and what it takes from each. Gloo would refuse a wrong
list on its own rank only, and the others would wait until their timeout; or it would end the
process. The invariant: all ranks read the same rows, so they all refuse the call with the same
words, or all make it, and the job goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .tensors import tensors_in
from .work import all_gather

# Those whose tensors may have any size. The others have one size on each rank, or Gloo refuses.
_ANY = {"reduce_scatter", "all_to_all_single"}
NAMES = {"scatter", "gather", "allgather", "alltoall", *_ANY}
_NONE = -1  # of a list that is too short; in place of all elements, of one that is too long


class Sizes:
    """Of one call, on this rank. `title`: what all ranks must call it. `place`: the rank, and how
    many there are."""

    def __init__(
        self,
        name: str,
        title: str,
        arguments: Sequence[Any],
        root: int | None,
        place: tuple[int, int],
    ) -> None:
        self._name, self._title = name, title
        has, takes = _sides(name, arguments, root, *place)
        row = torch.tensor([has, takes], dtype=torch.int64, device="cpu")
        self._rows = row.new_empty((place[1], *row.shape))
        self.call = all_gather(row, self._rows, row)
        self.call.title = title.encode()

    def check(self) -> None:
        """The call has ended: raises RuntimeError, as Gloo does, if any rank has wrong sizes."""
        has, takes = self._rows.transpose(0, 1).tolist()
        why = _wrong_parts([*has, *takes], len(has)) or _different(has, takes)
        if why is None and self._name not in _ANY:
            lists = {"scatter": has, "gather": takes}.get(self._name, [*has, *takes])
            why = _uneven(lists, len(has))
        if why is not None:
            raise RuntimeError(f"{self._title}: {why}")


def _sides(
    name: str, arguments: Sequence[Any], root: int | None, rank: int, size: int
) -> tuple[list[int], list[int]]:
    """Of what this rank has, and of what it takes: all elements, and those for each rank."""
    outputs, inputs = arguments[:2]
    if name == "all_to_all_single":
        return _split(inputs, arguments[3], size), _split(outputs, arguments[2], size)
    takes, has = ([t.numel() for t in tensors_in([side])] for side in (outputs, inputs))
    if name == "allgather":
        has = has[:1] * size
    elif name == "reduce_scatter":
        takes = takes[:1] * size
    elif name in ("gather", "scatter"):
        # Only the root has a list; the others have, or take, one tensor.
        root = root or 0
        if name == "gather":
            has = [sum(has) if r == root else 0 for r in range(size)]
            takes = takes if rank == root else [0] * size
        else:
            takes = [sum(takes) if r == root else 0 for r in range(size)]
            has = has if rank == root else [0] * size
    return _row(sum(has), has, size), _row(sum(takes), takes, size)


def _split(tensor: torch.Tensor, splits: Sequence[int], size: int) -> list[int]:
    if not tensor.dim():  # refused by Gloo, if all ranks have such a tensor
        return [0] * (1 + size)
    count = tensor.numel()
    width = count // max(tensor.shape[0], 1)
    parts = [n * width for n in splits] if splits else [count // size] * size
    return _row(count, parts, size)


def _row(count: int, parts: list[int], size: int) -> list[int]:
    if len(parts) > size:
        return [_NONE] * (1 + size)
    return [count, *parts, *[_NONE] * (size - len(parts))]


# ---- what may be wrong; `rows`: of each rank, and of each rank again ----


def _wrong_parts(rows: list[list[int]], size: int) -> str | None:
    """A list with too few or too many tensors, or splits that are not all of their tensor."""
    for i, (count, *parts) in enumerate(rows):
        if count == _NONE:
            return f"rank {i % size} has tensors for more than {size} ranks"
        if _NONE in parts:
            return f"rank {i % size} has no tensor for rank {parts.index(_NONE)}"
        if (n := sum(parts)) != count:
            return f"rank {i % size} has {count} elements, but {n} in its parts"
    return None


def _different(has: list[list[int]], takes: list[list[int]]) -> str | None:
    for r, taken in enumerate(list(zip(*takes, strict=True))[1:]):
        parts = has[r][1:]
        if parts != list(taken):
            other = next(i for i, n in enumerate(parts) if n != taken[i])
            return (
                f"rank {r} has {parts[other]} elements for rank {other}, which takes {taken[other]}"
            )
    return None


def _uneven(rows: list[list[int]], size: int) -> str | None:
    for i, (_, *parts) in enumerate(rows):
        if len(set(parts)) > 1:
            sizes = ", ".join(map(str, parts[:8]))
            return f"Gloo takes tensors of one size, and rank {i % size} has {sizes}"
    return None
