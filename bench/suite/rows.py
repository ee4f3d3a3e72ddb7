# SPDX-License-Identifier: BSD-3-Clause
"""The measurements: cells, each with a star and a size, whose entries alternate."""
import dataclasses
import re
from dataclasses import dataclass, field

from methods import MTU, Floor, Gloo, OpenMPI, Ping, Preload, SwitchML
from star import Star

INT32 = SwitchML("ours-int32", "ours, int32")
INT16 = SwitchML("ours-int16", "ours, int16", wire="int16")
# The library's own choice of a wire: floats as they are, which switches add exactly.
EXACT = SwitchML("ours-float32", "ours, float32", "")
INT8 = SwitchML("ours-int8", "ours, int8", wire="int8")
NIC32 = SwitchML("ours-int32-nic", "ours, int32, switch behind one NIC", where="nic")
NIC16 = SwitchML("ours-int16-nic", "ours, int16, switch behind one NIC", "int16", "nic")
TWO32 = SwitchML("ours-int32-two", "ours, int32, two switches, a NIC each", where="two")
TWO16 = SwitchML("ours-int16-two", "ours, int16, two switches, a NIC each", "int16", "two")
# Two switches with half of the ports' rate each, and one switch with the full rate.
WIDE32 = SwitchML("ours-int32-nic8", "ours, int32, switch behind a NIC of 8 links", where="nic",
                  links=8)
HALVES32 = SwitchML("ours-int32-two4", "ours, int32, two switches, NICs of 4 links", where="two",
                    links=4)
RANKS32 = SwitchML("ours-int32-ranks", "ours, int32, no switch (striped over ranks)",
                   where="ranks")
RANKS16 = SwitchML("ours-int16-ranks", "ours, int16, no switch (striped over ranks)", "int16",
                   "ranks")
RANKS8 = SwitchML("ours-int8-ranks", "ours, int8, no switch (striped over ranks)", "int8", "ranks")
NO_TICKETS = SwitchML("ours-int32-no-tickets", "ours, int32, without tickets",
                      SWITCHML_FAULTS="tickets=0")
NO_FAST = SwitchML("ours-int32-no-fast", "ours, int32, without fast retransmit",
                   SWITCHML_FAULTS="fastretransmit=0")
NEITHER = SwitchML("ours-int32-neither", "ours, int32, without both",
                   SWITCHML_FAULTS="tickets=0,fastretransmit=0")
XDP32 = SwitchML("ours-xdp-int32", "ours, int32, XDP switch", where="xdp")
# Ranks of one host send one contribution.
HOSTS32 = SwitchML("ours-int32-groups", "ours, int32, host groups", hosts=True)
HOSTS16 = SwitchML("ours-int16-groups", "ours, int16, host groups", "int16", hosts=True)
# What ranks choose that are told of no switch: memory where all share it, else stripes over the ranks.
ALONE32 = SwitchML("ours-int32-alone", "ours, int32, no switch, its choice", where="ranks",
                   hosts=True)
ALONE16 = SwitchML("ours-int16-alone", "ours, int16, no switch, its choice", "int16", "ranks",
                   hosts=True)
ALONE = SwitchML("ours-float32-alone", "ours, float32, no switch, its choice", "", "ranks", hosts=True)
ALONEHALF = SwitchML("ours-float16-alone", "ours, float16, no switch, its choice", "", "ranks", hosts=True,
                     element_type="float16")
# Two racks, with an uplink of a worker's rate each.
RACKS32 = SwitchML("ours-int32-racks", "ours, int32, two racks", where="racks")
RACKS16 = SwitchML("ours-int16-racks", "ours, int16, two racks", "int16", "racks")
BOX32 = SwitchML("ours-xdp-int32-ports", "ours, int32, XDP switch, workers on its ports",
                 where="box")
# Gradients of two bytes, as mixed precision has: the library's own choice of a wire, and int16. Not of bfloat16,
# of which Gloo has no ring.
HALF = SwitchML("ours-float16", "ours, float16", "", element_type="float16")
HALF16 = SwitchML("ours-float16-int16", "ours, float16, int16", "int16", element_type="float16")
HALF8 = SwitchML("ours-float16-int8", "ours, float16, int8", "int8", element_type="float16")
HALFNIC = SwitchML("ours-float16-nic", "ours, float16, switch behind one NIC", "", "nic",
                   element_type="float16")
HALFRANKS = SwitchML("ours-float16-ranks", "ours, float16, no switch (striped over ranks)", "",
                     "ranks", element_type="float16")
