# SPDX-License-Identifier: BSD-3-Clause
"""Callbacks of futures that call and await collectives, as PyTorch's own hooks do."""

import functools
import os
import signal
import threading
import time
from datetime import timedelta
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from ranks import each_rank_of
from switchml import errors
from switchml._wait import poll
from switchml.torch import hooks
from switchml.torch._calls import callbacks as _callbacks
from switchml.torch._calls.callbacks import Promise
from test_torch_ddp import BOUND, batches, checksum, compare, mean_loss

N = 3
HANGS_S = 100


def full(value, size=1000):
    return torch.full((size,), float(value))


def future_of(value, group=None):
    return dist.all_reduce(full(value), group=group, async_op=True).get_future()


def first(future):
    return future.wait()[0][0].item()


# ---- after the end ----


STEPS = 300


@each_rank_of("groups")
def test_a_future_is_done_when_its_work_has_been_waited_for(rank):
    """A future has its value as soon as its work was waited for, or says that it has ended."""
    found = []
    for step in range(STEPS):
        work = dist.all_reduce(full(rank + step), async_op=True)
        future = work.get_future()
        if step % 2:
            work.wait()
        else:
            while not work.is_completed():
                pass
        assert work.is_success()
        found.append(future.done() and future.value()[0][0].item())
    sums = [sum(rank + step for rank in range(N)) for step in range(STEPS)]
    assert found == sums


def begun_by_rank_0(rank, key, prepare):
    """A work of rank 0 that ends when it was prepared; None on the other ranks."""
    store = dist.distributed_c10d._get_default_store()
    if rank != 0:
        store.wait([key])
        dist.all_reduce(full(rank))
        return None
    work = dist.all_reduce(full(rank), async_op=True)
    prepare(work)
    store.set(key, "")
    assert poll(lambda: work.has_ended, HANGS_S)
    return work


@each_rank_of("groups")
def test_a_wait_ends_at_its_timeout_although_the_future_has_no_value_yet(rank):
    """The future of a work gets its value when the test lets it."""
    keep, may_keep = Promise.keep, threading.Event()

    def late(promise, value):
        may_keep.wait(HANGS_S)
        keep(promise, value)

    with mock.patch.object(Promise, "keep", late):
        work = begun_by_rank_0(rank, "kept late", lambda work: work.get_future())
        if work is None:
            return
        said = "all_reduce has not ended after a timeout of 0.01 s; it goes on"
        with pytest.raises(errors.TimedOutError, match=f"^{said}$"):
            work.wait(timedelta(milliseconds=10))
        may_keep.set()
        work.wait(timedelta(seconds=HANGS_S))
    assert work.get_future().done()


@each_rank_of("groups")
@pytest.mark.parametrize("early", [True, False])
def test_a_future_that_cannot_get_its_value_fails(rank, early):
    """The streams of a future fail, as those of a device may."""

    def prepare(work):
        if early:
            work.get_future()
        work._streams = mock.Mock(side_effect=RuntimeError("no stream"))

    work = begun_by_rank_0(rank, f"not kept {early}", prepare)
    if work is None:
        return
    future = work.get_future()
    assert poll(work.is_completed, 30)
    for wait in (work.wait, future.wait):
        with pytest.raises(RuntimeError, match="no stream"):
            wait()


# ---- waiting in callbacks ----


@each_rank_of("groups")
def test_a_callback_may_wait_for_a_collective_that_it_begins(rank):
    """A callback waits for a collective that it begins, whose callback does the same."""

    def inner(future):
        return [future.value()[0] + first(future_of(rank + 10))]

    def outer(future):
        return [future.value()[0] + future_of(rank + 1).then(inner).wait()[0]]

    assert first(future_of(rank).then(outer)) == 3 + 6 + 33


@each_rank_of("groups")
def test_a_callback_may_wait_for_an_earlier_collective(rank):
    """A callback waits for a collective that was begun before it."""
    ones, twos = future_of(1), future_of(2)
    assert first(ones.then(lambda f: [f.value()[0] + first(twos)])) == N + 2 * N


@each_rank_of("groups")
def test_callbacks_may_use_other_groups(rank):
    """Callbacks reduce over another group; on each rank they come at another time."""
    pair, everybody = dist.new_group([0, 1]), dist.new_group(list(range(N)))
    futures = []
    for step in range(8):
        futures.append(
            future_of(1 << step).then(
                lambda f: [full(first(future_of(f.value()[0][0], everybody)))]
            )
        )
    sums = [first(future) for future in futures]
    if rank < 2:
        sums.append(first(future_of(1, pair).then(lambda f: [full(first(future_of(5, pair)))])))
    for group in (pair, everybody):
        if dist.get_rank(group) >= 0:
            dist.destroy_process_group(group)
    assert sums == [N * N * (1 << step) for step in range(8)] + ([10.0] if rank < 2 else [])


