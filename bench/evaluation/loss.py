# SPDX-License-Identifier: BSD-3-Clause
"""Question 4: what loss costs, and what tickets and fast retransmission gain."""
import json
import os
import statistics
import tempfile

import lab as common
import measure
from methods import SwitchML
from rows import INT32, NEITHER, NO_FAST, NO_TICKETS, RING, Entry

QUESTION = "How long does an all-reduce take when packets are lost?"
LOSSES = (0, 0.0001, 0.001, 0.01)
METHODS = {INT32: "ours", NO_TICKETS: "ours, no tickets", NO_FAST: "ours, no fast retransmission",
           NEITHER: "ours, neither (as in 2021)", RING: "Gloo's ring over TCP"}
# Titles, and what is off.
PANELS = {"tickets": ("tickets", ""), "no tickets": ("no tickets", "tickets=0"),
          "neither": ("neither (as in 2021)", "tickets=0,fastretransmit=0")}
PROGRESS_LOSS, PROGRESS_SLOTS = 0.01, 64
ONLY_DRAWN = ("slots", "values")


def slot_ends(path):
    """Of each slot in a rank's trace: the seconds at which its chunks were done."""
    with open(path, encoding="utf-8") as file:
        chunks = [event for event in json.load(file)["traceEvents"]
                  if event.get("name", "").startswith("chunk ")]
    if not chunks:
        raise common.Skipped(f"{path} has no chunks")
    begin, slots = min(event["ts"] for event in chunks), {}
    for event in sorted(chunks, key=lambda event: event["ts"] + event["dur"]):
        slots.setdefault(event["args"]["slot"], []).append((event["ts"] + event["dur"] - begin) / 1e6)
    return list(slots.values())


def progress(lab, n_workers, size_bytes, faults):
    """How rank 0's slots proceed in one call: when each of a slot's chunks was done."""
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.%r")
        method = SwitchML("ours-traced", "ours", SWITCHML_RECORD=f"trace:{trace}", SWITCHML_FAULTS=faults,
                          SWITCHML_SLOTS=str(PROGRESS_SLOTS))
        with lab.one(n_workers, "100mbit", size_bytes, Entry(method, PROGRESS_LOSS), offload=False) as (group, result):
            how = measure.Plan(0, 1, 1)
            measure.prepare(result.cell, group, how, 1)
            measure.take_turn(group, result.entry, how, 120, result)
        # The ranks have ended, and have written their traces.
        slots = slot_ends(trace.replace("%r", "0"))
    ends = [times[-1] for times in slots]
    # From the first slot that has nothing left to do until the end, a mean slot waits for so long.
    idle = statistics.mean(max(ends) - end for end in ends) / max(ends)
    return {"slots": slots, "seconds": max(ends), "first_slot_done_s": min(ends), "idle_share": idle,
            "chunks_min": min(map(len, slots)), "chunks_max": max(map(len, slots))}


def simulate(lab, n_workers, size_bytes):
    """What loss costs where hosts and the switch cost nothing: seconds by loss."""
    def one(loss, off):
        return lab.simulate(size_bytes // 4, loss_ppm=round(1e6 * loss), no_tickets=off,
                            n_ranks=n_workers, link_mbps=common.simulated_mbit(100))
    return {name: dict(zip((f"{loss:g}" for loss in LOSSES),
                           lab.on_all_cores(one, LOSSES, len(LOSSES) * [off])))
            for name, off in ((INT32.name, 0), (NO_TICKETS.name, 1))}


def run(lab):
    n_workers, size = lab.choose(4, 8, 2), lab.choose(2_000_000, 10_000_000, 200_000)
    entries = [Entry(method, loss) for loss in lab.choose(LOSSES, LOSSES, LOSSES[::3])
               for method in lab.choose(METHODS, METHODS, (INT32, NEITHER, RING))]
    table, steps = {}, {}
    for result in lab.compare(n_workers, "100mbit", size, entries, lab.choose(4, 12, 2), offload=False):
        table.setdefault(result.entry.method.name, {})[f"{result.entry.loss:g}"] = common.row_of(result)
    lab.say("progress of the slots")
    for name, (_, faults) in PANELS.items():
        steps[name] = [progress(lab, n_workers, size, faults) for _ in range(lab.choose(2, 5, 1))]
    return {"workers": n_workers, "rate_mbit": 100, "bytes": size, "tcp": lab.tcp,
            "simulated": {str(n): simulate(lab, n_workers, n) for n in (size, 10 * size)},
            "rows": table, "progress": steps, "progress_loss": PROGRESS_LOSS,
            "progress_slots": PROGRESS_SLOTS}


