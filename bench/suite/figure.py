# SPDX-License-Identifier: BSD-3-Clause
"""One style for every figure of the documents, and SVG files that are small and always the same.

Only a Python that has matplotlib can draw (Debian: python3-matplotlib), and that need not be the
one that measures: draw() runs this program, figure.py NAME FILE.json FILE.svg.
"""
import importlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap

from table import Table

OURS, OTHERS, LOSES, HALF = "#1b6ca8", "#9aa5b1", "#d1495b", "#e9a03b"
# Inches: all of a page's. A page of 880 pixels shows text of 7 points with 9 pixels then.
WIDTH, LEAST_POINTS = 9, 7
# As many as the figure with the most lines has.
PALETTE = [OURS, HALF, "#5b8e7d", LOSES, "#7d5ba6", "#8a6f4d", "#c66b9a", OTHERS]
NO_MATPLOTLIB = "there is no matplotlib (Debian: python3-matplotlib)"


def python_with(modules, *pythons):
    """The first of these commands that has the modules, or None."""
    for python in filter(None, pythons):
        if subprocess.run([python, "-c", f"import {modules}"], check=False, capture_output=True).returncode == 0:
            return python
    return None


def draw(name, numbers, target):
    """Draw a kept experiment from a JSON file into an SVG file. Returns an error text, or nothing."""
    python = python_with("matplotlib", sys.executable, "/usr/bin/python3")
    if python is None:
        return NO_MATPLOTLIB
    done = subprocess.run([python, __file__, name, numbers, target], check=False, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def begin():
    """matplotlib's pyplot, in our style."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    # Text stays text, and the same numbers make the same file.
    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "switchml", "font.size": 9, "axes.titlesize": 10,
        "axes.grid": True, "grid.alpha": 0.3, "axes.axisbelow": True, "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": matplotlib.cycler(color=PALETTE)})
    return pyplot


def smaller(text):
    """The same SVG on one line, with coordinates in tenths of a point."""
    def path(match):
        words = match[0].replace("\n", " ").split()
        return " ".join(re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}", word)
                        for word in words)
    text = re.sub(r'(?<= d=")[^"]*', path, text)
    text = re.sub(r' (?:x|y)="-?\d+\.\d+"', lambda match: re.sub(
        r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}", match[0]), text)
    return re.sub(r">\s+<", "><", text)


def save(figure, path, title, note=""):
    """note: small print at the bottom. Raises ValueError if a page could not show the text."""
    lines = textwrap.wrap(note, 160)
    figure.tight_layout(rect=(0, (0.1 + 0.12 * len(lines)) / figure.get_figheight(), 1, 1))
    figure.text(0.01, 0.05 / figure.get_figheight(), "\n".join(lines), fontsize=LEAST_POINTS, color="gray")
    least = min(text.get_fontsize() for text in figure.findobj(lambda one: hasattr(one, "get_fontsize")))
    if figure.get_figwidth() > WIDTH or least < LEAST_POINTS:
        raise ValueError(f"{title}: {figure.get_figwidth()} inches, text of {least:g} points: too small on a page")
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", dpi=110, metadata={"Date": None, "Title": title, "Description": note})
    with open(path, "w", encoding="utf-8") as file:
        file.write(smaller(drawn.getvalue()))


def main():
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../evaluation"))
    name, numbers, target = sys.argv[1:]
    with open(numbers, encoding="utf-8") as file:
        kept = json.load(file)
    experiment = importlib.import_module(name)
    panels = list(experiment.drawn(kept["data"]) if hasattr(experiment, "drawn") else
                  (fact for fact in experiment.facts(kept["data"]) if isinstance(fact, Table) and any(fact.drawn())))
    heights = [panel.height() for panel in panels]
    figure, axes = begin().subplots(len(panels), 1, figsize=(WIDTH, sum(heights)), height_ratios=heights, squeeze=False)
    for panel, axis in zip(panels, axes.flat):
        panel.draw(axis)
    save(figure, target, name, kept["about"]["stamp"])


if __name__ == "__main__":
    main()
