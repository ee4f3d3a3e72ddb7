# SPDX-License-Identifier: BSD-3-Clause
"""Tables of a page. What is drawn of an experiment is the bars of its tables, and panels of its own."""
import statistics
from dataclasses import dataclass


def quartiles(values):
    """Of one value or more: the first quartile, the median, and the third."""
    if len(values) == 1:
        return [values[0]] * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def median(values):
    return quartiles(values)[1]


def summary(values):
    low, middle, high = quartiles(values)
    return {"median": middle, "q1": low, "q3": high, "n": len(values), "values": list(values)}


def rates(found, amount):
    """Of a summary: the quartiles of amount divided by each value."""
    return [amount / found[name] for name in ("q3", "median", "q1")]


def between(values, digits=2):
    low, middle, high = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({low}–{high})"


@dataclass
class Cell:
    """What is drawn is not what the page shows: quartiles of one bar or more."""
    text: str
    bars: tuple


def bars_of(cell):
    """The quartiles that are drawn; text is not."""
    if isinstance(cell, Cell):
        return list(cell.bars)
    return [cell] if isinstance(cell, list) else [[cell] * 3] if isinstance(cell, float) else []


def whiskers(values):
    return [[v[1] - v[0] for v in values], [v[2] - v[1] for v in values]]


class Table:
    """A cell is quartiles, a number, a text, a Cell, or None: not measured. what: the drawn values are.
    color: of a title and a value, instead of the column's."""

    def __init__(self, *columns, what="", digits=2, missing="not measured", align="|---|", scale="linear", color=None):
        self.columns, self.what, self.digits, self.missing = columns, what, digits, missing
        self.align, self.scale, self.color, self.rows = align, scale, color, []

    def add(self, title, *cells):
        self.rows.append((title, cells))

    def text(self, cell):
        if isinstance(cell, list):
            return between(cell, self.digits)
        if isinstance(cell, float):
            return f"{cell:.{self.digits}f}"
        return self.missing if cell is None else cell.text if isinstance(cell, Cell) else cell

    def lines(self):
        rows = [self.columns, *((title, *map(self.text, cells)) for title, cells in self.rows)]
        head, *rest = ("|" + "|".join(f" {text} " if text else " " for text in row) + "|" for row in rows)
        yield from (head, self.align + (len(self.columns) - self.align.count("|") + 1) * "---:|", *rest)

    def drawn(self):
        """Rows with bars: (title, [(name of the column, quartiles), ...])."""
        for title, cells in self.rows:
            bars = [(name, bar) for name, cell in zip(self.columns[1:], cells) for bar in bars_of(cell)]
            if bars:
                yield title, bars

    def height(self):
        return 0.9 + sum(0.16 + 0.16 * len(bars) for _, bars in self.drawn())

    def draw(self, axis):
        colors, at, ticks = {}, 0, {}
        for title, bars in self.drawn():
            ticks[at + (len(bars) - 1) / 2] = title
            for name, values in bars:
                axis.barh([at], [values[1]], 0.8, xerr=whiskers([values]), capsize=2,
                          color=self.color(title, values[1]) if self.color else
                          colors.setdefault(name, f"C{len(colors)}"))
                axis.text(values[2], at, f" {values[1]:.{self.digits}f}", va="center", fontsize=7)
                at += 1
            at += 1
        axis.set_yticks(list(ticks), ticks.values())
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.margins(x=0.1)
        axis.set(title=self.columns[0], xlabel=self.what, xscale=self.scale)
        if len(colors) > 1:
            axis.legend([axis.barh([0], [0], color=color) for color in colors.values()], colors, fontsize=8)


class Panel:
    """What an experiment draws by itself, with a function of an axis."""

    def __init__(self, draw, inches=4.5):
        self.draw, self.height = draw, lambda: inches


def lines(facts):
    """Those of a page: texts and tables."""
    for fact in facts:
        yield from fact.lines() if isinstance(fact, Table) else [fact]
