# SPDX-License-Identifier: BSD-3-Clause
"""What the jobs of PyTorch's groups are called at their switch."""

import json
import os
import re
import sys
import textwrap
import types

import pytest
import torch
import torch.distributed as dist

import switchml.torch
from groups import Groups, start, stop
from programs import torchrun
from ranks import free_port
from switches import PROGRAM, status, switch
from switchml.torch._joining import job_name as _job_name

VARIABLES = ("SWITCHML_JOB", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(_job_name, "_used", {})
    monkeypatch.setattr(_job_name, "_run", None)
    monkeypatch.setattr(sys, "argv", ["/home/alice/digits.py", "--epochs", "3"])
    monkeypatch.setattr(_job_name.getpass, "getuser", lambda: "alice")


def name(label="", size=4, **settings):
    drawn = _job_name.draw(types.SimpleNamespace(size=size), settings, label)
    return _job_name.take(json.loads(json.dumps(drawn)), label)


def test_the_user_names_the_job(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "exp7")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert name() == "exp7"
    monkeypatch.setenv("SWITCHML_JOB", "train")
    assert name() == "train"
    assert name(job="eval") == "eval"


@pytest.mark.parametrize("run", [None, "none", "", "0d9c3e1c-2b1f-4a57-9a51-4d6c2c0b7f10"])
def test_a_job_without_a_name_is_called_after_user_and_script(monkeypatch, run):
    if run is not None:
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", run)
    first = name()
    assert re.fullmatch("alice-digits-[0-9a-f]{4}", first)
    assert name(".ranks-2-3") == f"{first}.ranks-2-3", "groups of one run share their digits"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("-c", "python"),
        ("", "python"),
        ("/x/trainer/__main__.py", "trainer"),
        ("a.b.py", "a.b"),
        (os.fsdecode(b"/x/not-\xff-UTF-8\t.py"), "not-_-UTF-8_"),
    ],
)
def test_every_way_to_start_a_program_has_a_name(monkeypatch, script, expected):
    monkeypatch.setattr(sys, "argv", [script])
    assert re.fullmatch(f"alice-{expected}-[0-9a-f]{{4}}", name())


def test_a_user_without_an_entry_is_a_number(monkeypatch):
    def unknown():
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(_job_name.getpass, "getuser", unknown)
    assert name().startswith(f"{os.getuid()}-digits-")


def test_a_name_is_not_used_twice_by_one_process(monkeypatch):
    monkeypatch.setenv("SWITCHML_JOB", "train")
    assert [name(), name(), name(".ranks-0-1"), name(), name(".ranks-0-1")] == [
        "train",
        "train.2",
        "train.ranks-0-1",
        "train.3",
        "train.ranks-0-1.2",
    ]
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert [name(), name(".ranks-0-1")] == ["train.restart-1", "train.restart-1.ranks-0-1"]


def test_default_groups_of_parts_of_a_run_have_different_names(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "exp7")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert re.fullmatch("exp7-[0-9a-f]{4}", name(size=2))


@pytest.mark.parametrize("run", ["r" * 127, "ü" * 63])
def test_a_name_fits(monkeypatch, run):
    monkeypatch.setenv("SWITCHML_JOB", run)
    many = tuple(range(0, 4000, 2))
    for label in ("", _job_name.label_of(many), _job_name.label_of((5, 4))):
        for _ in range(12):
            drawn = name(label)
    assert len(drawn.encode()) <= 127
    assert drawn.endswith(".ranks-5:4-5.12")
    assert name() == f"{run}.13", "the library refuses what the user has named too long"


def test_a_label_tells_groups_apart():
    assert _job_name.label_of((0, 2, 3, 4)) == ".ranks-0,2-4"
    assert _job_name.label_of((1, 0)) != _job_name.label_of((0, 1))
    assert re.fullmatch(r"\.merged-[0-9a-f]{4}", _job_name.label_of(()))


# ---- at a switch ----


def names_at(address):
    said = json.loads(status(address, "--json"))
    return sorted(job["job"] for its in said for job in its["jobs"])


def make_two(rank, options):
    """A second group, and a third of the same ranks; the default group keeps its job."""
    global kept
    options = switchml.torch.Options(**options)
    kept = [dist.new_group([0, 1], pg_options=options) for _ in range(2)]
    for group in kept:
        dist.all_reduce(torch.ones(3), group=group)


def again(rank, n, port, options):
    dist.destroy_process_group()
    start(rank, n, port, "switchml", 100, options)


def test_all_ranks_agree_and_groups_are_told_apart_at_the_switch():
    with (
        switch() as address,
        Groups(2, options=(options := {"switch": address, "job": "train"})) as groups,
    ):
        assert names_at(address) == ["train"]
        groups.call(make_two, [options] * 2)
        assert names_at(address) == ["train", "train.ranks-0-1", "train.ranks-0-1.2"]
        options = {"switch": address}
        groups.call(again, [2] * 2, [free_port()] * 2, [options] * 2)
        (only,) = names_at(address)
        assert re.fullmatch(r".*-[0-9a-f]{4}", only)
        groups.call(again, [2] * 2, [free_port()] * 2, [options] * 2)
        assert names_at(address) == [f"{only}.2"]
        groups.call(stop)


SCRIPT = """
    import subprocess, sys, torch, torch.distributed as dist, switchml.torch
    dist.init_process_group("switchml")
    dist.all_reduce(torch.ones(10))
    if dist.get_rank() == 0:
        print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stdout, flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--rdzv-id", "exp7", "--rdzv-backend", "c10d"], "exp7"),
        (["--standalone"], r"\S+-my_train-[0-9a-f]{4}"),
    ],
)
def test_torchruns_id_names_the_job(tmp_path, options, expected):
    script = tmp_path / "my_train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    endpoint = [] if "--standalone" in options else ["--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    with switch() as address:
        status = [PROGRAM, "status", "--json", "--switch", address]
        said = torchrun(*options, *endpoint, script, *status, SWITCHML_SWITCH=address)
    assert re.search(rf'"job": ?"{expected}"', said), said
