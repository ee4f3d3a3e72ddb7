# SPDX-License-Identifier: BSD-3-Clause
"""For metrics.sh: what the switch serves over HTTP, compared with its status; and hostile clients.

metrics.py agree SWITCHML SWITCH URL     its text agrees with `switchml status`
metrics.py dashboard SWITCHML SWITCH URL WORKER-FILE [URL of a tree's switch]...
metrics.py prometheus SWITCHML SWITCH PROMETHEUS-URL URL   what it has scraped from URL agrees, too
metrics.py hostile SWITCHML SWITCH URL   clients that do everything wrong do not disturb the job
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

SAMPLE = re.compile(r'^(\w+)(?:\{((?:\w+="(?:[^"\\]|\\.)*",?)*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def await_true(what, condition, seconds=90):
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"not in time: {what}"
        time.sleep(0.1)


def status(switchml, switch):
    """Once it is answered: status gives up after 5 s, and a busy machine may need longer."""
    answers = []

    def asked():
        command = [switchml, "status", "--json", "--switch", switch]
        answers.append(subprocess.run(command, check=False, stdout=subprocess.PIPE))
        return answers[-1].returncode == 0

    await_true("an answer of the switch", asked)
    return json.loads(answers[-1].stdout)[0]


# Prometheus 3's.
ACCEPT = ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
          "text/plain;version=1.0.0;q=0.4,*/*;q=0.2")


def get(url, accept=ACCEPT):
    request = urllib.request.Request(url, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def samples(text):
    """{(name, ((label, value), ...)): number} of OpenMetrics text."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        key = (name, tuple(sorted(LABEL.findall(labels or ""))))
        assert key not in found, f"twice: {line}"
        found[key] = float(value)
    return found


def escaped(text):
    return text.replace("\\", "\\\\").replace('"', '\\"')


def counters(said):
    """The counters of a status, as metrics."""
    found = {}

    def put(name, value, **labels):
        found[(name, tuple(sorted((k, str(v)) for k, v in labels.items())))] = value

    of_switch = said["counters"]
    for way in ("received", "sent"):
        for what in ("packets", "bytes"):
            put(f"switchml_{way}_{what}_total", of_switch[f"{what}-{way}"])
    for leaf in said["leaves"]:
        # The leaf's connection, which is no counter, but changes only when a job begins or ends.
        for what in ("ranks", "slots", "slots_in_use"):
            put(f"switchml_leaf_{what}", leaf[what], leaf=leaf["name"])
    for job in said["jobs"]:
        own = {"job_name": escaped(job["job"]), "stripe": job["served"][0]["stripe"]}
        for verdict, value in job["counters"].items():
            put("switchml_job_packet_verdicts_total", value, verdict=verdict, **own)
        for leaf in job["leaves"]:
            behind = {**own, "leaf": leaf["leaf"]}
            put("switchml_job_leaf_ranks", leaf["ranks"], **behind)
            put("switchml_job_leaf_contributions_total", leaf["contributions"], **behind)
            put("switchml_job_leaf_resent_results_total", leaf["resends"], **behind)
            put("switchml_job_leaf_waited_seconds_total", leaf["waited_ms"] / 1000, **behind)
        for worker in job["workers"]:
            rank = {**own, "rank": worker["rank"]}
            put("switchml_rank_contributions_total", worker["contributions"], **rank)
            put("switchml_rank_resent_results_total", worker["resends"], **rank)
            put("switchml_rank_waited_seconds_total", worker["waited_ms"] / 1000, **rank)
            traffic = worker["traffic"]
            if not traffic:
                continue
            for way in ("received", "sent"):
                for what in ("packets", "bytes"):
                    put(f"switchml_rank_{way}_{what}_total", traffic[f"{what}_{way}"], **rank)
            waited_ms = traffic["host_waited_ms"]
            put("switchml_rank_host_waited_seconds_total", waited_ms / 1000, **rank)
            put(
                "switchml_rank_retransmitted_packets_total",
                traffic["retransmits_timeout"],
                cause="timeout",
                **rank,
            )
            put(
                "switchml_rank_retransmitted_packets_total",
                traffic["retransmits_fast"],
                cause="overtaken",
                **rank,
            )
    return found


def compare(before, served, after):
    """Counters only grow: what was served in between lies in between."""
    low, high = counters(before), counters(after)
    assert low and low.keys() <= high.keys(), low.keys() - high.keys()
    for key, value in low.items():
        assert key in served, f"not served: {key}"
        assert value <= served[key] <= high[key], (key, value, served[key], high[key])
    print(f"{len(low)} counters agree")


