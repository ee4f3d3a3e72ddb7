# SPDX-License-Identifier: BSD-3-Clause
"""The counterexample to the paper's version bit: the shortest run that spin finds."""
import os
import re
import subprocess

import lab as common

QUESTION = "Why does a packet carry a whole use number, and not one version bit?"
NEEDS_ROOT = False
COMMAND = "tests/model/check --version-bit"
# tests/model/slot.pml's three steps, by the condition that each begins with.
SENDS = re.compile(r"\[\(+chunk\[\(\((\d)\*1\)\+0\)\]<\d+\)&&\(use\[.*?\]==(\d+)\)\)&&!\(up")
ARRIVES = re.compile(r"\[\(\(?up\[\(\(\(\((\d)\*1\)\+0\)\*\d+\)\+(\d+)\)\]&&")
TAKES = re.compile(r"\[\(+down\[\(\(0\*\d+\)\+(\d+)\)\]&&\(+chunk\[\(\((\d)\*1\)")
BEGINS = re.compile(r"\[buffer\[b\]\.use = (\d+)\]")
FAILS = re.compile(r"text of failed assertion: (.*)")


def steps(text):
    """Of spin's replay: {"what", "worker", "use"}, and for an arrival whether it begins a use."""
    found = []
    for line in text.splitlines():
        for what, pattern in (("sends", SENDS), ("arrives", ARRIVES), ("takes", TAKES)):
            match = pattern.search(line)
            if match:
                worker, use = match.groups() if what != "takes" else reversed(match.groups())
                found.append({"what": what, "worker": int(worker), "use": int(use),
                              "begins": False})
        if BEGINS.search(line) and found:
            found[-1]["begins"] = True
    return found


def run(lab):
    lab.say(COMMAND)
    done = subprocess.run([os.path.join(common.ROOT, *COMMAND.split()[0].split("/")),
                           *COMMAND.split()[1:]], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        raise common.Skipped(done.stdout.strip())
    failed = FAILS.search(done.stdout)
    if done.returncode or not failed:
        raise RuntimeError(f"{COMMAND}: {done.stdout[-400:]}{done.stderr[-400:]}")
    return {"command": COMMAND, "assertion": failed[1], "steps": steps(done.stdout)}


def sentences(data):
    """What happens in each step, and whether the packet had arrived before."""
    arrived = set()
    for step in data["steps"]:
        packet = (step["worker"], step["use"])
        version, chunk = step["use"] % 2, step["use"]
        again = step["what"] == "arrives" and packet in arrived
        if step["what"] == "sends":
            yield f"worker {step['worker']} sends chunk {chunk}, version {version}", again
        elif step["what"] == "takes":
            yield f"worker {step['worker']} takes the sum of chunk {chunk}", again
        else:
            told = "begins a new use with it" if step["begins"] else "adds it"
            late = "arrives again" if again else "arrives"
            yield (f"chunk {chunk}, version {version} of worker {step['worker']} {late}; the "
                   f"switch {told}"), again
            arrived.add(packet)


def draw(data, plt):
    figure, axis = plt.subplots(figsize=(9, 0.55 * len(data["steps"]) + 1.2))
    columns = {0: 0.0, 1: 2.0}
    for x, name in ((0.0, "worker 0"), (1.0, "switch, one slot"), (2.0, "worker 1")):
        axis.plot([x, x], [0, -len(data["steps"])], color="gray", linewidth=1)
        axis.text(x, 0.25, name, ha="center", weight="bold")
    for i, (step, (text, again)) in enumerate(zip(data["steps"], sentences(data))):
        x, y, color = columns[step["worker"]], -i - 0.5, "C3" if again else "C0"
        if step["what"] == "sends":
            axis.plot([x], [y], "o", color=color)
        else:
            begin, end = (x, 1.0) if step["what"] == "arrives" else (1.0, x)
            axis.annotate("", (end, y), (begin, y), arrowprops={"arrowstyle": "->", "color": color})
        axis.text(2.15, y, f"{i + 1}. {text}", va="center", fontsize=8, color=color)
    axis.set(xlim=(-0.3, 5.6), ylim=(-len(data["steps"]) - 0.1, 0.7))
    axis.axis("off")
    return figure


def facts(data):
    yield f"`{data['command']}` replays this run; spin stops at `{data['assertion']}`."
