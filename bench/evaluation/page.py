# SPDX-License-Identifier: BSD-3-Clause
"""Puts what was measured into documents, between marks, and checks that they still agree.

    <!-- paper NAME: begin -->
    ...
    <!-- paper NAME: end -->
"""
import json
import os
import re

MARK = re.compile(r"(<!-- paper (?P<name>[a-z-]+): begin -->\n)(?P<text>.*?)"
                  r"(<!-- paper (?P=name): end -->)", re.DOTALL)


def load(folder, name):
    path = os.path.join(folder, f"{name}.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def about_line(about):
    """The run behind a figure, in a sentence."""
    form = "the full form" if about["form"] == "full" else "**the quick form only**"
    busy = ""
    if about.get("others", 0) > 0.05:
        busy = f"; other work took {100 * about['others']:.0f} % of the cores just before"
    elif "others" not in about and about["load"] > 1:  # older runs; the run before counts, too
        busy = f" (load average {about['load']:.1f} as it began)"
    changed = ", with changes" if about["changed"] else ""
    return (f"Run on {about['date'][:16]} UTC in {form}, on {about['cores']} cores "
            f"({about['cpu']}), Linux {about['kernel']},\ncommit {about['commit']}{changed}{busy}.")


def section(name, experiment, folder, figures):
    """The generated lines of a figure."""
    kept = load(folder, name)
    if kept is None:
        return "Not measured yet.\n"
    lines = [f"![{experiment.QUESTION}]({figures}/{name}.svg)", "",
             f"`{kept['about']['command']}` ([numbers]({figures}/{name}.json)).",
             about_line(kept["about"]), "", *experiment.facts(kept["data"])]
    return "\n".join(lines) + "\n"


def rewrite(text, experiments, folder, figures):
    def replace(match):
        name = match["name"]
        if name.startswith("readme-"):
            name = name.removeprefix("readme-")
            kept = load(folder, name)
            line = "\n".join(experiments[name].headline(kept["data"])) if kept else "Not measured."
            body = f"{line}\n\n![{experiments[name].QUESTION}]({figures}/{name}.svg)\n" \
                if kept else line + "\n"
        else:
            body = section(name, experiments[name], folder, figures)
        return match[1] + body + match[4]
    return MARK.sub(replace, text)


def pages(root):
    """Documents with marks, and where figures are from there."""
    return [(os.path.join(root, "docs", "paper.md"), "figures/paper"),
            (os.path.join(root, "README.md"), "docs/figures/paper")]


def write(root, experiments):
    folder = os.path.join(root, "docs", "figures", "paper")
    for path, figures in pages(root):
        with open(path, encoding="utf-8") as file:
            old = file.read()
        new = rewrite(old, experiments, folder, figures)
        if new != old:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)


def disagreements(root, experiments):
    """What in the documents or figures does not come from the numbers that are kept."""
    folder = os.path.join(root, "docs", "figures", "paper")
    for path, figures in pages(root):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if rewrite(text, experiments, folder, figures) != text:
            yield f"{path} differs from the JSON files: bench/paper --document"
        if path.endswith("paper.md"):
            shown = {match["name"] for match in MARK.finditer(text)}
            for name in experiments.keys() - shown:
                yield f"{path} does not show {name}"
    for name in experiments:
        kept, drawn = load(folder, name), os.path.join(folder, f"{name}.svg")
        if kept is None:
            continue
        if not os.path.exists(drawn):
            yield f"{drawn} is missing: bench/paper --draw --document"
            continue
        with open(drawn, encoding="utf-8") as file:
            if kept["about"]["stamp"] not in file.read():
                yield f"{drawn} was drawn from another run than its JSON: bench/paper --draw --document"
