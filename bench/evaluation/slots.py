# SPDX-License-Identifier: BSD-3-Clause
"""Question 6: how many slots a job needs, simulated, and the rule for it."""
import lab as common
from table import Panel, Table

QUESTION = "How many slots does a job need, and what memory is that in a switch?"
# The register memory of 512 slots of 32 lanes, in two buffers: the largest pool of the paper.
PAPER_SLOTS, PAPER_LANES = 512, 32
# Mbit/s, and microseconds one way
SIMULATED = ((10_000, 10), (100_000, 10), (100_000, 40), (400_000, 10))
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
    count = lab.choose(SIMULATED_COUNT, SIMULATED_COUNT, 400_000)
    return {"lanes": common.PACKET_LANES,
            "simulated": [simulate(lab, SIMULATED_SLOTS, rate, delay, 2, count)
                          for rate, delay in lab.choose(SIMULATED, SIMULATED, SIMULATED[:1])]}


def shares(world):
    """{slots: share of the line's rate}, simulated."""
    return {row["slots"]: row["bit_per_s"] / world["line_bit_per_s"] for row in world["rows"]}


def enough(speeds, share=0.95):
    """The fewest slots with this share of the best speed."""
    return min(slots for slots, speed in speeds.items() if speed >= share * max(speeds.values()))


def title(world):
    return f"{world['rate_mbit'] // 1000} Gbit/s", f"{world['delay_us']} µs"


def drawn(data):
    def draw(axis):
        for i, world in enumerate(data["simulated"]):
            speeds = shares(world)
            axis.plot(speeds.keys(), speeds.values(), marker=".", color=f"C{i}", linewidth=2.5 - 0.5 * i,
                      label=", ".join(title(world)) + " one way")
            axis.axvline(world["rule"], color=f"C{i}", linestyle=":", linewidth=1)
        axis.set(xscale="log", xlabel="slots (dotted: delay times bandwidth)", ylabel="share of the line's rate",
                 ylim=(0, 1.05))
        axis.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.15))
    yield Panel(draw)


def facts(data):
    slot_bytes, paper_bytes = 2 * 4 * data["lanes"], PAPER_SLOTS * 2 * 4 * PAPER_LANES  # two buffers each
    table = Table("simulated link", "delay one way", "slots by the rule", "slots for 95 %", "memory", align="|")
    for world in data["simulated"]:
        needed, reached = enough(shares(world)), max(shares(world).values())
        note = "" if reached > 0.9 else f" (the best is {100 * reached:.0f} % of the link's rate)"
        table.add(*title(world), f"{world['rule']:.0f}", f"{needed}{note}", f"{needed * slot_bytes / 1024:.0f} KiB")
    yield table
    yield (f"\nA slot has two buffers of {data['lanes']} lanes, {slot_bytes} bytes.\n"
           f"The paper's largest pool, {PAPER_SLOTS} slots of {PAPER_LANES} lanes in two buffers, "
           f"has {paper_bytes // 1024} KiB.\nThat memory holds {paper_bytes // slot_bytes} of our slots.\n"
           "With fewer lanes in a packet, a switch needs the same memory for as many lanes in flight:\n"
           f"1 MiB of registers holds {2**20 // (2 * 4 * PAPER_LANES):,} slots of {PAPER_LANES} lanes.")
