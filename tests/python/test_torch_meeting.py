# SPDX-License-Identifier: BSD-3-Clause
"""How the ranks of a group meet in its store: what they must have in common, stores that are used
again, and where rank 0 is.
"""

import os
import secrets
import signal
import socket
import textwrap
import time
from datetime import timedelta
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import switchml
import switchml.torch
from groups import Prepared, start
from programs import torchrun
from ranks import each_rank_of, free_port
from switches import key_file
from switchml._wait import poll
from switchml.torch import ProcessGroupSwitchML
from switchml.torch._joining import address as _address
from switchml.torch._joining import meeting, rendezvous
from switchml.torch._joining.meeting import Meeting
from switchml.torch._joining.rendezvous import _is_listened_on

N = 3
KEY, OTHER_KEY = secrets.token_urlsafe(24), secrets.token_urlsafe(24)


@pytest.fixture(scope="module")
def ranks():
    with Prepared(N) as processes:
        yield processes


def begin(rank, port, environment, options):
    """init_process_group() with these settings: "joined", or the error."""
    with mock.patch.dict(os.environ, environment):
        try:
            start(rank, N, port, "switchml", 40, options)
            dist.destroy_process_group()
            return "joined", ""
        except Exception as error:  # the test looks at it
            return type(error).__name__, str(error)


def begin_all(ranks, environments, options=None):
    port = free_port()
    return ranks.call(begin, [port] * N, environments, options or [{}] * N)


# ---- what the ranks must have in common ----

AWAY = "127.0.0.1:1"  # nothing listens there, and nobody looks
DIFFERENT = {
    "no switch on rank 0": ("SWITCHML_SWITCH", [None, AWAY, AWAY], "rank 0: none; ranks 1-2: 127"),
    "no switch on rank 1": ("SWITCHML_SWITCH", [AWAY, None, AWAY], "rank 1: none"),
    "no switch on two": ("SWITCHML_SWITCH", [None, AWAY, None], "ranks 0, 2: none; rank 1: 127"),
    "embedded": ("SWITCHML_SWITCH", ["embedded", None, None], "rank 0: embedded; ranks 1-2: none"),
    "stripes": ("SWITCHML_SWITCH", [AWAY, f"{AWAY},127.0.0.1:2", AWAY], "rank 1: 127.0.0.1:1,127"),
    "order of stripes": (
        "SWITCHML_SWITCH",
        ["127.0.0.1:1,127.0.0.1:2", "127.0.0.1:2,127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"],
        "rank 1: 127.0.0.1:2,127.0.0.1:1. Give all ranks the same order",
    ),
    "wire": ("SWITCHML_WIRE", ["int16", None, "int32"], "rank 1: default; rank 2: int32"),
    "slots": ("SWITCHML_SLOTS", [None, None, "64"], "ranks 0-1: none; rank 2: 64"),
    "job": ("SWITCHML_JOB", ["a", "b", "a"], "ranks 0, 2: a; rank 1: b"),
    "a key on one": ("SWITCHML_JOB_KEY_FILE", [None, KEY, None], "ranks 0, 2: none; rank 1: a key"),
    "another key": (
        "SWITCHML_JOB_KEY_FILE",
        [KEY, KEY, OTHER_KEY],
        "rank 2: a key (check value",
    ),
    "certificate": ("SWITCHML_TLS_CERTIFICATE", [None, "/a", None], "rank 1: certificates"),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_setting_that_differs_is_named_on_every_rank(ranks, case, tmp_path):
    variable, values, text = DIFFERENT[case]
    if variable == "SWITCHML_JOB_KEY_FILE":
        values = [value and key_file(tmp_path / value, value) for value in values]
    found = begin_all(ranks, [{variable: value} if value else {} for value in values])
    assert len({text for _, text in found}) == 1
    for kind, told in found:
        assert kind == "ConfigError", told
        assert variable in told
        assert text in told
        assert "the ranks of the default group" in told
        assert KEY not in told and OTHER_KEY not in told
        assert "\n" not in told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([{"wire": "int16"}, {}, {}], "SWITCHML_WIRE: rank 0: int16; ranks 1-2: default"),
        ([{"job": "a"}, {"job": "b"}, {}], "SWITCHML_JOB: rank 0: a; rank 1: b; rank 2: none"),
    ],
)
def test_an_option_that_differs_is_named_on_every_rank(ranks, options, said):
    for kind, text in begin_all(ranks, [{}] * N, options):
        assert kind == "ConfigError" and said in text