def is_under_way(said):
    """A leaf is told nothing of what ranks count. Where ranks share memory, one of them sends."""
    return said["jobs"] and all(
        w["contributions"] + len(w["leaf"]) > 0
        if said["parent"]
        else w["traffic"] and (w["traffic"]["packets_sent"] > 0 or w["sent_by"] != w["rank"])
        for w in said["jobs"][0]["workers"]
    )


def epoch_under_way(said):
    """Of the job, from 1 on, or something that is false."""
    return is_under_way(said) and said["jobs"][0]["state"] == "running" and said["jobs"][0]["epoch"]


def in_one_epoch(switchml, switch, look):
    """The status before and after look(), and its result between them, of one job that both show
    under way, in the same epoch. On a machine that is so busy that ranks resume in between, the
    job has no row for a moment, or new counters; then it is all asked again."""

    def asked():
        before = status(switchml, switch)
        seen = look(before)
        after = status(switchml, switch)
        epoch = epoch_under_way(before)
        return epoch and epoch == epoch_under_way(after) and (before, seen, after)

    return await_true("all ranks tell what they move, in one epoch", asked)


def agree(switchml, switch, url):
    def look(_):
        time.sleep(0.3)  # the server may keep a text for 0.25 s
        return get(url), get(url, "*/*")

    before, ((content, text), (plain_content, plain)), after = in_one_epoch(switchml, switch, look)
    assert content.startswith("application/openmetrics-text; version=1.0.0"), content
    assert text.endswith("# EOF\n")
    served = samples(text)
    compare(before, served, after)
    assert plain_content.startswith("text/plain; version=0.0.4"), plain_content
    assert "# TYPE switchml_received_bytes_total counter\n" in plain and "# EOF" not in plain
    assert samples(plain).keys() == served.keys()
    job = before["jobs"][0]
    own = (("job_name", escaped(job["job"])),)
    assert served[("switchml_job_state", own + (("state", "running"), ("stripe", "0")))] == 1
    assert served[("switchml_job_ranks", own + (("stripe", "0"),))] == job["world_size"]
    facts = [dict(labels) for (name, labels) in served if name == "switchml_rank_info"]
    assert [(fact["host"], fact.get("leaf", ""), fact["sent_by"]) for fact in facts] == [
        (worker["host"], worker["leaf"], str(worker["sent_by"])) for worker in job["workers"]
    ], facts
    assert served[("switchml_tree_level", ())] == before["level"]
    parents = [key for key in served if key[0] == "switchml_parent_attached"]
    assert parents == (
        [("switchml_parent_attached", (("parent", before["parent"]),))] if before["parent"] else []
    )
    assert all(served[key] == 1 for key in parents)


def prometheus(switchml, switch, url, scraped_url):
    """Prometheus has scraped the switch after one status and before another."""
    instance = urllib.parse.urlparse(scraped_url).netloc

    def ask(query):
        with urllib.request.urlopen(
            f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": query}), timeout=60
        ) as answer:
            return json.load(answer)["data"]["result"]

    def scraped():
        served = {}
        for found in ask(f'{{__name__=~"switchml_.*",instance="{instance}"}}'):
            labels = {
                k: escaped(v)
                for k, v in found["metric"].items()
                if k not in ("__name__", "instance", "job")
            }
            served[(found["metric"]["__name__"], tuple(sorted(labels.items())))] = float(
                found["value"][1]
            )
        return served

    def look(before):
        await_true(
            "a scrape after the status",
            lambda: any(
                float(found["value"][1]) * 1000 > before["uptime_ms"] + 300
                for found in ask(f'switchml_uptime_seconds{{instance="{instance}"}}')
            ),
        )
        # A scrape that takes too long leaves nothing until the next one.
        return await_true("samples", scraped)

    compare(*in_one_epoch(switchml, switch, look))
    await_true("all are up", lambda: {found["value"][1] for found in ask("up")} == {"1"})
    # An expression that Prometheus does not understand is an HTTP error here.
    for expression in expressions()[0]:
        ask(re.sub(r"\$(instance|job_name)", ".*", expression).replace("$__rate_interval", "1m"))
    # A rate over a few scrapes, as a dashboard asks for it.
    await_true(
        "a rate",
        lambda: any(
            float(found["value"][1]) > 0 for found in ask("rate(switchml_received_bytes_total[1m])")
        ),
    )


DASHBOARD = os.path.join(os.path.dirname(__file__), "../../packaging/grafana/dashboard")

ALERTS = os.path.join(os.path.dirname(__file__), "../../packaging/prometheus/switchml.rules.yml")


