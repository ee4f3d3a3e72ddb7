# SPDX-License-Identifier: BSD-3-Clause
"""A group: the ranks of one library on a star's hosts, and how they are run.

Ranks connect to a Unix socket of this program and execute its commands (bench/peer.h). All
groups of a star exist at the same time. Those that are not measured block in read(), so the
runs of different groups can alternate.
"""
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

from star import signals_held

START_SECONDS = 60
STARTS = 2  # mpirun was seen to hang as it began, once in hundreds of starts


class Failed(Exception):
    """A group cannot continue. The text says why."""


class Refused(Failed):
    """A group cannot exist here. This is a reason, not a fault."""


def last_line(path):
    with open(path, encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1] if lines else "it said nothing"


def has_said(switch, log, words):
    """Whether a program has said these words within 30 s; else it may have ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with open(log, encoding="utf-8", errors="replace") as said:
            if words in said.read():
                return True
        if switch.poll() is not None:
            break
        time.sleep(0.05)
    return False


def cpu_seconds(pid):
    """CPU time of a process, for all threads, in nanoseconds (the kernel's CPU clock of a pid)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


@dataclass
class Rank:
    connection: socket.socket
    answers: object
    pid: int
    n_stripes: int


class Group:
    def __init__(self, method, star):
        self.method = method
        self.star = star
        self.work = os.path.join(star.work, method.name)
        self.environment = {}
        self.processes = []  # processes that this group started
        self.helpers = {}  # name -> one that is not a rank: a switch
        self.ranks = {}  # number -> Rank
        os.makedirs(self.work, exist_ok=True)

    # ---- starting ----

    def start(self):
        path = os.path.join(self.work, "socket")
        with contextlib.suppress(FileNotFoundError):  # of a group that could not start
            os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(64)
            self.environment = {"BENCH_SOCKET": path}
            self.method.start(self)
            self.meet(listener)
            self.method.check(self)

    def program(self, name):
        path = os.path.join(self.method.build, "bench", name)
        if not os.path.exists(path):
            raise Refused(f"{name} was not built: {self.method.needs}")
        return path

    def spawn(self, host, command, name="ranks", **environment):
        """Start a command on a host. Its output goes to a log of this name."""
        with open(os.path.join(self.work, name), "ab") as log:
            process = subprocess.Popen(
                self.star.inside(host) + command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **self.environment, **environment}, start_new_session=True)
        self.processes.append(process)
        return process

    def serve(self, host, command, words, name=""):
        """Start a helper on a host, which is ready when it has said these words. name: if not the host's."""
        name = name or host
        open(os.path.join(self.work, name), "wb").close()  # what a first try said is not this one's
        self.helpers[name] = self.spawn(host, command, name)
        if not has_said(self.helpers[name], os.path.join(self.work, name), words):
            raise Failed(f"the {name} did not start: {self.said(name)}")

    def said(self, name="ranks"):
        return last_line(os.path.join(self.work, name))

    def meet(self, listener):
        deadline = time.monotonic() + START_SECONDS
        while len(self.ranks) < self.star.n_workers:
            if not select.select([listener], [], [], 0.2)[0]:
                ended = [p for p in self.processes if p.poll() is not None]
                if ended or time.monotonic() > deadline:
                    raise Failed(f"{len(self.ranks)} of {self.star.n_workers} ranks came: {self.said()}")
                continue
            connection, _ = listener.accept()
            answers = connection.makefile("r")
            *_, rank, pid, stripes = answers.readline().split()  # older ranks, of bench/ab, say more
            self.ranks[int(rank)] = Rank(connection, answers, int(pid), int(stripes))

    # ---- commanding ----

    def prepare(self, size_bytes, n_outputs, seed=1, seconds=60):
        """Inputs, and buffers for results."""
        self.tell(f"prepare {self.method.count_of(size_bytes)} {n_outputs} {seed} "
                  f"{self.method.element_type}", seconds)

    def tell(self, line, seconds):
        """Send the same line to all ranks. Returns their answers, by rank."""
        for rank in self.ranks.values():
            rank.connection.sendall((line + "\n").encode())
        deadline = time.monotonic() + seconds
        answers = {}
        waiting = {rank.connection.fileno(): number for number, rank in self.ranks.items()}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise Failed(f"no answer within {seconds:.0f} s from rank "
                             f"{min(waiting.values())} to: {line}")
            for fd in ready:
                rank = waiting.pop(fd)
                answer = self.ranks[rank].answers.readline().split(maxsplit=1)
                if not answer:
                    raise Failed(f"rank {rank} died: {self.said()}")
                if answer[0] != "ok":
                    raise Failed(f"rank {rank}: {answer[1].strip()}")
                answers[rank] = answer[1].split() if len(answer) > 1 else []
        return [answers[rank] for rank in sorted(answers)]

    def run(self, warmups, runs, pieces=1, seconds=120):
        """When the last warm-up and each run ended on the last rank, by the clock of time.monotonic()."""
        return [max(map(int, run)) / 1e9 for run in zip(*self.tell(f"run {warmups} {runs} {pieces}", seconds))]

    def check(self):
        """The number of wrong elements in the last runs' results."""
        checks = self.tell("check", 600)
        differ = sum(answer[1] != checks[0][1] for answer in checks) if self.method.same_bits else 0
        return differ + sum(int(wrong) for wrong, _ in checks)

    def cpu_seconds(self):
        """For all ranks, and for the processes that serve them."""
        ranks = sum(cpu_seconds(rank.pid) for rank in self.ranks.values())
        return ranks, sum(cpu_seconds(helper.pid) for helper in self.helpers.values())

    # ---- the end ----

    def stop(self):
        for rank in self.ranks.values():
            with contextlib.suppress(OSError):
                rank.connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + 5
        for process in self.processes:
            if process in self.helpers.values():
                continue
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for rank in self.ranks.values():
            rank.answers.close()
            rank.connection.close()
        self.ranks = {}


@contextlib.contextmanager
def opened(star, methods):
    """A star with these methods' switches, and by method: a group that was started, or the reason why it was not."""
    with star.opened({host: links for method in methods for host, links in method.switches().items()}), \
            groups_of(methods, star) as groups:
        yield groups


@contextlib.contextmanager
def groups_of(methods, star):
    groups = {}
    try:
        for method in dict.fromkeys(methods):
            for _ in range(STARTS):
                groups[method] = group = Group(method, star)
                try:
                    group.start()
                    break
                except Failed as failure:
                    group.stop()
                    groups[method] = failure
                    if isinstance(failure, Refused):
                        break
                    print(f"{method.name} did not start: {failure}", file=sys.stderr, flush=True)
        yield groups
    finally:
        with signals_held():
            for group in reversed(groups.values()):
                if isinstance(group, Group):
                    group.stop()
