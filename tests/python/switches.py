# SPDX-License-Identifier: BSD-3-Clause
"""A dedicated switch for a test: the program of the build."""

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "switchml"


_OWN_NETWORK = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" "$@"')
_CLONE_NEWNET = 0x40000000


def key_file(path, secret):
    """A job key for SWITCHML_JOB_KEY_FILE: the file's name."""
    path.touch(mode=0o600)
    path.write_text(secret + "\n")
    return str(path)


@contextlib.contextmanager
def _served(before, arguments, environment):
    process = subprocess.Popen(
        [*before, PROGRAM, "switch", "--listen", "127.0.0.1:0", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready = re.search(r" ready on (\S+)", process.stdout.readline())
        yield ready and ready[1], process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def status(address, *options, **environment):
    """What `switchml status` says of the switch there."""
    done = subprocess.run(
        [PROGRAM, "status", *options, "--switch", address],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout + done.stderr


@contextlib.contextmanager
def switch(*arguments, **environment):
    """Its address, at a free port of the loopback."""
    with _served((), arguments, environment) as (address, _):
        yield address


@contextlib.contextmanager
def switch_in_kernel():
    """Its address, in a network of its own, and the file of that network: see enter()."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("no switch in the kernel: it needs root and unshare")
    options = ("--dataplane", "xdp", "--iface", "lo")
    help_text = subprocess.run(
        (PROGRAM, "switch", *options, "--help"), capture_output=True, text=True
    )
    if "built without the xdp" in help_text.stderr:
        pytest.skip("no switch in the kernel: this is a build without XDP")
    with _served(_OWN_NETWORK, options, {}) as (address, process):
        assert address is not None, "the switch in the kernel has ended"
        yield address, f"/proc/{process.pid}/ns/net"


def enter(rank, network):
    """What this rank opens from now on is in that network."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(network, "rb") as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns() failed")
