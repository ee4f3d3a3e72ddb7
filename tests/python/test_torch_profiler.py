# SPDX-License-Identifier: BSD-3-Clause
"""Collectives in PyTorch's profiler: shown until their end, and harmless after the profile's."""

import threading
import time
from unittest import mock

import torch
import torch.distributed as dist

from ranks import each_rank_of

N = 3


@each_rank_of("groups")
def test_the_profiler_shows_the_collectives(rank):
    with torch.profiler.profile() as profile:
        dist.all_reduce(torch.ones(100_000))
        dist.broadcast(torch.ones(10), 0)
        dist.barrier()
    seen = {e.name: e.cpu_time_total for e in profile.events() if e.name.startswith("switchml")}
    assert {"switchml:all_reduce", "switchml:broadcast", "switchml:barrier"} <= set(seen)
    assert seen["switchml:all_reduce"] > 50  # microseconds: until its end, not its call's


class SlowEvent(threading.Event):
    """Whoever waits for it goes on before whoever sets it does."""

    def set(self):
        super().set()
        time.sleep(0.02)


def told_of_ranges(said):
    """Has the end of each of the profiler's ranges said."""
    original = torch.autograd.profiler.record_function._call_end_callbacks_on_future

    def attach(range_, future):
        ended = original(range_, future)
        ended.add_done_callback(lambda _: said.append("range"))
        return ended

    return mock.patch.object(
        torch.autograd.profiler.record_function, "_call_end_callbacks_on_future", attach
    )


@each_rank_of("groups")
def test_a_range_ends_before_who_waits_goes_on(rank):
    """Else the profile could end in between, and its memory of the range be somebody else's."""
    said = []
    with (
        mock.patch.object(threading, "Event", SlowEvent),
        told_of_ranges(said),
        torch.profiler.profile(),
    ):
        for _ in range(3):
            dist.all_reduce(torch.ones(10))
            said.append("waiter")
    assert said == ["range", "waiter"] * 3


def profile_ends_first(rank):
    """Nobody's work ends in the profile in which it began: rank 0 begins when all have left it."""
    said = []
    tensor = torch.ones(3)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.wait([f"profile_ends_first/{r}" for r in range(1, N)])
        dist.all_reduce(tensor)
        return said, tensor[0].item()
    with told_of_ranges(said):
        with torch.profiler.profile():
            work = dist.all_reduce(tensor, async_op=True)
        with torch.profiler.profile():
            said.append("next profile")
            store.set(f"profile_ends_first/{rank}", "")
            work.wait()
    return said, tensor[0].item()


def test_a_profile_ends_the_ranges_that_are_open(groups):
    outcomes = groups.call(profile_ends_first)
    assert [sum_ for _, sum_ in outcomes] == [N] * N
    assert [said for said, _ in outcomes[1:]] == [["range", "next profile"]] * (N - 1)
