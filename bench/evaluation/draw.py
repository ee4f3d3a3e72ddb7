# SPDX-License-Identifier: BSD-3-Clause
"""Draws one kept experiment: draw.py NAME FILE.json FILE.svg. Needs matplotlib.

A separate program: only this needs a Python that has matplotlib (Debian: python3-matplotlib)."""
import importlib
import io
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "suite")]


def smaller(text):
    """The same SVG with a path's commands on one line and coordinates in tenths of a point."""
    def path(match):
        words = match[0].replace("\n", " ").split()
        return " ".join(re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}", word)
                        for word in words)
    text = re.sub(r'(?<= d=")[^"]*', path, text)
    text = re.sub(r' (?:x|y)="-?\d+\.\d+"', lambda match: re.sub(
        r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}", match[0]), text)
    return re.sub(r"\n\s+", "\n", text)


def main():
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    # Text stays text, and the same numbers make the same file.
    pyplot.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "switchml", "font.size": 9,
                            "axes.grid": True, "grid.alpha": 0.3, "axes.titlesize": 10})
    name, numbers, target = sys.argv[1:]
    with open(numbers, encoding="utf-8") as file:
        kept = json.load(file)
    figure = importlib.import_module(name).draw(kept["data"], pyplot)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.text(0.01, 0.01, kept["about"]["stamp"], fontsize=7, color="gray")
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None, "Title": name}, dpi=110)
    with open(target, "w", encoding="utf-8") as file:
        file.write(smaller(drawn.getvalue()))


if __name__ == "__main__":
    main()
