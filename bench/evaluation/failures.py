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


def kill_switch(group, host):
    group.helpers[host].send_signal(signal.SIGKILL)


def restart_switch(group, host):
    group.helpers[host].wait()
    command = group.helpers[host].args[len(group.star.inside(host)):]
    group.helpers[host] = group.spawn(host, command, host)


def pull_cable(group, host):
    subprocess.run(["ip", "-n", group.star.namespace(host), "link", "set", "eth0", "down"], check=True)


def timeline(lab, method, n_calls, plan, host):
    """When each call ended, in seconds since the first one began, and what was done to the host's switch when."""
    happened = []

    def act(group, began):
        for at, action in plan:
            time.sleep(max(0, began + at - time.monotonic()))
            action(group, host)
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
    """Name: a short one, number of calls, plan, the host whose switch dies, and settings."""
    death, faults = [(KILL_AFTER_S, kill_switch)], {"SWITCHML_FAULTS": FAULTS}
    back = [*death, (KILL_AFTER_S + GONE_S, restart_switch)]
    n_slow = n_calls // 2  # these calls take several times as long
    chaos = [(KILL_AFTER_S + 1.5 * i + after, deed) for i in range(int((n_slow * 0.1 - KILL_AFTER_S) / 1.5) + 1)
             for after, deed in ((0, kill_switch), (0.2, restart_switch))]
    return {
        "no failure": ("calm", n_calls, [], "switch", {}),
        "the switch is killed, and back after half a second": ("back", n_calls, back, "switch", {}),
        "the switch is killed, another one takes over": ("standby", n_calls, death, "first", {"where": "standby"}),
        "the switch's cable is pulled, another one takes over":
            ("cable", n_calls, [(KILL_AFTER_S, pull_cable)], "first", {"where": "standby"}),
        "a leaf of two is killed, and back after half a second": ("leaf", n_calls, back, "first", {"where": "tree"}),
        "the root of two leaves is killed, and back after half a second":
            ("root", n_calls, back, "root", {"where": "tree"}),
        "1 % lost, 1 % twice, 1 % late": ("faults", n_slow, [], "switch", faults),
        "the same, and the switch dies every 1.5 s": ("chaos", n_slow, chaos, "switch", faults)}


def run(lab):
    n_calls, rows = lab.choose(100, 300, 80), {}
    for name, (short, calls, plan, host, settings) in scenarios(n_calls).items():
        if short in lab.choose((short,), (short,), SMALLEST):
            lab.say(name)
            method = SwitchML(short, name, **settings)
            rows[name] = [timeline(lab, method, calls, plan, host) for _ in range(lab.choose(2, 6, 1))]
    return {"workers": N_WORKERS, "rate_mbit": RATE, "bytes": SIZE, "calls": n_calls,
            "faults": FAULTS, "rows": rows}


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['calls']} calls (half of them under faults) of "
           f"{data['bytes'] / 1000:g} kB, every result checked.\n")
    table = Table("what fails", "a call, median, ms", "longest call, median of the runs, s", "longest of all, s", "all calls, s",
                  what="longest call, s (median, quartiles of the runs)")
    for name, runs in data["rows"].items():
        longest, total, call = ([one[what] for one in runs] for what in ("longest_call_s", "seconds", "call"))
        table.add(name, f"{1e3 * median([one['median'] for one in call]):.1f}",
                  Cell(f"{median(longest):.2f}", (quartiles(longest),)), f"{max(longest):.2f}",
                  Cell(table.text(quartiles(total)), ()))
    yield table
    yield f"\nWrong elements in all of these runs: {sum(one['wrong'] for runs in data['rows'].values() for one in runs)}."
