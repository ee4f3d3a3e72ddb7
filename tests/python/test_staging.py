# SPDX-License-Identifier: BSD-3-Clause
"""The order of steps with device memory, with copies in the host's memory in place of a GPU's.

There is no GPU where these were written.

What is tested here is our side: pieces, begun when copied, copied back when done, the
events. That CUDA does as it is told is not.
"""

import contextlib
import threading

import pytest
import torch
import torch.distributed as dist

from ranks import each_rank_of
from switchml.torch._calls import staging as _staging
from switchml.torch._calls.tensors import dense, numbers_of
from switchml.torch._calls.work import Call

N = 2


class SlowCopies:
    """As switchml.torch._calls.staging.Accelerator; each copy happens some time later."""

    def __init__(self):
        self.steps = []
        self.may_come = threading.Event()  # copies to the host happen while this is set,
        self.may_go_back = threading.Event()  # and copies to the device while this is
        self.may_come.set()
        self.may_go_back.set()
        self._last = threading.Event()
        self._last.set()

    def _later(self, copy):
        event = threading.Event()
        before, self._last = self._last, event

        def run():
            before.wait()
            threading.Event().wait(0.002)
            copy()
            event.set()

        threading.Thread(target=run, daemon=True).start()
        return Event(event)

    def pinned_like(self, tensor):
        return torch.full_like(tensor, -1)

    def follow(self):
        self.steps.append("follow")

    def to_host(self, host, tensor):
        self.steps.append("to_host")

        def copy():
            self.may_come.wait()
            host.copy_(tensor)

        return self._later(copy)

    def to_device(self, tensor, host):
        self.steps.append("to_device")

        def copy():
            self.may_go_back.wait()
            tensor.copy_(host)

        self._later(copy)

    def hold(self, tensors):
        pass  # these threads refer to them

    def record(self):
        self.steps.append("record")
        return Event(self._last)

    def lead(self, event):
        self.steps.append("lead")
        event.synchronize()  # a GPU would make its stream wait

    def streams(self):
        return contextlib.nullcontext()


class Event:
    def __init__(self, event):
        self._event = event

    def synchronize(self):
        assert self._event.wait(150)


@each_rank_of("new_groups")
@pytest.mark.parametrize("piece_bytes", [4 << 20, 4096])
def test_pieces_go_to_the_host_through_the_switch_and_back(rank, piece_bytes):
    _staging.PIECE_BYTES = piece_bytes
    group, copies = dist.group.WORLD, SlowCopies()
    numbers = numbers_of([torch.zeros(0)], dist.ReduceOp.SUM)
    tensors = [torch.arange(n, dtype=torch.float32) + rank for n in (10_000, 3)]
    works = []
    for tensor in tensors:
        calls = [Call("sml_allreduce", tensor, tensor, (tensor.numel(), *numbers), divisible=True)]
        works.append(_staging.DeviceWork(copies, "all_reduce", [tensor], calls))
        group._line.put(works[-1])
    # The host's own, put while those wait: it keeps its place behind them on all ranks.
    after = torch.ones(5)
    behind = dist.all_reduce(after, async_op=True)
    future = works[0].get_future()
    for work in [*works, behind]:
        work.wait()
    future.wait()
    steps, pieces = copies.steps, -(-40_000 // piece_bytes)
    assert tensors[0].tolist() == [2.0 * i + 1 for i in range(10_000)]
    assert tensors[1].tolist() == [1.0, 3.0, 5.0]
    assert after.tolist() == [N] * 5
    assert steps.count("to_host") == steps.count("to_device") == pieces + 1
    assert steps.count("record") == steps.count("lead") == 2
    assert steps.index("follow") < steps.index("to_host")


def in_place(copies, tensor):
    """An all-reduce of a tensor in emulated device memory, that nobody waits for."""
    (flat,), finish = dense([tensor])
    numbers = flat.numel(), *numbers_of([flat], dist.ReduceOp.SUM)
    calls = [Call("sml_allreduce", flat, flat, numbers, divisible=True, source=tensor)]
    if finish is not None:  # on the emulated stream, as _complete() does on a GPU's

        def finish():
            copies.to_device(tensor, flat)

    work = _staging.DeviceWork(copies, "all_reduce", [tensor], calls, finish)
    dist.group.WORLD._line.put(work)
    return work


@each_rank_of("new_groups")
def test_a_work_on_columns_sends_what_an_ended_work_has_not_yet_written(rank):
    """A work on a column of a tensor, called when a work on the whole has ended on the host, but
    its result has not arrived on the device."""
    copies = SlowCopies()
    whole = torch.ones(300, 4)
    copies.may_go_back.clear()
    before = in_place(copies, whole)
    assert before.await_end(150)
    work = in_place(copies, whole[:, 1])
    copies.may_go_back.set()
    work.wait()
    expected = torch.full((300, 4), float(N))
    expected[:, 1] *= N
    assert torch.equal(whole, expected)


ALL, COLUMN = slice(None), (slice(None), 1)
PARTS = {
    "the same": (ALL, ALL),
    "a part": (ALL, slice(100, 200)),
    "a part, and the whole": (slice(100, 200), ALL),
    "neighbors": (slice(0, 150), slice(150, 300)),
    "columns after the same": (ALL, COLUMN),
    "the same after columns": (COLUMN, ALL),
}


@each_rank_of("new_groups")
@pytest.mark.parametrize("what", PARTS)
def test_works_on_one_tensor_follow_each_other_although_nobody_waits(rank, what):
    copies = SlowCopies()
    whole, expected = torch.ones(300, 4), torch.ones(300, 4)
    first, second = (whole[part] for part in PARTS[what])
    copies.may_come.clear()  # the first has not ended when the second is called
    works = [in_place(copies, first), in_place(copies, second)]
    at_call = copies.steps.count("to_host")
    copies.may_come.set()
    works.append(in_place(copies, second))
    for work in reversed(works):
        work.wait()
    for part, factor in zip(PARTS[what], (N, N * N), strict=True):
        expected[part] *= factor
    assert torch.equal(whole, expected)
    assert at_call == (2 if what == "neighbors" else 1), "what may overlap does"