# ---- the order of calls ----


def lambda_of(then):
    return lambda future: then(future)


def decorated(then):
    """A function of the user that seems to be one of PyTorch's."""

    @functools.wraps(default_hooks.allreduce_hook)
    def callback(future):
        return then(future)

    assert callback.__module__ == default_hooks.__name__
    return callback


def partial_of(then):
    return functools.partial(lambda then, future: then(future), then)


class Callable:
    def __init__(self, then):
        self.then = then

    def __call__(self, future):
        return self.then(future)


CALLBACKS = {f.__name__: f for f in (lambda_of, decorated, partial_of, Callable)}


def default_hook(value):
    """The future of PyTorch's hook, whose callback was attached in its module."""
    bucket = full(value * N)
    return default_hooks._allreduce_fut(None, bucket).then(lambda f: [f.value()])


def compressed(value):
    bucket = mock.Mock(**{"buffer.return_value": full(value * N)})
    return default_hooks.fp16_compress_hook(None, bucket).then(lambda f: [f.value()])


def then_of_then(value):
    return future_of(value).then(lambda f: f.value()).then(lambda f: f.value())


def collected(value):
    both = torch.futures.collect_all([future_of(value - 1), future_of(1)])
    return both.then(lambda f: [sum(one.value()[0] for one in f.value())])


def resolved_by_hand(value):
    """As a hook that returns a future of its own."""
    own = torch.futures.Future()
    future_of(value).then(lambda f: own.set_result(f.value()))
    return own


def of_gloo(value):
    tensor = full(value)
    future = dist.all_reduce(tensor, dist.ReduceOp.PRODUCT, async_op=True).get_future()
    return future.then(lambda f: [full(N * tensor[0] ** (1 / N))])


FUTURES = {
    f.__name__: f
    for f in (
        future_of,
        default_hook,
        compressed,
        then_of_then,
        collected,
        resolved_by_hand,
        of_gloo,
    )
}


@each_rank_of("groups")
@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize("callback", CALLBACKS)
def test_every_callback_of_every_future_has_its_place(rank, future, callback):
    """All calls have one size, so a call in another's place would be a wrong sum, and no error.

    The ranks pause at other places: callbacks run at then() on one, and much later on another.
    """
    found = []
    for step in range(4):
        base = 8 * step + 1

        def then(f, base=base):
            again = first(future_of(base + 1)) + first(future_of(base + 3))
            product = full(2)
            dist.all_reduce(product, dist.ReduceOp.PRODUCT)
            return [full(again + product[0].item())]

        outer = FUTURES[future](base)
        if step % N == rank:
            time.sleep(0.01)
        outer = outer.then(CALLBACKS[callback](then))
        summed = dist.all_reduce(tensor := full(base + 2), async_op=True)
        multiplied = dist.all_reduce(other := full(3), dist.ReduceOp.PRODUCT, async_op=True)
        found.append((outer, summed, multiplied, tensor, other, base))
    for outer, summed, multiplied, tensor, other, base in found:
        summed.wait()
        multiplied.wait()
        sums = first(outer), tensor[0].item(), other[0].item()
        assert sums == (N * (2 * base + 4) + 2**N, N * (base + 2), 3**N), base


def note(seen, name, value, pause=0):
    def then(future):
        time.sleep(pause)
        seen[name] = first(future_of(value))
        return future.value()

    return then


@each_rank_of("groups")
def test_callbacks_of_two_futures_have_the_order_of_their_thens(rank):
    """Two calls first, then their callbacks, in another order than that of the calls."""
    one, two = future_of(1), future_of(2)
    seen = {}
    last = [
        two.then(note(seen, "a", 10, 0.02 * rank)),
        one.then(note(seen, "b", 20, 0.02 * (N - rank))),
        two.then(note(seen, "c", 30)),
    ]
    final = first(future_of(40))
    for future in last:
        future.wait()
    expected = {"a": 10 * N, "b": 20 * N, "c": 30 * N}, 40 * N
    assert (seen, final) == expected


@each_rank_of("groups")
def test_callbacks_of_a_tree_of_futures_have_the_order_of_their_thens(rank):
    """PyTorch would run c before b, because it follows a."""
    seen = {}
    one = future_of(1)
    time.sleep(0.05 * rank)  # some ranks attach to a future that is done
    a = one.then(note(seen, "a", 10))
    b = one.then(note(seen, "b", 20))
    c = a.then(note(seen, "c", 30))
    last = first(future_of(40))
    for future in (a, b, c):
        future.wait()
    expected = {"a": 10 * N, "b": 20 * N, "c": 30 * N}, 40 * N
    assert (seen, last) == expected


