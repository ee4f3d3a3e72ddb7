# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that end badly, or are interrupted: the exception and its text, in time."""

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
import threading
import time
import weakref
from unittest import mock

import numpy as np
import pytest

import switchml
from programs import run_python
from ranks import Ranks, each_rank_of, free_port
from switchml._library import lib

N = 3
X = np.ones(100_000, np.float32)


def reduce(job):
    return job.allreduce(X)


def barrier(job):
    job.barrier()


def leave_child(job):
    """A child made by os.fork() that lives on, like a DataLoader's worker."""
    job.allreduce(X)
    child = os.fork()
    if child == 0:
        signal.alarm(300)
        signal.pause()
    return child


def open_again(rank, port):
    """One job after another on one port, and the first one's rank 0 has a child by then."""
    children = []
    for i in range(3):
        job = switchml.Job(rank=rank, world_size=2, job=f"again-{i}", master_port=port)
        job.allreduce(X)
        if rank == 0:
            children.append(leave_child(job))
        else:
            job.allreduce(X)
        job.close()
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(children)


def of_length(job, n):
    return job.allreduce(np.ones(n, np.float32))


def abort(job, reason):
    if reason:
        job.abort(reason)
    return job.allreduce(X)


def ctrl_c_once_it_waits(job):
    while not job._pending:
        time.sleep(0.01)
    time.sleep(0.3)  # most likely it sleeps by then; it may be anywhere in the call
    os.kill(os.getpid(), signal.SIGINT)


def interrupted(job):
    """Rank 0 waits for a rank that never calls, and gets Ctrl-C."""
    # As in a terminal's foreground: what a shell starts in the background ignores Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Thread(target=ctrl_c_once_it_waits, args=[job]).start()
        job.allreduce(X)
    except KeyboardInterrupt:
        return "interrupted"
    return "not interrupted"


