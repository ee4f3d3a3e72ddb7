# SPDX-License-Identifier: BSD-3-Clause
"""Question 4: what loss costs, and what tickets and fast retransmission gain."""
import json
import os
import shutil
import statistics
import tempfile

import lab as common
import measure
from methods import SwitchML
from rows import INT32, NEITHER, NO_FAST, NO_TICKETS, RING, Cell, Entry

QUESTION = "How long does an all-reduce take when packets are lost?"
LOSSES = (0, 0.0001, 0.001, 0.01)
METHODS = (INT32, NO_TICKETS, NO_FAST, NEITHER, RING)
NAMES = {INT32.name: "ours", NO_TICKETS.name: "ours, no tickets",
         NO_FAST.name: "ours, no fast retransmission",
         NEITHER.name: "ours, neither (as in 2021)", RING.name: "Gloo's ring over TCP"}
PANELS = {"tickets": "tickets", "no tickets": "no tickets", "neither": "neither (as in 2021)"}
PROGRESS_LOSS = 0.01
PROGRESS_SLOTS = 64
ONLY_DRAWN = ("slots", "values")


def slot_ends(path):
    """{slot: [seconds at which its chunks were done]} of a rank's trace."""
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    chunks = [event for event in events if event.get("name", "").startswith("chunk ")]
    if not chunks:
        raise common.Skipped(f"{path} has no chunks")
    begin = min(event["ts"] for event in chunks)
    slots = {}
    for event in sorted(chunks, key=lambda event: event["ts"] + event["dur"]):
        end = (event["ts"] + event["dur"] - begin) / 1e6
        slots.setdefault(event["args"]["slot"], []).append(end)
    return slots


def progress(lab, n_workers, size_bytes, faults):
    """How rank 0's slots proceed in one call: when each of a slot's chunks was done."""
    folder = tempfile.mkdtemp(prefix=common.PREFIX)
    trace = os.path.join(folder, "trace.%r")
    method = SwitchML("ours-traced", "ours", SWITCHML_RECORD=f"trace:{trace}", SWITCHML_FAULTS=faults,
                      SWITCHML_SLOTS=str(PROGRESS_SLOTS))
    cell = Cell(n_workers, "100mbit", 1500, size_bytes, (Entry(method, PROGRESS_LOSS),),
                offload=False)
    with lab.star(n_workers, 100, method.switches(), offload=False) as (star, work):
        with lab.groups(star, work, [method]) as groups:
            group = groups[method]
            if isinstance(group, Exception):
                raise common.Skipped(str(group))
            result = measure.Result(cell, cell.entries[0])
            how = measure.Plan(0, 1, 1)
            measure.prepare(cell, group, how, 1)
            measure.take_turn(group, cell.entries[0], how, 120, result)
        # The ranks have ended, and have written their traces.
        slots = slot_ends(trace.replace("%r", "0"))
    shutil.rmtree(folder)
    ends = [times[-1] for times in slots.values()]
    # From the first slot that has nothing left to do until the end, a mean slot waits for so long.
    idle = statistics.mean(max(ends) - end for end in ends) / max(ends)
    return {"slots": list(slots.values()), "seconds": max(ends), "first_slot_done_s": min(ends),
            "idle_share": idle, "chunks_min": min(map(len, slots.values())),
            "chunks_max": max(map(len, slots.values()))}


def simulate(lab, n_workers, size_bytes):
    """What loss costs where hosts and the switch cost nothing: seconds by loss."""
    def one(loss, off):
        return lab.simulate(size_bytes // 4, loss_ppm=round(1e6 * loss), no_tickets=off,
                            n_ranks=n_workers, link_mbps=common.simulated_mbit(100))
    return {name: dict(zip((f"{loss:g}" for loss in LOSSES),
                           lab.on_all_cores(one, LOSSES, len(LOSSES) * [off])))
            for name, off in ((INT32.name, 0), (NO_TICKETS.name, 1))}


def run(lab):
    n_workers = lab.choose(4, 8, 2)
    size = lab.choose(2_000_000, 10_000_000, 200_000)
    runs = lab.choose(4, 12, 2)
    entries = [Entry(method, loss) for loss in lab.choose(LOSSES, LOSSES, LOSSES[::3])
               for method in lab.choose(METHODS, METHODS, (INT32, NEITHER, RING))]
    found = lab.compare(n_workers, "100mbit", size, entries, runs, offload=False)
    table = {}
    for result in found:
        row = common.row_of(result)
        table.setdefault(result.entry.method.name, {})[f"{result.entry.loss:g}"] = row
    lab.say("progress of the slots")
    steps = {}
    for name, faults in (("tickets", ""), ("no tickets", "tickets=0"),
                         ("neither", "tickets=0,fastretransmit=0")):
        steps[name] = [progress(lab, n_workers, size, faults)
                       for _ in range(lab.choose(2, 5, 1))]
    return {"workers": n_workers, "rate_mbit": 100, "bytes": size, "tcp": lab.tcp,
            "simulated": {str(n): simulate(lab, n_workers, n) for n in (size, 10 * size)},
            "rows": table, "progress": steps, "progress_loss": PROGRESS_LOSS,
            "progress_slots": PROGRESS_SLOTS}


