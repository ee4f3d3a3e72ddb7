# SPDX-License-Identifier: BSD-3-Clause
"""Question 4: what loss costs, and what tickets and fast retransmission gain."""
import lab as common
from rows import INT32, NEITHER, NO_FAST, NO_TICKETS, RING, Entry
from table import Table

QUESTION = "How long does an all-reduce take when packets are lost?"
LOSSES = (0, 0.0001, 0.001, 0.01)
METHODS = {INT32: "ours", NO_TICKETS: "ours, no tickets", NO_FAST: "ours, no fast retransmission",
           NEITHER: "ours, neither (as in 2021)", RING: "Gloo's ring over TCP"}
NOT_KEPT = ("values",)


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
    table = {}
    for entry, row in zip(entries, lab.rows(n_workers, "100mbit", size, entries, lab.choose(4, 12, 2), offload=False)):
        table.setdefault(entry.method.name, {})[f"{entry.loss:g}"] = row
    return {"workers": n_workers, "rate_mbit": 100, "bytes": size, "tcp": lab.tcp,
            "simulated": {str(n): simulate(lab, n_workers, n) for n in (size, 10 * size)}, "rows": table}


def times(data, method, loss):
    """Milliseconds, or None."""
    found = data["rows"].get(method.name, {}).get(f"{loss:g}", {}).get("seconds")
    return found and [1e3 * found[name] for name in ("q1", "median", "q3")]


def facts(data):
    table = Table("ms", *(f"{100 * loss:g} % lost" for loss in LOSSES), digits=0, what="ms (median, quartiles)")
    for method, name in METHODS.items():
        table.add(name, *(times(data, method, loss) for loss in LOSSES))
    ahead = {(int(size), method): [1e3 * found[method.name][f"{loss:g}"] for loss in LOSSES]
             for size, found in data["simulated"].items() for method in (INT32, NO_TICKETS)}
    for (size, method), ms in ahead.items():
        table.add(f"simulator, {size / 1e6:g} MB: {METHODS[method]}", *(f"{value:.0f}" for value in ms))
    yield table
    yield (f"\nCalls of {data['bytes'] / 1e6:g} MB: median, and quartiles (TCP: {data['tcp']}).\n"
           "Simulated hosts and switches need no CPU time, and retransmit fast.")
    for size in map(int, data["simulated"]):
        on, off = (100 * ms[-1] / ms[0] - 100 for ms in (ahead[size, INT32], ahead[size, NO_TICKETS]))
        yield (f"There, {100 * LOSSES[-1]:g} % loss makes {size / 1e6:g} MB take {on:.1f} % longer with tickets, "
               f"{off:.1f} % without.")
