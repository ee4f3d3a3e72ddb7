# SPDX-License-Identifier: BSD-3-Clause
"""Question 8: what the death of a switch or a leaf costs, and 1 % of every fault at once."""
import signal
import subprocess
import threading
import time

import lab as common
import measure
from methods import SwitchML
from rows import Entry

QUESTION = "How much time is lost when a switch, a leaf or a root dies, and under constant faults?"
RATE, SIZE = 100, 200_000
FAULTS = "drop=10000,duplicate=10000,reorder=10000,seed=1"
STEP_S = 0.1
ONLY_DRAWN = ("ends", "happened")
KILL_AFTER_S, GONE_S = 0.7, 0.5
# Of the scenarios, those that the smallest form has.
SMALLEST = ("back", "cable", "leaf", "faults")


class Switches(SwitchML):
    """A switch, or two, of which the second one takes over; or a root and two leaves with half of the workers
    each. dies: the host whose switch does."""

    def __init__(self, name, hosts=("first",), dies="first", faults=""):
        super().__init__(name, name, SWITCHML_FAULTS=faults)
        self.hosts_of_switches, self.dies = hosts, dies

    def switches(self):
        return dict.fromkeys(self.hosts_of_switches, 0)

    def start_switches(self, group):
        if "root" not in self.hosts_of_switches:
            return ["|".join(self.start_switch(group, host) for host in self.hosts_of_switches)]
        root, *leaves = self.hosts_of_switches
        parent = self.start_switch(group, root)
        return [self.start_switch(group, leaf, "--parent", parent) for leaf in leaves]


def kill_switch(group, host):
    group.helpers[host].send_signal(signal.SIGKILL)


def restart_switch(group, host):
    group.helpers[host].wait()
    command = group.helpers[host].args[len(group.star.inside(host)):]
    group.helpers[host] = group.spawn(host, command, host)


def pull_cable(group, host):
    subprocess.run(["ip", "-n", group.star.namespace(host), "link", "set", "eth0", "down"], check=True)


def chaos(seconds):
    """Deaths and restarts for so long."""
    for i in range(int((seconds - KILL_AFTER_S) / 1.5) + 1):
        yield from ((KILL_AFTER_S + 1.5 * i, kill_switch), (KILL_AFTER_S + 1.5 * i + 0.2, restart_switch))


def timeline(lab, n_workers, n_calls, method, plan):
    """When each call ended, in seconds since the first one began, and what was done when."""
    happened = []

    def act(group, began):
        for at, action in plan:
            time.sleep(max(0, began + at - time.monotonic()))
            action(group, method.dies)
            happened.append([time.monotonic() - began, action.__name__])

    with lab.one(n_workers, "100mbit", SIZE, Entry(method)) as (group, result):
        how = measure.Plan(3, n_calls, 1)
        measure.prepare(result.cell, group, how, 1)
        deeds = threading.Thread(target=act, args=(group, time.monotonic()))
        deeds.start()
        measure.take_turn(group, result.entry, how, 180, result)
        deeds.join()
    ends = [result.elapsed - sum(result.times)]
    for seconds in result.times:
        ends.append(ends[-1] + seconds)
    typical = common.summary(result.times)
    # A death costs what the slow calls took more than a call usually takes.
    return {"call": {q: typical[q] for q in ("median", "q1", "q3", "n")}, "ends": ends[1:],
            "longest_call_s": max(result.times), "happened": happened, "seconds": sum(result.times),
            "wrong": result.wrong}


