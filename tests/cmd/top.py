# SPDX-License-Identifier: BSD-3-Clause
"""For top.sh: reads the screen of `switchml top` in a pseudo-terminal, and presses its keys.

top.py SWITCHML SWITCH PID-OF-SWITCH ROOT LEAF
    Two jobs, "alpha" and "beta", run at SWITCH, and at ROOT "tree": ranks 0 and 1 share memory at a
    leaf of LEAF, rank 2 is at LEAF, a leaf of ROOT, and rank 3 at ROOT.
"""

import os
import re
import signal
import subprocess
import sys
import time

import pexpect
import pyte

switchml, switch, switch_pid, root, leaf = sys.argv[1:]
DOWN, UP, ESCAPE = "\x1b[B", "\x1b[A", "\x1b"


class Terminal:
    def __init__(self, *arguments, rows=40, columns=150, term="linux"):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.Stream(self.screen)
        self.seen = ""
        self.child = pexpect.spawn(
            switchml,
            ["top", *arguments],
            dimensions=(rows, columns),
            env={**os.environ, "TERM": term, "LANG": "C.UTF-8"},
            encoding="utf-8",
            timeout=60,
        )

    def read(self):
        try:
            text = self.child.read_nonblocking(65536, 0.1)
        except pexpect.TIMEOUT:
            return
        self.seen += text
        # pyte draws the alternate screen like any other.
        self.stream.feed(text)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def await_screen(self, what, condition):
        end = time.monotonic() + 60
        while not condition(self.text()):
            if time.monotonic() > end:
                sys.exit(f"FAILED: not on the screen: {what}\n{self.text()}")
            try:
                self.read()
            except pexpect.EOF:
                sys.exit(f"FAILED: it has ended before: {what}\n{self.text()}\n{self.seen[-500:]}")
        print(f"ok: {what}", flush=True)

    def press(self, keys):
        self.child.send(keys)

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.screen.reset()
        self.child.setwinsize(rows, columns)

    def await_end(self, what):
        end = time.monotonic() + 60
        try:
            while time.monotonic() < end:
                self.read()
        except pexpect.EOF:
            pass
        self.child.close()
        if self.child.exitstatus != 0:
            sys.exit(f"FAILED: {what}: {self.child.exitstatus}, signal {self.child.signalstatus}")
        print(f"ok: {what}", flush=True)


def has(*patterns):
    return lambda text: all(re.search(pattern, text, re.M) for pattern in patterns)


def selected(terminal):
    """The job in the reversed line below the table's head."""
    for y, line in enumerate(terminal.lines()[:-1]):
        if line.startswith(("alpha", "beta")) and terminal.screen.buffer[y][0].reverse:
            return line.split()[0]
    return None


# ---- all jobs ----
# Ranks report once a second: a longer interval has always something new.
top = Terminal("--switch", switch, "--interval", "1.5")
number = r"\d+(\.\d)?"
whole = r"(\d?\d\.\d|\d{3,})"
top.await_screen(
    "the switch, its slots and jobs", has(rf"^{re.escape(switch)}: udp, .* 2 of \d+ jobs, MB/s in .*, up \d+ s$")
)
top.await_screen(
    "each job with its ranks, hosts, throughput and slowest rank",
    lambda text: all(
        re.search(
            # name, state, ranks, hosts, slots, MB/s out and in, uses, link, four rates, slowest
            rf"^{job} +running +2 +1 +\d+( +{number}){{3}} +\S+( +{number}){{4}} +[01] \(\d+%\)$",
            text,
            re.M,
        )
        for job in ("alpha", "beta")
    ),
)
top.await_screen(
    "who waits to join, and which job",
    has(
        r"^  host \S+, pid \d+: waits to be in the next membership of job größe, for [\d.]+ s$"
    ),
)
# A color would be a parameter from 30 to 49; 39 and 49 are the terminal's own.
colors = {
    int(n) for escape in re.findall(r"\x1b\[([0-9;]*)m", top.seen) for n in escape.split(";") if n
}
assert not colors & (set(range(30, 50)) - {39, 49}), f"colors: {colors}"
top.await_screen("the first job is selected", lambda text: selected(top) == "alpha")
top.press(DOWN)
top.await_screen("the arrow selects the next one", lambda text: selected(top) == "beta")
top.press("j")
top.press("k")
top.await_screen("k selects the one before", lambda text: selected(top) == "alpha")
top.press("j")
top.await_screen("j selects the next one", lambda text: selected(top) == "beta")
for by in ("bytes", "came again", "waited", "name"):
    top.press("s")
    top.await_screen(f"s sorts by {by}", has(rf"sorted by {by}$"))