def test_one_key_from_two_files_is_the_same(ranks, tmp_path):
    files = [key_file(tmp_path / name, KEY) for name in ("key", "copy", "key")]
    found = begin_all(ranks, [{"SWITCHML_JOB_KEY_FILE": file} for file in files])
    assert found == [("joined", "")] * N


def test_a_name_for_the_same_switch_is_not_a_difference(ranks):
    """Nor is another leaf of a tree: so all ranks look for their switches."""
    names = ["127.0.0.1:1", "localhost:1", "127.0.0.1:2"]
    found = begin_all(ranks, [{"SWITCHML_SWITCH": name} for name in names])
    assert {kind for kind, _ in found} == {"UnreachableError"}


def test_what_the_library_refuses_on_one_rank_is_told_to_all(ranks):
    threads = [{"SWITCHML_THREADS": str(n)} for n in (1, 2, 1)]
    found = begin_all(ranks, threads)
    assert {kind for kind, _ in found} == {"MismatchError"}
    assert all("SWITCHML_THREADS" in text for _, text in found)


@each_rank_of("ranks")
def test_a_subgroup_compares_its_own_settings(rank, port):
    """Rank 2 gives its groups another option than the other ranks do."""
    start(rank, N, port, "switchml", 40, None)
    options = switchml.torch.Options(wire="int16" if rank == 2 else "int32")
    with pytest.raises(ValueError, match="SWITCHML_WIRE"):  # torch gives up before its own barrier
        dist.new_group([0, 1, 2], pg_options=options, timeout=timedelta(seconds=40))
    if rank == 1:
        assert dist.group.WORLD.split_group([2, 0], opts=options) is None
    else:
        with pytest.raises(ValueError, match="SWITCHML_WIRE: rank 2: int16; rank 0: int32"):
            dist.group.WORLD.split_group([2, 0], opts=options)
    dist.destroy_process_group()


# ---- stores that are used again ----


def again(rank, where, group_too):
    """Rounds with the same store. Between them, no rank waits for another."""
    store = None
    if "port" in where:
        store = dist.TCPStore("127.0.0.1", where["port"], N, rank == 0, timedelta(seconds=40))
        where = {"store": store}
    found = []
    for _ in range(4):
        dist.init_process_group(
            "switchml", rank=rank, world_size=N, timeout=timedelta(seconds=40), **where
        )
        tensor = torch.full((1000,), float(rank))
        dist.all_reduce(tensor)
        group = dist.new_group([0, 2]) if group_too else None
        if group_too and rank != 1:
            dist.all_reduce(tensor, group=group)
            dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.BOR, group=group)
        dist.destroy_process_group()
        found.append(tensor[0].item())
    return found


@pytest.mark.parametrize("group_too", [False, True])
@pytest.mark.parametrize("kind", ["tcp", "file"])
def test_a_store_is_used_again(ranks, tmp_path, kind, group_too):
    where = {"port": free_port()} if kind == "tcp" else {"init_method": f"file://{tmp_path}/store"}
    found = ranks.call(again, [where] * N, [group_too] * N)
    assert found == ([[6.0] * 4, [3.0] * 4, [6.0] * 4] if group_too else [[3.0] * 4] * N)


def again_after_a_pause(rank, where):
    """Rank 0 has left its group, and drops its store only when the others are back."""
    leave = ProcessGroupSwitchML.shutdown

    def leave_and_pause(group):
        leave(group)
        time.sleep(1)

    with mock.patch.object(
        ProcessGroupSwitchML, "shutdown", leave_and_pause if rank == 0 else leave
    ):
        return again(rank, where, False)


def test_a_store_that_rank_0_drops_late_cuts_nobody_off(ranks):
    where = {"init_method": f"tcp://127.0.0.1:{free_port()}"}
    assert ranks.call(again_after_a_pause, [where] * N) == [[3.0] * 4] * N


def directly(rank, path, seconds):
    """The sum of a group without torch.distributed."""
    group = ProcessGroupSwitchML(dist.FileStore(path, -1), rank, N, timedelta(seconds=seconds))
    tensor = torch.ones(10)
    group.allreduce([tensor]).wait()
    group.shutdown()
    return tensor[0].item()


@pytest.mark.parametrize("absent", [0, 2])
def test_a_store_of_a_group_that_failed_is_used_again(ranks, tmp_path, absent):
    path = str(tmp_path / "store")
    others = [rank for rank in range(N) if rank != absent]
    ranks.start(directly, [path] * N, [2] * N, only=others)
    said = f"rank {absent} of the process group did not arrive"
    ranks.expect("TimedOutError", said, only=others)
    for _ in range(2):
        assert ranks.call(directly, [path] * N, [40] * N) == [N] * N


