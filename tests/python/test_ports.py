# SPDX-License-Identifier: BSD-3-Clause
"""The ports on which the ranks of a PyTorch group meet, within SWITCHML_PORTS."""

import socket
from contextlib import ExitStack

import pytest

from switchml.errors import ConfigError
from switchml.torch._joining.rendezvous import kept_port


def free_pair():
    """Two neighboring ports that nobody listens on, as a range: above those of tests in C."""
    for first in range(28600, 32000, 2):
        with ExitStack() as held:
            try:
                for port in (first, first + 1):
                    held.enter_context(socket.socket()).bind(("", port))
            except OSError:
                continue
        return first, f"{first}-{first + 1}"
    pytest.skip("no two free ports")


def test_groups_get_different_ports_of_the_range():
    first, ports = free_pair()
    with kept_port(ports) as one, kept_port(ports) as other:
        assert {one, other} == {first, first + 1}
        with (
            pytest.raises(ConfigError, match="SWITCHML_PORTS"),
            kept_port(ports),
        ):
            pass
    with kept_port(ports) as again:
        assert again in (first, first + 1)


def test_a_port_with_a_listener_is_left_out():
    first, ports = free_pair()
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", first))
        listener.listen()
        with kept_port(ports) as port:
            assert port == first + 1
