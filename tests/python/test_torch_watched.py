# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch itself does with a group's backend: it reaches us, or says that it does not."""

import json
import re
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor.debug import CommDebugMode

import switchml.torch
from ranks import each_rank_of
from switchml import errors
from switchml.torch._group.gateway import COLLECTIVES, IS_DISPATCHED

N = 2
SUM = float(sum(range(1, N + 1)))
since_2_14 = pytest.mark.skipif(not IS_DISPATCHED, reason="backends in Python came with 2.14")
IS_2_15 = torch.__version__ >= (2, 15)
before_2_14 = pytest.mark.skipif(IS_DISPATCHED, reason="for PyTorch before 2.14")


def gloos_number(group):
    """How many collectives the group's inner Gloo has begun."""
    return group._gloo._get_sequence_number_for_group()


# ---- torch.ops.c10d ----


@each_rank_of("groups")
@since_2_14
def test_operators_of_the_dispatcher_run_on_the_switch(rank):
    group = dist.group.WORLD
    before, gloo = switchml.torch.summary()["switch"]["calls"], gloos_number(group)
    ops, boxed = torch.ops.c10d, group.boxed()
    x = torch.full((3,), rank + 1.0)
    whole = torch.zeros(3 * N)
    works = [
        ops.allreduce_([x], boxed, torch.classes.c10d.ReduceOp(), None, True, -1)[1],
        ops.broadcast_([torch.ones(3)], boxed, 0, 0, True, -1)[1],
        ops._allgather_base_(whole, torch.full((3,), rank + 1.0), boxed, True, -1)[1],
        ops.barrier(torch.ones(1), boxed, [0], True, -1),
    ]
    for work in works:
        c10d.Work.unbox(work).wait()
    assert x.tolist() == [SUM] * 3
    assert whole.tolist() == [float(r + 1) for r in range(N) for _ in range(3)]
    assert switchml.torch.summary()["switch"]["calls"] - before == 4
    assert gloos_number(group) == gloo


@each_rank_of("groups")
@before_2_14
def test_operators_of_the_dispatcher_are_refused(rank):
    group = dist.group.WORLD
    for box, text in (
        (group.boxed, "does not reach a switchml group"),
        (lambda: c10d.ProcessGroup.boxed(group), "Could not retrieve or"),
    ):
        with pytest.raises(RuntimeError, match=f"^.*{text}"):
            torch.ops.c10d.broadcast_([torch.ones(3)], box(), 0, 0, True, -1)


# ---- hooks, the flight recorder, the check for NaN ----


def call_everything(group):
    """One call of each method; returns their names as hooks know them."""
    x, whole = torch.ones(4), torch.ones(4 * N)
    halves = [torch.ones(4) for _ in range(N)]
    root = dist.get_rank(group) == 0
    dist.all_reduce(x, group=group)
    dist.broadcast(x, 0, group=group)
    dist.reduce(x, 0, group=group)
    dist.all_gather_single(whole, x, group=group)
    dist.reduce_scatter_single(x, whole, group=group)
    dist.barrier(group)
    dist.all_gather(halves, x, group=group)
    dist.gather(x, halves if root else None, 0, group=group)
    dist.scatter(x, halves if root else None, 0, group=group)
    dist.reduce_scatter(x, halves, group=group)
    dist.all_to_all(halves, [torch.ones(4) for _ in range(N)], group=group)
    dist.all_to_all_single(whole, torch.ones(4 * N), group=group)
    dist.all_reduce(x, dist.ReduceOp.PRODUCT, group=group)  # on Gloo
    dist.send(x, 1, group=group) if root else dist.recv(x, 0, group=group)
    single = "_BASE" if IS_2_15 else ""  # those of one tensor instead of a list
    names = (
        f"ALLREDUCE BROADCAST REDUCE ALLGATHER{single} REDUCE_SCATTER{single} BARRIER ALLGATHER "
    )
    names += f"GATHER SCATTER REDUCE_SCATTER ALLTOALL ALLTOALL{single} ALLREDUCE "
    return (names + ("SEND" if root else "RECV")).split()


@each_rank_of("groups")
@since_2_14
def test_hooks_see_every_call_once(rank):
    group = dist.new_group(list(range(N)))
    before, after = [], []
    group.register_pre_hook(1, lambda its: before.append((its.op_id, its.name.name)))
    group.register_post_hook(1, lambda its: after.append((its.op_id, its.name.name)))
    expected = list(enumerate(call_everything(group)))
    group.unregister_pre_hook(1)
    group.unregister_post_hook(1)
    dist.all_reduce(torch.ones(1), group=group)
    assert before == expected and after == expected


