# SPDX-License-Identifier: BSD-3-Clause
"""Writes measurements into the documents, between two marks: targets and charts into
docs/performance.md, and the table of all rows into docs/performance-appendix.md beside it.
"""
import os

import plot
import report
import targets

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
HEADER = ("| | p50 ms | p99 ms | IQR % | Mbit/s | of limit % | x Gloo ring | CPU ms | of floor "
          "| busy % | sent kB | received kB |\n|---|" + 11 * "---:|")


def line_of(result, rows):
    name = result.entry.title()
    if result.failure:
        return f"| {name} | not measured: {result.failure} |" + 10 * " |"
    row = report.row_of(result, rows)
    times, floor = (f"{row[name]:.2f}" if row[name] else "-"
                    for name in ("times_gloo_ring", "cpu_over_floor"))
    return (f"| {name} | {1e3 * row['p50_s']:.3f} | {1e3 * row['p99_s']:.3f} "
            f"| {report.percent(row['iqr_of_p50'])} | {row['goodput_bit_per_s'] / 1e6:.1f} "
            f"| {report.percent(row['share_of_limit'])} | {times} | {1e3 * row['cpu_s_a_call']:.2f} "
            f"| {floor} | {report.percent(row['machine_busy'])} | {row['sent_bytes_a_call'] / 1e3:.1f} "
            f"| {row['received_bytes_a_call'] / 1e3:.1f} |")


def targets_table(results):
    yield "| | wanted | measured | |\n|---|---|---:|---|"
    for what, measured, how, target in targets.verdicts(results):
        if measured is None:
            yield f"| {what} | {how} {target:g} | | not measured |"
        else:
            verdict = "met" if targets.met(measured, how, target) else "**not met**"
            yield f"| {what} | {how} {target:g} | {measured:.2f} | {verdict} |"


def about_the_run(about):
    return (f"{about['date'][:10]}, {about['cores']} cores ({about['cpu']}), Linux {about['kernel']}, TCP with "
            f"{about['tcp']}, at least {about['runs_at_least']} runs a row.\n**Links are emulated, and all "
            f"hosts share these {about['cores']} cores.**"
            + (f"\nThe machine was not quiet (load {about['load']:.0f} before the first run):\nrows that are "
               "limited by the cores would be faster on a quiet one." if about["load"] > 1 else ""))


def page(results, about, figure):
    yield about_the_run(about)
    yield ""
    yield from targets_table(results)
    if figure:
        yield f"\n![Speed of each method relative to Gloo's ring]({figure})"


def appendix(results, about):
    yield about_the_run(about)
    for cell in dict.fromkeys(result.cell for result in results):
        rows = [result for result in results if result.cell is cell and not result.entry.rest]
        if rows:
            yield f"\n## {report.title(cell)}\n\n{HEADER}"
            yield from (line_of(result, rows) for result in rows
                        if result.failure or result.times)


def put(text, path):
    """Replace the text between the marks. Returns an error text, or nothing."""
    with open(path, encoding="utf-8") as document:
        old = document.read()
    if BEGIN not in old or END not in old:
        return f"{path} has no {BEGIN} and {END}"
    before, rest = old.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as document:
        document.write(before + BEGIN + "\n" + text + "\n" + END + after)
    return ""


def write(results, about, path):
    """path: docs/performance.md. Its appendix and figures/ are in the same directory."""
    stem, extension = os.path.splitext(path)
    figure = os.path.join("figures", os.path.basename(stem) + ".svg")
    folder = os.path.join(os.path.dirname(path), "figures")
    os.makedirs(folder, exist_ok=True)
    note = plot.note(about)
    why = plot.draw(plot.speeds(results), os.path.join(os.path.dirname(path), figure), note)
    if plot.short(results):
        why = why or plot.draw_short(results, os.path.join(folder, "speed.svg"), note)
    return (put("\n".join(page(results, about, "" if why else figure)), path)
            or put("\n".join(appendix(results, about)), f"{stem}-appendix{extension}") or why)
