# SPDX-License-Identifier: BSD-3-Clause
"""The project's targets, compared with the measurements."""

TEN_MB = "mtu1500/10MB"
RATES = (("1gbit", "1 Gbit/s"), ("100mbit", "100 Mbit/s"))
BEST = "gloo-ring gloo-bcube"


class Measured:
    """Comparisons of rows; None where one of them was not measured."""

    def __init__(self, results):
        self.rows = {}
        for result in results:
            if result.times and not result.failure:
                # On a star apart, the same row serves only its neighbors.
                self.rows.setdefault(f"{result.cell.name()}/{result.entry.name()}", result)

    def of(self, function, *names):
        found = [self.rows.get(name) for name in names]
        return None if None in found else function(*found)

    def ratio(self, cell, slow, fast):
        """Of the first time to the second, in one cell; with several names, of the shortest of them."""
        return self.of(lambda fast, *slow: min(row.p50() for row in slow) / fast.p50(),
                       *(f"{cell}/{name}" for name in (fast, *slow.split())))

    def share_of_limit(self, name):
        return self.of(lambda row: row.cell.limit_seconds(row.entry.method) / row.p50(), name)

    def uplink_share(self, name):
        return self.of(lambda row: max(row.wire["up"], row.wire["down"]) / row.calls / row.cell.size_bytes, name)

    def idle_share(self, name):
        return self.of(lambda row: (row.cpu_ranks + row.cpu_others) / row.elapsed, name)


def on_links(it):
    """Relative to the limits of links, and to Gloo's ring: (what, measured, at least)."""
    for rate, where in RATES:
        cell = f"8x/{rate}/{TEN_MB}"
        yield (f"8 workers, {where}, int32, 10 MB: share of the links' limit", it.share_of_limit(f"{cell}/ours-int32"),
               0.95)
        yield "the same: times Gloo's ring", it.ratio(cell, "gloo-ring", "ours-int32"), 1.65
        yield "int16: times Gloo's ring", it.ratio(cell, "gloo-ring", "ours-int16"), 3.2
        yield "no switch, int32: times Gloo's ring", it.ratio(cell, "gloo-ring", "ours-int32-ranks"), 1
        yield "no switch, int16: times Gloo's ring", it.ratio(cell, "gloo-ring", "ours-int16-ranks"), 1.9
    for n_workers in (4, 12):
        for rate, where in RATES:
            cell = f"{n_workers}x/{rate}/{TEN_MB}"
            yield (f"{n_workers} workers, {where}, no switch, int32: times Gloo's ring",
                   it.ratio(cell, "gloo-ring", "ours-int32-ranks"), 1)
            yield "int16", it.ratio(cell, "gloo-ring", "ours-int16-ranks"), 1.9


def narrow(it):
    """Two-byte gradients on the library's own choice of a wire, and the int8 wire."""
    for n_workers, port in ((4, 1.5), (8, 1.7)):
        cell = f"{n_workers}x/100mbit/mtu1500/5MB"
        yield (f"{n_workers} workers, 100 Mbit/s, float16, 5 MB: times Gloo's float16 ring",
               it.ratio(cell, "gloo-ring-float16", "ours-float16"), port)
        yield "no switch", it.ratio(cell, "gloo-ring-float16", "ours-float16-ranks"), 1
    for n_workers, half, single in ((4, 2.8, 5.7), (8, 3.3, 6.6)):
        where = f"{n_workers} workers, 100 Mbit/s, int8"
        for size, what, ring, ours, port, stripes in (
                ("5MB", "5 MB of float16: times Gloo's float16 ring", "gloo-ring-float16", "ours-float16-int8", half, 1.9),
                ("10MB", "10 MB: times Gloo's ring", "gloo-ring", "ours-int8", single, 3.8)):
            cell = f"{n_workers}x/100mbit/mtu1500/{size}"
            yield f"{where}, {what}", it.ratio(cell, ring, ours), port
            yield "no switch", it.ratio(cell, ring, f"{ours}-ranks"), stripes
    yield ("8 workers, 1 Gbit/s, int8, 10 MB: times Gloo's ring",
           it.ratio(f"8x/1gbit/{TEN_MB}", "gloo-ring", "ours-int8"), 4.5)
    yield ("two switches on 400 Mbit/s each: times one on 800 Mbit/s",
           it.ratio(f"8x/100mbit/{TEN_MB}", "ours-int32-nic8", "ours-int32-two4"), 0.95)