top.await_screen("the selection has followed its job", lambda text: selected(top) == "beta")
top.press("h")
top.await_screen("h shows the keys", has("^Enter +open the job", "^q +quit"))
top.press("x")
top.await_screen(
    "any key ends the help", lambda text: "open the job" not in text and "beta" in text
)

# ---- one job ----
top.press("\r")
rank_line = rf"^ +[01] \S+ +running +{number} +{number} +\d+(\.\d)?"
top.await_screen(
    "Enter opens the job: its ranks and the slowest",
    has(r"^job beta at ", r"^slowest: the others waited for rank [01] for", r"^RANK +HOST", rank_line),
)
top.press("t")
top.await_screen(
    "t shows the tree: switch, hosts, ranks",
    has(
        rf"^{re.escape(switch)}$",
        r"^  \+- \S+ .* 2 ranks$",
        r"^    rank 0 .*running",
        r"^    rank 1 .*running",
    ),
)
top.press(ESCAPE)
top.await_screen("Esc goes back", lambda text: selected(top) == "beta")

# ---- a tree of switches ----
port = leaf.rpartition(":")[2]
tree = Terminal("--switch", root, "--interval", "1.5")
tree.await_screen(
    "the leaf below its switch, with its ranks and slots",
    has(
        rf"^{re.escape(root)}: .*\n  \+- leaf \S+:{port}: 3 ranks, \d+ of 300 slots, seen [\d.]+ s ago$"
    ),
)
tree.await_screen(
    "uses are completed, and how long the others wait for a leaf or a rank",
    has(rf"^tree +running +4 +1 +\d+( +{number}){{2}} +[1-9][\d.]* .* (leaf|[013]) \(\d+%\)$"),
)
tree.press("\rt")
# State, MB/s out and in, packets, two causes; what only a switch knows of its own ranks and leaves.
moves = rf"( +{number}){{5}}"
tree.await_screen(
    "the tree: the root, its host and rank; its leaf; the leaf's host and rank, and its leaf",
    lambda text: re.search(
        rf"^{re.escape(root)}\n"
        rf"  \+- \S+ {moves} +- +-  1 rank\n"
        rf"    rank 3 +running{moves} +{number} +\d+% .*\n"
        rf"  \+- \S+:{port} {moves} +{number} +\d+%  3 ranks\n"
        rf"    \+- \S+ {moves} +- +-  1 rank\n"
        rf"      rank 2 +running{moves} +- +- .*\n"
        rf"    \+- \S+:\d+ {moves} +- +-  2 ranks\n"
        rf"      \+- \S+ {moves} +- +-  2 ranks, rank 0 sends\n"
        rf"        rank 0 +running{moves} +- +(-|\d+%) .*\n"
        rf"        rank 1 +running{moves} +- +(-|\d+%) ",
        text,
        re.M,
    ),
)
tree.await_screen(
    "for whom the others wait, by name",
    has(rf"^slowest: the others waited for (the leaf \S+:{port}|rank [013]) for \d+% of the time"),
)
tree.press("q")
tree.await_end("q quits there, too")
below = Terminal("--switch", leaf, "--interval", "1.5")
below.await_screen(
    "a leaf's parent, and no throughput that it does not know",
    has(
        rf"^{re.escape(leaf)}: .*, a leaf of {re.escape(root)}, ",
        rf"^tree +running +4 +1 +\d+ +- +- +[1-9][\d.]* +- +- +- .*\(\d+%\)$",
    ),
)
below.press("\rt")
below.await_screen(
    "its part of the tree, and its rank's share",
    has(
        rf"^{re.escape(leaf)}\n  \+- \S+ +(- +){{7}}1 rank\n    rank 2 +running( +-){{5}} +{number} +\d+% ",
        r"^    \+- \S+ .* 2 ranks, rank 0 sends$",
    ),
)
below.press("q")
below.await_end("q quits there as well")