def times(data, method, loss):
    """Milliseconds: the first quartile, the median and the third, or None."""
    found = data["rows"].get(method.name, {}).get(f"{loss:g}", {}).get("seconds")
    return found and [1e3 * value for value in common.triple(found)]


def simulated(data, size_bytes, method):
    """Milliseconds by loss, or nothing."""
    found = data["simulated"][str(size_bytes)].get(method.name)
    return found and [1e3 * found[f"{loss:g}"] for loss in LOSSES]


def draw(data, plt):
    figure, named = plt.subplot_mosaic("AAA;BCD", figsize=(9, 8))
    first, *rest = named.values()
    for i, (method, name) in enumerate(METHODS.items()):
        points = {j + 0.16 * (i - 2): times(data, method, loss) for j, loss in enumerate(LOSSES)}
        points = {at: value for at, value in points.items() if value}
        common.bars(first, points.keys(), list(points.values()), 0.16, label=name)
        if ahead := simulated(data, data["bytes"], method):
            first.plot([j + 0.16 * (i - 2) for j in range(len(LOSSES))], ahead, "x", color="black",
                       label=None if i else "simulator: hosts without costs")
    first.set_xticks(range(len(LOSSES)), [f"{100 * loss:g} %" for loss in LOSSES])
    first.set(xlabel="packets lost on each way", ylabel="ms (median, quartiles)",
              title=f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['bytes'] / 1e6:g} MB")
    first.legend(fontsize=8)
    for axis, (name, runs) in zip(rest, data["progress"].items()):
        # The run of the median duration. It has hundreds of lines of thousands of steps.
        for ends in sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]["slots"]:
            axis.step([0] + ends, range(len(ends) + 1), where="post", linewidth=0.5, alpha=0.6, rasterized=True)
        axis.set(xlabel="seconds", ylabel="chunks that each slot has served",
                 title=f"{PANELS[name][0]}, {100 * data['progress_loss']:g} % lost")
    for axis in rest:
        axis.set_xlim(0, max(axis.get_xlim()[1] for axis in rest))
    return figure


def facts(data):
    yield common.header("ms", *(f"{100 * loss:g} % lost" for loss in LOSSES))
    for method, name in METHODS.items():
        found = [times(data, method, loss) for loss in LOSSES]
        yield common.row(name, *(common.between(v, 0) if v else "not measured" for v in found))
    ahead = {(int(size), method): simulated(data, size, method)
             for size in data["simulated"] for method in (INT32, NO_TICKETS)}
    for (size, method), ms in ahead.items():
        yield common.row(f"simulator, {size / 1e6:g} MB: {METHODS[method]}", *(f"{value:.0f}" for value in ms))
    yield (f"\nCalls of {data['bytes'] / 1e6:g} MB: median, and quartiles (TCP: {data['tcp']}).\n"
           "Simulated hosts and switches need no CPU time, and retransmit fast.")
    for size in map(int, data["simulated"]):
        on, off = (100 * ms[-1] / ms[0] - 100 for ms in (ahead[size, INT32], ahead[size, NO_TICKETS]))
        yield (f"There, {100 * LOSSES[-1]:g} % loss makes {size / 1e6:g} MB take {on:.1f} % longer with tickets, "
               f"{off:.1f} % without.")
    yield "\n" + common.header(f"{data['progress_slots']} slots, {100 * data['progress_loss']:g} % lost", "chunks per slot",
                               "idle at the end, mean of slots", "time")
    for name, runs in data["progress"].items():
        low, idle, high = (100 * share for share in common.quartiles([run["idle_share"] for run in runs]))
        yield common.row(name, f"{min(r['chunks_min'] for r in runs)}–{max(r['chunks_max'] for r in runs)}",
                         f"{idle:.1f} % ({low:.1f}–{high:.1f})",
                         f"{common.quartiles([run['seconds'] for run in runs])[1]:.3f} s")
