# SPDX-License-Identifier: BSD-3-Clause
"""The package as pip installs it, away from the source tree."""

import ctypes
import inspect
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import get_args, get_origin

import pytest

import switchml
from switchml import _library, _settings

ROOT = Path(__file__).resolve().parents[2]
STRUCTURES = ("Config", "Membership", "Info", "Options", "CCounters")
ALONE = """
import numpy, pathlib, switchml
from switchml import _library
assert pathlib.Path(switchml.__file__).is_relative_to({site!r}), switchml.__file__
assert _library.lib._name.startswith({site!r}), _library.lib._name
job = switchml.init(rank=0, world_size=1)
assert switchml.allreduce(numpy.arange(5, dtype="float32")).tolist() == [0, 1, 2, 3, 4]
"""


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """Where Meson builds: two ways to the same package compile it once."""
    return tmp_path_factory.mktemp("objects")


def build_and_unpack(source, where, objects):
    pytest.importorskip("mesonpy")
    for package in ("libevent", "libprotobuf-c"):
        if subprocess.run(["pkg-config", "--exists", package], check=False).returncode:
            pytest.skip(f"{package} cannot be built against")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"]
    command += [f"--config-settings=build-dir={objects}", "-w", str(where), str(source)]
    subprocess.run(command, check=True, cwd=where)
    (wheel,) = where.glob("switchml-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(where / "site")
        return archive.namelist()


@pytest.mark.parametrize("source", [ROOT, ROOT / "bindings" / "python"], ids=["root", "bindings"])
def test_pip_builds_a_package_that_needs_no_tree(tmp_path, objects, source):
    names = build_and_unpack(source, tmp_path, objects)
    inside = {"_libswitchml.so", "_switchml", "switchml.h", "py.typed"}
    assert {f"switchml/{name}" for name in inside} <= set(names)
    assert not [name for name in names if "__pycache__" in name or name.startswith("bin/")]
    sources = (ROOT / "bindings" / "python" / "switchml").rglob("*.py")
    assert {f"switchml/{p.relative_to(ROOT / 'bindings/python/switchml')}" for p in sources} <= set(
        names
    )
    site = str(tmp_path / "site")
    code = f"import sys; sys.path.insert(0, {site!r})" + ALONE.format(site=site)
    environment = {k: v for k, v in os.environ.items() if k != "SWITCHML_LIBRARY"}
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60, env=environment)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_the_command_needs_no_standard_descriptors(closed):
    command = f'exec "$0" -m switchml status --switch 127.0.0.1:1 {closed}'
    environment = {**os.environ, "PYTHONPATH": str(Path(switchml.__file__).parents[1])}
    done = subprocess.run(
        ["bash", "-c", command, sys.executable], capture_output=True, timeout=60, env=environment
    )
    # Nothing listens there: that is the program's answer, and not an error of Python.
    assert done.returncode == 1
    assert (b"Connection refused" in done.stderr) == ("2>" not in closed)
    assert b"Traceback" not in done.stderr


def test_the_version_is_the_headers():
    header = (ROOT / "include" / "switchml.h").read_text()
    assert f'SML_VERSION_STRING "{switchml.__version__}"' in header


def test_structures_and_numbers_are_the_headers(tmp_path):
    """What _library.py reads of switchml.h is what a compiler reads."""
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler")
    enumerations = "sml_type", "sml_op", "sml_wire", "sml_job_path"
    numbers = {name: n for all in enumerations for name, n in _library.enumeration(all).items()}
    assert {"BOOL", "MIN", "WIRE_GRADIENT", "PATH_MEMORY_AND_SWITCH"} <= set(numbers)
    facts = [f"SML_{name} == {n}" for name, n in numbers.items()]
    for own in (getattr(_library, name) for name in STRUCTURES):
        facts.append(f"sizeof(struct {own.__name__}) == {ctypes.sizeof(own)}")
        for name, _ in own._fields_:
            member, theirs = getattr(own, name), f"struct {own.__name__}"
            facts.append(f"offsetof({theirs}, {name}) == {member.offset}")
            facts.append(f"sizeof((({theirs} *)0)->{name}) == {member.size}")
    code = "".join(f'_Static_assert({fact}, "");\n' for fact in facts)
    (tmp_path / "facts.c").write_text('#include "switchml.h"\n' + code)
    command = [compiler, "-std=c11", "-fsyntax-only", f"-I{ROOT / 'include'}", "facts.c"]
    subprocess.run(command, check=True, cwd=tmp_path)
    assert _library.Config._fields_[-1][0] == "master_listens"
    counters = [name for name, _ in _library.CCounters._fields_]
    assert counters == ["size", *_library.Counters._fields]


def test_every_error_has_its_exception():
    from switchml import errors

    header = (ROOT / "include" / "switchml.h").read_text()
    numbers = {int(n) for n in re.findall(r"X\((-50\d\d),", header)}
    assert numbers == set(errors._CLASSES)


def test_everything_public_is_described():
    for name in switchml.__all__:
        public = getattr(switchml, name)
        assert get_origin(public) or public.__doc__, name  # aliases of types have no texts


@pytest.mark.parametrize(
    ("name", "returned"), [("allreduce", "Any"), ("broadcast", "A"), ("barrier", "None")]
)
def test_errors_and_help_show_the_function_that_is_called(name, returned):
    """It begins another one, and waits for it."""
    job = object.__new__(switchml.Job)
    for called in (name, f"{name}_async"):
        with pytest.raises(TypeError, match=rf"^Job\.{called}\(\) takes .* 9 were given"):
            getattr(job, called)(*range(8))
    for called in (getattr(switchml.Job, name), getattr(switchml, name)):
        assert inspect.signature(called).return_annotation == returned


def test_the_types_of_options_have_all_values_and_no_others():
    assert get_args(switchml.Op) == tuple(_settings.OPS)
    assert get_args(switchml.Wire) == tuple(filter(None, _settings.WIRES))
    assert get_args(switchml.Debug) == tuple(_settings.DEBUG)


def test_a_library_without_a_function_is_of_another_release(monkeypatch):
    monkeypatch.setitem(_library._PROTOTYPES, "sml_of_tomorrow", (None, []))
    with pytest.raises(ImportError, match=r"has no sml_of_tomorrow\(\)\): install both from one"):
        _library._load()
