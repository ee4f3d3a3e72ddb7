# SPDX-License-Identifier: BSD-3-Clause
"""A star of hosts on this machine: network namespaces around one bridge.

       worker 0         worker 1    …    a switch
    +-----------+    +-----------+    +-----------+
    | 10.77.1.0 |    | 10.77.1.1 |    | 10.77.0.1 |    a namespace each; eth0 is shaped
    +-----+-----+    +-----+-----+    +-----+-----+    by tbf: what the host sends
          | eth0           |                |
          | veth           |                |
          | port           |                |          shaped by tbf: what it receives
    +-----+----------------+----------------+-----+
    |                   bridge                    |    one more namespace, never the limit
    +---------------------------------------------+

Links are emulated, on the cores that the hosts share: rates and loss are those asked
for, but hosts slow each other down as real ones don't.

tbf is given room for the 64 KiB that one TCP or UDP super-packet can have, so
that segmentation offload works as with a real NIC. Where packets must get lost,
senders segment by themselves, the bridge draws for each packet that it forwards
(once from worker to switch, once from there to each worker), and receivers
glue what is left together again (GRO), as a NIC's driver does.
"""
import contextlib
import functools
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

# Names of namespaces and directories begin with this, the process number and, after the first star, another number.
PREFIX = "smllinks"
NUMBERS = itertools.count()

# The largest super-packet: 64 KiB and the headers of its segments.
BURST_BYTES = 72 * 1024
# The capacity of a host's queue, and of a port of a real switch.
HOST_QUEUE_BYTES = 10 << 20
PORT_QUEUE_BYTES = 2 << 20
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_on_signals():
    """Let this program clean up when it is asked to end."""
    for number in SIGNALS:
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


