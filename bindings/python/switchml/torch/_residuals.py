# SPDX-License-Identifier: BSD-3-Clause
"""Rounding errors of gradients, from one step to the next.

    bucket 0: [ parameter 5 | parameter 4 | … ]     one tensor for each bucket

DDP may create other buckets with the same parameters: after the first step it does, and in another
process, which goes on from a checkpoint. So the parameters have numbers, in the order in which the
buckets of the first step have them, which depends only on the model. The invariant: the error of a
parameter's gradient is added to a gradient of this parameter, or is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.utils.weak import WeakIdKeyDictionary

# What is in a bucket: parameters and their elements.
Layout = tuple[tuple[int, int], ...]


class Residuals:
    """Those of one model on one rank."""

    def __init__(self) -> None:
        self._numbers: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._n_numbers = 0  # parameters that are gone keep theirs
        self._buckets: dict[int, tuple[Layout, torch.Tensor]] = {}
        self._loose: dict[int, torch.Tensor] = {}  # of parameters that no bucket here has yet

    def of(self, index: int, parameters: Sequence[torch.Tensor], size: int) -> torch.Tensor:
        """The errors of bucket `index`, to be changed in place: `size` float32 in host memory."""
        layout = tuple((self._number_of(its), its.numel()) for its in parameters)
        found = self._buckets.get(index)
        if found is None or found[0] != layout:
            if found is not None:  # all buckets are about to change
                self._loose, self._buckets = self.by_parameter(), {}
            found = self._buckets[index] = layout, self._collect(layout, size)
        return found[1]

    def _number_of(self, parameter: torch.Tensor) -> int:
        number: int = self._numbers.setdefault(parameter, self._n_numbers)
        if number == self._n_numbers:
            self._n_numbers += 1
        return number

    def _collect(self, layout: Layout, size: int) -> torch.Tensor:
        collected = torch.zeros(size, dtype=torch.float32, device="cpu")
        begin = 0
        for number, count in layout:
            piece = self._loose.pop(number, None)
            if piece is not None and piece.numel() == count:
                collected[begin : begin + count] = piece
            begin += count
        return collected

    def by_parameter(self) -> dict[int, torch.Tensor]:
        """The errors by the numbers of parameters; views, where there are buckets."""
        found = dict(self._loose)
        for layout, errors in self._buckets.values():
            begin = 0
            for number, count in layout:
                found[number] = errors[begin : begin + count]
                begin += count
        return found

    def load(self, found: Mapping[int, torch.Tensor]) -> None:
        """What by_parameter() has returned, here or in another process."""
        self._buckets = {}
        if not self._numbers:  # the model that comes begins anew
            self._n_numbers = 0
        self._loose = {
            int(number): errors.detach().to(torch.float32, copy=True).flatten()
            for number, errors in found.items()
        }