HALFRANKS16 = SwitchML("ours-float16-int16-ranks", "ours, float16, int16, no switch (striped over ranks)",
                       "int16", "ranks", element_type="float16")
HALFRANKS8 = SwitchML("ours-float16-int8-ranks", "ours, float16, int8, no switch (striped over ranks)",
                      "int8", "ranks", element_type="float16")
HALFRING = Gloo("ring", "float16")
RING, BCUBE, MPI = Gloo("ring"), Gloo("bcube"), OpenMPI()
MPIMEMORY, PRELOAD = OpenMPI(title="Open MPI, TCP, shared memory"), Preload()

FLOOR = Floor()
PING = Ping("ping", "UDP ping-pong of one datagram", star=False)
STAR_PING = Ping("star-ping", "UDP ping-pong of a star: all to one to all", star=True)

OTHERS = (RING, BCUBE, MPI)
ON_HOSTS = (RING, BCUBE, MPIMEMORY)
ALL = (INT32, INT16, INT8, NIC32, NIC16, TWO32, TWO16, RANKS32, RANKS16) + OTHERS

RATES = {"100mbit": 100, "1gbit": 1000, "unshaped": 0}


@dataclass(frozen=True)
class Entry:
    """One row: a method, a loss rate, and the number of pieces of the tensor (asynchronous)."""
    method: object
    loss: float = 0
    pieces: int = 1
    rest: bool = False  # no calls: the job is open and idle

    def name(self):
        return (self.method.name + (f"/loss{100 * self.loss:g}%" if self.loss else "")
                + (f"/pieces{self.pieces}" if self.pieces > 1 else "")
                + ("/idle" if self.rest else ""))

    def title(self):
        return (self.method.title + (f", {100 * self.loss:g} % lost" if self.loss else "")
                + (f", {self.pieces} tensors at once" if self.pieces > 1 else "")
                + (", idle" if self.rest else ""))


@dataclass(frozen=True)
class Cell:
    n_workers: int
    rate: str
    size_bytes: int
    entries: tuple = field(hash=False)
    offload: bool = True
    target: bool = False  # measured also without --full
    # On a separate star: an XDP program on workers' links changes the cost of other packets
    # there.
    apart: str = ""
    per_host: int = 1  # workers

    def star(self):
        return (self.n_workers, self.rate, self.offload, self.apart, self.per_host)

    def new_star(self):
        return Star(self.n_workers, RATES[self.rate], MTU, self.offload, self.per_host)

    def place(self):
        """8x: hosts with one worker; 2x4: hosts and workers on each."""
        return f"{self.n_workers}x" if self.per_host == 1 else \
            f"{self.n_workers // self.per_host}x{self.per_host}"

    def name(self):
        return (f"{self.place()}/{self.rate}/mtu{MTU}/{human(self.size_bytes)}"
                + ("" if self.offload else "/no-offload") + ("/racks" if self.apart == "racks" else ""))

    def names(self):
        return [f"{self.name()}/{entry.name()}" for entry in self.entries]

    def payload_bytes_per_second(self, method):
        """The rate at which a link can carry elements; 0: it is not shaped."""
        return RATES[self.rate] * 1e6 / 8 * method.payload_share()

    def limit_seconds(self, method):
        """The shortest time that the links allow for this method; 0: no limit."""
        speed = self.payload_bytes_per_second(method)
        return self.size_bytes * method.wire_share * method.moved(self.n_workers, self.per_host) / speed \
            if speed else 0


def human(size_bytes):
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale}{unit}"
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale}{unit}"
    return f"{size_bytes}B"


def entries(methods, **traits):
    return tuple(Entry(method, **traits) for method in methods)


