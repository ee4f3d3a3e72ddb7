# SPDX-License-Identifier: BSD-3-Clause
"""The project's targets, compared with the measurements."""

TEN_MB = "mtu1500/10MB"
SLOW_LINE = f"8x/100mbit/{TEN_MB}"
LINE, CORES = f"8x/1gbit/{TEN_MB}", f"4x/unshaped/{TEN_MB}"


class Measured:
    """Medians by row name; None for rows that were not measured."""

    def __init__(self, results):
        self.results = {}
        for result in results:
            if result.times and not result.failure:
                # On a star apart, the same row serves only its neighbors.
                self.results.setdefault(f"{result.cell.name()}/{result.entry.name()}", result)

    def p50(self, name):
        return self.results[name].p50() if name in self.results else None

    def ratio(self, slow, fast):
        """The ratio of the first time to the second (with several names, the shortest of them)."""
        times = [self.p50(name) for name in ([slow] if isinstance(slow, str) else slow)]
        if None in times or self.p50(fast) is None:
            return None
        return min(times) / self.p50(fast)

    def share_of_limit(self, name):
        if name not in self.results:
            return None
        result = self.results[name]
        return result.cell.limit_seconds(result.entry.method) / result.p50()

    def cpu_ratio(self, name, floor):
        """CPU time of a call, over that of the floor."""
        if name not in self.results or floor not in self.results:
            return None
        mine, least = self.results[name], self.results[floor]
        return ((mine.cpu_ranks + mine.cpu_others) / mine.calls
                / ((least.cpu_ranks + least.cpu_others) / least.calls))

    def uplink_share(self, name):
        if name not in self.results:
            return None
        result = self.results[name]
        return max(result.up, result.down) / result.calls / result.cell.size_bytes

    def idle_share(self, name):
        if name not in self.results:
            return None
        result = self.results[name]
        return (result.cpu_ranks + result.cpu_others) / result.elapsed


def gloo(cell):
    return [f"{cell}/gloo-ring", f"{cell}/gloo-bcube"]


def line_rate(it, line, where):
    """Targets relative to the limits of links, and to Gloo's ring."""
    ring = f"{line}/gloo-ring"
    yield (f"8 workers, {where}, int32, 10 MB: share of the links' limit",
           it.share_of_limit(f"{line}/ours-int32"), "at least", 0.95)
    yield "the same: times Gloo's ring", it.ratio(ring, f"{line}/ours-int32"), "at least", 1.65
    yield "int16: times Gloo's ring", it.ratio(ring, f"{line}/ours-int16"), "at least", 3.2
    yield from striped(it, line, "no switch, int32: times Gloo's ring",
                       "no switch, int16: times Gloo's ring")


def striped(it, cell, int32, int16):
    """Targets without a switch, relative to Gloo's ring, and what they are called."""
    ring = f"{cell}/gloo-ring"
    yield int32, it.ratio(ring, f"{cell}/ours-int32-ranks"), "at least", 1.0
    yield int16, it.ratio(ring, f"{cell}/ours-int16-ranks"), "at least", 1.9


def striped_over_few_and_many(it):
    """line_rate() has those of 8 workers."""
    for n_workers in (4, 12):
        for rate, where in (("1gbit", "1 Gbit/s"), ("100mbit", "100 Mbit/s")):
            yield from striped(it, f"{n_workers}x/{rate}/{TEN_MB}",
                               f"{n_workers} workers, {where}, no switch, int32: "
                               "times Gloo's ring", "int16")


def halves(it):
    """Two-byte gradients on the library's own choice of a wire, beside a ring of two-byte gradients."""
    for n_workers, port in ((4, 1.5), (8, 1.7)):
        cell = f"{n_workers}x/100mbit/mtu1500/5MB"
        ring = f"{cell}/gloo-ring-float16"
        yield (f"{n_workers} workers, 100 Mbit/s, float16, 5 MB: times Gloo's float16 ring",
               it.ratio(ring, f"{cell}/ours-float16"), "at least", port)
        yield "no switch", it.ratio(ring, f"{cell}/ours-float16-ranks"), "at least", 1


def int8(it):
    """The int8 wire, beside Gloo's rings of float16 and of float32."""
    for n_workers, half, single in ((4, 2.8, 5.7), (8, 3.3, 6.6)):
        where = f"{n_workers} workers, 100 Mbit/s, int8"
        cell = f"{n_workers}x/100mbit/mtu1500/5MB"
        ring = f"{cell}/gloo-ring-float16"
        yield (f"{where}, 5 MB of float16: times Gloo's float16 ring",
               it.ratio(ring, f"{cell}/ours-float16-int8"), "at least", half)
        yield "no switch", it.ratio(ring, f"{cell}/ours-float16-int8-ranks"), "at least", 1.9
        cell = f"{n_workers}x/100mbit/{TEN_MB}"
        ring = f"{cell}/gloo-ring"
        yield (f"{where}, 10 MB: times Gloo's ring", it.ratio(ring, f"{cell}/ours-int8"), "at least",
               single)
        yield "no switch", it.ratio(ring, f"{cell}/ours-int8-ranks"), "at least", 3.8
    yield ("8 workers, 1 Gbit/s, int8, 10 MB: times Gloo's ring",
           it.ratio(f"{LINE}/gloo-ring", f"{LINE}/ours-int8"), "at least", 4.5)


