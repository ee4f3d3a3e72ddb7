# SPDX-License-Identifier: BSD-3-Clause
"""Ports for servers of tests.

ports.py PID: print one, and hold it until that process has ended.
"""

import os
import select
import socket
import sys

_kept = []


def free_port():
    """A TCP port for a server of a test, and for nobody else until the tests end. So is the next
    one, which rank 0 has if this is a launcher's MASTER_PORT.

    The kernel gives a port that is bound to nobody. Who asks for this one gets it all the same, as
    long as both have SO_REUSEADDR, and only one listens.
    """
    while True:
        port = _keep(0)
        if _keep(port + 1):
            return port


def _keep(port):
    """The port, or 0 if another has it."""
    tcp = socket.socket()
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _kept.append(tcp)
    try:
        tcp.bind(("127.0.0.1", port))
    except (OSError, OverflowError):  # the last port has no next one
        return 0
    return tcp.getsockname()[1]


if __name__ == "__main__":
    print(free_port(), flush=True)
    if not os.fork():
        for fd in range(3):  # or who reads the output would wait for its end
            os.close(fd)
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
