#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long a job whose members change has no sums: ours, Gloo's in PyTorch, and torchft's.

    bench/elastic.py                            all that are installed, 20 rounds each
    bench/elastic.py --vanish 3                 a host vanishes, too (root: network namespaces)

A round kills one of the ranks in a call (SIGKILL), until all others have their next correct sum
without it; then another process takes its place, until all have a sum with it. The libraries take
turns, so another load on the machine meets all alike. Their calls are the same: all-reduces of
20,000 int32, one after the other, on the CPU, in Python.

The times end when the last member has its sum. They begin with the kill, or when the new process
asks to be in: it is started and has imported all by then. Where the program decides who the members
are, that is the parent of the ranks. It tells all of them the list as soon as it has killed one, as
a launcher that sees its child end, and each goes on when its call fails. Of Gloo's ranks, only the
neighbors of a dead one notice, and the calls of the others end after --timeout. With "the switch
decides", nobody tells them.

A host vanishes when its link is set down: nothing says that it has gone, and only a heartbeat or
the timeout of a call notices. Both are given: --heartbeat, --timeout. The list comes with the first
error.
"""

import argparse
import collections
import contextlib
import ctypes
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import time
import traceback
from datetime import timedelta
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings" / "python"))

COUNT = 20_000
FORK = multiprocessing.get_context("forkserver")  # which has imported all
SWITCH_HOST = "10.99.0.254"
SOON = 120.0  # whatever takes longer hangs
CHANGE, STOP = 1, 2  # wishes
CLONE_NEWNET = 0x40000000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--vanish", type=int, default=0, metavar="N", help="rounds of this kind")
    parser.add_argument("--heartbeat", type=float, default=1.0, help="seconds, of --vanish")
    parser.add_argument("--timeout", type=float, default=5.0, help="of others' calls")
    parser.add_argument("--only", metavar="NAME", help="ways whose name has this")
    return parser.parse_args()


# ---- the ways to sum, in a rank's process ----


class Decided:
    """switchml: the switch decides who the members are."""

    name = "switchml, the switch decides"
    decides = True

    def __init__(self, number, place):
        import switchml

        self.job, self._switchml = None, switchml
        self._settings = {"switch": place["switch"], "job": place["job"], "summary": False}
        if place["heartbeat"]:
            self._settings["heartbeat"] = place["heartbeat"]

    def handle(self):
        return ""

    def join(self, epoch, numbers, rank, handles):
        """The first members have ranks."""
        self.job = self._switchml.Job(rank=rank, world_size=len(numbers), **self._settings)

    def wait_to_join(self):
        self.job = self._switchml.Job(join=True, **self._settings)

    def go_on(self):
        self.job.reconfigure()

    def total(self, values):
        return self.job.allreduce(values)

    def is_wished(self):
        return self.job.waiting > 0

    def rank(self):
        return self.job.rank


class Listed(Decided):
    """switchml: the program decides."""

    name = "switchml, the program decides"
    decides = False

    def join(self, epoch, numbers, rank, handles):
        title = f"{self._settings['job']}, membership {epoch}"
        if self.job:
            self.job.reconfigure(job=title, rank=rank, world_size=len(numbers))
        else:
            settings = {**self._settings, "job": title}
            self.job = self._switchml.Job(rank=rank, world_size=len(numbers), **settings)

    def is_wished(self):
        return False


class Group:
    """A process group of PyTorch 2.14 that is reconfigured."""

    decides = False

    def __init__(self, number, place):
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self._torch, self._dist, self._rank = torch, dist, 0
        self._limit = timedelta(seconds=place["timeout"] or 60)
        self._begin(dist, number, place)

    def _begin(self, dist, number, place):
        host, port = place["store"].rsplit(":", 1)
        dist.init_process_group(
            self.backend,
            store=dist.TCPStore(host, int(port), is_master=False, wait_for_workers=False),
            rank=number,
            world_size=place["ranks"],
            enable_reconfigure=True,
            timeout=self._limit,
            **self._how(place),
        )

    def _how(self, place):
        return {}

    def handle(self):
        return self._dist._get_reconfigure_handle()

    def join(self, epoch, numbers, rank, handles):
        self._rank = rank
        self._dist._reconfigure(epoch, handles, timeout=timedelta(seconds=30)).wait()

    def total(self, values):
        tensor = self._torch.from_numpy(values.copy())
        self._dist.all_reduce(tensor)
        return tensor.numpy()

    def is_wished(self):
        return False

    def rank(self):
        return self._rank


class Gloo(Group):
    name = "Gloo in PyTorch 2.14"
    backend = "gloo"


class SwitchmlGroup(Group):
    name = "switchml in PyTorch 2.14"
    backend = "switchml"

    def _how(self, place):
        import switchml.torch

        os.environ["SWITCHML_SWITCH"] = place["switch"]
        if place["heartbeat"]:
            os.environ["SWITCHML_HEARTBEAT"] = str(place["heartbeat"])
        return {"pg_options": switchml.torch.Options(summary=False)}


class Torchft(Group):
    """Its process group, configured as its Manager does; without the Lighthouse's time."""

    name = "torchft over Gloo"

    def _begin(self, dist, number, place):
        from torchft.process_group import ProcessGroupGloo

        # The group's own limit, because the neighbors of a dead rank come only when their calls end.
        self._group = ProcessGroupGloo(timeout=2 * self._limit)
        self._store = place["store"]
        self._options = self._dist.AllreduceOptions()
        self._options.timeout = self._limit

    def handle(self):
        return ""

    def join(self, epoch, numbers, rank, handles):
        self._rank = rank
        store = f"{self._store}/{epoch}"
        self._group.configure(store, f"replica {numbers[rank]}", rank, len(numbers), epoch)

    def total(self, values):
        tensor = self._torch.from_numpy(values.copy())
        self._group.allreduce([tensor], self._options).wait()
        return tensor.numpy()