@each_rank_of("groups")
@since_2_14
def test_the_flight_recorder_has_the_calls(rank):
    group = dist.new_group(list(range(N)))
    # Since 2.15 PyTorch attaches one itself, and keeps apart what each backend did.
    recorder = None if IS_2_15 else c10d.FlightRecorderHook.attach(group)
    whose = {"backend": "switchml"} if IS_2_15 else {}
    dist.all_reduce(torch.ones(2), group=group)
    dist.broadcast(torch.ones(2), 0, group=group)
    entries = json.loads(c10d._dump_fr_trace_json(**whose))["entries"]
    if recorder:
        recorder.remove()
    names = [its["profiling_name"].rpartition(":")[2].replace("_", "") for its in entries[-2:]]
    assert names == ["allreduce", "broadcast"]


@each_rank_of("groups")
@since_2_14
def test_the_check_for_nan_works(rank):
    group = dist.new_group(list(range(N)))
    hook = c10d.NanCheckHook.attach(group)
    with pytest.raises(RuntimeError, match="NaN"):
        dist.all_reduce(torch.tensor([1.0, float("nan")]), group=group)
    hook.remove()
    dist.destroy_process_group(group)


# ---- modes ----


@each_rank_of("groups")
def test_comm_debug_mode_counts_calls_which_run_where_they_do_without_it(rank):
    group = dist.new_group(list(range(N)))
    x, whole = torch.full((4,), rank + 1.0), torch.zeros(4 * N)
    gloo = gloos_number(group)
    with CommDebugMode() as mode:
        dist.all_reduce(x, group=group)
        dist.all_gather_into_tensor(whole, torch.full((4,), rank + 1.0), group=group)
        dist.all_gather([torch.zeros(4) for _ in range(N)], x, group=group)
        dist.reduce(torch.ones(4), 0, dist.ReduceOp.PRODUCT, group=group)
        dist.barrier(group)
    assert x.tolist() == [SUM] * 4
    assert whole.tolist() == [float(r + 1) for r in range(N) for _ in range(4)]
    assert gloos_number(group) - gloo == 1
    counts = {str(op): n for op, n in mode.get_comm_counts().items()}
    for name in ("allreduce_", "_allgather_base_", "allgather_"):
        assert counts[f"c10d.{name}"] == 1, counts


@each_rank_of("groups")
def test_fake_tensors_are_not_sent(rank):
    group = dist.new_group(list(range(N)))
    with FakeTensorMode():
        x, whole = torch.ones(4), torch.ones(4 * N)
        if rank == 0:  # the other rank makes none of these calls, and none may wait for it
            dist.all_reduce(x, group=group)
            dist.broadcast(x, 0, group=group)
            dist.all_gather_into_tensor(whole, x, group=group)
            dist.all_gather([torch.ones(4) for _ in range(N)], x, group=group)
            dist.barrier(group)
        kind = type(x).__name__
    real = torch.ones(1)
    dist.all_reduce(real, group=group)
    assert kind == "FakeTensor" and real.item() == N


# ---- the backend ----


@each_rank_of("groups")
def test_the_backend_of_a_group_is_ours(rank):
    group = dist.group.WORLD
    backend = group._get_backend(torch.device("cpu"))
    x = torch.full((4,), rank + 1.0)
    gloo = gloos_number(group)
    options = dist.AllreduceOptions() if hasattr(dist, "AllreduceOptions") else None
    backend.allreduce([x], options or c10d.AllreduceOptions()).wait()
    assert (backend.name(), backend.rank(), backend.size()) == ("switchml", rank, N)
    assert not backend.supports_splitting
    if hasattr(dist, "get_backend_impl"):
        assert dist.get_backend_impl() is backend
    assert x.tolist() == [SUM] * 4 and gloos_number(group) == gloo


def test_no_collective_of_a_backend_is_forgotten():
    methods = [
        name
        for name in COLLECTIVES
        if hasattr(dist.ProcessGroup, name)
        and getattr(switchml.torch.ProcessGroupSwitchML, name) is getattr(dist.ProcessGroup, name)
    ]
    theirs = {name for name in vars(c10d.Backend) if name in dir(dist.ProcessGroup)}
    calls = {n for n in theirs if n.startswith(("all", "gather", "scatter", "reduce", "broadcast"))}
    known = {alias for name, older in COLLECTIVES.items() for alias in (name, *older)}
    assert not methods and calls <= known


# ---- sequence numbers, timeouts, abort hooks ----


@each_rank_of("groups")
def test_sequence_numbers_count_calls_on_the_switch_and_on_gloo(rank):
    group = dist.new_group(list(range(N)))
    numbers = [group._get_sequence_number_for_group()]
    for call in (
        lambda: dist.all_reduce(torch.ones(1), group=group),
        lambda: dist.all_reduce(torch.ones(1), dist.ReduceOp.PRODUCT, group=group),
        lambda: dist.barrier(group),
    ):
        call()
        numbers.append(group._get_sequence_number_for_group())
    assert numbers == [0, 1, 2, 3]