@each_rank_of("groups")
def test_a_future_of_the_users_waits_for_no_place(rank):
    """What comes after then() may be what resolves the future."""
    own = torch.futures.Future()
    late = own.then(lambda f: [full(first(future_of(f.value())))])
    mixed = torch.futures.collect_all([own, future_of(1)])
    after = mixed.then(lambda f: [full(first(future_of(7)))])
    own.set_result(first(future_of(rank)))
    assert (first(late), first(after)) == (3.0 * N, 7.0 * N)


@each_rank_of("groups")
def test_calls_of_callbacks_come_before_what_is_called_later(rank):
    """A callback that waits for nothing: its collective comes before what is called after it."""
    late = []
    future_of(1).then(lambda _: future_of(2).then(lambda _: late.append(future_of(3))))
    four = first(future_of(4))
    assert (four, first(late[0])) == (4.0 * N, 3.0 * N)


# ---- exceptions ----


def test_the_packages_own_hook_holds_no_bucket_up():
    """Its callbacks begin nothing, so what follows then() begins at once."""
    promise = _callbacks.Promise(lambda future: future.value(), [])
    result = _callbacks.then_compute(promise.future, hooks._first)
    assert _callbacks.order_here()[1] == ()
    promise.keep([full(1)])
    assert result.wait().tolist() == full(1).tolist()


@each_rank_of("groups")
def test_an_exception_in_a_callback_stays_in_its_future(rank):
    def fail(future):
        raise OverflowError(f"rank {rank} cannot")

    future = future_of(1).then(fail)
    with pytest.raises(Exception, match=f"rank {rank} cannot"):
        future.wait()
    future_of(1).add_done_callback(fail)
    assert first(future_of(1)) == float(N)


@each_rank_of("groups")
def test_an_exception_in_a_hooks_callback_comes_out_of_backward(rank):
    def hook(state, bucket):
        def fail(future):
            raise OverflowError("the gradient is odd")

        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(fail)

    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    model.register_comm_hook(None, hook)
    with pytest.raises(Exception, match="the gradient is odd"):
        model(torch.ones(2, 4)).sum().backward()
    assert first(future_of(1)) == float(N)


def killed_meanwhile(rank):
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return first(future_of(1).then(lambda f: future_of(2).wait()))


def test_a_callback_that_waits_for_a_dead_rank_raises(new_groups):
    new_groups.start(killed_meanwhile)
    new_groups.expect("RuntimeError", "rank 2", only=[0, 1], timeout=HANGS_S)


# ---- PyTorch's own hooks ----


def own_hook(state, bucket):
    future = dist.all_reduce(bucket.buffer().div_(N), async_op=True).get_future()
    return future.then(lambda f: f.value()[0])


def zero(rank, name, base):
    torch.manual_seed(5)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10)),
        bucket_cap_mb=0.01,
        gradient_as_bucket_view=True,
    )
    if name == "plain":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    else:
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.1, momentum=0.9
        )
        make = getattr(ddp_zero_hook, name)
        try:
            hook = make(
                getattr(default_hooks, base, own_hook),
                model,
                optimizer,
            )
        except RuntimeError as refusal:  # older PyTorch: whatever is not NCCL, by name
            return str(refusal)
        model.register_comm_hook(None, hook)
    losses = []
    for step, (pixels, labels) in enumerate(batches(rank)):
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        loss.backward()
        if name != "plain" or step >= WARMUP:
            optimizer.step()
        model.zero_grad()
        losses.append(mean_loss(loss))
    return losses, checksum(model.module)


WARMUP = 2  # steps in which ZeRO's hooks only learn how DDP's buckets are


@pytest.mark.parametrize("base", ["allreduce_hook", "own_hook"])
@pytest.mark.parametrize("name", ["hook_with_zero_step", "hook_with_zero_step_interleaved"])
def test_zero_steps_in_ddps_hook(groups, name, base):
    expected, _ = groups.call(zero, ["plain"] * N, [base] * N, timeout=HANGS_S)[0]
    found = groups.call(zero, [name] * N, [base] * N, timeout=HANGS_S)
    if "requires NCCL" in found[0]:
        pytest.skip(f"PyTorch {torch.__version__}: {found[0]}")
    assert len({parameters for _, parameters in found}) == 1, "ranks differ"
    compare(found[0][0], expected, BOUND["int32"])
