"""Section 2 of the rules: what each node alone could give."""

from __future__ import annotations

import dataclasses
import math

from placer.slurm_model import types
from placer.slurm_model.release import R22, R24, R26

INFINITE = 1 << 40


@dataclasses.dataclass(slots=True)
class Open:
    """What of a node is open to the job; the searches narrow copies of it.

    `cores[s]`: free cores of socket s, ascending; `f[s]`: GPUs that may be taken near socket s; `any`: those of no
    socket; `must`: sockets that must be used; `near`: GPUs on sockets with a free core; `cap`: most GPUs.
    """

    machine: types.Machine
    index: int
    cores: list[list[int]]
    gpus: list[list[int]]  # free ones of each socket by index
    gpus_any: list[int]
    f: list[int]
    any: int
    must: set[int] = dataclasses.field(default_factory=set)
    near: int = 0
    cap: int = INFINITE

    @property
    def open(self) -> int:
        return sum(map(len, self.cores))

    def copy(self) -> Open:
        return dataclasses.replace(self, cores=[list(c) for c in self.cores], f=list(self.f))


def node(ask: types.Ask, machine: types.Machine, load: types.NodeLoad, index: int) -> Open | None:
    """The node opened, or None where it cannot be used."""
    C = machine.cores_per_socket
    if machine.memory_mib - load.memory_mib < ask.memory_mib:
        return None
    cores = [[c for c in range(s * C, (s + 1) * C) if c not in load.cores] for s in range(machine.sockets)]
    gpus: list[list[int]] = [[] for _ in range(machine.sockets)]
    gpus_any: list[int] = []
    for i, d in enumerate(machine.devices):
        if i in load.gpus or (ask.gpu_type is not None and d.type != ask.gpu_type):
            continue
        (gpus_any if d.socket is None or machine.sockets == 1 else gpus[d.socket]).append(i)
    o = Open(machine, index, cores, gpus, gpus_any, [len(g) for g in gpus], len(gpus_any))
    if ask.exclusive and o.open < machine.cores:
        return None
    if ask.exclusive and ask.cpg * len(machine.devices) > machine.cores * ask.t(machine):
        return None
    if not _cores_do(ask, o):
        return None
    if ask.wants_gpus and not _gpus_do(ask, o):
        return None
    return o


def _cores_do(ask: types.Ask, o: Open) -> bool:
    t = ask.t(o.machine)
    if ask.nps:
        most = math.ceil(ask.nps * ask.cpt / t)
        o.cores = [c[:most] for c in o.cores]
    if sum(bool(c) for c in o.cores) < max(1, ask.s):
        return False
    cpus = o.open * t
    if not ask.wants_gpus and ask.release >= R24:
        cpus = o.open * t // ask.cpt * ask.cpt
    return cpus >= max(ask.pn_min, ask.npn * ask.cpt, ask.n * ask.cpt if ask.one_node else 0)


def _gpus_do(ask: types.Ask, o: Open) -> bool:
    t = ask.t(o.machine)
    if ask.per_sock:
        for s, f in enumerate(o.f):
            o.f[s] = ask.per_sock if f >= ask.per_sock else 0
            if ask.enforce and f < ask.per_sock:
                o.cores[s] = []
    if ask.enforce:
        for s in range(len(o.f)):
            if not o.cores[s]:
                o.f[s] = 0
        if ask.release <= R24 and ask.P and ask.pn_min <= 1 and ask.min_cpus <= ask.nodes:
            keep = math.ceil((ask.npn or ask.n or 1) / ask.nps) if ask.nps else 1
            order = sorted(range(len(o.f)), key=lambda s: (-o.f[s], -s))
            for s in order[keep:]:
                o.cores[s] = []
                o.f[s] = 0
    least = max(1, ask.per_node, ask.per_task, ask.per_task * ask.npn, ask.per_sock)
    total = sum(o.f) + o.any
    if total < least:
        return False
    cpus = o.open * t
    o.cap = ask.per_node or ask.P or INFINITE
    if ask.cpg:
        o.cap = min(o.cap, cpus // ask.cpg)
    elif ask.q:
        o.cap = min(o.cap, cpus // (ask.q * ask.cpt))
    if o.cap < least:
        return False
    need = (ask.per_node or ask.per_task) - o.any
    for s in sorted((s for s in range(len(o.f)) if o.cores[s]), key=lambda s: (-o.f[s], s)):
        if need <= 0:
            break
        if o.f[s]:
            o.must.add(s)
            need -= o.f[s]
    o.near = min(o.cap, o.any + sum(f for f, c in zip(o.f, o.cores) if c))
    return True
