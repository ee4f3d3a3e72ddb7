# SPDX-License-Identifier: BSD-3-Clause
"""The wheel of tools/build-wheel, in a clean virtual environment: library and program inside."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUBCOMMANDS = ("switch", "bench", "status", "top", "trace", "doctor")
USE = """
import numpy, switchml
from switchml import _library
assert _library.lib._name.endswith("switchml/_libswitchml.so"), _library.lib._name
job = switchml.init(rank=0, world_size=1)
assert switchml.allreduce(numpy.arange(5, dtype="float32")).tolist() == [0, 1, 2, 3, 4]
"""


def run(*command, **options):
    # Nothing of the source tree, and none of the system's libraries of ours.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SWITCHML", "PYTHON"))}
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=500,
        **options,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    for package in ("libevent", "libprotobuf-c"):
        if subprocess.run(["pkg-config", "--exists", package], check=False).returncode:
            pytest.skip(f"{package} cannot be built against")
    folder = tmp_path_factory.mktemp("dist")
    run(ROOT / "tools" / "build-wheel", folder)
    (found,) = folder.glob("switchml-*-py3-none-manylinux*.whl")
    return found


def install(wheel, python, place):
    """The bin/ of a virtual environment that has the wheel. The pip is ours: unpacking another one
    takes longer than all else."""
    run(python, "-m", "venv", "--without-pip", place)
    run(sys.executable, "-m", "pip", "--python", place / "bin" / "python", "install", "-q", wheel)
    return place / "bin"


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return install(wheel, sys.executable, tmp_path_factory.mktemp("clean"))


def test_the_wheel_needs_what_every_distribution_has(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    for name in ("_libswitchml.so", "_switchml"):
        path = tmp_path / "switchml" / name
        path.chmod(0o755)
        linked = run("ldd", path)
        outside = [
            line.split()[0] for line in linked.splitlines() if str(tmp_path) not in line.split()[-2]
        ]
        allowed = r"(linux-vdso|libc|libm|libz|libdl|libpthread|librt|.*ld-linux.*)\.so"
        assert outside and not [so for so in outside if not re.match(allowed, so)], linked


def test_the_package_works(installed, tmp_path):
    run(installed / "python", "-c", USE, cwd=tmp_path)


def other_pythons():
    """A Python of each other version that the package supports and this machine has."""
    found = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*os.environ["PATH"].split(os.pathsep), *versions.glob("3.*/bin")]
    for path in (p for folder in folders for p in Path(folder).glob("python3.*[0-9]")):
        minor = int(path.name.partition(".")[2])
        if minor >= 10 and minor != sys.version_info.minor and minor not in found:
            asked = subprocess.run([path, "-c", "import venv"], capture_output=True, check=False)
            if asked.returncode == 0:
                found[minor] = path
    return found


def test_the_same_wheel_works_with_other_pythons(wheel, tmp_path):
    pythons = other_pythons()
    if not pythons:
        pytest.skip("there is no other Python than this one from 3.10 on")
    for minor, python in pythons.items():
        run(install(wheel, python, tmp_path / str(minor)) / "python", "-c", USE, cwd=tmp_path)


def test_the_command_has_all_subcommands(installed, tmp_path):
    version = run(installed / "switchml", "--version", cwd=tmp_path)
    assert version == run(installed / "python", "-m", "switchml", "--version", cwd=tmp_path)
    assert re.search(r"\d+\.\d+\.\d+", version)
    for name in SUBCOMMANDS:
        text = run(installed / "switchml", name, "--help", cwd=tmp_path)
        assert text.startswith(f"Usage: switchml {name}"), text
        assert text == run(installed / "python", "-m", "switchml", name, "--help", cwd=tmp_path)


def test_the_command_ends_as_the_program_does(installed, tmp_path):
    done = subprocess.run(
        [installed / "switchml", "status", "--no-such-option"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "unrecognized option" in done.stderr
