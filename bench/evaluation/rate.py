# SPDX-License-Identifier: BSD-3-Clause
"""Question 1: the aggregation rate, measured on slow links, predicted there, and simulated on
fast ones."""
import lab as common
from rows import (ALONE32, BCUBE, HOSTS16, HOSTS32, INT16, INT32, MPI, MPIMEMORY, NIC32,
                  RACKS16, RACKS32, RANKS16, RANKS32, RING, Entry)

QUESTION = "How many elements a second are summed, and does that depend on the number of workers?"
METHODS = (INT32, INT16, RANKS32, RANKS16, NIC32, RING, BCUBE, MPI)
PREDICTED = {INT32.name: "int32", INT16.name: "int16"}
# Of eight workers: title, traits of the cell, methods.
PLACES = (("2 hosts x 4", {"per_host": 4}, (HOSTS32, HOSTS16, ALONE32, RING, BCUBE, MPIMEMORY)),
          ("4 hosts x 2", {"per_host": 2}, (HOSTS32, HOSTS16, ALONE32, RING, BCUBE, MPIMEMORY)),
          ("2 racks x 4 hosts", {"apart": "racks"}, (RACKS32, RACKS16)))
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
    result, = lab.compare(n_workers, "unshaped", size, [Entry(INT32)], lab.choose(4, 30, 2))
    row = common.row_of(result)
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


def steady(lab, n_workers, rate, wire, count, costs):
    """Elements a second once the slots are busy: by the time that `count` more elements take."""
    one, two = (n / simulate(lab, n_workers, rate, wire, n, costs) for n in (count, 2 * count))
    return count / (two - one)


def far_workers(lab, costs):
    """Simulated rates by link, cost model and number of workers."""
    models = {"line": {}, "linux": costs, "published": PUBLISHED}
    counts = lab.choose((2, 8, 64, 256), (2, 4, 8, 16, 64, 256, 1024, 4096), (2, 128))
    lab.say(f"simulating up to {counts[-1]} workers")
    cases = [(n_workers, rate, model, wire) for n_workers in reversed(counts)
             for wire in lab.choose(("int32",), ("int32", "int16"))
             for rate in SIMULATED_RATES for model in models
             # A tensor of half the bytes costs as much to simulate, and shows no more there.
             if wire == "int32" or n_workers <= 256]

    def one(n_workers, rate, model, wire):
        count = common.PACKET_LANES * (CHUNKS if n_workers <= 64 else FEW_CHUNKS)
        return {"workers": n_workers, "rate_mbit": rate, "costs": model, "wire": wire,
                "elements": count,
                "elements_per_s": steady(lab, n_workers, rate, wire, count, models[model])}
    return sorted(lab.on_all_cores(one, *zip(*cases)), key=lambda row: row["workers"])