def interrupted_as_it_begins(job):
    """Ctrl-C comes when C has the call, and Python does not know of it yet."""
    begin = lib.sml_allreduce

    def begin_and_interrupt(*arguments):
        begin(*arguments)
        raise KeyboardInterrupt

    with (
        mock.patch.object(lib, "sml_allreduce", begin_and_interrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        job.allreduce(X)
    return len(job._pending)


def ctrl_c_once_it_listens(port):
    """C is in the call, wherever it may be."""
    with socket.socket() as tcp:
        while tcp.connect_ex(("127.0.0.1", port)):
            time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def open_interrupted(rank, port):
    """Rank 0 opens alone, and gets Ctrl-C. Returns what C has returned by then."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    c_open, returned = lib.sml_open, []

    def open_and_note(*arguments):
        returned.append(c_open(*arguments))
        return returned[0]

    threading.Thread(target=ctrl_c_once_it_listens, args=[port], daemon=True).start()
    with (
        mock.patch.object(lib, "sml_open", open_and_note),
        pytest.raises(KeyboardInterrupt),
    ):
        switchml.Job(rank=rank, world_size=2, job="alone", master_port=port, timeout=120)
    return returned


def open_both(rank, port):
    with switchml.Job(rank=rank, world_size=2, job="alone", master_port=port) as job:
        return float(job.allreduce(X)[0])


@each_rank_of("new_ranks")
def test_asyncio_hears_of_every_end(job):
    """An event loop that learns of each end from the job's descriptor alone."""

    async def reduce_all(n):
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        fd, n_done = job.event_fd(), 0
        waiting = [job.allreduce_async(np.full(3, i, np.float32)) for i in range(n)]

        def look():
            nonlocal n_done, waiting
            os.read(fd, 8)
            done = [request for request in waiting if request.test()]
            waiting = [request for request in waiting if request not in done]
            n_done += len(done)
            if not waiting:
                over.set()

        loop.add_reader(fd, look)
        await asyncio.wait_for(over.wait(), 150)
        loop.remove_reader(fd)
        return n_done

    assert asyncio.run(reduce_all(300)) == 300


def dropped(rank):
    """Whether an array is still there that C has, and nobody in Python."""
    array = np.ones(100_000, np.float32)
    seen = weakref.ref(array)
    switchml.Job(rank=rank, world_size=1, job="dropped").allreduce_async(array)
    del array
    gc.collect()
    return seen() is not None


def test_who_drops_job_and_request_does_not_take_the_arrays_from_c():
    with Ranks(1, job=False) as ranks:
        assert ranks.call(dropped) == [True]


def test_a_killed_rank_raises_on_the_others(new_ranks):
    new_ranks.call(reduce)
    new_ranks.start(reduce, only=[0, 1])
    time.sleep(0.2)  # most likely they wait by then; a later call raises the same
    new_ranks.processes[2].kill()
    # Not by its silence, which takes a heartbeat.
    new_ranks.expect("RankDiedError", "rank 2", "its connection", only=[0, 1], timeout=60)


def test_a_killed_rank_whose_child_lives_raises_on_the_others_at_once():
    with Ranks(N, {"heartbeat": 60}) as ranks:
        ranks.start(leave_child, only=[2])
        ranks.start(reduce, only=[0, 1])
        child = ranks.outcomes()[2]
        ranks.processes[2].kill()
        began = time.monotonic()
        ranks.start(reduce, only=[0, 1])
        ranks.expect("RankDiedError", "rank 2", only=[0, 1])
        took = time.monotonic() - began
        os.kill(child, signal.SIGKILL)
        assert took < 30, "silence takes a heartbeat"


def test_rank_0_opens_again_while_its_children_live():
    with Ranks(2, job=False) as ranks:
        assert ranks.call(open_again, [free_port()] * 2) == [3, 0]


def test_a_mismatch_names_both_calls(new_ranks):
    new_ranks.start(of_length, [1000, 1000, 1001])
    new_ranks.expect("MismatchError", "1000", "1001")


def of_type(job, name, dtype):
    """As many bytes of each type."""
    array = np.zeros(1024 // np.dtype(dtype).itemsize, dtype)
    getattr(job, name)(array)


@pytest.mark.parametrize("name", ["broadcast", "allgather"])
@pytest.mark.parametrize(
    "types", [("float32", "float64"), ("float32", "uint8"), ("complex64", "uint64")]
)
def test_other_types_are_a_mismatch(new_ranks, name, types):
    new_ranks.start(of_type, [name] * N, [types[0], types[0], types[1]])
    new_ranks.expect("MismatchError", *types)


def test_a_call_that_a_rank_never_makes_times_out():
    # Opening has no more time than that, either.
    with Ranks(2, {"timeout": 8}) as ranks:
        ranks.start(reduce, only=[0])
        ranks.expect("TimedOutError", only=[0])


def test_abort_gives_its_reason_to_all(new_ranks):
    new_ranks.start(abort, ["", "the loss is NaN", ""])
    new_ranks.expect("AbortedError", "the loss is NaN", "rank 1")


def test_ctrl_c_interrupts_a_waiting_call_and_aborts_the_job():
    with Ranks(2) as ranks:
        ranks.start(interrupted, only=[0])
        # The call's own time is longer.
        assert ranks.outcomes(only=[0], timeout=60) == ["interrupted"]
        ranks.start(reduce, only=[1])
        ranks.expect("AbortedError", "KeyboardInterrupt", only=[1])


def test_ctrl_c_interrupts_open_and_the_rank_can_join_again():
    port = free_port()
    with Ranks(2, job=False) as ranks:
        alone = ranks.call(open_interrupted, [port] * 2, only=[0])
        assert alone == [[-errno.EINTR]], "C waits for the other rank"
        assert ranks.call(open_both, [port] * 2) == [2.0, 2.0]


def test_ctrl_c_as_a_call_begins_aborts_the_job_and_keeps_its_arrays():
    with Ranks(2) as ranks:
        n_pending = ranks.call(interrupted_as_it_begins, only=[0])
        assert n_pending == [1], "C has arrays that Python may free"
        ranks.start(reduce, only=[1])
        ranks.expect("AbortedError", "KeyboardInterrupt", only=[1])


@each_rank_of("new_ranks")
def test_a_job_is_left_at_the_interpreters_exit(job):
    """As Python 3.12 and later are in functions of atexit: no thread can be started."""
    text = "can't create new thread at interpreter shutdown"
    with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError(text)):
        job.close()
    assert job.closed


def test_settings_are_checked():
    with pytest.raises(switchml.ConfigError) as caught:
        switchml.Job(rank=5, world_size=2)
    assert "rank" in str(caught.value) and caught.value.number == -5001
    with pytest.raises(ValueError, match="wire"):
        switchml.Job(rank=0, world_size=1, wire="int4")
    with pytest.raises(switchml.UnreachableError):
        switchml.Job(rank=0, world_size=1, switch="127.0.0.1:1", timeout=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 4_294_968),  # in milliseconds, 704 more than 2**32
        ("timeout", 0),
        ("timeout", -1),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("timeout", 10**400),
        ("timeout", "soon"),
        ("heartbeat", 4_294_968),
        ("heartbeat", 61),
        ("rank", 2**32),
        ("world_size", 2**32 + 1),
        ("master_port", 2**32 + 5000),
        ("slots", 2**32 + 64),
        ("slots", 2**64),
        ("slots", 64.5),
        ("threads", 2**32 + 1),
        ("threads", -(2**32) + 1),
        ("mtu", 2**32 + 1500),
        ("spin", 2**32),
        ("job", "a\0b"),
        ("job", b"a"),
        ("switch", 7),
    ],
)
def test_numbers_that_c_would_cut_are_refused(name, value):
    settings = {"rank": 0, "world_size": 1, "job": "numbers", name: value}
    with pytest.raises(switchml.ConfigError, match=name) as caught:
        switchml.Job(**settings).close()
    shown = str(round(value * 1000)) if (name, value) == ("heartbeat", 61) else repr(value)
    assert shown in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    with switchml.Job(rank=np.int64(0), world_size=np.uint8(1), timeout=np.float32(60)) as job:
        assert job.world_size == 1


