# SPDX-License-Identifier: BSD-3-Clause
"""Writes targets and charts into docs/performance.md, between two marks."""
import os

import plot
import targets

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def targets_table(results):
    yield "| | wanted | measured |\n|---|---|---:|"
    for what, measured, how, target in targets.verdicts(results):
        wanted = f"{'≥' if how == 'at least' else '≤'} {target:g}"
        if measured is None:
            yield f"| {what} | {wanted} | not measured |"
        else:
            bold = "" if targets.met(measured, how, target) else "**"
            yield f"| {what} | {wanted} | {bold}{measured:.2f}{bold} |"


def about_the_run(about):
    return (f"{about['date'][:10]}, {about['cores']} cores ({about['cpu']}), Linux {about['kernel']}, TCP with "
            f"{about['tcp']}, at least {about['runs_at_least']} runs a row"
            + (f"; load {about['load']:.0f} before the first run" if about["load"] > 1 else "")
            + f".\n**Links are emulated, and all hosts share these {about['cores']} cores.**")


def page(results, about, figure):
    yield about_the_run(about)
    yield ""
    yield from targets_table(results)
    if figure:
        yield f"\n![Speed of each method relative to Gloo's ring]({figure})"


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
    """path: docs/performance.md. figures/ is in the same directory."""
    figure = os.path.join("figures", os.path.basename(path).removesuffix(".md") + ".svg")
    folder = os.path.join(os.path.dirname(path), "figures")
    os.makedirs(folder, exist_ok=True)
    note = plot.note(about)
    why = plot.draw(plot.speeds(results), os.path.join(os.path.dirname(path), figure), note)
    if plot.short(results):
        why = why or plot.draw_short(results, os.path.join(folder, "speed.svg"), note)
    return put("\n".join(page(results, about, "" if why else figure)), path) or why