WAYS = [Decided, Listed, SwitchmlGroup, Gloo, Torchft]
OURS = ["switchml.torch"]  # with torch
NEEDS = {SwitchmlGroup: "torch", Gloo: "torch", Torchft: "torchft"}


# ---- a rank ----


def enter(namespace):
    """Before there is a socket, or a thread."""
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"  # here: the server of forks has the old environment
    with open(f"/run/netns/{namespace}") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) < 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")


def sum_on(way, number, pipe):
    """Until an error, or until rank 0 has a wish, which is returned. Says when a sum is there."""
    values, told = np.full(COUNT, 1 << number, np.int32), False
    while True:
        values[-1] = wish_of(way, pipe) if way.rank() == 0 else 0
        sums = way.total(values)
        if not (sums[:-1] == sums[0]).all():
            raise AssertionError(f"a sum has several values: {set(sums[:-1])}")
        if not told:
            pipe.send(("summed", time.monotonic(), (int(sums[0]), way.handle())))
        told = True
        if sums[-1]:
            return int(sums[-1])


def wish_of(way, pipe):
    """Rank 0's last element: all stop after this call, or change their members."""
    return STOP if pipe.poll() else CHANGE if way.is_wished() else 0


def serve(way_name, number, place, pipe):
    """Obey the parent: join a list, wait to join, sum until something happens."""
    try:
        if place["namespace"]:
            enter(place["namespace"])
        way = next(way for way in WAYS if way.name == way_name)(number, place)
        pipe.send(("ready", time.monotonic(), way.handle()))
        while (order := pipe.recv()) != "end":
            what, *details = order
            if what == "join":
                way.join(*details)
            elif what == "wait":
                way.wait_to_join()
            elif what == "stop":  # they have
                continue
            follow(way, number, pipe)
    except BaseException:
        pipe.send(("broken", time.monotonic(), traceback.format_exc()))
        time.sleep(1)
    os._exit(0)  # without leaving: the others have gone


def follow(way, number, pipe):
    """Sum, in one membership after the other, until the parent has to say what is next."""
    change = None
    while True:
        try:
            if change:
                change()
            if sum_on(way, number, pipe) == STOP:
                pipe.send(("stopped", time.monotonic(), way.handle()))
                return
        except AssertionError:
            raise
        except Exception as error:  # the parent looks at it
            print(f"rank {number}: {type(error).__name__}: {error}"[:200], file=sys.stderr)
            pipe.send(("failed", time.monotonic(), None))
            if not way.decides:
                return
        change = way.go_on


# ---- the parent ----


