# SPDX-License-Identifier: BSD-3-Clause
"""TCP streams as a job's neighbor, until killed: `receive N`, then `send N ADDRESS CONTROL`.

Both say when they are ready. The receiver then prints the machine's clock and the bytes so far, every tenth of a second."""
import selectors
import socket
import sys
import time

PORT = 28999


def receive(n_streams):
    with socket.create_server(("", PORT), backlog=n_streams) as server:
        print("ready", flush=True)
        streams = selectors.DefaultSelector()
        for _ in range(n_streams):
            streams.register(server.accept()[0], selectors.EVENT_READ)
    total, told = 0, 0.0
    while True:
        for key, _ in streams.select(0.1):
            total += len(key.fileobj.recv(1 << 18))
        if time.monotonic() > told + 0.1:
            told = time.monotonic()
            print(told, total, flush=True)


def send(n_streams, address, control):
    streams, data = selectors.DefaultSelector(), bytes(1 << 18)
    for _ in range(n_streams):
        connection = socket.create_connection((address, PORT))
        # A namespace may not have it as its default, but root's sockets may choose it.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        connection.setblocking(False)
        streams.register(connection, selectors.EVENT_WRITE)
    print("ready", flush=True)
    while True:
        for key, _ in streams.select():
            key.fileobj.send(data)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(int(sys.argv[2]), sys.argv[3], sys.argv[4])