ROUNDS = """
    import torch, torch.distributed as dist, switchml.torch
    for round in range(3):
        dist.init_process_group("switchml")
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        dist.destroy_process_group()
        print(f"round {round}: {tensor[0].item()}", flush=True)
"""


@pytest.mark.parametrize("how", ["--standalone", "--master-port"])
def test_under_torchrun_the_default_group_is_made_again(tmp_path, how):
    script = tmp_path / "rounds.py"
    script.write_text(textwrap.dedent(ROUNDS))
    where = [how] if how == "--standalone" else [how, str(free_port())]
    said = torchrun(*where, script)
    for number in range(3):
        assert said.count(f"round {number}: 2.0") == 2


# ---- where rank 0 is ----


def test_the_store_says_where_rank_0_is(monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.delenv("SWITCHML_MASTER_ADDR", raising=False)
    towards = {"here": "127.0.1.1", "10.0.0.1": "10.0.0.1", "10.0.0.2": "10.0.0.1"}
    monkeypatch.setattr(_address, "_address_towards", towards.get)

    def found(*stores):
        return _address.own_address(["a", "a", "b"], [None, *stores])

    assert found(None, "10.0.0.1") == "10.0.0.1"  # rank 0 is where the store is
    assert found("localhost", "10.0.0.2") == "10.0.0.1"  # elsewhere: the way to it
    assert found(None, "here") == "here"  # a name that is the loopback here, and not there
    assert found(None, None) == socket.gethostname()


def test_a_prefixed_store_still_has_its_host():
    store = dist.TCPStore("localhost", 0, is_master=True)
    wrapped = dist.PrefixStore("a/", dist.PrefixStore("b/", store))
    assert _address.host_of_store(wrapped) == "localhost"
    assert _address.host_of_store(dist.PrefixStore("a/", dist.HashStore())) is None


def test_a_port_is_seen_to_be_listened_on_without_proc(monkeypatch):
    def no_proc(*_):
        raise OSError

    monkeypatch.setattr("builtins.open", no_proc)
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as tcp:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tcp.bind((address, 0))
            except OSError:
                continue  # a host without this loopback
            port = tcp.getsockname()[1]
            assert not _is_listened_on(port)
            tcp.listen()
            assert _is_listened_on(port)


# ---- how long a rank waits ----


@pytest.mark.parametrize("seconds", [0.01, 0.065, 0.13, 0.3])
def test_a_wait_ends_soon_after_what_it_waits_for(monkeypatch, seconds):
    """All ranks wait for the last one, and then for rank 0: each wait delays the group."""
    clock = mock.Mock(now=100.0)
    clock.monotonic = lambda: clock.now
    clock.sleep = lambda pause: setattr(clock, "now", clock.now + pause)
    monkeypatch.setattr(meeting, "time", clock)
    waiting = meeting.Meeting(dist.HashStore(), 0, 2, None, "a group")
    waiting.wait_for(lambda: clock.now >= 100 + seconds or None, 200.0, str, str)
    assert clock.now - 100 - seconds <= seconds / 8 + 0.001


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01, "10ms"), (40, "40 s"), (90.5, "90.5 s"), (1800, "30 minutes")]
)
def test_a_rank_that_does_not_arrive_is_named_with_the_timeout(seconds, text):
    meeting = Meeting(dist.HashStore(), 0, 2, None, "the default group", patience=seconds)
    said = meeting.missing([1])
    assert f"rank 1 of the default group did not arrive (timeout after {text}). " in said


def join_late(rank, path):
    """Rank 0 has told where it listens, and is killed before rank 1 has come there."""
    store = dist.FileStore(path, 2)
    met = meeting.meet(store, rank, 2, None, "a group", 200, {})
    if rank == 0:
        store.set("pid", str(os.getpid()))
        rendezvous.join(met, "late", "a group", 200, {})

    def late(**settings):
        os.kill(int(store.get("pid")), signal.SIGKILL)
        assert poll(lambda: not rendezvous._is_listened_on(settings["master_port"]), 100)
        return switchml.Job(**settings)

    with mock.patch.object(rendezvous, "Job", late):
        rendezvous.join(met, "late", "a group", 200, {})


def test_a_rank_0_that_was_killed_before_another_came_is_not_awaited(tmp_path):
    with Prepared(2) as both:
        both.start(join_late, [str(tmp_path / "store")] * 2)
        said = "rank 0 has listened there, so it has ended"
        both.expect("UnreachableError", said, only=[1], timeout=150)
