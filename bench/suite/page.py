# SPDX-License-Identifier: BSD-3-Clause
"""Puts what was measured into documents, between marks, and checks that they still agree.

    <!-- paper NAME: begin -->
    ...
    <!-- paper NAME: end -->

docs/figures/paper/ keeps the figures, and in numbers.json the numbers that the documents quote.
The rest of what was measured stays where the experiments wrote it.
"""
import json
import os
import re
import shutil
import textwrap

import table

from provenance import NUMBERS, commit_text, holds_text, load, save

MARK = re.compile(r"(<!-- paper (?P<name>[a-z-]+): begin -->\n)(?P<text>.*?)"
                  r"(<!-- paper (?P=name): end -->)", re.DOTALL)
FIGURES = "../figures/paper"  # from docs/internals/paper.md
LARGEST_FIGURE = 150_000  # bytes: a clone carries every figure that ever was


def compact(value, not_kept=()):
    """The same without the members of these names, and with no more digits than a text shows."""
    if isinstance(value, dict):
        return {key: compact(one, not_kept) for key, one in value.items()
                if key not in not_kept}
    if isinstance(value, list):
        return [compact(one, not_kept) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def keep(root, experiments, measured):
    """Take these experiments' figures and numbers from where they were measured."""
    folder = os.path.join(root, "docs", "figures", "paper")
    kept = load(root)
    for name, experiment in experiments.items():
        path = os.path.join(measured, f"{name}.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                new = compact(json.load(file), getattr(experiment, "NOT_KEPT", ()))
            if kept.get(name, new)["about"]["stamp"] == new["about"]["stamp"]:
                new["about"] = kept.get(name, new)["about"]  # with why it holds, if it was not measured again
            kept[name] = new
            shutil.copy(os.path.join(measured, f"{name}.svg"), folder)
    save(root, kept)


def about_line(about):
    """The run behind a figure, in a sentence. The figure names the machine, too."""
    form = "" if about["form"] == "full" else ", **the quick form only**"
    busy = ""
    if about.get("others", 0) > 0.05:
        busy = f"; other work took {100 * about['others']:.0f} % of the cores just before"
    holds = ";\n" * ("holds" in about) + textwrap.fill(holds_text(about), 118)
    return f"`{about['command']}`, {about['date'][:10]}, {commit_text(about)}{form}{busy}{holds}."


def section(name, experiment, kept):
    """The generated lines of a figure."""
    if kept is None:
        return "Not measured yet.\n"
    lines = [experiment.QUESTION, "", f"![{name}]({FIGURES}/{name}.svg)", "",
             about_line(kept["about"]), "", *table.lines(experiment.facts(kept["data"]))]
    return "\n".join(lines) + "\n"


def rewrite(text, experiments, numbers):
    def replace(match):
        name = match["name"].removeprefix("readme-")
        kept, experiment = numbers.get(name), experiments[name]
        if name == match["name"]:
            return match[1] + section(name, experiment, kept) + match[4]
        lines = experiment.headline(kept["about"], kept["data"]) if kept else ["Not measured."]
        return match[1] + "\n".join(lines) + "\n" + match[4]
    return MARK.sub(replace, text)


def pages(root):
    """Names and texts of documents with marks."""
    for name in ("docs/internals/paper.md", "docs/internals/performance.md", "README.md"):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            yield name, file.read()


def write(root, experiments):
    numbers = load(root)
    for name, old in pages(root):
        new = rewrite(old, experiments, numbers)
        if new != old:
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(new)


def disagreements(root, experiments):
    """What in the documents or figures does not come from the numbers that are kept."""
    numbers, shown = load(root), set()
    for name, text in pages(root):
        shown |= {match["name"].removeprefix("readme-") for match in MARK.finditer(text)}
        if rewrite(text, experiments, numbers) != text:
            yield f"{name} differs from {NUMBERS}: bench/paper --document"
    for name in experiments:
        drawn = f"docs/figures/paper/{name}.svg"
        if name not in shown:
            yield f"no page shows {name}"
        if name not in numbers or not os.path.exists(os.path.join(root, drawn)):
            yield f"{drawn} is missing, or its numbers: bench/paper --only {name} --document"
            continue
        with open(os.path.join(root, drawn), encoding="utf-8") as file:
            figure = file.read()
        if numbers[name]["about"]["stamp"] not in figure:
            yield f"{drawn} was drawn from another run than {NUMBERS}: bench/paper --document"
        if len(figure) > LARGEST_FIGURE:
            yield f"{drawn} has {len(figure)} bytes; at most {LARGEST_FIGURE} are wanted"