@contextlib.contextmanager
def signals_held():
    """Hold signals until this block is over, also in children: for cleaning up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def call(*command, check=True, text=None):
    try:
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
    except FileNotFoundError as missing:
        if check:
            raise RuntimeError(str(missing)) from missing
        return ""
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def why_not():
    """Why there can be no star here. None: there can be one."""
    return "network namespaces need root" if os.geteuid() != 0 else why_no_programs()


def why_no_programs():
    """Which program a star lacks. None: they are all there."""
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("ethtool", "ethtool"),
                             ("iptables-restore", "iptables"), ("sysctl", "procps")):
        if not shutil.which(program):
            return f"there is no {program} (Debian: {package})"
    return None


@functools.cache
def choose_tcp():
    """cubic, or else the machine's own: namespaces may use only those in
    net.ipv4.tcp_allowed_congestion_control."""
    with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control", encoding="ascii") as allowed:
        if "cubic" in allowed.read().split():
            return "cubic"
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as preferred:
        return preferred.read().strip()


def begin(program, why=None):
    """For a program that builds stars. It ends with 77 if there can be none, or with another reason."""
    reason = why_not() or why
    if reason:
        print(f"{program}: skipped: {reason}")
        sys.exit(77)
    exit_on_signals()
    remove_remains()


def remove(name):
    """Remove everything that exists of a star, and kill what still runs inside."""
    for line in call("ip", "netns", "list", check=False).splitlines():
        namespace = line.split()[0] if line.split() else ""
        if not namespace.startswith(name + "-"):
            continue
        pids = call("ip", "netns", "pids", namespace, check=False).split()
        if pids:
            call("kill", "-9", *pids, check=False)
        call("ip", "netns", "delete", namespace, check=False)


def remove_remains():
    """Remove stars whose process was killed before it could clean up. It may have had our number: we have no star yet."""
    temporary = tempfile.gettempdir()
    for name in call("ip", "netns", "list", check=False).splitlines() + os.listdir(temporary):
        found = re.match(rf"({PREFIX}(\d+)(\.\d+)?)-", name)
        if found and (int(found[2]) == os.getpid() or not os.path.exists(f"/proc/{found[2]}")):
            remove(found[1])
            shutil.rmtree(os.path.join(temporary, found[1] + "-work"), ignore_errors=True)


class Star:
    """Hosts are "0", "1", … for workers, and names for other hosts on the bridge."""

    def __init__(self, n_workers, rate_mbit, mtu=1500, offload=True, per_host=1):
        number = next(NUMBERS)
        self.name = f"{PREFIX}{os.getpid()}" + (f".{number}" if number else "")
        self.work = os.path.join(tempfile.gettempdir(), self.name + "-work")  # logs
        self.n_workers = n_workers
        self.per_host = per_host
        self.n_hosts = n_workers // per_host  # of workers
        self.rate_mbit = rate_mbit
        self.mtu = mtu
        self.offload = offload
        self.address = {}
        self.loss = 0
        self.ports = 0
        self.uplinks = []  # hosts that have one

    # ---- building ----

    def build(self, others):
        """others: name -> the speed of the host's link in worker links; 0: not shaped."""
        net = self.namespace("net")
        call("ip", "netns", "add", net)
        call("ip", "-n", net, "-batch", "-",
             text="link set lo up\nlink add bridge type bridge\n"
                  f"link set bridge mtu {self.mtu} up\n")
        # Lets the bridge pass forwarded packets to iptables, so that they can be lost. Elsewhere it
        # would only cost time, of every method.
        if not self.offload:
            call("modprobe", "br_netfilter", check=False)
        for family in ("iptables", "ip6tables", "arptables"):
            call(*self.inside("net"), "sysctl", "-qw",
                 f"net.bridge.bridge-nf-call-{family}={int(not self.offload and family == 'iptables')}",
                 check=not self.offload)
        for number in range(self.n_hosts):
            self.add_host(str(number), ipaddress.ip_address("10.77.1.0") + number + 1, 1)
        for i, (name, links) in enumerate(others.items()):
            self.add_host(name, ipaddress.ip_address("10.77.0.1") + i, links)

    def add_host(self, host, address, links):
        namespace = self.namespace(host)
        self.address[host] = str(address)
        call("ip", "netns", "add", namespace)
        call("ip", "-n", namespace, "link", "set", "lo", "up")
        self.connect(host, "eth0", f"port-{host}", "bridge", address, links)
        # Without a new slow start after the pauses of interleaved runs.
        call("ip", "netns", "exec", namespace, "sysctl", "-qw", "net.ipv4.tcp_slow_start_after_idle=0",
             f"net.ipv4.tcp_congestion_control={choose_tcp()}")

    def connect(self, host, device, port, bridge, address, links):
        """A cable from a host's new device to a new port of a bridge, shaped at both ends."""
        namespace, net = self.namespace(host), self.namespace("net")
        call("ip", "-n", namespace, "-batch", "-",
             text=f"link add {device} type veth peer name {port} netns {net}\n"
                  f"link set {device} mtu {self.mtu}\naddress add {address}/16 dev {device}\n"
                  f"link set {device} up\n")
        call("ip", "-n", net, "-batch", "-",
             text=f"link set {port} mtu {self.mtu}\nlink set {port} master {bridge} up\n")
        if not self.offload:
            call("ip", "netns", "exec", namespace, "ethtool", "-K", device, "tso", "off",
                 "gso", "off", "tx-udp-segmentation", "off", "gro", "on")
        self.shape(namespace, device, links, HOST_QUEUE_BYTES)
        self.shape(net, port, links, PORT_QUEUE_BYTES)

    def add_uplinks(self, root, leaves):
        """A second bridge above the star: each leaf's uplink has the rate of one worker's link,
        and the root's cable is not shaped. Returns the root's address there."""
        self.uplinks = list(leaves)
        call("ip", "-n", self.namespace("net"), "-batch", "-",
             text=f"link add spine type bridge\nlink set spine mtu {self.mtu} up\n")
        for i, host in enumerate([root, *leaves]):
            self.connect(host, "up0", f"up-{host}", "spine", f"10.78.0.{i + 1}", int(i > 0))
        for host in leaves:
            # A leaf sends from the address on which it listens. Answers go down its uplink, too.
            call("ip", "-n", self.namespace(root), "route", "add", f"{self.address[host]}/32", "dev", "up0")
        return "10.78.0.1"

    def shape(self, namespace, device, links, queue_bytes):
        # A queue that does not shape still counts.
        how = ["pfifo", "limit", "10000"]
        if links and self.rate_mbit:
            how = ["tbf", "rate", f"{links * self.rate_mbit}mbit", "burst", str(BURST_BYTES),
                   "limit", str(queue_bytes)]
        call("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *how)

    # ---- using ----

    def namespace(self, host):
        return f"{self.name}-{host}"

    def host_of(self, rank):
        """Ranks in sequence share a host, as with torchrun."""
        return str(rank // self.per_host)

    def inside(self, host):
        """The prefix for a command that runs on a host."""
        return ["ip", "netns", "exec", self.namespace(host)]

    def next_port(self):
        """0, 1, 2, …: so that two programs of a star never listen on the same port."""
        self.ports += 1
        return self.ports - 1

    def lose(self, share):
        """From now on, lose this share of the packets that the bridge forwards."""
        if share == self.loss:
            return
        rule = f"-A FORWARD -m statistic --mode random --probability {share} -j DROP\n"
        call(*self.inside("net"), "iptables-restore",
             text="*filter\n:FORWARD ACCEPT\n" + (rule if share else "") + "COMMIT\n")
        self.loss = share

    def counters(self, host):
        """A command for a worker's host: it prints what has left the host, and come to it."""
        return (f"tc -s qdisc show dev eth0 && "
                f"tc -n {self.namespace('net')} -s qdisc show dev port-{host}")

    def wire(self):
        """Totals: bytes that a worker's host has sent and received, drops, and bytes that have gone up
        the last uplink, and down."""
        ports = {row["dev"]: row for row in json.loads(
            call("tc", "-n", self.namespace("net"), "-s", "-j", "qdisc", "show"))}
        # All hosts are alike, so the queue of the last one stands for all.
        last = str(self.n_hosts - 1)
        out = self.queue(last, "eth0")
        found = {"sent": out["bytes"], "received": ports[f"port-{last}"]["bytes"],
                 "dropped": out["drops"] + sum(row.get("drops", 0) for row in ports.values())}
        if self.uplinks:
            found["up"] = self.queue(self.uplinks[-1], "up0")["bytes"]
            found["down"] = ports[f"up-{self.uplinks[-1]}"]["bytes"]
        return found

    def queue(self, host, device):
        """What tc counts at a device of a host."""
        return json.loads(call("tc", "-n", self.namespace(host), "-s", "-j", "qdisc", "show", "dev",
                               device))[0]

    # ---- the beginning and the end ----

    @contextlib.contextmanager
    def opened(self, others=()):
        """Exists within this block."""
        os.mkdir(self.work, 0o700)
        try:
            self.build(dict(others))
            yield self
        finally:
            with signals_held():
                self.remove()

    def remove(self):
        remove(self.name)
        shutil.rmtree(self.work, ignore_errors=True)
