# SPDX-License-Identifier: BSD-3-Clause
"""The job key of a group: drawn by rank 0 and passed by the store, or the user's own."""

import contextlib
import secrets
import socket

import pytest
import torch

import switchml
from groups import Groups, stop
from ranks import free_port
from switches import PROGRAM, key_file, status, switch

STATUS_REQUEST = b"\0\0\0\2\x6a\0"  # an Envelope (src/control/control.proto) with its length

pytestmark = [
    pytest.mark.skipif(
        not switchml._library.get_info(None)[0].has_tls, reason="a library without TLS"
    ),
    pytest.mark.skipif(not PROGRAM.exists(), reason="no program build/switchml"),
]


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.delenv("SWITCHML_JOB_KEY_FILE", raising=False)


def ask_plainly(port):
    """What whoever reaches the port is told, without any key."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as tcp:
        tcp.sendall(STATUS_REQUEST)
        while more := tcp.recv(65536):
            heard += more
    return heard


def total(rank):
    import torch.distributed as dist

    tensor = torch.full((1000,), float(rank + 1))
    dist.all_reduce(tensor)
    return tensor.unique().tolist()


@contextlib.contextmanager
def group(**options):
    with Groups(2, options=options) as ranks:
        assert ranks.call(total) == [[3.0], [3.0]]
        yield
        ranks.call(stop)


def test_a_group_without_a_switch_has_a_key_by_itself(tmp_path):
    port = free_port()
    with group(master_port=port):
        heard = ask_plainly(port)
        assert b"this switch requires a job key" in heard
        assert b"default group" not in heard  # as in the job's name
        guess = key_file(tmp_path / "key", secrets.token_urlsafe(32))
        said = status(f"127.0.0.1:{port}", SWITCHML_JOB_KEY_FILE=guess)
        assert "it has another job key" in said


def test_the_users_key_file_wins(monkeypatch, tmp_path):
    key = key_file(tmp_path / "key", secrets.token_urlsafe(24))
    monkeypatch.setenv("SWITCHML_JOB_KEY_FILE", key)
    port = free_port()
    with group(master_port=port):
        monkeypatch.delenv("SWITCHML_JOB_KEY_FILE")
        said = status(f"127.0.0.1:{port}", SWITCHML_JOB_KEY_FILE=key)
        assert ": running, 2 ranks" in said


def test_a_switch_without_a_key_is_joined_as_before():
    with switch() as address, group(switch=address):
        assert ": running, 2 ranks" in status(address)


def test_a_key_in_a_variable_is_refused(monkeypatch):
    """No drawn key hides that nobody reads it."""
    monkeypatch.setenv("SWITCHML_JOB_KEY", secrets.token_urlsafe(24))
    with pytest.raises(Exception, match="set SWITCHML_JOB_KEY_FILE to its name"), group():
        pass


def test_a_switch_with_a_key_is_joined_with_the_users(monkeypatch, tmp_path):
    key = key_file(tmp_path / "key", secrets.token_urlsafe(24))
    with switch(SWITCHML_JOB_KEY_FILE=key) as address:
        monkeypatch.setenv("SWITCHML_JOB_KEY_FILE", key)
        with group(switch=address):
            assert ": running, 2 ranks" in status(address, SWITCHML_JOB_KEY_FILE=key)


def test_a_job_takes_a_key_or_a_file_in_place_of_the_environments(monkeypatch, tmp_path):
    key = key_file(tmp_path / "key", "k" * 32)
    monkeypatch.setenv("SWITCHML_JOB_KEY_FILE", key_file(tmp_path / "other", "k" * 31))
    with switch("--key-file", key) as address:
        settings = {"rank": 0, "world_size": 1, "switch": address, "timeout": 60}
        for proof in ({"job_key": "k" * 32}, {"job_key_file": key}):
            with switchml.Job(**settings, **proof) as job:
                assert job.world_size == 1
        with pytest.raises(switchml.TlsError, match="it has another job key"):
            switchml.Job(**settings)


def test_rank_0_is_found_where_it_listens_alone():
    """Not on the loopback: on the address that the others use, with the key."""
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            udp.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this host has no address but the loopback's")
        own = udp.getsockname()[0]
    port = free_port()
    with group(master_address=own, master_port=port), pytest.raises(ConnectionRefusedError):
        ask_plainly(port)