def targets():
    ten = 10_000_000
    yield Cell(8, "1gbit", ten, entries(ALL), target=True)
    yield Cell(4, "unshaped", ten,
               entries((INT32, INT16, EXACT, HALF, FLOOR) + OTHERS), target=True)
    # Where the links are the limit, not the cores that all hosts share.
    yield Cell(8, "100mbit", ten,
               entries((INT32, INT16, INT8, EXACT, WIDE32, HALVES32, RANKS32, RANKS16, RANKS8) + OTHERS),
               target=True)
    # Two-byte gradients beside a ring of two-byte gradients.
    for n_workers in (4, 8):
        yield Cell(n_workers, "100mbit", 5_000_000,
                   entries((HALF, HALF16, HALF8, HALFNIC, HALFRANKS, HALFRANKS16, HALFRANKS8, HALFRING)),
                   target=True)
    # A stripe in every rank, with fewer hosts and with more.
    for n_workers in (4, 12):
        for rate in ("1gbit", "100mbit"):
            narrow = (INT8, RANKS8) if (n_workers, rate) == (4, "100mbit") else ()
            yield Cell(n_workers, rate, ten, entries((RANKS32, RANKS16, *narrow, RING)), target=True)
    for rate in ("1gbit", "100mbit"):
        yield Cell(8, rate, ten, (Entry(INT32), Entry(INT32, loss=0.01)), offload=False, target=True)
    several = (INT32, HOSTS32, HOSTS16, RANKS32, ALONE32, ALONE16) + ON_HOSTS
    for per_host in (4, 2):
        yield Cell(8, "1gbit", ten, entries(several), target=True, per_host=per_host)
        # Where the links are the limit, not the cores.
        yield Cell(8, "100mbit", ten, entries((HOSTS32, HOSTS16, ALONE32, RING)), target=True,
                   per_host=per_host)
    # One host: there are no links.
    for size in (16, 1000, 100_000, ten):
        yield Cell(4, "unshaped", size, entries((RANKS32, ALONE32, ALONE, ALONEHALF) + ON_HOSTS),
                   target=True, per_host=4)
    # On a separate star: its uplinks are a second network.
    yield Cell(8, "1gbit", ten, entries((INT32, RACKS32, INT16, RACKS16) + OTHERS), target=True,
               apart="racks")
    for rate in ("unshaped", "1gbit"):
        yield Cell(8, rate, 16, entries((INT32, EXACT, PING, STAR_PING) + OTHERS), target=True)
    yield Cell(4, "1gbit", 16, entries((INT32, PING, STAR_PING) + OTHERS), target=True)
    yield Cell(4, "1gbit", ten, (Entry(INT32), Entry(INT32, pieces=25)), target=True)
    yield Cell(4, "unshaped", ten, (Entry(INT32), Entry(INT32, pieces=25)), target=True)
    yield Cell(4, "unshaped", 4, (Entry(INT32, rest=True),), target=True)


def sweep():
    sizes = (4, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
    for rate in RATES:
        for n_workers in (2, 4, 8):
            for size in sizes:
                # Minutes per call, and no new information: measured on the faster links only.
                if rate != "100mbit" or size <= 16 << 20:
                    yield Cell(n_workers, rate, size, entries((INT32, INT16, PRELOAD) + OTHERS))


def kernel():
    """XDP transmits past the queues that shape links, so links here have no rate."""
    for size in (16, 64 << 10, 10_000_000):
        yield Cell(4, "unshaped", size, entries((INT32, XDP32)), apart="xdp")
        yield Cell(4, "unshaped", size, entries((BOX32,)), apart=BOX32.name)
    # Without super-packets, as on real wires, so that each packet costs its full work.
    yield Cell(4, "unshaped", 10_000_000, entries((INT32, XDP32)), offload=False,
               apart="xdp")
    yield Cell(4, "unshaped", 10_000_000, entries((BOX32,)), offload=False,
               apart=BOX32.name)


def all_cells():
    seen = set()
    for cell in (*targets(), *sweep(), *kernel()):
        key = (cell.star(), cell.size_bytes, cell.entries)
        if key not in seen:
            seen.add(key)
            yield cell


# Rows that fit into a minute: the first target, and the latency target.
QUICK = (r"^8x/1gbit/mtu1500/10MB/(ours-int(16|32|32-nic)|gloo-\w+|openmpi)$"
         r"|^4x/unshaped/mtu1500/10MB/(ours-int(16|32)|floor-int32|gloo-\w+|openmpi)$"
         r"|^8x/unshaped/mtu1500/16B/(ours-int32|(star-)?ping|gloo-ring|openmpi)$")


def matching(pattern, cells):
    """The cells, without the entries whose names do not match this regular expression."""
    chosen = {}  # cells of the same hosts and size are merged
    for cell in cells:
        wanted = tuple(entry for entry, name in zip(cell.entries, cell.names()) if re.search(pattern, name))
        if wanted:
            key = (cell.star(), cell.size_bytes)
            have = chosen[key].entries if key in chosen else ()
            chosen[key] = dataclasses.replace(cell, entries=tuple(dict.fromkeys(have + wanted)))
    return list(chosen.values())
