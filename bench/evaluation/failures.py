# SPDX-License-Identifier: BSD-3-Clause
"""Question 8: what the death of a switch or a leaf costs, and 1 % of every fault at once."""
import signal
import subprocess
import threading
import time

from methods import SwitchML
from star import Star
from table import Cell, Table, median, quartiles, summary

QUESTION = "How much time is lost when a switch, a leaf or a root dies, and under constant faults?"
RATE, N_WORKERS, SIZE = 100, 4, 200_000
FAULTS = "drop=10000,duplicate=10000,reorder=10000,seed=1"
NOT_KEPT = ("ends", "happened")  # tests look at them
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


def timeline(lab, n_calls, method, plan):
    """When each call ended, in seconds since the first one began, and what was done when."""
    happened = []

    def act(group, began):
        for at, action in plan:
            time.sleep(max(0, began + at - time.monotonic()))
            action(group, method.dies)
            happened.append([time.monotonic() - began, action.__name__])

    with lab.groups(Star(N_WORKERS, RATE), [method]) as (group,):
        group.prepare(SIZE, n_calls)
        began = time.monotonic()
        deeds = threading.Thread(target=act, args=(group, began))
        deeds.start()
        ends = group.run(3, n_calls, seconds=180)
        deeds.join()
        wrong = group.check()
    times = [after - before for before, after in zip(ends, ends[1:])]
    typical = summary(times)
    # A death costs what the slow calls took more than a call usually takes.
    return {"call": {q: typical[q] for q in ("median", "q1", "q3", "n")}, "ends": [end - began for end in ends[1:]],
            "longest_call_s": max(times), "happened": happened, "seconds": sum(times), "wrong": wrong}


def scenarios(n_calls):
    """Name, method, number of calls, and plan."""
    death = [(KILL_AFTER_S, kill_switch)]
    back, tree = [*death, (KILL_AFTER_S + GONE_S, restart_switch)], ("root", "first", "second")
    n_slow = n_calls // 2  # these calls take several times as long
    chaos = [(KILL_AFTER_S + 1.5 * i + after, deed) for i in range(int((n_slow * 0.1 - KILL_AFTER_S) / 1.5) + 1)
             for after, deed in ((0, kill_switch), (0.2, restart_switch))]
    yield "no failure", Switches("calm"), n_calls, []
    yield "the switch is killed, and back after half a second", Switches("back"), n_calls, back
    yield "the switch is killed, another one takes over", Switches("standby", tree[1:]), n_calls, death
    yield ("the switch's cable is pulled, another one takes over", Switches("cable", tree[1:]), n_calls,
           [(KILL_AFTER_S, pull_cable)])
    yield "a leaf of two is killed, and back after half a second", Switches("leaf", tree), n_calls, back
    yield ("the root of two leaves is killed, and back after half a second", Switches("root", tree, "root"),
           n_calls, back)
    yield "1 % lost, 1 % twice, 1 % late", Switches("faults", faults=FAULTS), n_slow, []
    yield "the same, and the switch dies every 1.5 s", Switches("chaos", faults=FAULTS), n_slow, chaos


def run(lab):
    n_calls, rows = lab.choose(100, 300, 80), {}
    for name, method, calls, plan in scenarios(n_calls):
        if method.name in lab.choose((method.name,), (method.name,), SMALLEST):
            lab.say(name)
            rows[name] = [timeline(lab, calls, method, plan) for _ in range(lab.choose(2, 6, 1))]
    return {"workers": N_WORKERS, "rate_mbit": RATE, "bytes": SIZE, "calls": n_calls,
            "faults": FAULTS, "rows": rows}


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['calls']} calls (half of them under faults) of "
           f"{data['bytes'] / 1000:g} kB, every result checked.\n")
    table = Table("", "a call, median, ms", "longest call, median of the runs, s", "longest of all, s", "all calls, s",
                  what="longest call, s (median, quartiles of the runs)")
    for name, runs in data["rows"].items():
        longest, total, call = ([one[what] for one in runs] for what in ("longest_call_s", "seconds", "call"))
        table.add(name, f"{1e3 * median([one['median'] for one in call]):.1f}",
                  Cell(f"{median(longest):.2f}", (quartiles(longest),)), f"{max(longest):.2f}",
                  Cell(table.text(quartiles(total)), ()))
    yield table
    yield f"\nWrong elements in all of these runs: {sum(one['wrong'] for runs in data['rows'].values() for one in runs)}."