def expressions():
    """Those of all panels, alerts and variables of the dashboard."""
    board = json.loads(subprocess.run([DASHBOARD], check=True, stdout=subprocess.PIPE).stdout)
    with open(ALERTS, encoding="utf-8") as file:
        alerts = re.findall(r"^ +expr: (.*)$", file.read(), re.MULTILINE)
    found = alerts + [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(alerts) >= 5 and len(found) >= 25, found
    assert {panel["id"] for panel in board["panels"]} == set(range(1, len(board["panels"]) + 1))
    variables = [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    return found, variables


def dashboard(switchml, switch, url, worker_file, *others):
    await_true("a job", lambda: is_under_way(status(switchml, switch)))
    with open(worker_file, encoding="utf-8") as file:
        served = samples(get(url)[1]) | samples(file.read())
    for other in others:
        served |= samples(get(other)[1])
    # A rank's link has a speed only where its driver knows it: then its head is enough.
    exist = {name for name, _ in served} | {"switchml_rank_link_speed_bytes"}
    labels = {"": set()}
    for name, pairs in served:
        labels.setdefault(name, set()).update(label for label, _ in pairs)
    found, variables = expressions()
    for expression in found + variables:
        names = re.findall(r"\bswitchml_\w+", expression)
        assert names, expression
        for name in names:
            assert name in exist, f"{name} is not served: {expression}"
        for name, selectors in re.findall(r"\b(switchml_\w+)\{(.*?)\}", expression):
            for label in re.findall(r"(\w+)[=!]", selectors):
                assert label == "instance" or name not in labels or label in labels[name], (
                    expression
                )
    # And each metric of a switch is worth a panel, or is left out on purpose.
    unused = {name for name, _ in served if name not in " ".join(found + variables)}
    assert unused <= UNUSED, f"in no panel: {unused - UNUSED}"
    print(f"{len(found)} expressions name only metrics that exist")


# Facts that are no curves, and what another panel shows already.
UNUSED = {
    "switchml_probes_total",
    "switchml_tree_level",
    "switchml_job_leaf_ranks",
    "switchml_job_leaf_contributions_total",
    "switchml_job_slots",
    "switchml_job_lanes",
    "switchml_job_state",
    "switchml_job_ranks_joined",
    "switchml_job_ranks_left",
    "switchml_job_waiting",
    "switchml_waiting_processes",
    "switchml_rank_info",
    "switchml_rank_contributions_total",
    "switchml_rank_resent_results_total",
    "switchml_rank_sent_packets_total",
    "switchml_rank_received_packets_total",
    "switchml_worker_sent_packets_total",
    "switchml_worker_received_packets_total",
    "switchml_worker_sent_bytes_total",
    "switchml_worker_received_bytes_total",
    "switchml_worker_retransmitted_packets_total",
    "switchml_worker_ignored_packets_total",
    "switchml_worker_blocked_sends_total",
    "switchml_worker_window_packets",
    "switchml_worker_call_seconds_count",
    "switchml_worker_call_seconds_sum",
}


def uses(switchml, switch):
    return await_true("a job", lambda: status(switchml, switch)["jobs"])[0]["counters"]["completed"]


def is_closed(client):
    """The server has ended it; whatever it still says is read."""
    client.setblocking(False)
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


def hostile(switchml, switch, url):
    place = urllib.parse.urlparse(url)
    address = (place.hostname, place.port)

    def goes_on(what):
        begun = uses(switchml, switch)
        await_true(f"the job goes on {what}", lambda: uses(switchml, switch) > begun + 100)

    # Slow ones: each sends a byte of a header now and then, and none ends it.
    slow = [socket.create_connection(address, timeout=60) for _ in range(10)]
    for client in slow:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    goes_on("beside slow clients")

    def all_closed():
        for client in list(slow):
            with contextlib.suppress(OSError):
                client.sendall(b"a")
            if is_closed(client):
                slow.remove(client)
        return not slow

    await_true("the slow clients are ended", all_closed, 180)
    await_true("it serves after slow clients", lambda: answers(url))
    # Headers without an end, garbage, and clients that do not read.
    for begin in (
        b"GET /metrics HTTP/1.1\r\nX-Long: ",
        b"GET /",
        b"\x16\x03\x01",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n",
    ):
        client = socket.create_connection(address, timeout=60)
        try:
            for _ in range(64):
                client.sendall(begin + b"a" * 65536)
                begin = b""
        except OSError:
            pass
        client.close()
    goes_on("beside long headers")
    for _ in range(1000):
        try:
            client = socket.create_connection(address, timeout=60)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            client.close()
        except OSError:
            pass
    goes_on("after many connections")
    await_true("it serves after all of them", lambda: answers(url))


def answers(url):
    try:
        return samples(get(url)[1])
    except OSError:
        return None


if __name__ == "__main__":
    commands = {
        "agree": agree,
        "prometheus": prometheus,
        "dashboard": dashboard,
        "hostile": hostile,
    }
    commands[sys.argv[1]](*sys.argv[2:])
