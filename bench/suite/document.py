# SPDX-License-Identifier: BSD-3-Clause
"""Puts what was measured into docs/performance.md, between two marks."""
import report
import targets

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HEADER = ("| | p50 ms | p99 ms | IQR % | Mbit/s | of limit % | x Gloo ring | CPU ms | busy % | sent kB "
          "| received kB |\n|---|" + 10 * "---:|")


def line_of(result, ring):
    name = result.entry.title()
    if result.failure:
        return f"| {name} | not measured: {result.failure} |" + 9 * " |"
    row = report.row_of(result, ring)
    times = f"{row['times_gloo_ring']:.2f}" if ring else "-"
    return (f"| {name} | {1e3 * row['p50_s']:.3f} | {1e3 * row['p99_s']:.3f} "
            f"| {report.percent(row['iqr_of_p50'])} | {row['goodput_bit_per_s'] / 1e6:.1f} "
            f"| {report.percent(row['share_of_limit'])} | {times} | {1e3 * row['cpu_s_a_call']:.2f} "
            f"| {report.percent(row['machine_busy'])} | {row['sent_bytes_a_call'] / 1e3:.1f} "
            f"| {row['received_bytes_a_call'] / 1e3:.1f} |")


def targets_table(results):
    yield "| | wanted | measured | |\n|---|---|---:|---|"
    for what, measured, how, target in targets.verdicts(results):
        if measured is None:
            yield f"| {what} | {how} {target:g} | | not measured |"
        else:
            verdict = "met" if targets.met(measured, how, target) else "**not met**"
            yield f"| {what} | {how} {target:g} | {measured:.2f} | {verdict} |"


def text_of(results, about):
    yield (f"{about['date'][:10]}, {about['cores']} cores ({about['cpu']}), Linux {about['kernel']}, TCP with "
           f"{about['tcp']}, at least {about['runs_at_least']} runs a row. **Links are emulated, and all "
           f"hosts share these {about['cores']} cores.** "
           + (f"The machine was not quiet (load {about['load']:.0f} before the first run): what is limited by "
              "the cores would be faster on one that is." if about["load"] > 1 else ""))
    yield ""
    yield from targets_table(results)
    for cell in dict.fromkeys(result.cell for result in results):
        rows = [result for result in results if result.cell is cell and not result.entry.rest]
        if rows:
            yield f"\n**{report.title(cell)}**\n\n{HEADER}"
            yield from (line_of(result, report.ring_time(rows)) for result in rows
                        if result.failure or result.times)


def write(results, about, path):
    with open(path, encoding="utf-8") as document:
        text = document.read()
    if BEGIN not in text or END not in text:
        return f"{path} has no {BEGIN} and {END}"
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as document:
        document.write(before + BEGIN + "\n" + "\n".join(text_of(results, about)) + "\n" + END + after)
    return ""
