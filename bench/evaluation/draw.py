# SPDX-License-Identifier: BSD-3-Clause
"""Draws one kept experiment: draw.py NAME FILE.json FILE.svg. Needs matplotlib."""
import importlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "suite")]

import figure  # noqa: E402


def main():
    name, numbers, target = sys.argv[1:]
    pyplot = figure.begin()
    with open(numbers, encoding="utf-8") as file:
        kept = json.load(file)
    figure.save(importlib.import_module(name).draw(kept["data"], pyplot), target, name,
                kept["about"]["stamp"])


if __name__ == "__main__":
    main()