def scenarios(n_calls):
    """Name, method, number of calls, and plan."""
    death = [(KILL_AFTER_S, kill_switch)]
    back, tree = [*death, (KILL_AFTER_S + GONE_S, restart_switch)], ("root", "first", "second")
    n_slow = n_calls // 2  # these calls take several times as long
    yield "no failure", Switches("calm"), n_calls, []
    yield "the switch is killed, and back after half a second", Switches("back"), n_calls, back
    yield "the switch is killed, another one takes over", Switches("standby", tree[1:]), n_calls, death
    yield ("the switch's cable is pulled, another one takes over", Switches("cable", tree[1:]), n_calls,
           [(KILL_AFTER_S, pull_cable)])
    yield "a leaf of two is killed, and back after half a second", Switches("leaf", tree), n_calls, back
    yield ("the root of two leaves is killed, and back after half a second", Switches("root", tree, "root"),
           n_calls, back)
    yield "1 % lost, 1 % twice, 1 % late", Switches("faults", faults=FAULTS), n_slow, []
    yield ("the same, and the switch dies every 1.5 s", Switches("chaos", faults=FAULTS), n_slow,
           list(chaos(n_slow * 0.1)))


def run(lab):
    n_workers, n_calls = 4, lab.choose(100, 300, 80)
    rows = {}
    for name, method, calls, plan in scenarios(n_calls):
        if method.name in lab.choose((method.name,), (method.name,), SMALLEST):
            lab.say(name)
            rows[name] = [timeline(lab, n_workers, calls, method, plan) for _ in range(lab.choose(2, 6, 1))]
    return {"workers": n_workers, "rate_mbit": RATE, "bytes": SIZE, "calls": n_calls,
            "faults": FAULTS, "rows": rows}


def throughput(one, size):
    """(seconds, Mbit/s of elements): a call moves its bits in the time that calls usually take, before its end. In
    the rest of a longer call, nothing moves."""
    usual, step = one["call"]["median"], max(STEP_S, 5 * one["call"]["median"])
    bits = [0.0] * (int(one["ends"][-1] / step) + 1)
    for end in one["ends"]:
        begin = max(0, end - usual)
        for i in range(int(begin / step), int(end / step) + 1):
            bits[i] += 8 * size * (min(end, (i + 1) * step) - max(begin, i * step)) / (end - begin)
    return [(i + 0.5) * step for i in range(len(bits))], [n / step / 1e6 for n in bits]


def draw(data, plt):
    figure, axes = plt.subplots(4, 2, figsize=(9, 10.5), sharey=True)
    for axis, (name, runs) in zip(axes.flat, data["rows"].items()):
        for i, one in enumerate(runs):
            axis.plot(*throughput(one, data["bytes"]), linewidth=1, alpha=0.3 if i else 1, color="C0")
        for at, deed in runs[0]["happened"]:
            label, color = {"kill_switch": ("death", "C3"), "restart_switch": ("restart", "C2"),
                            "pull_cable": ("cable", "C3")}[deed]
            shown = label in axis.get_legend_handles_labels()[1]
            axis.axvline(at, color=color, linestyle=":", linewidth=1, label=None if shown else label)
        if runs[0]["happened"]:
            axis.legend(fontsize=7, loc="lower right")
        axis.set_title(name, fontsize=9)
        axis.set(xlabel="seconds", ylabel="Mbit/s of elements", ylim=(0, None), xlim=(0, None))
    for axis in list(axes.flat)[len(data["rows"]):]:
        axis.set_visible(False)
    return figure


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['calls']} calls (half of them under faults) of "
           f"{data['bytes'] / 1000:g} kB, every result checked.\n")
    yield common.header("", "a call, median, ms", "longest call, median of the runs, s", "longest of all, s",
                        "all calls, s")
    for name, runs in data["rows"].items():
        longest, total, call = ([one[what] for one in runs] for what in ("longest_call_s", "seconds", "call"))
        yield common.row(name, f"{1e3 * common.quartiles([one['median'] for one in call])[1]:.1f}",
                         f"{common.quartiles(longest)[1]:.2f}", f"{max(longest):.2f}",
                         common.between(common.quartiles(total)))
    yield f"\nWrong elements in all of these runs: {sum(one['wrong'] for runs in data['rows'].values() for one in runs)}."