def times(data, method, loss):
    """Milliseconds: the first quartile, the median and the third, or None."""
    row = data["rows"].get(method, {}).get(f"{loss:g}")
    if not row or "seconds" not in row:
        return None
    return [1e3 * row["seconds"][q] for q in ("q1", "median", "q3")]


def simulated(data, size_bytes, method):
    """Milliseconds by loss, or nothing."""
    found = data.get("simulated", {}).get(str(size_bytes), {}).get(method, {})
    return [1e3 * found[f"{loss:g}"] for loss in LOSSES] if found else []


def typical(runs):
    """The run of the median duration."""
    return sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]


def draw(data, plt):
    figure, named = plt.subplot_mosaic("AAA;BCD", figsize=(9, 8))
    axes = list(named.values())
    width = 0.16
    for i, method in enumerate(METHODS):
        points = [(j, times(data, method.name, loss)) for j, loss in enumerate(LOSSES)]
        points = [(j, value) for j, value in points if value]
        if not points:
            continue
        at = [j + (i - 2) * width for j, _ in points]
        axes[0].bar(at, [v[1] for _, v in points], width,
                    yerr=[[v[1] - v[0] for _, v in points], [v[2] - v[1] for _, v in points]],
                    capsize=2, label=NAMES[method.name])
        ahead = simulated(data, data["bytes"], method.name)
        if ahead:
            axes[0].plot([j + (i - 2) * width for j in range(len(LOSSES))], ahead, "x",
                         color="black",
                         label="simulator: hosts without costs" if i == 0 else None)
    axes[0].set_xticks(range(len(LOSSES)), [f"{100 * loss:g} %" for loss in LOSSES])
    axes[0].set(xlabel="packets lost on each way", ylabel="ms (median, quartiles)",
                title=f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, "
                f"{data['bytes'] / 1e6:g} MB")
    axes[0].legend(fontsize=8)
    for axis, name in zip(axes[1:], data["progress"]):
        run = typical(data["progress"][name])
        for ends in run["slots"]:
            axis.step([0] + ends, range(len(ends) + 1), where="post", linewidth=0.5, alpha=0.6,
                      rasterized=True)  # hundreds of lines of thousands of steps
        axis.set(xlabel="seconds", ylabel="chunks that each slot has served",
                 title=f"{PANELS[name]}, {100 * data['progress_loss']:g} % lost", xlim=(0, None))
    limit = max(axis.get_xlim()[1] for axis in axes[1:])
    for axis in axes[1:]:
        axis.set_xlim(0, limit)
    return figure


def without_costs(data):
    """What the simulator says of loss itself."""
    if data.get("simulated"):
        yield "Simulated hosts and switches need no CPU time, and retransmit fast."
    for size in data.get("simulated", {}):
        on, off = (simulated(data, int(size), method.name) for method in (INT32, NO_TICKETS))
        yield (f"There, {100 * LOSSES[-1]:g} % loss makes {int(size) / 1e6:g} MB take "
               f"{100 * on[-1] / on[0] - 100:.1f} % longer with tickets, "
               f"{100 * off[-1] / off[0] - 100:.1f} % without.")


def facts(data):
    yield ("| ms | " + " | ".join(f"{100 * loss:g} % lost" for loss in LOSSES)
           + " |\n|---|" + len(LOSSES) * "---:|")
    for method in METHODS:
        cells = []
        for loss in LOSSES:
            found = times(data, method.name, loss)
            cells.append(f"{found[1]:.0f} ({found[0]:.0f}–{found[2]:.0f})" if found
                         else "not measured")
        yield f"| {NAMES[method.name]} | " + " | ".join(cells) + " |"
    for size in data.get("simulated", {}):
        for method in METHODS:
            ahead = simulated(data, int(size), method.name)
            if ahead:
                yield (f"| simulator, {int(size) / 1e6:g} MB: {NAMES[method.name]} | "
                       + " | ".join(f"{value:.0f}" for value in ahead) + " |")
    yield (f"\nCalls of {data['bytes'] / 1e6:g} MB: median, and quartiles (TCP: {data['tcp']}).")
    yield from without_costs(data)
    yield ""
    yield (f"| {data['progress_slots']} slots, {100 * data['progress_loss']:g} % lost | chunks per slot "
           "| idle at the end, mean of slots | time |")
    yield "|---|---:|---:|---:|"
    for name, runs in data["progress"].items():
        time = common.summary([run["seconds"] for run in runs])
        idle = common.summary([run["idle_share"] for run in runs])
        yield (f"| {name} | {min(r['chunks_min'] for r in runs)}–"
               f"{max(r['chunks_max'] for r in runs)} | {100 * idle['median']:.1f} % "
               f"({100 * idle['q1']:.1f}–{100 * idle['q3']:.1f}) | {time['median']:.3f} s |")
