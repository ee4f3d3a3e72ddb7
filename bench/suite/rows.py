# SPDX-License-Identifier: BSD-3-Clause
"""The measurements: cells, each with a star and a size, whose entries alternate."""
import dataclasses
import itertools
import re
from dataclasses import dataclass, field

import targets
from methods import ELEMENT_BYTES, MTU, WIRE_BYTES, Gloo, OpenMPI, Preload, SwitchML
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


# By name. Those of float16 are as mixed precision has them; not of bfloat16, of which Gloo has no ring.
METHODS = {method.name: method for method in (
    *(ours(wire, where, hosts, element_type) for element_type in ELEMENT_BYTES for wire in ("", *WIRE_BYTES)
      for where, hosts in PLACES),
    # Two switches with half of the ports' rate each, and one switch with the full rate.
    SwitchML("ours-int32-nic8", "ours, int32, switch behind a NIC of 8 links", where="nic", links=8),
    SwitchML("ours-int32-two4", "ours, int32, two switches, NICs of 4 links", where="two", links=4),
    Gloo("ring"), Gloo("bcube"), Gloo("ring", "float16"), OpenMPI(), Preload())}
INT32, INT16, NIC32, RANKS32, RANKS16 = (
    METHODS[f"ours-{name}"] for name in ("int32", "int16", "int32-nic", "int32-ranks", "int16-ranks"))
RING, BCUBE, MPI = OTHERS = tuple(METHODS[name] for name in ("gloo-ring", "gloo-bcube", "openmpi"))
MPIMEMORY = OpenMPI(title="Open MPI, TCP, shared memory")
NO_TICKETS = SwitchML("ours-int32-no-tickets", "ours, int32, without tickets",
                      SWITCHML_FAULTS="tickets=0")
NO_FAST = SwitchML("ours-int32-no-fast", "ours, int32, without fast retransmit",
                   SWITCHML_FAULTS="fastretransmit=0")
NEITHER = SwitchML("ours-int32-neither", "ours, int32, without both",
                   SWITCHML_FAULTS="tickets=0,fastretransmit=0")

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

    def name(self, mtu=True):
        return (f"{self.place()}/{self.rate}/{f'mtu{MTU}/' * mtu}{human(self.size_bytes)}"
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


# Rows that have no target, beside those that have.
BESIDE = """
8x/1gbit/10MB        ours-int32-nic ours-int16-nic ours-int32-two ours-int16-two gloo-bcube openmpi
8x/100mbit/10MB      ours-float32 gloo-bcube openmpi
4x/unshaped/10MB     ours-float32 ours-float16
4x/100mbit/5MB       ours-float16-int16 ours-float16-int16-ranks ours-float16-nic
8x/100mbit/5MB       ours-float16-int16 ours-float16-int16-ranks ours-float16-nic
2x4/1gbit/10MB       ours-int32 ours-int32-ranks ours-int16-alone gloo-bcube openmpi
4x2/1gbit/10MB       ours-int32 ours-int32-ranks ours-int16-alone gloo-bcube openmpi
1x4/unshaped/16B     ours-int32-ranks ours-float32-alone ours-float16-alone gloo-ring gloo-bcube
1x4/unshaped/1kB     ours-int32-ranks ours-int32-alone ours-float32-alone ours-float16-alone gloo-ring gloo-bcube openmpi
1x4/unshaped/100kB   ours-int32-ranks ours-int32-alone ours-float32-alone ours-float16-alone gloo-ring gloo-bcube openmpi
1x4/unshaped/10MB    ours-int32-ranks ours-float32-alone ours-float16-alone
8x/1gbit/10MB/racks  ours-int16 ours-int16-racks gloo-ring gloo-bcube openmpi
8x/unshaped/16B      ours-float32 openmpi
8x/1gbit/16B         ours-float32 openmpi
"""


def with_targets():
    """The cells of the targets' rows, and of those beside them."""
    wanted = {*targets.ROWS, *((cell, name) for cell, *names in map(str.split, BESIDE.strip().splitlines()) for name in names)}
    places = itertools.product(((4, 1), (8, 1), (12, 1), (8, 4), (8, 2), (4, 4)), RATES,
                               (4, 16, 1000, 100_000, 5_000_000, 10_000_000),
                               ({}, {"offload": False}, {"apart": "racks"}))
    for (n_workers, per_host), rate, size, traits in places:
        methods = METHODS if per_host == 1 else {**METHODS, MPI.name: MPIMEMORY}
        every = (*entries(methods.values()), Entry(INT32, loss=0.01), Entry(INT32, pieces=25), Entry(INT32, rest=True))
        cell = Cell(n_workers, rate, size, every, target=True, per_host=per_host, **traits)
        chosen = tuple(entry for entry in every if (cell.name(mtu=False), entry.name()) in wanted)
        if chosen:
            yield dataclasses.replace(cell, entries=chosen)


def sweep():
    sizes = (4, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
    for rate in RATES:
        for n_workers in (2, 4, 8):
            for size in sizes:
                # Minutes per call, and no new information: measured on the faster links only.
                if rate != "100mbit" or size <= 16 << 20:
                    yield Cell(n_workers, rate, size, entries((INT32, INT16, METHODS["openmpi-preload"]) + OTHERS))


def all_cells():
    seen = set()
    for cell in (*with_targets(), *sweep()):
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
