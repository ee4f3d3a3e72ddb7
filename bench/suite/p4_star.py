# SPDX-License-Identifier: BSD-3-Clause
"""A star of hosts around BMv2's simple_switch, which runs our P4 program, instead of a bridge.

       worker 0         worker 1    …    the daemon, which controls simple_switch,
    +-----------+    +-----------+       in the namespace of the switch itself
    | 10.77.1.1 |    | 10.77.1.2 |    +-----------+
    +-----+-----+    +-----+-----+    | 10.77.0.1 | daemon
          | eth0           |          +-----+-----+
    +-----+----------------+----------------+-----+
    |   port 1           port 2           port 0  |
    |               simple_switch                 |
    +---------------------------------------------+

BMv2 reads frames as they are, so nothing may be left to hardware: no end of a cable has
checksum or segmentation offload. Its Thrift server listens on all addresses of its namespace.
"""
import os
import shutil
import subprocess
import time

from group import last_line
from star import HOST_QUEUE_BYTES, PORT_QUEUE_BYTES, Star, call

EXECUTABLE = "simple_switch"
THRIFT_PORT = 9090
START_SECONDS = 60
SLOTS = 1024


def why_no_p4(program):
    """Why our P4 program cannot run here. None: it can."""
    if not shutil.which(EXECUTABLE):
        return f"there is no {EXECUTABLE} (BMv2): docs/p4.md says where to get it"
    try:
        with open(program, "rb"):
            return None
    except OSError:
        return f"there is no {program}: docs/p4.md says where to get p4c, and then build again"


class P4Star(Star):
    """Hosts are "0", "1", … for workers; "net" is the switch, and the daemon is there, too."""

    def build(self, others):
        self.macs = []
        net = self.namespace("net")
        call("ip", "netns", "add", net)
        call("ip", "-n", net, "link", "set", "lo", "up")
        # The kernel must not answer at the switch's ports for the daemon's address.
        call(*self.inside("net"), "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
        self.plug("net", "daemon", "10.77.0.1", 0)
        self.address["switch"] = "10.77.0.1"
        for rank in range(self.n_workers):
            call("ip", "netns", "add", self.namespace(str(rank)))
            call("ip", "-n", self.namespace(str(rank)), "link", "set", "lo", "up")
            self.plug(str(rank), "eth0", f"10.77.1.{rank + 1}", 1)
            self.address[str(rank)] = f"10.77.1.{rank + 1}"

    def plug(self, host, device, address, links):
        """A cable from the host to the next port."""
        number = len(self.macs)
        namespace, net, port = self.namespace(host), self.namespace("net"), f"port-{number}"
        mac = f"02:77:00:00:00:{number:02x}"
        call("ip", "-n", namespace, "-batch", "-",
             text=f"link add {device} type veth peer name {port} netns {net}\n"
                  f"link set {device} address {mac} mtu {self.mtu}\n"
                  f"address add {address}/16 dev {device}\n")
        call("ip", "-n", net, "link", "set", port, "mtu", str(self.mtu))
        for where, name in ((host, device), ("net", port)):
            call(*self.inside(where), "ethtool", "-K", name, "rx", "off", "tx", "off", "sg", "off",
                 "gso", "off", "tso", "off", "gro", "off")
            call("ip", "-n", self.namespace(where), "link", "set", name, "up")
        self.macs.append(f"{mac}={number}")
        self.shape(namespace, device, links, HOST_QUEUE_BYTES)
        self.shape(net, port, links, PORT_QUEUE_BYTES)

    def lose(self, share):
        if share:
            raise RuntimeError("simple_switch loses no packets on request")

    def wire(self):
        raise RuntimeError("the queues of a star with a bridge are not here")

    def daemon_options(self):
        """Of `switchml switch`."""
        return ["--dataplane", "p4", "--target", f"127.0.0.1:{THRIFT_PORT}",
                "--slots", str(SLOTS), "--hosts", ",".join(self.macs)]

    def start_simple_switch(self, program, log):
        """The process, once it can be controlled."""
        ports = [word for i in range(len(self.macs)) for word in ("-i", f"{i}@port-{i}")]
        # A process group, so that Ctrl-C reaches only the ranks; not a session, which the kernel
        # would schedule as a group of its own. It moves all packets of all ranks.
        with open(log, "wb") as output:
            process = subprocess.Popen(
                self.inside("net") + [EXECUTABLE, *ports, "--thrift-port", str(THRIFT_PORT),
                                      "--log-level", "error", program],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp)
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{EXECUTABLE} did not start: {last_line(log)}")
            time.sleep(0.1)
        return process

    def answers(self):
        return subprocess.run(
            self.inside("net") + ["bash", "-c", f": </dev/tcp/127.0.0.1/{THRIFT_PORT}"],
            stderr=subprocess.DEVNULL, check=False).returncode == 0