def places(lab, size):
    """Eight workers on shared hosts, and in racks."""
    n_workers = lab.choose(8, 8, 4)
    for place, traits, methods in PLACES:
        traits = {**traits, "per_host": min(traits.get("per_host", 1), n_workers // 2)}
        for result in lab.compare(n_workers, "100mbit", size, [Entry(method) for method in methods],
                                  lab.choose(2, 12, 2), **traits):
            yield {"place": place, "workers": n_workers, "method": result.entry.method.name,
                   "title": result.entry.method.title, **common.row_of(result)}


def run(lab):
    costs = calibrate(lab)
    model = {"host_ns": costs["host_ns"], "switch_ns": costs["switch_ns"]}
    size, rows = lab.choose(2_000_000, 4_000_000, 200_000), []
    for n_workers in lab.choose((2, 4, 8), (2, 4, 8, 12, 16), (2,)):
        found = lab.compare(n_workers, "100mbit", size, [Entry(method) for method in METHODS],
                            lab.choose(3, 12, 2))
        for result in found:
            row = {"workers": n_workers, "method": result.entry.method.name,
                   "title": result.entry.method.title, **common.row_of(result)}
            if row["method"] in PREDICTED:
                row["predicted_s"] = size / 4 / simulate(
                    lab, n_workers, common.simulated_mbit(100), PREDICTED[row["method"]],
                    size // 4, model)
            if row["method"] == RING.name:
                row["ideal_s"] = row.get("limit_seconds")
            rows.append(row)
    return {"rate_mbit": 100, "bytes": size, "tcp": lab.tcp, "costs": costs, "rows": rows,
            "published": PUBLISHED, "places": list(places(lab, size)), "simulated": far_workers(lab, model)}


STYLES = {"line": "-", "linux": "--", "published": ":"}
COSTS = {"line": ", no costs", "linux": ", this machine's costs", "published": ", published costs"}


def speed(row, quartile="median"):
    return row["bytes"] / 4 / row["seconds"][quartile] / 1e6


def measured(data, method):
    return [row for row in data["rows"] if row["method"] == method and "seconds" in row]


def draw(data, plt):
    figure, axes = plt.subplots(3, 1, figsize=(9, 18))
    draw_places(data, axes[2])
    for i, method in enumerate(METHODS):
        rows = measured(data, method.name)
        if not rows:
            continue
        axes[0].errorbar([r["workers"] for r in rows], [speed(r) for r in rows],
                         yerr=[[speed(r) - speed(r, "q3") for r in rows],
                               [speed(r, "q1") - speed(r) for r in rows]],
                         marker="o", markersize=3, capsize=2, color=f"C{i}", label=method.title)
        ahead = [r for r in rows if "predicted_s" in r]
        if ahead:
            axes[0].plot([r["workers"] for r in ahead],
                         [r["bytes"] / 4 / r["predicted_s"] / 1e6 for r in ahead], "x--",
                         color=f"C{i}", linewidth=0.8, label=f"{method.title}: simulator")
    ideal = [r for r in measured(data, RING.name) if r.get("ideal_s")]
    axes[0].plot([r["workers"] for r in ideal],
                 [r["bytes"] / 4 / r["ideal_s"] / 1e6 for r in ideal], ":", color="black",
                 label="an ideal ring over TCP (computed)")
    for method in (INT32, INT16):
        limits = [(r["workers"], r["bytes"] / 4 / r["limit_seconds"] / 1e6)
                  for r in measured(data, method.name)]
        axes[0].plot([at for at, _ in limits], [limit for _, limit in limits], "-.", color="gray",
                     linewidth=0.8, label="the limit of the links (computed)" if method is INT32 else None)
    axes[0].set(xlabel="workers", ylabel="million elements a second (median, quartiles)",
                ylim=(0, None),
                title=f"measured: links of {data['rate_mbit']} Mbit/s, {data['bytes'] / 1e6:g} MB")
    below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.12)}
    axes[0].legend(fontsize=8, ncols=2, **below)
    for i, rate in enumerate(SIMULATED_RATES):
        for model, style in STYLES.items():
            for wire, marker in (("int32", "o"), ("int16", "^")):
                rows = [r for r in data["simulated"] if (r["rate_mbit"], r["costs"], r["wire"])
                        == (rate, model, wire)]
                if not rows:
                    continue
                axes[1].plot([r["workers"] for r in rows], [r["elements_per_s"] / 1e6 for r in rows],
                             style, marker=marker, markersize=3, color=f"C{i}", linewidth=0.9,
                             label=f"{rate // 1000} Gbit/s, {wire}"
                             + COSTS[model])
    axes[1].set(xscale="log", yscale="log", xlabel="workers (above 64: a tree of 64 leaves)",
                ylabel="million elements a second", title="simulated")
    axes[1].legend(fontsize=8, ncols=2, **below)
    return figure


def draw_places(data, axis):
    rows = [row for row in data["places"] if "seconds" in row]
    for i, row in enumerate(rows):
        axis.barh(-i, speed(row), alpha=0.5, color=f"C{list(dict.fromkeys(r['place'] for r in rows)).index(row['place'])}",
                  xerr=[[speed(row) - speed(row, "q3")], [speed(row, "q1") - speed(row)]], capsize=2)
        axis.text(0.05, -i, f"{row['place']}: {row['title']}", va="center", fontsize=8)
    axis.set_yticks([])
    axis.set(xlabel="million elements a second (median, quartiles)",
             title=f"measured: {data['places'][0]['workers']} workers that share hosts, and in racks")


def facts(data):
    costs = data["costs"]
    yield (f"- CPU time measured here ({costs['workers']} workers, unshaped links): {costs['host_ns']} ns "
           f"for a packet and its result at a worker,\n  {costs['switch_ns']} ns for a packet at the switch.")
    yield (f"- Published costs: {data['published']['host_ns']} ns at each, that is {SENT_NS:.0f} ns to send and "
           f"{RECEIVED_NS:.0f} ns to receive 1,470 bytes with\n  UDP segmentation offload in software "
           "(2018, Linux commits bec1f6f69736, e20cf8d3f1f7).")
    counts = sorted({row["workers"] for row in data["rows"]})
    yield ("\n| million elements/s | " + " | ".join(f"{n} workers" for n in counts)
           + " |\n|---|" + len(counts) * "---:|")
    for method in METHODS:
        cells = []
        for n_workers in counts:
            row = next((r for r in measured(data, method.name) if r["workers"] == n_workers), None)
            if row is None:
                cells.append("not measured")
                continue
            cells.append(f"{speed(row):.2f} ({speed(row, 'q3'):.2f}–{speed(row, 'q1'):.2f})")
        yield f"| {method.title} | " + " | ".join(cells) + " |"
    yield ("| an ideal ring over TCP (computed) | " + " | ".join(
        f"{r['bytes'] / 4 / r['ideal_s'] / 1e6:.2f}" for r in measured(data, RING.name)) + " |")
    for title, seconds in (("simulator", "predicted_s"), ("limit of the links, computed", "limit_seconds")):
        yield (f"| {title}: int32, int16 | " + " | ".join(
            ", ".join(f"{r['bytes'] / 4 / r[seconds] / 1e6:.2f}" for method in (INT32, INT16)
                      for r in measured(data, method.name) if r["workers"] == n and seconds in r)
            for n in counts) + " |")
    most = counts[-1]
    ring, ours = (next((r for r in measured(data, method.name) if r["workers"] == most), None)
                  for method in (RING, INT16))
    if ring and ours:
        half = 2 * ring["bytes"] / 4 / ring["ideal_s"] / 1e6
        yield (f"\nAt the same width, an ideal ring of 16 bits reaches {half:.2f} with {most} workers, and int16 "
               f"through a switch is\n{speed(ours) / half:.2f} times as fast.")
    yield f"\n| {data['places'][0]['workers']} workers | million elements/s |\n|---|---:|"
    for row in data["places"]:
        found = f"{speed(row):.2f} ({speed(row, 'q3'):.2f}–{speed(row, 'q1'):.2f})" \
            if "seconds" in row else "not measured"
        yield f"| {row['place']}: {row['title']} | {found} |"
    far = [r for r in data["rows"] if "predicted_s" in r and "seconds" in r
           and abs(r["seconds"]["median"] / r["predicted_s"] - 1) > FAR]
    yield (f"\nMeasured times that differ from the simulator's by more than {100 * FAR:.0f} %: {len(far)} of "
           f"{sum('predicted_s' in r for r in data['rows'])}.")
