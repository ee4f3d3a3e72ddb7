# SPDX-License-Identifier: BSD-3-Clause
"""What the user sets for a process group."""

from __future__ import annotations

from dataclasses import dataclass

from ..._settings import WIRES, Debug, Wire


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a group: `pg_options` of init_process_group() and new_group().

    A value of None comes from the environment (docs/environment.md).

    Args:
        wire: "int32", "int16" or "int8", the form of floats on the wire; "exact": sums are
            exact, and rounded once (docs/numbers.md).
        switch: as SWITCHML_SWITCH; nothing set: the ranks add, those of a host in memory that
            they share; "embedded": every rank has a part of the switch.
        master_address, master_port: where rank 0 listens then; None: any free port.
        job: the job's name, as SWITCHML_JOB; nothing set: torchrun's --rdzv-id, or the user and
            the script. What tells the groups of a run apart follows it.
        heartbeat, slots, threads, mtu, interface, spin, debug, ports, wait_notice,
            summary: as in switchml.Job.
        reconfigure: the group begins without ranks, and gets others each time that its
            reconfigure() is called (docs/elastic.md); as PyTorch 2.14's enable_reconfigure.
        cpp_futures: futures of works hold lists of C++, for communication hooks in C++
            (docs/pytorch.md). PyTorch's own need no option.
    """

    wire: Wire | None = None
    switch: str | None = None
    master_address: str | None = None
    master_port: int | None = None
    job: str | None = None
    heartbeat: float | None = None
    slots: int | None = None
    threads: int | None = None
    mtu: int | None = None
    interface: str | None = None
    spin: bool | None = None
    debug: Debug | None = None
    ports: str | None = None
    wait_notice: float | None = None
    summary: bool | None = None
    reconfigure: bool = False
    cpp_futures: bool = False

    def __post_init__(self) -> None:
        if self.wire is not None:
            object.__setattr__(self, "wire", self.wire.lower())
        if self.wire == "gradient" or self.wire not in WIRES:
            raise ValueError(f"wire must be 'int32', 'int16', 'int8' or 'exact', not {self.wire!r}")
