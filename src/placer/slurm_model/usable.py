"""Section 2 of the rules: whether a node can be used at all, each node alone."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from placer.slurm_model import types
from placer.slurm_model.release import R24

INFINITE: Final = 1 << 40
"""Where a number has no limit."""


@dataclasses.dataclass(slots=True)
class Open:
    """What of a node is open to the job; the searches narrow copies of it.

    `cores[s]`: free cores of socket s, ascending. `gpus[s]`, `gpus_any`: free GPUs of each socket and of no socket,
    by index. `f[s]`, `any`: how many of them may be taken. `near`: GPUs on sockets with a free core. `cap`: the most
    GPUs that the job takes here.
    """

    machine: types.Machine
    index: int  # place in the cluster
    cores: list[list[int]]
    gpus: list[list[int]]
    gpus_any: list[int]
    f: list[int]
    any: int
    near: int = 0
    cap: int = INFINITE
    like: int = 0  # equal in all but name and place to nodes with the same number

    @property
    def open(self) -> int:
        """Cores that are open."""
        return sum(map(len, self.cores))

    def close(self, socket: int, keep: int) -> None:
        """Close the top cores of a socket while the node has more than `keep`."""
        cores = self.cores[socket]
        surplus = min(len(cores), self.open - keep)
        if surplus > 0:
            del cores[len(cores) - surplus :]

    def copy(self) -> Open:
        """A copy to narrow; the GPUs themselves are shared."""
        return dataclasses.replace(self, cores=[list(cores) for cores in self.cores], f=list(self.f))


def open_node(ask: types.Ask, machine: types.Machine, load: types.NodeLoad, index: int) -> Open | None:
    """The node opened to the job, or None where it cannot be used."""
    if machine.memory_mib - load.memory_mib < ask.memory_mib:
        return None
    node = _free(ask, machine, load, index)
    # An exclusive job gets all CPUs and GPUs, whatever their type.
    whole = ask.cpg * len(machine.devices) <= machine.cores * ask.t(machine) and node.open == machine.cores
    if ask.exclusive and not whole:
        return None
    if not _has_cores(ask, node):
        return None
    if ask.wants_gpus and not _has_gpus(ask, node):
        return None
    return node


def _free(ask: types.Ask, machine: types.Machine, load: types.NodeLoad, index: int) -> Open:
    cores = [[core for core in machine.cores_of(s) if core not in load.cores] for s in range(machine.sockets)]
    gpus: list[list[int]] = [[] for _ in cores]
    gpus_any: list[int] = []
    kind = None if ask.gpu_type is None else ask.gpu_type.casefold()  # Slurm compares types without regard to case
    for i, device in enumerate(machine.devices):
        if i not in load.gpus and (kind is None or (device.type or "").casefold() == kind):
            (gpus_any if device.socket is None or machine.sockets == 1 else gpus[device.socket]).append(i)
    return Open(machine, index, cores, gpus, gpus_any, [len(pool) for pool in gpus], len(gpus_any))


def _has_cores(ask: types.Ask, node: Open) -> bool:
    t = ask.t(node.machine)
    if ask.nps:
        most = math.ceil(ask.nps * ask.cpt / t)
        node.cores = [cores[:most] for cores in node.cores]
    if sum(bool(cores) for cores in node.cores) < max(1, ask.s):
        return False
    cpus = node.open * t
    if ask.release >= R24 and not ask.wants_gpus:
        cpus -= cpus % ask.cpt
    return cpus >= max(ask.pn_min, ask.npn * ask.cpt, ask.n * ask.cpt if ask.one_node else 0)


def _has_gpus(ask: types.Ask, node: Open) -> bool:
    """Counts f; sets cap and near."""
    if ask.per_sock:
        _whole_sockets(ask, node)
    if ask.enforce:
        _bound_sockets(ask, node)
    least = max(1, ask.per_node, ask.per_task, ask.per_task * ask.npn, ask.per_sock)
    node.cap = _cap(ask, node.open * ask.t(node.machine))
    node.near = min(node.cap, node.any + sum(f for f, cores in zip(node.f, node.cores, strict=True) if cores))
    return min(sum(node.f) + node.any, node.cap) >= least


def _cap(ask: types.Ask, cpus: int) -> int:
    cap = ask.per_node or ask.P or INFINITE
    if ask.cpg:
        return min(cap, cpus // ask.cpg)
    return min(cap, cpus // (ask.q * ask.cpt)) if ask.q else cap


def _whole_sockets(ask: types.Ask, node: Open) -> None:
    """A socket counts for as many GPUs as asked of it, or for none."""
    for s, f in enumerate(node.f):
        node.f[s] = ask.per_sock if f >= ask.per_sock else 0
        if ask.enforce and f < ask.per_sock:
            node.cores[s] = []


def _bound_sockets(ask: types.Ask, node: Open) -> None:
    """Sockets without free cores have no GPUs.

    [22][24] a job total of GPUs with one CPU for each node at most: only the socket with most free GPUs stays open
    (of equal ones the last); with tasks per socket as many as the tasks need.
    """
    node.f = [f if cores else 0 for f, cores in zip(node.f, node.cores, strict=True)]
    node.gpus = [gpus if cores else [] for gpus, cores in zip(node.gpus, node.cores, strict=True)]
    if ask.release > R24 or not ask.P or ask.pn_min > 1 or ask.min_cpus > ask.nodes:
        return
    stay = math.ceil((ask.npn or ask.n or 1) / ask.nps) if ask.nps else 1
    for s in sorted(range(len(node.f)), key=lambda s: (-node.f[s], -s))[stay:]:
        node.cores[s], node.f[s] = [], 0
