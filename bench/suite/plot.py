# SPDX-License-Identifier: BSD-3-Clause
"""Plots by gnuplot: lines of time over size if a star has several sizes, otherwise bars."""
import shutil
import subprocess

import report

WIDTH, HEIGHT = 700, 460
LINES_FROM = 3  # sizes


def lines(cells):
    """A panel for one star, with a line for each method."""
    series = {}
    for cell, results in cells.items():
        for result in results:
            series.setdefault(result.entry.title(), []).append((cell.size_bytes, result.p50()))
    title = report.title(next(iter(cells))).rsplit(", ", 1)[0]
    yield ("set logscale xy; set yrange [*:*]; set key left top noenhanced; set ytics auto; "
           "set format x '10^{%L}'; set xlabel 'bytes'; set ylabel 'median time (s)'")
    yield f"set title '{title}' noenhanced"
    for i, points in enumerate(series.values()):
        yield f"$data{i} << end\n" + "\n".join(f"{x} {y}" for x, y in sorted(points)) + "\nend"
    yield "plot " + ", ".join(f"$data{i} with linespoints lw 2 title '{name}'"
                              for i, name in enumerate(series))


def bars(cell, results):
    """A panel of one cell: p50 as a bar, p99 as a whisker."""
    yield ("unset logscale; set xrange [0:*]; unset key; unset ylabel; set format x '%g'; "
           "set xlabel 'time (ms), median to p99'; set style fill solid 0.6; set ytics noenhanced")
    yield f"set title '{report.title(cell)}' noenhanced; set yrange [{len(results) - 0.4}:-0.6]"
    yield "$data << end"
    for i, result in enumerate(results):
        yield (f'{i} {1e3 * result.p50()} {1e3 * result.quantile(0.99)} "{result.entry.title()}"')
    yield "end"
    yield ("plot $data using 2:1:(0):2:($1-0.35):($1+0.35):ytic(4) with boxxyerror notitle, "
           "$data using 2:1:2:3 with xerrorbars pt 0 lc black notitle")


def panels(results):
    stars = {}
    for result in results:
        if result.times and not result.failure and not result.entry.rest:
            stars.setdefault(result.cell.star(), {}).setdefault(result.cell, []).append(result)
    for cells in stars.values():
        if len({cell.size_bytes for cell in cells}) >= LINES_FROM:
            yield ["set xrange [*:*]", *lines(cells)]
        else:
            yield from (list(bars(cell, rows)) for cell, rows in cells.items())


def speeds(results):
    """{title of a cell: [(method, speed relative to Gloo's ring)]}, for 10 MB cells on shaped
    links."""
    found = {}
    for cell in dict.fromkeys(result.cell for result in results):
        rows = [r for r in results if r.cell is cell and r.times and not r.failure
                and not r.entry.rest and not r.entry.loss and r.entry.pieces == 1
                and not r.entry.method.is_yardstick]
        ring = report.ring_time(rows)
        if ring and cell.offload and cell.size_bytes >= 10_000_000 and len(rows) > 4:
            found[report.title(cell)] = [(r.entry.title(), ring / r.p50()) for r in rows]
    return found


def draw_speeds(cells, path):
    """Bars of speeds(), with a panel for each cell. Returns an error text, or nothing."""
    script = ["set xrange [0:*]; unset key; set style fill solid 0.6; set boxwidth 0.7; set grid x; "
              "set ytics noenhanced; set xlabel \"speed relative to Gloo's ring (1 = the same)\"; "
              "set arrow 1 from 1, graph 0 to 1, graph 1 nohead lw 2 lc black"]
    for i, (title, rows) in enumerate(cells.items()):
        script += [f"set title '{title}' noenhanced; set yrange [{len(rows) - 0.4}:-0.6]",
                   f"$speeds{i} << end",
                   *(f'{j} {times:.4f} "{name}" {1 if name.startswith("ours") else 2}'
                     for j, (name, times) in enumerate(rows)), "end",
                   f"plot $speeds{i} using ($2/2):1:($2/2):(0.35):4:ytic(3) with boxxyerror lc variable, "
                   f"$speeds{i} using 2:1:(sprintf(' %.2f', $2)) with labels left"]
    return run_gnuplot(script, len(cells), "", path)


def run_gnuplot(script, n_panels, title, path):
    """Returns an error text, or nothing."""
    if not shutil.which("gnuplot"):
        return "gnuplot is not installed"
    if n_panels == 0:
        return "nothing was measured"
    columns = min(2, n_panels)
    rows = (n_panels + columns - 1) // columns
    head = [f"set terminal svg size {WIDTH * columns},{HEIGHT * rows} font 'sans,11' "
            "background 'white'", f"set output '{path}'",
            f"set multiplot layout {rows},{columns} title '{title}'"]
    done = subprocess.run(["gnuplot"], input="\n".join(head + script) + "\nunset multiplot\n",
                          text=True, check=False, stderr=subprocess.PIPE)
    return done.stderr.strip() if done.returncode else ""


def draw(results, path):
    """Returns an error text, or nothing."""
    all_panels = list(panels(results))
    script = ["set grid y"] + [line for panel in all_panels for line in panel]
    return run_gnuplot(script, len(all_panels),
                       "Links are emulated; all hosts share the cores of one machine", path)
