# SPDX-License-Identifier: BSD-3-Clause
"""Writes targets and charts into docs/internals/performance.md, between two marks."""
import os

import provenance
import plot
import targets

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCKS = TABLE, CHART = "performance", "speed"
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
            f"{about['tcp']}, {provenance.commit_text(about)},\nat least {about['runs_at_least']} runs a row"
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


def keep(name, path, about):
    """Note the run of a block in numbers.json, if it is in the documents."""
    if os.path.realpath(path) == os.path.realpath(os.path.join(ROOT, provenance.BLOCKS[name][1])):
        provenance.keep(ROOT, name, about)


def chart(results, abouts, path):
    """README's chart. Returns an error text, or nothing."""
    why = plot.draw_short(results, path, plot.note(abouts[CHART]))
    if not why:
        keep(CHART, path, abouts[CHART])
    return why


def write(results, abouts, path):
    """path: docs/internals/performance.md. figures/ is beside its directory."""
    figure = os.path.join("..", "figures", os.path.basename(path).removesuffix(".md") + ".svg")
    folder = os.path.join(os.path.dirname(path), "..", "figures")
    os.makedirs(folder, exist_ok=True)
    about = abouts[TABLE]
    why = plot.draw(plot.speeds(results), os.path.join(os.path.dirname(path), figure), plot.note(about))
    if plot.short(results):
        why = why or chart(results, abouts, os.path.join(folder, "speed.svg"))
    failed = put("\n".join(page(results, about, "" if why else figure)), path)
    if not failed:
        keep(TABLE, path, about)
    return failed or why