def several_on_a_host(it):
    for place, hosts, alone in (("2x4", "2 hosts x 4", 1.6), ("4x2", "4 hosts x 2", 1.1)):
        for rate, where in RATES:
            cell = f"{place}/{rate}/{TEN_MB}"
            yield (f"{hosts} workers, {where}, int32, 10 MB: times Gloo's ring",
                   it.ratio(cell, "gloo-ring", "ours-int32-groups"), 1.6)
            yield "int16", it.ratio(cell, "gloo-ring", "ours-int16-groups"), 3.1
            yield "no switch, int32", it.ratio(cell, "gloo-ring", "ours-int32-alone"), alone
    cell = f"1x4/unshaped/{TEN_MB}"
    yield ("4 workers on one host, int32, 10 MB: times Open MPI's shared memory",
           it.ratio(cell, "openmpi", "ours-int32-alone"), 1)
    yield "the same: times Gloo's best", it.ratio(cell, BEST, "ours-int32-alone"), 2


def others(it):
    cell = f"4x/unshaped/{TEN_MB}"
    yield ("4 workers and the switch on these cores, int32: times Gloo's best", it.ratio(cell, BEST, "ours-int32"), 2)
    yield "the same: times Open MPI over TCP", it.ratio(cell, "openmpi", "ours-int32"), 1.3
    yield "int16: times Gloo's best", it.ratio(cell, BEST, "ours-int16"), 3
    yield ("8 workers, 1 Gbit/s, 1 % lost each way: time over that without loss",
           it.ratio(f"8x/1gbit/{TEN_MB}/no-offload", "ours-int32/loss1%", "ours-int32"), 1.3, "at most")
    yield ("the same at 100 Mbit/s",
           it.ratio(f"8x/100mbit/{TEN_MB}/no-offload", "ours-int32/loss1%", "ours-int32"), 1.3, "at most")
    yield from several_on_a_host(it)
    cell = "1x4/unshaped/mtu1500/16B"
    yield "4 floats there: median, times Open MPI's", it.ratio(cell, "ours-int32-alone", "openmpi"), 2, "at most"
    cell = f"8x/1gbit/{TEN_MB}/racks"
    yield ("2 racks x 4 workers, 1 Gbit/s, int32, 10 MB: time over that of one rack of 8",
           it.ratio(cell, "ours-int32-racks", "ours-int32"), 1.1, "at most")
    yield ("the same: bytes that a rack's uplink carries each way, over the tensor's",
           it.uplink_share(f"{cell}/ours-int32-racks"), 1.1, "at most")
    for rate in ("unshaped", "1gbit"):
        yield (f"4 floats, 8 workers, {rate}: median, times Gloo's best",
               it.ratio(f"8x/{rate}/mtu1500/16B", BEST, "ours-int32"), 2)
    for rate in ("1gbit", "unshaped"):
        yield (f"25 tensors of 400 kB, {rate}: throughput over that of one of 10 MB",
               it.ratio(f"4x/{rate}/{TEN_MB}", "ours-int32", "ours-int32/pieces25"), 0.95)
    yield ("idle, 4 workers and the switch: share of a core", it.idle_share("4x/unshaped/mtu1500/4B/ours-int32/idle"),
           0.01, "at most")


def verdicts(results):
    """(description, measurement or None, "at least" or "at most", target)"""
    it = Measured(results)
    for what, measured, target, *how in (*on_links(it), *narrow(it), *others(it)):
        yield what, measured, (how or ["at least"])[0], target


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
