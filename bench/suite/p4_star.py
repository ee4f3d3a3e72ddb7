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
simple_switch_grpc is the same switch, and gets its program from the daemon, through P4Runtime.
"""
import os
import shutil
import subprocess
import time

from star import HOST_QUEUE_BYTES, PORT_QUEUE_BYTES, Star, call

from programs import last_line

THRIFT_PORT = 9090
P4RUNTIME_PORT = 9559
# What bench/on-links calls them: BMv2's executable, and where the daemon controls it.
PROTOCOLS = {"p4": ("simple_switch", f"127.0.0.1:{THRIFT_PORT}"),
             "p4runtime": ("simple_switch_grpc", f"p4runtime://127.0.0.1:{P4RUNTIME_PORT}")}
START_SECONDS = 60
SLOTS = 1024


def why_no_p4(program, protocol):
    """Why our P4 program cannot run here. None: it can."""
    executable = PROTOCOLS[protocol][0]
    if not shutil.which(executable):
        return f"there is no {executable} (BMv2): docs/p4.md says where to get it"
    try:
        with open(program, "rb"):
            return None
    except OSError:
        return f"there is no {program}: docs/p4.md says where to get p4c, and then build again"


class P4Star(Star):
    """Hosts are "0", "1", … for workers; "net" is the switch, and the daemon is there, too."""

    def __init__(self, name, n_workers, rate, mtu, protocol):
        super().__init__(name, n_workers, rate, mtu)
        self.executable, self.target = PROTOCOLS[protocol]

    def build(self, others):
        self.macs = []
        net = self.namespace("net")
        call("ip", "netns", "add", net)
        call("ip", "-n", net, "link", "set", "lo", "up")
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

    def loads_program(self):
        """Is it the daemon that gives the switch its program?"""
        return self.executable != "simple_switch"

    def daemon_options(self, program):
        """Of `switchml switch`."""
        return ["--dataplane", "p4", "--target", self.target, "--slots", str(SLOTS),
                "--hosts", ",".join(self.macs), *(["--program", program] if self.loads_program() else [])]

    def start_simple_switch(self, program, log):
        """The process, once it can be controlled."""
        ports = [word for i in range(len(self.macs)) for word in ("-i", f"{i}@port-{i}")]
        last = ["--no-p4", "--", "--grpc-server-addr", f"127.0.0.1:{P4RUNTIME_PORT}"] \
            if self.loads_program() else [program]
        # A process group, so that Ctrl-C reaches only the ranks; not a session, which the kernel
        # would schedule as a group of its own. It moves all packets of all ranks.
        with open(log, "wb") as output:
            process = subprocess.Popen(
                self.inside("net") + [self.executable, *ports, "--thrift-port", str(THRIFT_PORT),
                                      "--log-level", "error", *last],
                stdout=output, stderr=output, stdin=subprocess.DEVNULL, preexec_fn=os.setpgrp)
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.executable} did not start: {last_line(log)}")
            time.sleep(0.1)
        return process

    def answers(self):
        port = self.target.rpartition(":")[2]
        return subprocess.run(
            self.inside("net") + ["bash", "-c", f": </dev/tcp/127.0.0.1/{port}"],
            stderr=subprocess.DEVNULL, check=False).returncode == 0
