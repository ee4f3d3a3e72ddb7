# SPDX-License-Identifier: BSD-3-Clause
"""The table and the JSON file."""
import json
import os
import platform
import time

import targets
from methods import MTU
from rows import RATES

COLUMNS = (f"{'':44} {'p50':>9} {'p99':>9} {'IQR':>5} {'speed':>8} {'of':>6} {'x Gloo':>7}"
           f" {'CPU':>8} {'busy':>5} {'sent':>9} {'received':>9} {'drops':>6}\n"
           f"{'':44} {'ms':>9} {'ms':>9} {'%':>5} {'Mbit/s':>8} {'limit':>6} {'ring':>7}"
           f" {'ms':>8} {'%':>5} {'kB':>9} {'kB':>9} {'a call':>6}")


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if "model name" in line), "?")
    return {"date": time.strftime("%Y-%m-%d %H:%M:%S %z"), "kernel": platform.release().split("-")[0],
            "cpu": model, "cores": os.cpu_count(), "load": os.getloadavg()[0]}


def title(cell):
    rate = {"100mbit": "100 Mbit/s emulated", "1gbit": "1 Gbit/s emulated",
            "unshaped": "links unshaped (as fast as the cores)"}[cell.rate]
    workers = f"{cell.n_workers} workers" + (
        " on one host" if cell.n_workers == cell.per_host else
        f" on {cell.n_workers // cell.per_host} hosts" if cell.per_host > 1 else "")
    if cell.n_workers == cell.per_host:
        rate = "no links"
    return (f"{workers}, {rate}, MTU {MTU}, {cell.name().split('/')[3]}"
            + ("" if cell.offload else ", segmentation offload off"))


def ring_of(results):
    """The row of Gloo's ring among these, or None."""
    return next((result for result in results
                 if result.entry.name() in ("gloo-ring", "gloo-ring-float16")), None)


def ring_time(results):
    ring = ring_of(results)
    return ring.p50() if ring and ring.times and not ring.failure else None


def beside_ring(results):
    """Of each cell with Gloo's ring: (cell, [[title, speed relative to it], ...]) of plain all-reduces."""
    for cell in dict.fromkeys(result.cell for result in results):
        rows = [r for r in results if r.cell is cell and r.times and not r.failure
                and not r.entry.rest and not r.entry.loss and r.entry.pieces == 1]
        ring = ring_time(rows)
        if ring:
            yield cell, [[r.entry.title(), ring / r.p50()] for r in rows]


def row_of(result, results):
    """All numbers of a row among those of its cell, for the tables and for JSON."""
    cell, ring, p50 = result.cell, ring_time(results), result.p50()
    limit = cell.limit_seconds(result.entry.method)
    return {
        "p50_s": p50, "p99_s": result.quantile(0.99),
        "iqr_of_p50": result.spread(), "runs": len(result.times),
        "goodput_bit_per_s": 8 * cell.size_bytes / p50,
        "limit_s": limit or None, "share_of_limit": limit / p50 if limit else None,
        "times_gloo_ring": ring / p50 if ring else None,
        "cpu_s_a_call": result.cpu_a_call(),
        # /proc/stat counts hundredths of a second, so shorter times are not reported.
        "machine_busy": result.busy / result.elapsed / os.cpu_count() if result.elapsed > 1 else None,
        **{f"{name}_a_call": total / result.calls for name, total in result.wire.items()},
        "wrong_elements": result.wrong,
    }


def percent(share):
    return f"{100 * share:.1f}" if share is not None else "-"


def print_cell(cell, results):
    ring = ring_time(results)
    print(f"\n{title(cell)}\n{COLUMNS}")
    for result in results:
        name = result.entry.title()
        if result.failure:
            print(f"{name:44} not measured: {result.failure}")
        elif result.entry.rest:
            print(f"{name:44} {1e3 * result.cpu_ranks / result.elapsed / cell.n_workers:.3f} ms of "
                  "CPU a second and worker, "
                  f"{1e3 * result.cpu_others / result.elapsed:.3f} ms the switch")
        elif result.times:
            row = row_of(result, results)
            times = f"{row['times_gloo_ring']:.2f}" if ring else "-"
            print(f"{name:44} {1e3 * row['p50_s']:9.3f} {1e3 * row['p99_s']:9.3f}"
                  f" {percent(row['iqr_of_p50']):>5} {row['goodput_bit_per_s'] / 1e6:8.1f}"
                  f" {percent(row['share_of_limit']):>6} {times:>7} {1e3 * row['cpu_s_a_call']:8.2f}"
                  f" {percent(row['machine_busy']):>5} {row['sent_a_call'] / 1e3:9.1f}"
                  f" {row['received_a_call'] / 1e3:9.1f} {row['dropped_a_call']:6.1f}")
    # Below that size, latency dominates, and a bound on bytes says nothing about it.
    if RATES[cell.rate] and cell.size_bytes >= 65536 and ring_of(results):
        bound = cell.limit_seconds(ring_of(results).entry.method)
        times = f"{ring / bound:.2f}" if ring else "-"
        print(f"{'an ideal ring over TCP (computed)':44} {1e3 * bound:9.3f} {'':9} {'':5}"
              f" {8 * cell.size_bytes / bound / 1e6:8.1f} {'100.0':>6} {times:>7}")


def to_json(results, about):
    rows = []
    for result in results:
        cell, entry = result.cell, result.entry
        row = {"row": f"{cell.name()}/{entry.name()}", "method": entry.method.name,
               "workers": cell.n_workers, "workers_per_host": cell.per_host, "rate_mbit": RATES[cell.rate] or None,
               "emulated": True, "mtu": MTU, "offload": cell.offload,
               "size_bytes": cell.size_bytes, "loss_each_way": entry.loss,
               "pieces": entry.pieces, "idle": entry.rest}
        if result.failure:
            row["not_measured"] = result.failure
        elif entry.rest:
            row["cpu_s_a_second_a_worker"] = result.cpu_ranks / result.elapsed / cell.n_workers
            row["cpu_s_a_second_switch"] = result.cpu_others / result.elapsed
        elif result.times:
            of_cell = [other for other in results if other.cell is cell]
            row.update(row_of(result, of_cell), times_s=result.times)
        rows.append(row)
    return {**about, "rows": rows, "targets": targets.to_json(results)}


def write_json(results, about, path):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(to_json(results, about), out, indent=1)
        out.write("\n")
