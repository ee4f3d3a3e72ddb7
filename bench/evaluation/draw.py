# SPDX-License-Identifier: BSD-3-Clause
"""Draws one kept experiment: draw.py NAME FILE.json FILE.svg. Needs matplotlib.

A separate program: only this needs a Python that has matplotlib (Debian: python3-matplotlib)."""
import importlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "suite")]


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
    figure.savefig(target, metadata={"Date": None, "Title": name})


if __name__ == "__main__":
    main()