# ---- narrow terminals ----
# (columns, all jobs, one job): the heads that are there; those of waits always are.
SIZES = (
    (
        150,
        "JOB STATE RANKS HOSTS SLOTS MB/S OUT MB/S IN USES/S LINK TIMER/S LATER/S LOST/S DUP/S "
        "SLOWEST",
        "RANK HOST STATE MB/S OUT MB/S IN PACKETS/S TIMER/S LATER/S LOST/S WAITED LINK SEEN S",
    ),
    (
        110,
        "JOB STATE RANKS HOSTS MB/S OUT MB/S IN USES/S LINK TIMER/S LATER/S LOST/S SLOWEST",
        "RANK HOST STATE MB/S OUT MB/S IN PACKETS/S TIMER/S LATER/S LOST/S WAITED LINK SEEN S",
    ),
    (
        80,
        "JOB STATE RANKS MB/S OUT MB/S IN LINK LOST/S SLOWEST",
        "RANK HOST STATE MB/S OUT MB/S IN LOST/S WAITED LINK SEEN S",
    ),
    (40, "JOB RANKS MB/S OUT SLOWEST", "RANK HOST MB/S OUT WAITED"),
)


def table(heads, first, last):
    """Its head and its rows end in the same column, and nothing is cut off."""

    def condition(text):
        lines = text.split("\n")
        for i, line in enumerate(lines[:-2]):
            if " ".join(line.split()) == heads:
                rows = [its for its in lines[i + 1 : -1] if re.match(first, its)]
                return len(rows) == 2 and all(
                    re.search(last, its) and len(its) == len(line) for its in rows
                )
        return False

    return condition


for columns, jobs, ranks in SIZES:
    top.resize(24, columns)
    top.await_screen(
        f"at {columns} columns, the jobs and their slowest ranks",
        table(jobs, "alpha|beta", r" [01] \(\d+%\)$"),
    )
    # A rate has a digit after the point, or three before it.
    top.await_screen(
        f"at {columns} columns, the switch, and no part of a number",
        has(
            rf"^{re.escape(switch)}: udp(, \d+ of \d+ slots(, 2 of \d+ jobs(, MB/s in {whole}"
            rf"(, out {whole}(, \d\S*(, up \d+ s)?)?)?)?)?)?$"
        ),
    )
    top.press("\r")  # a tree, as the job before
    host = r"^  \+- \S+ .* 2 ranks$" if columns > 40 else r"^  \+- \S+ "
    top.await_screen(f"at {columns} columns, the tree", has(host, r"^ +rank [01] .*%"))
    top.press("t")
    last = r" \d+%$" if columns == 40 else r" \d+% .*"
    top.await_screen(
        f"at {columns} columns, the ranks and how long others wait for them",
        table(ranks, " +[01] ", last),
    )
    top.press("t" + ESCAPE)

# ---- terminals of any size ----
for rows, columns in ((24, 80), (5, 20), (1, 1), (2, 3), (3, 400), (40, 150)):
    top.resize(rows, columns)
    for keys in ("h", "x", "\r", "t", DOWN, ESCAPE):
        top.press(keys)
        top.read()
top.await_screen("after all sizes the table is there", has("^alpha", "^beta", "q quit"))

# ---- switches that stand still and vanish ----
os.kill(int(switch_pid), signal.SIGSTOP)
top.press("h")
top.await_screen("keys work while the switch does not answer", has("^q +quit"))
top.press("x")
os.kill(int(switch_pid), signal.SIGCONT)
top.await_screen("it goes on", has("^alpha", "^beta"))
os.kill(int(switch_pid), signal.SIGTERM)
top.await_screen("a switch that has gone", has("refused", "^no jobs"))
again = subprocess.Popen(
    [switchml, "switch", "--listen", switch, "--slots", "64"], stdout=subprocess.DEVNULL
)
top.await_screen("and has returned", has(r" 0 of 64 slots, 0 of \d+ jobs"))
top.press("q")
top.await_end("q quits")
assert "\x1b[?25h" in top.seen, "the cursor stays hidden"

# ---- other ends ----
top = Terminal("--switch", switch)
top.await_screen("another one", has("of 64 slots"))
top.press("\x03")
top.await_end("Ctrl-C quits")
top = Terminal("--switch", switch, term="vt100")
top.await_screen("a terminal of 1978", has("of 64 slots"))
top.child.kill(signal.SIGTERM)
top.await_end("SIGTERM quits")
for arguments, environment, words in (
    ([], {}, "needs a terminal"),
    (["--interval", "0"], {}, "--interval must be"),
):
    done = subprocess.run(
        [switchml, "top", "--switch", switch, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 2) and words in done.stderr, done
unknown = Terminal("--switch", switch, term="no-such-terminal")
unknown.child.expect("is not known")
print("ok: without a terminal, or with an unknown one, it says so")
again.terminate()
again.wait()