def set_timeout(seconds, group=None):
    if hasattr(dist, "set_timeout"):
        dist.set_timeout(timedelta(seconds=seconds), group)
    else:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds), group)


@each_rank_of("groups")
def test_a_timeout_may_become_shorter_and_longer(rank):
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=100))
    backend = group._get_backend(torch.device("cpu"))
    set_timeout(50, group)
    assert backend.options.backend == "switchml"
    assert backend.options._timeout == timedelta(seconds=50)
    set_timeout(101, group)
    assert backend.options._timeout == timedelta(seconds=101)
    backend.set_timeout(timeout=timedelta(seconds=102))
    assert backend.options._timeout == timedelta(seconds=102)
    dist.all_reduce(torch.ones(1), group=group)


@each_rank_of("groups")
def test_timeouts_may_be_longer_than_those_of_c(rank):
    years = timedelta(days=3650)
    group = dist.new_group(list(range(N)), timeout=years)
    set_timeout(2 * years.total_seconds(), group)
    options = dist.AllreduceOptions()
    options.timeout = 3 * years
    tensor = torch.ones(1)
    group.allreduce([tensor], options).wait()
    assert tensor.item() == float(N)


@each_rank_of("groups")
@pytest.mark.parametrize("of_call", [False, True])
def test_a_longer_timeout_is_the_deadline_of_later_calls(rank, of_call):
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=100))
    dist.all_reduce(torch.ones(1), group=group)
    set_timeout(0.5, group)
    if not of_call:
        set_timeout(2, group)
    if rank == 0:
        options = dist.AllreduceOptions()
        if of_call:
            options.timeout = timedelta(seconds=2)
        with pytest.raises(errors.TimedOutError, match=r" within 2 s .*timeout | timeout of 2 s"):
            group.allreduce([torch.ones(1)], options).wait()


@each_rank_of("groups")
def test_monitored_barriers_take_seconds(rank):
    dist.monitored_barrier(timeout=100.0)


@each_rank_of("groups")
def test_a_monitored_barrier_without_time_does_not_wait(rank):
    if rank == 0:
        with pytest.raises(RuntimeError) as error:
            dist.monitored_barrier(timeout=timedelta(0))
        kind = type(error.value).__name__
        assert kind in ("RuntimeError", "MismatchError", "DistBackendError")


@each_rank_of("groups")
def test_a_shorter_timeout_is_that_of_monitored_barriers_too(rank):
    group = dist.new_group(list(range(N)), timeout=timedelta(seconds=100))
    set_timeout(1, group)
    if rank == 0:
        with pytest.raises(RuntimeError) as error:
            dist.monitored_barrier(group)
        said = re.search(r"Rank 1 failed to pass monitoredBarrier in (\d+) ms", str(error.value))
        assert said and int(said[1]) <= 1000


@each_rank_of("new_groups")
@pytest.mark.parametrize("how", ["abort", "mismatch"])
def test_abort_hooks_are_called_once_when_a_group_fails(rank, how):
    group, called = dist.new_group(list(range(N))), []
    group.register_abort_hook(1, lambda: called.append("first"))
    group.register_abort_hook(2, lambda: called.append("second"))
    group.register_abort_hook(3, lambda: 1 / 0)
    group.unregister_abort_hook(2)
    backend = group._get_backend(torch.device("cpu"))
    backend.registerAbortHook(hook_id=4, hook=lambda: called.append("fourth"))
    backend.unregisterAbortHook(hook_id=4)
    dist.all_reduce(torch.ones(1), group=group)
    assert not called
    dist.barrier()  # of the default group: the others' call has ended, too
    if rank == 0 and how == "abort":
        group.abort()
    aborted = [errors.ClosedError, errors.AbortedError][rank]
    with pytest.raises(aborted if how == "abort" else errors.MismatchError):
        dist.all_reduce(torch.ones(1 + (rank if how == "mismatch" else 0)), group=group)
    assert called == ["first"]


# ---- tracebacks ----


def fail(rank, how):
    wrong, wire = torch.ones(1 + rank), ["int32", "int16"][rank]
    if how == "group":
        options = switchml.torch.Options(wire=wire)
        group = dist.new_group(list(range(N)), pg_options=options)
        dist.all_reduce(torch.ones(1), group=group)
    elif how == "gloo":
        dist.all_reduce(wrong, op=dist.ReduceOp.PRODUCT)
    elif how == "asynchronous":
        dist.all_reduce(wrong, async_op=True).wait()
    else:
        dist.all_reduce(wrong)


@pytest.mark.parametrize("how", ["awaited", "asynchronous", "gloo", "group"])
def test_a_traceback_has_at_most_three_lines_of_ours(new_groups, how):
    new_groups.start(fail, [how] * N)
    for error in new_groups.outcomes():
        assert error.kind == ("ConfigError" if how == "group" else "MismatchError")
        assert 1 <= len(re.findall(r'File ".*/switchml/', error.trace)) <= 3, error.trace
