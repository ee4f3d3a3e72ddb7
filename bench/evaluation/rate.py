# SPDX-License-Identifier: BSD-3-Clause
"""Question 1: the aggregation rate, measured on slow links, predicted there, and simulated on
fast ones."""
import itertools

import lab as common
from rows import BCUBE, INT16, INT32, MPI, NIC32, RANKS16, RANKS32, RING, Entry
from table import Panel, Table, rates

QUESTION = "How many elements a second are summed, and does that depend on the number of workers?"
METHODS = (INT32, INT16, RANKS32, RANKS16, NIC32, RING, BCUBE, MPI)
PREDICTED = {method.name: method.wire for method in (INT32, INT16)}
FAR = 0.10  # a prediction that is farther off is to be explained
DELAY_US = 10
# As many as the fastest link needs (slots.py has the rule).
SLOTS = 1024
# Of one core, with UDP datagrams of 1,470 bytes, as the authors of Linux's segmentation offload (2018,
# commit bec1f6f69736: 2,139 MB/s sent) and of its counterpart (commit e20cf8d3f1f7: 1,466 MB/s
# received) measured them. The switch receives and sends a packet for each worker, too.
SENT_NS, RECEIVED_NS = 1470 / 2139e-3, 1470 / 1466e-3
PUBLISHED = {"host_ns": round(SENT_NS + RECEIVED_NS), "switch_ns": round(SENT_NS + RECEIVED_NS)}
# With so many chunks, a window has grown to its full size. A simulation costs time and memory by
# workers and chunks, so more workers have only chunks that fit into the first window: what they
# show is the links and the costs of packets.
CHUNKS, FEW_CHUNKS = 1024, 16
SIMULATED_RATES = (10_000, 100_000, 400_000)


def calibrate(lab):
    """Nanoseconds of CPU time a packet: at a worker (there and back), and at the switch.

    On links as fast as the cores, where super-packets are full, as on links that are."""
    n_workers, size = 4, 10_000_000
    row, = lab.rows(n_workers, "unshaped", size, [Entry(INT32)], lab.choose(4, 30, 2))
    if "not_measured" in row:
        raise common.Skipped(row["not_measured"])
    packets = size / 4 / common.PACKET_LANES
    return {"workers": n_workers, "bytes": size,
            # One thread of a worker sends and receives.
            "host_ns": round(row["worker_cpu_s_a_call"] / packets * 1e9),
            "switch_ns": round(row["switch_cpu_s_a_call"] / packets / n_workers * 1e9)}


def simulate(lab, n_workers, rate, wire, count, costs):
    """Elements a second. More workers than a switch has ports need a tree."""
    world = {"n_ranks": n_workers, "link_mbps": rate, "delay_us": DELAY_US,
             "data_slots": SLOTS, **costs}
    if n_workers > 64:
        world.update(n_leaves=64, levels=2)
    return count / lab.simulate(count, wire, **world)


def steady(lab, n_workers, rate, count, costs):
    """Elements a second once the slots are busy: by the time that `count` more elements take."""
    one, two = (n / simulate(lab, n_workers, rate, "int32", n, costs) for n in (count, 2 * count))
    return count / (two - one)


def far_workers(lab, costs):
    """Simulated rates by link, cost model and number of workers."""
    models = {"line": {}, "linux": costs, "published": PUBLISHED}
    counts = lab.choose((2, 8, 64, 256), (2, 4, 8, 16, 64, 256, 1024, 4096), (2, 128))
    lab.say(f"simulating up to {counts[-1]} workers")
    cases = itertools.product(reversed(counts), SIMULATED_RATES, models)

    def one(n_workers, rate, model):
        count = common.PACKET_LANES * (CHUNKS if n_workers <= 64 else FEW_CHUNKS)
        return {"workers": n_workers, "rate_mbit": rate, "costs": model, "elements": count,
                "elements_per_s": steady(lab, n_workers, rate, count, models[model])}
    return sorted(lab.on_all_cores(one, *zip(*cases)), key=lambda row: row["workers"])


