# SPDX-License-Identifier: BSD-3-Clause
"""Question 8: what the death of a switch or a leaf costs, and 1 % of every fault at once."""
import os
import signal
import subprocess
import threading
import time

import lab as common
import measure
from methods import PORT, SwitchML
from programs import is_ready
from rows import Cell, Entry

QUESTION = "How much time is lost when a switch, a leaf or a root dies, and under constant faults?"
RATE = 100
SIZE = 200_000
FAULTS = "drop=10000,duplicate=10000,reorder=10000,seed=1"
STEP_S = 0.1
ONLY_DRAWN = ("ends", "happened")
KILL_AFTER_S, GONE_S = 0.7, 0.5
# Of the scenarios, those that the smallest form has.
SMALLEST = ("back", "cable", "leaf", "faults")


class Switches(SwitchML):
    """Two switches, of which the second one takes over."""

    dies = "first"  # the host whose switch does

    def __init__(self, name, standby, faults=""):
        super().__init__(name, name, SWITCHML_FAULTS=faults)
        self.standby = standby

    def switches(self):
        return {"first": 0, "second": 0} if self.standby else {"first": 0}

    def check_stripes(self, n_stripes, star):
        pass

    def command(self, group, address):
        return [group.program_of_switch, "switch", "--listen", address]

    def switch_of(self, _rank, _n_workers):
        return "|".join(self.addresses)

    def start(self, group):
        group.program_of_switch = os.path.join(group.build, "switchml")
        port = PORT + group.star.next_port()
        self.addresses = [f"{group.star.address[host]}:{port}" for host in self.switches()]
        self.mortal = None
        for host, address in zip(self.switches(), self.addresses):
            process = group.spawn(host, self.command(group, address), helper=True)
            self.mortal = process if host == self.dies else self.mortal
            if not is_ready(process, group.log_path, address):
                raise common.Skipped(f"the switch did not start: {group.log()}")
        n_workers = group.star.n_workers
        for rank in range(n_workers):
            group.spawn(str(rank), [group.program("switchml_allreduce")], **{
                "SWITCHML_SWITCH": self.switch_of(rank, n_workers), "SWITCHML_JOB": self.name,
                "SWITCHML_RANK": str(rank), "SWITCHML_WORLD_SIZE": str(n_workers),
                "SWITCHML_TIMEOUT": "120", **self.settings})