def several_on_a_host(it):
    """Targets of ranks that share hosts, relative to Gloo's ring, or on one host to all others."""
    for place, hosts, alone in (("2x4", "2 hosts x 4", 1.6), ("4x2", "4 hosts x 2", 1.1)):
        for rate, where in (("1gbit", "1 Gbit/s"), ("100mbit", "100 Mbit/s")):
            cell = f"{place}/{rate}/{TEN_MB}"
            ring = f"{cell}/gloo-ring"
            yield (f"{hosts} workers, {where}, int32, 10 MB: times Gloo's ring",
                   it.ratio(ring, f"{cell}/ours-int32-groups"), "at least", 1.6)
            yield "int16", it.ratio(ring, f"{cell}/ours-int16-groups"), "at least", 3.1
            yield ("no switch, int32",
                   it.ratio(ring, f"{cell}/ours-int32-alone"), "at least", alone)
    cell = f"1x4/unshaped/{TEN_MB}"
    ours = f"{cell}/ours-int32-alone"
    yield ("4 workers on one host, int32, 10 MB: times Open MPI's shared memory",
           it.ratio(f"{cell}/openmpi", ours), "at least", 1)
    yield "the same: times Gloo's best", it.ratio(gloo(cell), ours), "at least", 2
    cell = "1x4/unshaped/mtu1500/16B"
    yield ("4 floats there: median, times Open MPI's",
           it.ratio(f"{cell}/ours-int32-alone", f"{cell}/openmpi"), "at most", 2)


def racks(it):
    """Two racks of four, with uplinks of a worker's rate, relative to one rack."""
    cell = f"8x/1gbit/{TEN_MB}/racks"
    yield ("2 racks x 4 workers, 1 Gbit/s, int32, 10 MB: time over that of one rack of 8",
           it.ratio(f"{cell}/ours-int32-racks", f"{cell}/ours-int32"), "at most", 1.1)
    yield ("the same: bytes that a rack's uplink carries each way, over the tensor's",
           it.uplink_share(f"{cell}/ours-int32-racks"), "at most", 1.1)


def verdicts(results):
    """(description, measurement or None, "at least" or "at most", target)"""
    it = Measured(results)
    lossy = f"{LINE}/no-offload/ours-int32"
    slow_lossy = f"{SLOW_LINE}/no-offload/ours-int32"
    yield from line_rate(it, LINE, "1 Gbit/s")
    yield from line_rate(it, SLOW_LINE, "100 Mbit/s")
    yield from striped_over_few_and_many(it)
    yield from halves(it)
    yield from int8(it)
    yield ("two switches on 400 Mbit/s each: times one on 800 Mbit/s",
           it.ratio(f"{SLOW_LINE}/ours-int32-nic8", f"{SLOW_LINE}/ours-int32-two4"), "at least",
           0.95)
    yield ("4 workers and the switch on these cores, int32: times Gloo's best",
           it.ratio(gloo(CORES), f"{CORES}/ours-int32"), "at least", 2)
    yield ("the same: times Open MPI over TCP",
           it.ratio(f"{CORES}/openmpi", f"{CORES}/ours-int32"), "at least", 1.3)
    yield ("int16: times Gloo's best", it.ratio(gloo(CORES), f"{CORES}/ours-int16"), "at least", 3)
    yield ("4 workers and the switch, int32: CPU time over the floor's",
           it.cpu_ratio(f"{CORES}/ours-int32", f"{CORES}/floor-int32"), "at most", 1.2)
    yield ("8 workers, 1 Gbit/s, 1 % lost each way: time over that without loss",
           it.ratio(f"{lossy}/loss1%", lossy), "at most", 1.3)
    yield ("the same at 100 Mbit/s", it.ratio(f"{slow_lossy}/loss1%", slow_lossy), "at most", 1.3)
    yield from several_on_a_host(it)
    yield from racks(it)
    for rate in ("unshaped", "1gbit"):
        cell = f"8x/{rate}/mtu1500/16B"
        yield (f"4 floats, 8 workers, {rate}: median, times Gloo's best",
               it.ratio(gloo(cell), f"{cell}/ours-int32"), "at least", 2)
    cell = "4x/1gbit/mtu1500/16B"
    yield ("4 floats, 4 workers, 1gbit: median, times a UDP ping-pong's",
           it.ratio(f"{cell}/ours-int32", f"{cell}/ping"), "at most", 2)
    yield ("the same: times that of a star, all to one to all",
           it.ratio(f"{cell}/ours-int32", f"{cell}/star-ping"), "at most", 2)
    for rate in ("1gbit", "unshaped"):
        cell = f"4x/{rate}/{TEN_MB}/ours-int32"
        yield (f"25 tensors of 400 kB, {rate}: throughput over that of one of 10 MB",
               it.ratio(cell, f"{cell}/pieces25"), "at least", 0.95)
    yield ("idle, 4 workers and the switch: share of a core",
           it.idle_share("4x/unshaped/mtu1500/4B/ours-int32/idle"), "at most", 0.01)


def met(measured, how, target):
    return measured >= target if how == "at least" else measured <= target


def print_verdicts(results):
    rows = [row for row in verdicts(results) if row[1] is not None]
    if rows:
        print(f"\n{'target':76} {'':8} {'wanted':>7} {'here':>7}")
    for what, measured, how, target in rows:
        print(f"{what:76} {how:8} {target:7.2f} {measured:7.2f}  "
              f"{'met' if met(measured, how, target) else 'NOT MET'}")


def to_json(results):
    return [{"what": what, "how": how, "target": target, "measured": measured,
             "met": None if measured is None else met(measured, how, target)}
            for what, measured, how, target in verdicts(results)]
