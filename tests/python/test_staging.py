# SPDX-License-Identifier: BSD-3-Clause
"""The order of steps with device memory, with copies in the host's memory in place of a GPU's.

What is tested here is our side: pieces, begun when copied, copied back when done, the
events. That CUDA does as it is told is not.
"""

import contextlib
import threading

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from groups import Groups, stop  # noqa: E402

N = 2


class SlowCopies:
    """As switchml.torch._staging.Cuda; each copy happens some time after it was asked for."""

    def __init__(self):
        self.steps = []
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
        return self._later(lambda: host.copy_(tensor))

    def to_device(self, tensor, host):
        self.steps.append("to_device")
        self._later(lambda: tensor.copy_(host))

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


def staged(rank, piece_bytes):
    from switchml.torch import _staging
    from switchml.torch._group import _OPS, _TYPES
    from switchml.torch._work import Call

    _staging.PIECE_BYTES = piece_bytes
    group, copies = dist.group.WORLD, SlowCopies()
    kind, op = _TYPES[torch.float32], _OPS[dist.ReduceOp.SUM]

    def arguments(send, recv):
        return send.data_ptr(), recv.data_ptr(), send.numel(), kind, op, None

    tensors = [torch.arange(n, dtype=torch.float32) + rank for n in (10_000, 3)]
    works = []
    for tensor in tensors:
        calls = [Call("allreduce", tensor, tensor, arguments, divisible=True)]
        works.append(_staging.DeviceWork(copies, "all_reduce", [tensor], calls))
        group._line.put(works[-1])
    # The host's own, put while those wait: it keeps its place behind them on all ranks.
    after = torch.ones(5)
    behind = dist.all_reduce(after, async_op=True)
    future = works[0].get_future()
    for work in [*works, behind]:
        work.wait()
    future.wait()
    return [t.tolist() for t in tensors], after.tolist(), copies.steps


@pytest.mark.parametrize("piece_bytes", [4 << 20, 4096])
def test_pieces_go_to_the_host_through_the_switch_and_back(piece_bytes):
    with Groups(N) as groups:
        pieces = -(-40_000 // piece_bytes)
        for (long, short), after, steps in groups.call(staged, [piece_bytes] * N):
            assert long == [2.0 * i + 1 for i in range(10_000)]
            assert short == [1.0, 3.0, 5.0]
            assert after == [N] * 5
            assert steps.count("to_host") == steps.count("to_device") == pieces + 1
            assert steps.count("record") == steps.count("lead") == 2
            assert steps.index("follow") < steps.index("to_host")
        groups.call(stop)
