#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a classifier of handwritten digits while workers die and come back.

The data are those of demo/digits.csv (1797 images of 8 x 8 pixels).

    python examples/torch_elastic.py --workers 4 --kill 1

This starts a coordinator and four workers, kills worker 1 with SIGKILL at the step --at, and starts
it again. The others go on with the next step; the new process gets their parameters, and at the
end all workers have the same bits. Training ends after --steps steps, but not before all workers
are there, and not before the steps of --after with the last one that came. On several hosts, start
a coordinator, and the workers, under torchrun or not:

    python examples/torch_elastic.py --coordinate --port 29600
    torchrun --max-restarts 100 examples/torch_elastic.py --worker HOST:29600

A worker is in the job as long as its connection to the coordinator is open. When that changes, the
coordinator sends the new list of members and its number to all of them. It also does so when a
worker asks for that, because its job has failed for another reason.

    worker:       handle ----------->            "failed N" ->
    coordinator:            -> {number, handles}               -> {number: N + 1, handles}
"""

import argparse
import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
import zlib
from datetime import timedelta

import torch
import torch.distributed as dist
from torch_ddp import ROOT, digits  # finds switchml in the source tree, too

import switchml.torch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4, help="processes to start")
    parser.add_argument("--kill", type=int, help="kill this worker at the step --at")
    parser.add_argument("--at", type=int, default=30)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--after", type=int, default=30, help="steps when a worker has come again")
    parser.add_argument("--batch", type=int, default=32, help="images a worker and step")
    parser.add_argument("--coordinate", action="store_true", help="only be the coordinator")
    parser.add_argument("--port", type=int, default=0, help="of the coordinator")
    parser.add_argument("--worker", metavar="HOST:PORT", help="only be a worker of this one")
    parser.add_argument("--each-step", action="store_true", help="each worker prints each step")
    return parser.parse_args()


# ---- the coordinator ----

# How long a worker looks for a coordinator that does not listen, and this waits for workers that
# have gone without having ended.
PATIENCE = 60.0


class Coordinator:
    """Knows who is connected, and tells all of them when that changes."""

    def __init__(self, port):
        self._listener = socket.create_server(("", port))
        self.port = self._listener.getsockname()[1]
        self._text = {}  # what each connection has sent, and was not yet read
        self._handles = {}  # of each connection that has sent it
        self._number = 0
        self._has_ended = False  # what the last worker that has gone has said
        self._left_at = 0.0  # when it went

    @property
    def is_done(self):
        """Whether there were workers, and all have gone for good.

        Those of a host may be gone for a moment, while torchrun starts all of them again.
        """
        if self._number == 0 or self._text:
            return False
        return self._has_ended or time.monotonic() > self._left_at + PATIENCE

    def serve(self, seconds):
        """Look after the connections for this long."""
        ready, _, _ = select.select([self._listener, *self._text], [], [], seconds)
        changed = [self._look(connection) for connection in ready]
        if any(changed):
            self._number += 1
            told = json.dumps({"number": self._number, "handles": list(self._handles.values())})
            for connection in self._handles:
                with contextlib.suppress(OSError):  # it is gone, as the next look says
                    connection.sendall(f"{told}\n".encode())

    def _look(self, connection):
        """Read what a connection has sent. Returns whether there is another list to tell."""
        if connection is self._listener:
            self._text[connection.accept()[0]] = ""
            return False
        try:
            told = connection.recv(65536).decode()
        except OSError:
            told = ""
        if not told:
            self._has_ended = self._text.pop(connection) == "ended"
            self._left_at = time.monotonic()
            connection.close()
            return self._handles.pop(connection, None) is not None
        *lines, self._text[connection] = (self._text[connection] + told).split("\n")
        changed = False
        for line in lines:
            if connection not in self._handles:
                self._handles[connection] = line
                changed = True
            else:  # several may ask because of the same number
                changed = changed or line == f"failed {self._number}"
        return changed


# ---- a worker ----


def connect(address, patience=PATIENCE):
    """To the coordinator, which may start later than its workers."""
    host, port = address.rsplit(":", 1)
    deadline, told = time.monotonic() + patience, False
    while True:
        try:
            return socket.create_connection((host, int(port)), patience)
        except OSError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"no coordinator at {address} ({error})") from error
            if not told:
                print(f"waiting for the coordinator at {address} ({error})", flush=True)
            told = True
            time.sleep(0.2)


class Membership:
    """The connection to the coordinator, and the last list that came."""

    def __init__(self, address, handle):
        self._connection = connect(address)
        self._connection.sendall(f"{handle}\n".encode())
        self._text, self.number, self.handles = "", 0, []

    def look(self, seconds=0.0):
        """Read what has come. Waits for it, at most this long. Returns whether there is more."""
        before = self.number
        while select.select([self._connection], [], [], seconds)[0]:
            told = self._connection.recv(65536).decode()
            if not told:
                raise SystemExit("the coordinator has ended, so this worker ends, too")
            self._text += told
            seconds = 0.0
        *lines, self._text = self._text.split("\n")
        if lines:
            last = json.loads(lines[-1])
            self.number, self.handles = last["number"], last["handles"]
        return self.number > before

    def ask(self):
        """For another number: this membership has failed, and nobody has come or gone."""
        try:
            self._connection.sendall(f"failed {self.number}\n".encode())
        except OSError as error:
            raise SystemExit(f"the coordinator has ended, so this worker does ({error})") from error

    def end(self):
        """This worker has trained to its end, and does not come again."""
        with contextlib.suppress(OSError):  # the coordinator may have ended, too
            self._connection.sendall(b"ended")


class Training:
    """A model, its momentum, and how far it is: the state that all members share."""

    def __init__(self):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )
        self.parameters = list(self.model.parameters())
        self.momenta = [torch.zeros_like(p) for p in self.parameters]
        self.step = 0
        training, self.test = digits(ROOT / "demo" / "digits.csv")
        self.data = training.tensors

    def share(self):
        """All members take the state of the one that is farthest.

        A step that failed on one rank may have been completed on another.
        """
        steps = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
        dist.all_gather(steps, torch.tensor([self.step]))
        farthest = max(range(len(steps)), key=lambda rank: steps[rank].item())
        for tensor in [*self.parameters, *self.momenta]:
            dist.broadcast(tensor.detach(), src=farthest)
        self.step = int(steps[farthest].item())

    def advance(self, batch, number):
        """A step. Returns the loss, and whether any member knows of another membership.

        The gradients are summed in a tensor of their own: if that fails, the state is as before.
        """
        (pixels, labels), draw = self.data, torch.Generator()
        draw.manual_seed(1000 * self.step + dist.get_rank())
        chosen = torch.randint(len(labels), (batch,), generator=draw)
        loss = torch.nn.functional.cross_entropy(self.model(pixels[chosen]), labels[chosen])
        gradients = torch.autograd.grad(loss, self.parameters)
        mean = torch.cat([g.flatten() for g in gradients])
        work = dist.all_reduce(mean, op=dist.ReduceOp.AVG, async_op=True)
        newest = torch.tensor([number])
        dist.all_reduce(newest, op=dist.ReduceOp.MAX)
        work.wait()
        with torch.no_grad():
            parts = mean.split([p.numel() for p in self.parameters])
            for parameter, momentum, part in zip(self.parameters, self.momenta, parts, strict=True):
                momentum.mul_(0.9).add_(part.view_as(parameter))
                parameter.sub_(0.05 * momentum)
        self.step += 1
        return loss.item(), int(newest.item())

    def checksum(self):
        value = 0
        for tensor in [*self.parameters, *self.momenta]:
            value = zlib.crc32(tensor.detach().numpy().tobytes(), value)
        return value

    def accuracy(self):
        pixels, labels = self.test
        with torch.no_grad():
            return (self.model(pixels).argmax(1) == labels).float().mean().item()


def work(options):
    logging.basicConfig(level=logging.ERROR)
    torch.set_num_threads(1)
    dist.init_process_group(
        "switchml",
        store=dist.HashStore(),  # not used: the members find each other by their handles
        rank=0,
        world_size=1,
        timeout=timedelta(seconds=60),
        pg_options=switchml.torch.Options(reconfigure=True),
    )
    group, training = dist.group.WORLD, Training()
    members = Membership(options.worker, group.get_reconfigure_handle())
    used, failed_at, last = 0, None, options.steps
    while training.step < last or dist.get_world_size() < options.workers:
        try:
            # Until the coordinator knows what this worker has noticed. At first, all must be there.
            least = 1 if training.step else options.workers
            members.look()
            while members.number <= used or len(members.handles) < least:
                if not members.look(1.0) and members.number == used > 0:
                    members.ask()
            used = members.number
            group.reconfigure(used, members.handles, timedelta(seconds=10))
            training.share()
            newest, n = used, dist.get_world_size()
            print(f"joined at step {training.step}: {n} workers", flush=True)
            if used > 1:  # so that what the others do with a worker that came is seen
                last = max(options.steps, training.step + options.after)
            waits = n < options.workers
            while newest == used and (waits or training.step < last):
                members.look()
                loss, newest = training.advance(options.batch, members.number)
                if failed_at is not None:
                    milliseconds = 1e3 * (time.monotonic() - failed_at)
                    print(f"went on {milliseconds:.0f} ms after the error", flush=True)
                    failed_at = None
                if options.each_step or (dist.get_rank() == 0 and training.step % 50 == 0):
                    print(f"step {training.step}: loss {loss:.3f}, {n} workers", flush=True)
        except (switchml.errors.SwitchMLError, OSError) as error:
            failed_at = failed_at or time.monotonic()
            print(f"{type(error).__name__}: {str(error)[:100]}", flush=True)
    accuracy = 100 * training.accuracy()
    print(f"end: accuracy {accuracy:.1f} %, checksum {training.checksum():08x}", flush=True)
    members.end()
    dist.destroy_process_group()


# ---- all of them on this host ----


class Worker:
    """A process, and what it has said."""

    def __init__(self, number, options, port):
        self.number, self.killed, self.is_back, self.lines = number, False, False, []
        passed = [
            f"--{name}={getattr(options, name)}" for name in ("workers", "steps", "after", "batch")
        ]
        self._command = [sys.executable, __file__, f"--worker=localhost:{port}", *passed]
        self._command.append("--each-step")  # so that the launcher knows when to kill
        self._shows_steps = number == (1 if options.kill == 0 else 0)
        self.start()

    def start(self):
        self._begun = ""  # a line that has no end yet
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        os.set_blocking(self.process.stdout.fileno(), False)

    def listen(self):
        """Show what it says. Returns the last step that it has ended."""
        for piece in self.process.stdout:
            self._begun += piece
            if not self._begun.endswith("\n"):
                continue
            line, self._begun = self._begun, ""
            self.lines.append(line.rstrip())
            if line.startswith("joined") and self.killed and not self.is_back:
                self.is_back = True
                print(f"worker {self.number} {line}", end="", flush=True)
            elif not line.startswith("step") or (
                self._shows_steps and int(line[5 : line.index(":")]) % 50 == 0
            ):
                print(f"[{self.number}] {line}", end="", flush=True)
        steps = [line for line in self.lines if line.startswith("step")]
        return int(steps[-1][5 : steps[-1].index(":")]) if steps else 0


def launch(options):
    coordinator = Coordinator(options.port)
    workers = [Worker(w, options, coordinator.port) for w in range(options.workers)]
    try:
        while any(worker.process.poll() is None for worker in workers):
            coordinator.serve(0.01)
            for worker in workers:
                step = worker.listen()
                whole = worker.lines and worker.lines[-1].endswith(f" {options.workers} workers")
                due = whole and step >= options.at and not worker.killed
                if worker.number == options.kill and due:
                    worker.killed = True
                    worker.process.send_signal(signal.SIGKILL)
                    worker.process.wait()
                    print(f"killed worker {worker.number}; it starts again", flush=True)
                    print("the others train on until it is back, whatever --steps is", flush=True)
                    worker.start()
        for worker in workers:
            worker.listen()
    finally:
        for worker in workers:
            worker.process.kill()
    ends = {worker.lines[-1] for worker in workers if worker.lines}
    same = len(ends) == 1 and all(worker.process.returncode == 0 for worker in workers)
    print(f"{', '.join(ends)}: {'the same' if same else 'DIFFERENT'} on all workers")
    return 0 if same else 1


def main():
    options = arguments()
    if options.worker:
        work(options)
        return 0
    if options.coordinate:
        coordinator = Coordinator(options.port)
        print(f"the coordinator listens at port {coordinator.port}", flush=True)
        while not coordinator.is_done:
            coordinator.serve(1.0)
        print("all workers have ended, and so does the coordinator", flush=True)
        return 0
    return launch(options)


if __name__ == "__main__":
    sys.exit(main())