class Job:
    """The ranks of one way."""

    def __init__(self, way, n, switch, heartbeat, timeout, namespaces):
        self.way, self.n, self._namespaces = way, n, namespaces
        self._place = {"switch": switch, "job": way.__name__.lower(), "heartbeat": heartbeat}
        self._place["timeout"], self._place["ranks"] = timeout, n
        self._place["store"] = self._start_store() if issubclass(way, Group) else None
        self.failed = 0.0
        self.epoch, self.processes, self.pipes, self.handles = 0, {}, {}, {}
        self.said = {}  # and not taken yet, by process
        self.order = list(range(n))
        for number in self.order:
            self.start(number)
        for number in self.order:
            self.handles[number] = self.expect(number, "ready")[1]

    def _start_store(self):
        import torch.distributed as dist

        host = SWITCH_HOST if self._namespaces else "127.0.0.1"
        self.store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False)
        return f"{host}:{self.store.port}"

    def start(self, number):
        ours, theirs = FORK.Pipe()
        place = {**self._place, "namespace": self.namespace(number)}
        process = FORK.Process(
            target=serve, args=(self.way.name, number, place, theirs), daemon=True
        )
        process.start()
        theirs.close()
        self.processes[number], self.pipes[number] = process, ours
        self.said[number] = collections.deque()

    def hear(self, number, until):
        """What it says next. While it says nothing, another one may say why."""
        while not self.said[number]:
            pipes = {self.pipes[number]: number for number in self.order} | {
                self.pipes[number]: number
            }
            for pipe in wait(list(pipes), max(0.0, until - time.monotonic())):
                said = pipe.recv()
                if said[0] == "broken":
                    raise RuntimeError(f"{self.way.name}: process {pipes[pipe]}: {said[2]}")
                self.said[pipes[pipe]].append(said)
            if time.monotonic() >= until and not self.said[number]:
                raise TimeoutError(f"{self.way.name}: process {number} says nothing")
        return self.said[number].popleft()

    def expect(self, number, what):
        """The time of what it says next, and the rest. Errors are noted: what failed is a call."""
        until = time.monotonic() + SOON
        while True:
            said, at, rest = self.hear(number, until)
            if said == what:
                return at, rest
            if said == "stopped":  # it had its part of the last call of a rank that was killed
                continue
            if said != "failed":
                raise RuntimeError(f"{self.way.name}: process {number} says {said}: {rest}")
            self.failed = max(self.failed, at)

    def tell_list(self):
        self.epoch += 1
        handles = [self.handles[number] for number in self.order]
        for rank, number in enumerate(self.order):
            self.pipes[number].send(("join", self.epoch, self.order, rank, handles))

    def namespace(self, number):
        return self._namespaces[number] if self._namespaces else None

    def expect_sum(self):
        """When the last of all members has the sum of all."""
        expected, last = sum(1 << number for number in self.order), 0.0
        for number in self.order:
            found = None
            while found != expected:
                at, (found, self.handles[number]) = self.expect(number, "summed")
                if found != expected and not self.way.decides:  # the switch may need two steps
                    raise RuntimeError(f"{self.way.name}: the sum {found:b}, not {expected:b}")
            last = max(last, at)
        return last

    def begin(self):
        self.tell_list()
        self.expect_sum()

    def lose(self, number, how, is_seen):
        """Returns until all survivors have the error, and until they have the next sum.

        is_seen: the parent learns of it at once, as of the end of a child; otherwise by the first
        error.
        """
        began = time.monotonic()
        self.failed = 0.0
        how(number)
        self.order.remove(number)
        if not is_seen:
            wait([self.pipes[survivor] for survivor in self.order], SOON)
        if not self.way.decides:
            self.tell_list()
        summed = self.expect_sum()
        # Nobody has one if all had the list before they missed the rank.
        return max(0.0, self.failed - began), summed - began

    def kill(self, number):
        os.kill(self.processes[number].pid, signal.SIGKILL)

    def bring_back(self, number):
        """Returns until all have a sum with the new process."""
        self.processes[number].join()
        self.start(number)
        _, self.handles[number] = self.expect(number, "ready")
        began = time.monotonic()
        if self.way.decides:
            self.pipes[number].send(("wait",))
        else:
            self.pause()
        self.order.append(number)
        if not self.way.decides:
            self.tell_list()
        return self.expect_sum() - began

    def pause(self):
        """All stop after the same call."""
        self.pipes[self.order[0]].send(("stop",))
        for number in self.order:
            _, self.handles[number] = self.expect(number, "stopped")

    def resume(self):
        for number in self.order:
            self.pipes[number].send(("go",))
        self.expect_sum()

    def end(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.join()


def available(only):
    found = []
    for way in WAYS:
        if only and only.lower() not in way.name.lower():
            continue
        try:
            __import__(NEEDS.get(way, "numpy"))
            if NEEDS.get(way) == "torch":
                from torch.distributed import distributed_c10d as c10d

                if not hasattr(c10d, "_reconfigure"):
                    raise ImportError("it needs PyTorch 2.14")
            found.append(way)
        except ImportError as error:
            print(f"left out: {way.name}: {error}")
    return found


@contextlib.contextmanager
def running_switch(listen):
    program = [str(ROOT / "build" / "switchml"), "switch", "--listen", listen]
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield re.search(r" ready on (\S+)", process.stdout.readline())[1]
    finally:
        process.kill()
        process.wait()


def kill_and_return(job, victim):
    """A round: (until the error, until the next sum, until a sum with a new process)."""
    error, summed = job.lose(victim, job.kill, True)
    time.sleep(0.1)
    return error, summed, job.bring_back(victim)


def vanish(job, victim):
    link = job.namespace(victim)
    times = job.lose(victim, lambda _: ip(f"-n {PREFIX}s link set {link} down"), False)
    job.kill(victim)
    ip(f"-n {PREFIX}s link set {link} up")
    job.bring_back(victim)
    return times


def play_round(job, number, play):
    job.begin() if number == 0 else job.resume()
    time.sleep(0.05 + number * 7919 % 20 / 1000)  # anywhere in a call
    times = play(job, job.order[number % job.n])
    job.pause()
    shown = ", ".join(f"{1e3 * t:.0f}" for t in times)
    print(f"round {number + 1}: {job.way.name}: {shown} ms", file=sys.stderr, flush=True)
    return times


def take_turns(jobs, rounds, play):
    """The times of each job: a list of what each round has given, until one has failed."""
    found = {job.way.name: [] for job in jobs}
    for number in range(rounds):
        for job in list(jobs):
            try:
                found[job.way.name].append(play_round(job, number, play))
            except (RuntimeError, TimeoutError, OSError) as error:
                print(f"it cannot go on in round {number + 1}: {error}", flush=True)
                job.end()
                jobs.remove(job)
    return {name: times for name, times in found.items() if times}


def measure(options, ways, rounds, play, switch, namespaces=None):
    limits = (options.heartbeat if namespaces else None, options.timeout)
    jobs = []
    try:
        for way in ways:
            own = namespaces[way] if namespaces else None
            jobs.append(Job(way, options.ranks, switch, *limits, own))
        return take_turns(jobs, rounds, play)
    finally:
        for job in jobs:
            job.end()


def show(title, found, columns):
    print(f"{title}; ms {'':<17} least    median      most")
    for place, column in enumerate(columns):
        print(f"{column}:")
        for name, rounds in found.items():
            times = sorted(1e3 * round_[place] for round_ in rounds)
            cells = f"{times[0]:9.1f} {statistics.median(times):9.1f} {times[-1]:9.1f}"
            print(f"  {name:<32} {cells}", flush=True)


# ---- hosts ----

COLUMNS = ["until all others have the error", "until they have the next sum"]
PREFIX = f"el{os.getpid() % 10000}-"


def ip(command):
    subprocess.run(["ip", *command.split()], check=True)


@contextlib.contextmanager
def hosts(ways, n):
    """A namespace for each rank of each way, and one with a bridge, in which this process goes on.

    The ways take turns: what vanishes for one must stay for the others.
    """
    found = {way: [f"{PREFIX}{w}-{i}" for i in range(n)] for w, way in enumerate(ways)}
    names = [name for way in ways for name in found[way]]
    own = f"{PREFIX}s"
    try:
        for name in [own, *names]:
            ip(f"netns add {name}")
            ip(f"-n {name} link set lo up")
        ip(f"-n {own} link add bridge type bridge")
        ip(f"-n {own} address add {SWITCH_HOST}/24 dev bridge")
        ip(f"-n {own} link set bridge up")
        for i, name in enumerate(names):
            ip(f"-n {own} link add {name} type veth peer name eth0 netns {name}")
            ip(f"-n {own} link set {name} master bridge up")
            ip(f"-n {name} address add 10.99.0.{i + 1}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
        enter(own)
        yield found
    finally:
        for name in [own, *names]:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def main():
    options = arguments()
    os.environ.setdefault("SWITCHML_HOST_GROUP", "0")  # as if each rank had a host of its own
    ways = available(options.only)
    os.environ["PYTHONPATH"] = sys.path[0]  # where the server of forks finds ours
    needed = {NEEDS[way] for way in ways if way in NEEDS}
    FORK.set_forkserver_preload(["numpy", "switchml", *sorted(needed), *OURS[: len(needed)]])
    if options.rounds:
        with running_switch("127.0.0.1:0") as switch:
            found = measure(options, ways, options.rounds, kill_and_return, switch)
        title = f"kill -9 of 1 of {options.ranks} ranks, {options.rounds} times"
        title += f" (timeout of others' calls {options.timeout:g} s)"
        show(title, found, [*COLUMNS, "a new process: until all have a sum"])
    if options.vanish:
        with hosts(ways, options.ranks) as names, running_switch(f"{SWITCH_HOST}:0") as switch:
            found = measure(options, ways, options.vanish, vanish, switch, names)
        title = f"1 of {options.ranks} hosts vanishes, {options.vanish} times"
        how = f"heartbeat {options.heartbeat:g} s, timeout of others' calls {options.timeout:g} s"
        show(f"{title} ({how})", found, COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
