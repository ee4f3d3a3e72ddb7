# SPDX-License-Identifier: BSD-3-Clause
"""Question 6: how many slots a job needs, measured and simulated, and the rule for it."""
import lab as common
from methods import SwitchML
from rows import Entry

QUESTION = "How many slots does a job need, and what memory is that in a switch?"
# The register memory of 512 slots of 32 lanes, in two buffers: the largest pool of the paper.
PAPER_SLOTS, PAPER_LANES = 512, 32
# Mbit/s, and microseconds one way
SIMULATED = ((10_000, 10), (100_000, 10), (100_000, 40), (400_000, 10))
STYLES = ("-", "-", "-", "--")  # the last two curves lie on each other
SIMULATED_SLOTS = tuple(2 ** i for i in range(11))
SIMULATED_COUNT = 4_000_000


def slots_needed(rate_mbit, rtt_s, packet_bits):
    return rate_mbit * 1e6 * rtt_s / packet_bits


def simulate(lab, counts, rate, delay, n_workers, count):
    packet_bits = 8 * (common.PACKET_BYTES + common.SIMULATED_BYTES)
    chunks = -(-count // common.PACKET_LANES)

    def one(slots):
        seconds = lab.simulate(count, n_ranks=n_workers, data_slots=slots, link_mbps=rate,
                               delay_us=delay)
        return {"slots": slots, "seconds": seconds, "bit_per_s": 32 * count / seconds}
    rows = lab.on_all_cores(one, counts)
    # A packet is sent, and its result: each enters a link and leaves it after the delay.
    rtt = 2 * delay * 1e-6 + 2 * packet_bits / (rate * 1e6)
    line = rate * 1e6 * 32 * common.PACKET_LANES / packet_bits
    return {"rate_mbit": rate, "delay_us": delay, "rtt_s": rtt, "chunks": chunks, "rows": rows,
            "line_bit_per_s": line, "rule": slots_needed(rate, rtt, packet_bits)}


def run(lab):
    counts = [2 ** i for i in range(lab.choose(9, 11, 3))]
    n_workers, size = 4, lab.choose(1_000_000, 4_000_000, 200_000)
    methods = [SwitchML(f"ours-slots{n}", f"ours, {n} slots", SWITCHML_SLOTS=str(n))
               for n in counts]
    found = lab.rows(n_workers, "100mbit", size, map(Entry, methods), lab.choose(6, 12, 2))
    rows = [{"slots": n, **row} for n, row in zip(counts, found)]
    lab.say("simulating")
    count = lab.choose(SIMULATED_COUNT, SIMULATED_COUNT, 400_000)
    emulated = simulate(lab, counts, common.simulated_mbit(100), 10, n_workers, size // 4)
    return {"workers": n_workers, "lanes": common.PACKET_LANES, "rate_mbit": 100, "bytes": size, "rows": rows,
            "predicted": emulated,
            "simulated": [simulate(lab, SIMULATED_SLOTS, rate, delay, 2, count)
                          for rate, delay in lab.choose(SIMULATED, SIMULATED, SIMULATED[:1])]}


def measured(data):
    """{slots: Mbit/s of elements}"""
    return {row["slots"]: common.rates(row["seconds"], 8 * row["bytes"] / 1e6)
            for row in data["rows"] if "seconds" in row}


def enough(speeds, share=0.95):
    """The fewest slots with this share of the best speed."""
    return min(slots for slots, speed in speeds.items() if speed >= share * max(speeds.values()))


def draw(data, plt):
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2))
    points = measured(data)
    common.line(left, points.keys(), list(points.values()), marker="o", capsize=3, label="measured (median, quartiles)")
    rows = data["predicted"]["rows"]
    left.plot([r["slots"] for r in rows], [r["bit_per_s"] / 1e6 for r in rows], "--", label="simulator, 10 µs one way")
    left.set(xscale="log", xlabel="slots", ylabel="Mbit/s of elements", ylim=(0, None),
             title=f"{data['workers']} workers, links of {data['rate_mbit']} Mbit/s (emulated)")
    for i, world in enumerate(data["simulated"]):
        right.plot([r["slots"] for r in world["rows"]],
                   [r["bit_per_s"] / world["line_bit_per_s"] for r in world["rows"]],
                   marker=".", color=f"C{i}", linestyle=STYLES[i], linewidth=2.5 - 0.5 * i,
                   label=f"{world['rate_mbit'] // 1000} Gbit/s, {world['delay_us']} µs one way")
        right.axvline(world["rule"], color=f"C{i}", linestyle=":", linewidth=1)
    right.set(xscale="log", xlabel="slots (dotted: delay times bandwidth)", ylabel="share of the line's rate",
              ylim=(0, 1.05), title="the simulator on faster links")
    left.legend()
    right.legend(fontsize=8)
    return figure


def facts(data):
    slot_bytes, paper_bytes = 2 * 4 * data["lanes"], PAPER_SLOTS * 2 * 4 * PAPER_LANES  # two buffers each
    points = {slots: speed[1] for slots, speed in measured(data).items()}
    if points:
        one = 8 * data["bytes"] / points[min(points)] / 1e6 / data["predicted"]["chunks"]
        needed = slots_needed(data["rate_mbit"], one, 8 * (common.PACKET_BYTES + common.EMULATED_BYTES))
        fewest = enough(points)
        yield (f"- Measured at {data['rate_mbit']} Mbit/s: one slot takes {1e6 * one:.0f} µs for a "
               f"packet and its result, so the rule wants {needed:.1f} slots;\n"
               f"  {fewest} slot{'s reach' if fewest > 1 else ' reaches'} 95 % of the best speed "
               "(an emulated link passes bursts of up to 72 KiB at once).")
    yield "\n| simulated link | delay one way | slots by the rule | slots for 95 % | memory |\n" + "|---:" * 5 + "|"
    for world in data["simulated"]:
        speeds = {r["slots"]: r["bit_per_s"] / world["line_bit_per_s"] for r in world["rows"]}
        needed, reached = enough(speeds), max(speeds.values())
        note = "" if reached > 0.9 else f" (the best is {100 * reached:.0f} % of the link's rate)"
        yield common.row(f"{world['rate_mbit'] // 1000} Gbit/s", f"{world['delay_us']} µs", f"{world['rule']:.0f}",
                         f"{needed}{note}", f"{needed * slot_bytes / 1024:.0f} KiB")
    yield (f"\nA slot has two buffers of {data['lanes']} lanes, {slot_bytes} bytes.\n"
           f"The paper's largest pool, {PAPER_SLOTS} slots of {PAPER_LANES} lanes in two buffers, "
           f"has {paper_bytes // 1024} KiB.\nThat memory holds {paper_bytes // slot_bytes} of our slots.\n"
           "With fewer lanes in a packet, a switch needs the same memory for as many lanes in flight:\n"
           f"1 MiB of registers holds {2**20 // (2 * 4 * PAPER_LANES):,} slots of {PAPER_LANES} lanes.")