def run(lab):
    costs = calibrate(lab)
    model = {"host_ns": costs["host_ns"], "switch_ns": costs["switch_ns"]}
    size, rows = lab.choose(2_000_000, 4_000_000, 200_000), []
    for n_workers in lab.choose((2, 4, 8), (2, 4, 8, 12, 16), (2,)):
        for row in lab.rows(n_workers, "100mbit", size, map(Entry, METHODS), lab.choose(3, 12, 2)):
            if row["method"] in PREDICTED:
                row["predicted_s"] = size / 4 / simulate(
                    lab, n_workers, common.simulated_mbit(100), PREDICTED[row["method"]], size // 4, model)
            rows.append({"workers": n_workers, **row})
    return {"rate_mbit": 100, "bytes": size, "tcp": lab.tcp, "costs": costs, "rows": rows,
            "published": PUBLISHED, "simulated": far_workers(lab, model)}


COSTS = {"line": ("-", "no costs"), "linux": ("--", "this machine's costs"), "published": (":", "published costs")}


def speeds(row):
    """Million elements a second: quartiles, or None."""
    return rates(row["seconds"], row["bytes"] / 4 / 1e6) if row and "seconds" in row else None


def speed(row, seconds):
    return row["bytes"] / 4 / row[seconds] / 1e6


def measured(data):
    """What was measured, by method and number of workers."""
    return {(row["method"], row["workers"]): row for row in data["rows"] if "seconds" in row}


def table(data):
    counts, found = sorted({row["workers"] for row in data["rows"]}), measured(data)
    first = Table("million elements/s", *(f"{n} workers" for n in counts),
                  what="million elements a second (median, quartiles)")
    for method in METHODS:
        first.add(method.title, *(speeds(found.get((method.name, n))) for n in counts))
    first.add("an ideal ring over TCP (computed)",
              *(f"{speed(found[RING.name, n], 'limit_seconds'):.2f}" for n in counts if (RING.name, n) in found))
    for title, seconds in (("simulator", "predicted_s"), ("limit of the links, computed", "limit_seconds")):
        first.add(f"{title}: int32, int16", *(
            ", ".join(f"{speed(found[name, n], seconds):.2f}" for name in PREDICTED if (name, n) in found)
            for n in counts))
    return first


def drawn(data):
    def draw(axis):
        for i, rate in enumerate(SIMULATED_RATES):
            for model, (style, costs) in COSTS.items():
                rows = [r for r in data["simulated"] if (r["rate_mbit"], r["costs"]) == (rate, model)]
                axis.plot([r["workers"] for r in rows], [r["elements_per_s"] / 1e6 for r in rows], style,
                          marker="o", markersize=3, color=f"C{i}", linewidth=0.9,
                          label=f"{rate // 1000} Gbit/s, int32, {costs}")
        axis.set(xscale="log", yscale="log", xlabel="workers (above 64: a tree of 64 leaves)",
                 ylabel="million elements a second", title="simulated")
        axis.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    yield table(data)
    yield Panel(draw, 6)


def facts(data):
    costs, published = data["costs"], data["published"]
    yield (f"- CPU time measured here ({costs['workers']} workers, unshaped links): {costs['host_ns']} ns "
           f"for a packet and its result at a worker,\n  {costs['switch_ns']} ns for a packet at the switch.")
    yield (f"- Published costs: {published['host_ns']} ns at each, that is {SENT_NS:.0f} ns to send and "
           f"{RECEIVED_NS:.0f} ns to receive 1,470 bytes with\n  UDP segmentation offload in software "
           "(2018, Linux commits bec1f6f69736, e20cf8d3f1f7).\n")
    yield table(data)
    most = max(row["workers"] for row in data["rows"])
    ring, narrow = (measured(data).get((method.name, most)) for method in (RING, INT16))
    if ring and narrow:
        half = 2 * speed(ring, "limit_seconds")
        yield (f"\nAt the same width, an ideal ring of 16 bits reaches {half:.2f} with {most} workers, and int16 "
               f"through a switch is\n{speeds(narrow)[1] / half:.2f} times as fast.")
    far = [abs(row["seconds"]["median"] / row["predicted_s"] - 1) > FAR
           for row in data["rows"] if "predicted_s" in row and "seconds" in row]
    yield (f"\nMeasured times that differ from the simulator's by more than {100 * FAR:.0f} %: {sum(far)} of "
           f"{len(far)}.")
