# SPDX-License-Identifier: BSD-3-Clause
"""The compared ways to all-reduce, and how each is started on a star."""
import os
import shutil

from group import Failed, Refused

PORT = 28500
HEADER_BYTES = 40  # SwitchML's header in each UDP packet (src/core/wire.h)
ELEMENT_BYTES = {"float32": 4, "float16": 2}
WIRE_BYTES = {"int32": 4, "int16": 2, "int8": 1}
MTU = 1500
PACKET_LANES = 358  # with IPv4 and this MTU, of those that wire.h lets a job's packets have


class Method:
    build = os.path.join(os.path.dirname(__file__), "../../build")  # a program may set another one
    needs = "nothing"
    element_type = "float32"
    wire_share = 1.0  # bytes on the wire for each byte of elements
    same_bits = False  # does it promise the same bits on all ranks?

    def __init__(self, name, title):
        self.name = name
        self.title = title

    def count_of(self, size_bytes):
        """Elements in a tensor of this size."""
        return max(1, size_bytes // ELEMENT_BYTES[self.element_type])

    def switches(self):
        """Additional hosts: name -> the speed of the host's link in worker links; 0: not shaped."""
        return {}

    def moved(self, n_workers, per_host=1):
        """How often each element goes over the bottleneck link, a host's or a switch's. Of the
        others: a ring in the order of ranks, of which one connection leaves each host."""
        return 2 * (n_workers - 1) / n_workers if n_workers > per_host else 0

    def check(self, group):
        """Raises Failed if a group that has started does not do what it is to measure."""

    def payload_share(self):
        """The largest share of a link's bytes that can be elements: TCP with timestamps over
        Ethernet."""
        return (MTU - 52) / (MTU + 14)


class SwitchML(Method):
    """SwitchML. where: "port" (a switch whose port is not shaped), "nic" (a switch behind a NIC
    as fast as several links of workers), "two" (two of those, striped), "ranks" (no switch:
    striped over the ranks), "racks" (a switch in each of some racks, and one above them), "tree" (the same
    without racks), "standby" (a second switch for when the first one dies). hosts: ranks of one host send
    one contribution.
    wire: "" for the library's own choice."""

    needs = "ninja -C build"
    same_bits = True

    def __init__(self, name, title, wire="int32", where="port", links=1,
                 hosts=False, element_type="float32", racks=2, **environment):
        super().__init__(name, title)
        self.wire = wire
        self.element_type = element_type
        self.where = where
        self.links = links
        self.hosts = hosts
        self.racks = [f"rack{i}" for i in range(racks)] if where == "racks" else []
        self.settings = {"SWITCHML_SHARED_MEMORY": str(int(hosts)), **environment}
        self.wire_share = WIRE_BYTES[wire] / ELEMENT_BYTES[element_type] if wire else 1.0

    def switches(self):
        nic = f"nic{self.links}"
        return {"port": {"switch": 0}, "nic": {nic: self.links},
                "two": {nic + "a": self.links, nic + "b": self.links},
                "racks": dict.fromkeys(["root", *self.racks], 0), "standby": {"first": 0, "second": 0},
                "tree": {"root": 0, "first": 0, "second": 0}}.get(self.where, {})

    def moved(self, n_workers, per_host=1):
        hosts = n_workers // per_host
        if self.where == "ranks":
            # Each rank, or each host, exchanges all stripes but those of its own host.
            return 2 * (hosts - 1) / hosts * (1 if self.hosts else per_host)
        senders, on_host = (hosts, 1) if self.hosts else (n_workers, per_host)
        # Everything passes through the NICs of the switches, if there are any. Links work in both directions at once.
        if self.where not in ("nic", "two"):
            return on_host
        return max(on_host, senders / sum(self.switches().values()))

    def check(self, group):
        # Workers of one host that may share memory have one stripe.
        in_ranks = group.star.n_hosts if self.hosts else group.star.n_workers
        wanted = {"ranks": in_ranks, "two": 2}.get(self.where, 1)
        for rank in group.ranks.values():
            if rank.n_stripes != wanted:
                raise Refused(f"the library makes {rank.n_stripes} stripe of it, not {wanted}")

    def payload_share(self):
        return 4 * PACKET_LANES / (4 * PACKET_LANES + HEADER_BYTES + 28 + 14)

    def start(self, group):
        program = group.program("switchml_allreduce")
        own_port = str(PORT + group.star.next_port())
        addresses = self.start_switches(group)
        for rank in range(group.star.n_workers):
            address = addresses[rank * len(addresses) // group.star.n_workers]
            group.spawn(group.star.host_of(rank), [program], **{
                "SWITCHML_SWITCH": address, "SWITCHML_JOB": self.name,
                "SWITCHML_MASTER_ADDR": group.star.address["0"], "SWITCHML_MASTER_PORT": own_port,
                "SWITCHML_RANK": str(rank), "SWITCHML_WORLD_SIZE": str(group.star.n_workers),
                "SWITCHML_WIRE": self.wire, "SWITCHML_TIMEOUT": "120", **self.settings})

    def start_switches(self, group):
        """The settings of the ranks, divided evenly among ranks in sequence."""
        if self.where in ("racks", "tree"):
            star, (root, *leaves) = group.star, self.switches()
            if self.racks and not star.uplinks:
                star.address[root] = star.add_uplinks(root, leaves)
            parent = self.start_switch(group, root)
            return [self.start_switch(group, leaf, "--parent", parent) for leaf in leaves]
        # "embedded" is a stripe in every rank, also where they could share memory.
        between = "|" if self.where == "standby" else ","
        return [between.join(self.start_switch(group, host) for host in self.switches())
                or ("" if self.hosts else "embedded")]

    def listens_at(self, group, host):
        # Each group has its own switch, so it shares nothing with other rows.
        return f"{group.star.address[host]}:{PORT + group.star.next_port()}"

    def start_switch(self, group, host, *options):
        address = self.listens_at(group, host)
        group.serve(host, [os.path.join(self.build, "switchml"), "switch", "--listen", address, *options],
                    "attached to the parent" if "--parent" in options else f"ready on {address}")
        return address


class Gloo(Method):
    needs = "Gloo is missing (Debian: libgloo-dev)"

    def __init__(self, algorithm, element_type="float32"):
        of = "" if element_type == "float32" else element_type
        super().__init__(f"gloo-{algorithm}" + (of and f"-{of}"),
                         f"Gloo, {algorithm}" + (of and f", {of}"))
        self.algorithm = algorithm
        self.element_type = element_type

    def start(self, group):
        program = group.program("gloo_allreduce")
        store = os.path.join(group.work, "store")
        os.makedirs(store, exist_ok=True)
        for rank in range(group.star.n_workers):
            group.spawn(group.star.host_of(rank), [program, self.algorithm, store, str(rank), str(group.star.n_workers)],
                        GLOO_SOCKET_IFNAME="eth0")


class OpenMPI(Method):
    """mpirun runs on worker 0 and enters the other workers' namespaces with our agent instead of
    ssh. It uses TCP between hosts and shared memory within one, and waiting ranks yield the core,
    because ranks share cores."""

    needs = "Open MPI is missing (Debian: libopenmpi-dev, openmpi-bin)"

    def __init__(self, name="openmpi", title="Open MPI, TCP"):
        super().__init__(name, title)

    def start(self, group, *environment):
        """environment: NAME=VALUE of the ranks."""
        program = group.program("mpi_allreduce")
        mpirun = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
        if not mpirun:
            raise Refused(self.needs)
        star, table = group.star, os.path.join(group.work, "hosts")
        hosts = [str(number) for number in range(star.n_hosts)]
        with open(table, "w", encoding="ascii") as out:
            out.writelines(f"{star.address[host]} {star.namespace(host)}\n" for host in hosts)
        options = {"plm": "rsh", "plm_rsh_agent": os.path.join(os.path.dirname(__file__), "agent"),
                   "plm_rsh_no_tree_spawn": "1",
                   "btl": "tcp,self" if star.per_host == 1 else "tcp,self,vader",
                   "pml": "ob1", "btl_tcp_if_include": "eth0",
                   "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": "1",
                   "orte_keep_fqdn_hostnames": "1", "hwloc_base_binding_policy": "none"}
        flags = [word for item in options.items() for word in ("--mca", *item)]
        group.spawn("0", [mpirun, *flags, "--host", ",".join(f"{star.address[host]}:{star.per_host}" for host in hosts),
                          "-n", str(star.n_workers), "-x", "BENCH_SOCKET",
                          "env", *environment, program],
                    TMPDIR=group.work, BENCH_HOSTS=table, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


class Preload(OpenMPI):
    """The same with our preload, and a switch if there are several hosts."""

    def __init__(self):
        super().__init__("openmpi-preload", "Open MPI with the preload")
        self.ours = SwitchML(self.name, self.title, "")

    def switches(self):
        return self.ours.switches()

    def start(self, group):
        library = os.path.join(self.build, "bindings", "mpi", "libswitchml-mpi.so")
        if not os.path.exists(library):
            raise Refused(f"{library} was not built")
        switch = self.ours.start_switches(group)[0] if group.star.n_hosts > 1 else ""
        super().start(group, f"LD_PRELOAD={library}", f"SWITCHML_SWITCH={switch}")

    def check(self, group):
        """A large call goes through the switch; with two hosts, none does (docs/mpi.md)."""
        before = group.star.queue("switch", "eth0")["bytes"]
        group.prepare(1 << 20, 1)
        group.tell("run 0 1 1", 60)
        if group.star.n_hosts > 2 and group.star.queue("switch", "eth0")["bytes"] - before < 1 << 20:
            raise Failed("the preload leaves a large call to MPI")
