# SPDX-License-Identifier: BSD-3-Clause
"""The measurements: cells, each with a star and a size, whose entries alternate."""
import dataclasses
import re
from dataclasses import dataclass, field

from methods import MTU, Gloo, OpenMPI, Preload, SwitchML
from star import Star

# What a method's name and title end with: by SwitchML's `where`, and whether ranks of a host share memory.
PLACES = {("port", False): ("", ""),
          ("port", True): ("-groups", ", host groups"),
          ("nic", False): ("-nic", ", switch behind one NIC"),
          ("two", False): ("-two", ", two switches, a NIC each"),
          ("racks", False): ("-racks", ", two racks"),
          ("ranks", False): ("-ranks", ", no switch (striped over ranks)"),
          # What ranks choose that are told of no switch: memory where all share it, else stripes over the ranks.
          ("ranks", True): ("-alone", ", no switch, its choice")}


def ours(wire="", where="port", hosts=False, element_type="float32"):
    """wire: "" for the library's own choice, which the element type names: floats as they are, added exactly."""
    words = ["ours"] + [element_type] * (not wire or element_type != "float32") + [wire] * bool(wire)
    name, title = PLACES[where, hosts]
    return SwitchML("-".join(words) + name, ", ".join(words) + title, wire, where, hosts=hosts, element_type=element_type)


INT32, INT16, INT8, EXACT = ours("int32"), ours("int16"), ours("int8"), ours()
NIC32, NIC16 = ours("int32", "nic"), ours("int16", "nic")
TWO32, TWO16 = ours("int32", "two"), ours("int16", "two")
RANKS32, RANKS16, RANKS8 = ours("int32", "ranks"), ours("int16", "ranks"), ours("int8", "ranks")
HOSTS32, HOSTS16 = ours("int32", hosts=True), ours("int16", hosts=True)
ALONE32, ALONE16, ALONE = ours("int32", "ranks", True), ours("int16", "ranks", True), ours("", "ranks", True)
ALONEHALF = ours("", "ranks", True, "float16")
# Two racks, with an uplink of a worker's rate each.
RACKS32, RACKS16 = ours("int32", "racks"), ours("int16", "racks")
# Gradients of two bytes, as mixed precision has. Not of bfloat16, of which Gloo has no ring.
HALF, HALF16, HALF8 = (ours(wire, element_type="float16") for wire in ("", "int16", "int8"))
HALFRANKS, HALFRANKS16, HALFRANKS8 = (ours(wire, "ranks", element_type="float16") for wire in ("", "int16", "int8"))
HALFNIC = ours("", "nic", element_type="float16")
# Two switches with half of the ports' rate each, and one switch with the full rate.
WIDE32 = SwitchML("ours-int32-nic8", "ours, int32, switch behind a NIC of 8 links", where="nic",
                  links=8)
HALVES32 = SwitchML("ours-int32-two4", "ours, int32, two switches, NICs of 4 links", where="two",
                    links=4)
NO_TICKETS = SwitchML("ours-int32-no-tickets", "ours, int32, without tickets",
                      SWITCHML_FAULTS="tickets=0")
NO_FAST = SwitchML("ours-int32-no-fast", "ours, int32, without fast retransmit",
                   SWITCHML_FAULTS="fastretransmit=0")
NEITHER = SwitchML("ours-int32-neither", "ours, int32, without both",
                   SWITCHML_FAULTS="tickets=0,fastretransmit=0")
HALFRING = Gloo("ring", "float16")
RING, BCUBE, MPI = Gloo("ring"), Gloo("bcube"), OpenMPI()
MPIMEMORY, PRELOAD = OpenMPI(title="Open MPI, TCP, shared memory"), Preload()

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
    apart: str = ""  # on a separate star: "racks"
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
    for unit, scale in (("MB", 10**6), ("kB", 10**3), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= scale and size_bytes % scale == 0:
            return f"{size_bytes // scale}{unit}"
    return f"{size_bytes}B"


def entries(methods, **traits):
    return tuple(Entry(method, **traits) for method in methods)


def targets():
    ten = 10_000_000
    yield Cell(8, "1gbit", ten, entries(ALL), target=True)
    yield Cell(4, "unshaped", ten,
               entries((INT32, INT16, EXACT, HALF) + OTHERS), target=True)
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
        yield Cell(8, rate, 16, entries((INT32, EXACT) + OTHERS), target=True)
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


def all_cells():
    seen = set()
    for cell in (*targets(), *sweep()):
        key = (cell.star(), cell.size_bytes, cell.entries)
        if key not in seen:
            seen.add(key)
            yield cell


# Rows that fit into a minute: the first target, and the latency target.
QUICK = (r"^8x/1gbit/mtu1500/10MB/(ours-int(16|32|32-nic)|gloo-\w+|openmpi)$"
         r"|^4x/unshaped/mtu1500/10MB/(ours-int(16|32)|gloo-\w+|openmpi)$"
         r"|^8x/unshaped/mtu1500/16B/(ours-int32|gloo-ring|openmpi)$")


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