class Leaves(Switches):
    """A root and two leaves, each with half of the workers. The first leaf dies, or the root."""

    def __init__(self, name, dies="first"):
        super().__init__(name, False)
        self.dies = dies

    def switches(self):
        return {"root": 0, "first": 0, "second": 0}

    def command(self, group, address):
        parent = [] if address == self.addresses[0] else ["--parent", self.addresses[0]]
        return super().command(group, address) + parent

    def switch_of(self, rank, n_workers):
        return self.addresses[1 + 2 * rank // n_workers]


def kill_switch(group, method):
    method.mortal.send_signal(signal.SIGKILL)


def restart_switch(group, method):
    # The process that died is no failure of the group's.
    method.mortal.wait()
    group.processes.remove(method.mortal)
    group.helpers.remove(method.mortal.pid)
    address = method.addresses[list(method.switches()).index(method.dies)]
    method.mortal = group.spawn(method.dies, method.command(group, address), helper=True)


def pull_cable(group, method):
    subprocess.run(["ip", "-n", group.star.namespace(method.dies), "link", "set", "eth0", "down"],
                   check=True)


def chaos(plan, seconds):
    """Deaths and restarts for so long."""
    at = 0.7
    while at < seconds:
        plan += [(at, kill_switch), (at + 0.2, restart_switch)]
        at += 1.5
    return plan


def act(plan, began, group, method, happened):
    for at, action in plan:
        time.sleep(max(0, began + at - time.monotonic()))
        action(group, method)
        happened.append([time.monotonic() - began, action.__name__])


def timeline(lab, n_workers, n_calls, method, plan):
    """When each call ended, in seconds since the first one began, and what was done when."""
    cell = Cell(n_workers, "100mbit", 1500, SIZE, (Entry(method),))
    with lab.star(n_workers, RATE, method.switches()) as (star, work), \
            lab.groups(star, work, [method]) as groups:
        group = groups[method]
        if isinstance(group, Exception):
            raise common.Skipped(str(group))
        result, how = measure.Result(cell, cell.entries[0]), measure.Plan(3, n_calls, 1)
        measure.prepare(cell, group, how, 1)
        happened, began = [], time.monotonic()
        deeds = threading.Thread(target=act, args=(plan, began, group, method, happened))
        deeds.start()
        measure.take_turn(group, cell.entries[0], how, 180, result)
        deeds.join()
    offset = result.elapsed - sum(result.times)
    ends, now = [], offset
    for seconds in result.times:
        now += seconds
        ends.append(now)
    typical = common.summary(result.times)
    # A death costs what the slow calls took more than a call usually takes.
    return {"call": {q: typical[q] for q in ("median", "q1", "q3", "n")}, "ends": ends,
            "longest_call_s": max(result.times), "happened": happened, "seconds": sum(result.times),
            "wrong": result.wrong}


def scenarios(n_calls):
    """Name, method, number of calls, and plan."""
    death = [(KILL_AFTER_S, kill_switch)]
    # Calls take several times as long.
    n_slow = n_calls // 2
    yield "no failure", Switches("calm", False), n_calls, []
    yield ("the switch is killed, and back after half a second", Switches("back", False), n_calls,
           death + [(KILL_AFTER_S + GONE_S, restart_switch)])
    yield "the switch is killed, another one takes over", Switches("standby", True), n_calls, death
    yield ("the switch's cable is pulled, another one takes over", Switches("cable", True),
           n_calls, [(KILL_AFTER_S, pull_cable)])
    yield ("a leaf of two is killed, and back after half a second", Leaves("leaf"), n_calls,
           death + [(KILL_AFTER_S + GONE_S, restart_switch)])
    yield ("the root of two leaves is killed, and back after half a second",
           Leaves("root", "root"), n_calls, death + [(KILL_AFTER_S + GONE_S, restart_switch)])
    yield "1 % lost, 1 % twice, 1 % late", Switches("faults", False, FAULTS), n_slow, []
    yield ("the same, and the switch dies every 1.5 s", Switches("chaos", False, FAULTS), n_slow,
           chaos([], n_slow * 0.1))


def run(lab):
    n_workers, n_calls = 4, lab.choose(100, 300, 80)
    rows = {}
    for name, method, calls, plan in scenarios(n_calls):
        if method.name not in lab.choose((method.name,), (method.name,), SMALLEST):
            continue
        repeats = lab.choose(2, 6, 1)
        lab.say(f"{name}, {repeats} times")
        rows[name] = []
        for _ in range(repeats):
            rows[name].append(timeline(lab, n_workers, calls, method, plan))
    return {"workers": n_workers, "rate_mbit": RATE, "bytes": SIZE, "calls": n_calls,
            "faults": FAULTS, "rows": rows}


def throughput(run_data, size):
    """Mbit/s of elements by the middle of each step, which usually has several calls."""
    ends, step = run_data["ends"], max(STEP_S, 5 * run_data["call"]["median"])
    n_steps = int(ends[-1] / step) + 1
    bits, usual = [0.0] * n_steps, run_data["call"]["median"]
    for end in ends:
        # A call moves its bits in the time that calls usually take, before its end. In the rest
        # of a longer call, nothing moves.
        begin = max(0, end - usual)
        for i in range(int(begin / step), int(end / step) + 1):
            inside = min(end, (i + 1) * step) - max(begin, i * step)
            bits[i] += 8 * size * inside / (end - begin)
    return [((i + 0.5) * step, n / step / 1e6) for i, n in enumerate(bits)]


def draw(data, plt):
    figure, axes = plt.subplots(4, 2, figsize=(9, 10.5), sharey=True)
    for axis, (name, runs) in zip(axes.flat, data["rows"].items()):
        for i, one in enumerate(runs):
            points = throughput(one, data["bytes"])
            axis.plot([p[0] for p in points], [p[1] for p in points], linewidth=1,
                      alpha=1 if i == 0 else 0.3, color="C0")
        for at, deed in runs[0]["happened"]:
            back = deed == "restart_switch"
            label = "restart" if back else "cable" if deed == "pull_cable" else "death"
            shown = axis.get_legend_handles_labels()[1]
            axis.axvline(at, color="C2" if back else "C3", linestyle=":", linewidth=1,
                         label=None if label in shown else label)
        if runs[0]["happened"]:
            axis.legend(fontsize=7, loc="lower right")
        axis.set_title(name, fontsize=9)
        axis.set(xlabel="seconds", ylabel="Mbit/s of elements", ylim=(0, None),
                 xlim=(0, None))
    for axis in list(axes.flat)[len(data["rows"]):]:
        axis.set_visible(False)
    return figure


def facts(data):
    yield (f"{data['workers']} workers, {data['rate_mbit']} Mbit/s, {data['calls']} calls (half of them under faults) of "
           f"{data['bytes'] / 1000:g} kB, every result checked.\n")
    yield "| | a call, median, ms | longest call, median of the runs, s | longest of all, s | all calls, s |"
    yield "|---|---:|---:|---:|---:|"
    for name, runs in data["rows"].items():
        longest = common.summary([one["longest_call_s"] for one in runs])
        total = common.summary([one["seconds"] for one in runs])
        call = common.summary([one["call"]["median"] for one in runs])
        yield (f"| {name} | {1e3 * call['median']:.1f} | {longest['median']:.2f} "
               f"| {max(longest['values']):.2f} | {total['median']:.2f} "
               f"({total['q1']:.2f}–{total['q3']:.2f}) |")
    wrong = sum(one["wrong"] for runs in data["rows"].values() for one in runs)
    yield f"\nWrong elements in all of these runs: {wrong}."