def test_a_root_that_c_would_cut_is_refused():
    with switchml.Job(rank=0, world_size=1) as job:
        for root in (2**32, -(2**32), 2**64, 0.5):
            with pytest.raises(switchml.ConfigError, match="root"):
                job.broadcast(X.copy(), root=root)
        with pytest.raises(ValueError, match="root"):
            job.broadcast(X.copy(), root=1)
        request = job.barrier_async()
        with pytest.raises(ValueError, match="timeout"):
            request.wait(float("nan"))
        request.wait()


waiting = []


def wait_in_a_thread(job):
    """Returns when the thread waits in C, without the GIL or this would not go on."""
    thread = threading.Thread(target=job.barrier)
    thread.start()
    waiting.append(thread)
    while not any(request._lock.locked() for request in list(job._pending)):
        time.sleep(0.001)
    return sum(range(1_000_000)), thread.is_alive()


def join(job):
    waiting.pop().join(60)
    return not job._pending


def test_the_gil_is_released_while_a_thread_waits():
    with Ranks(2) as ranks:
        ranks.start(wait_in_a_thread, only=[0])
        # The barrier's own time is longer.
        assert ranks.outcomes(only=[0], timeout=60) == [(499_999_500_000, True)]
        ranks.start(barrier, only=[1])
        ranks.start(join, only=[0])
        assert ranks.outcomes() == [True, None]


def test_a_closed_job_says_so():
    with switchml.Job(rank=0, world_size=1) as job:
        assert job.allreduce(X).tobytes() == X.tobytes()
    assert job.closed
    job.close()
    with pytest.raises(switchml.ClosedError):
        job.barrier()


def test_a_variable_that_does_not_exist_is_warned_of():
    program = "import switchml\nfor _ in range(2):\n    switchml.Job(rank=0, world_size=1).close()"
    said = run_python(
        "-c",
        program,
        PYTHONPATH=os.pathsep.join(sys.path),
        SWITCHML_SWTICH="10.0.0.9",
        SWITCHML_MPI_THRESHOLD="1",
    )
    assert said.splitlines() == [
        "switchml[rank 0]: SWITCHML_SWTICH has no effect, because there is no such setting: "
        "did you mean SWITCHML_SWITCH?"
    ]


def test_each_timeout_says_so():
    """PyTorch's own tests look for the word between spaces."""
    for text in ("a switch has died", "all-reduce did not finish within a timeout of 2 s"):
        error = switchml.errors.make(switchml.errors.TimedOutError.number, text)
        assert str(error).startswith(text) and str(error).count(" timeout ") == 1
