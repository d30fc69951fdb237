"""Section 5 of the rules: tasks to nodes, then the cores of each node."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placer.slurm_model import types
from placer.slurm_model.release import R22, R24
from placer.slurm_model.search import Picked, gpus_counted


def spread(ask: types.Ask, picked: Sequence[Picked]) -> list[int] | None:
    """Tasks of each node; None where they do not all find a place, which [22] overcommits instead."""
    limits = [_limit(ask, node) for node in picked]
    counts = [0] * len(picked)
    left = _to_place(ask, picked)
    for i, limit in enumerate(limits):
        counts[i] = min(1, left, limit)
        left -= counts[i]
    for i, node in enumerate(picked):  # fill cores that are started
        while left > 0 and counts[i] < limits[i] and counts[i] * ask.cpt % node.offer.node.machine.threads:
            counts[i] += 1
            left -= 1
    while left > 0 and any(count < limit for count, limit in zip(counts, limits, strict=True)):
        for i, node in enumerate(picked):
            more = min(max(1, node.offer.node.machine.threads // ask.cpt), left, limits[i] - counts[i])
            counts[i] += more
            left -= more
    if ask.release >= R24:
        served = all(count or node.offer.min_cores for count, node in zip(counts, picked, strict=True))
        return counts if served and left <= 0 else None
    for extra in range(left):
        counts[extra % len(counts)] += 1
    return counts


def _limit(ask: types.Ask, node: Picked) -> int:
    limit = node.cpus // ask.cpt
    if ask.npn:
        limit = min(limit, ask.npn)
    if ask.per_task:
        limit = min(limit, (node.gpus if ask.release >= R24 else node.offer.gpus) // ask.per_task)
    return limit


def _to_place(ask: types.Ask, picked: Sequence[Picked]) -> int:
    """How many tasks are laid out: those that are known, else as many as the CPUs hold."""
    nodes = len(picked)
    gpus = ask.P or sum(gpus_counted(ask, node.offer) for node in picked)
    cpus = max(nodes * ask.npn, ask.q * gpus, ask.min_cpus, nodes * ask.pn_min, ask.cpg * gpus)
    if ask.release == R22:
        return nodes * ask.npn if ask.npn and ask.cpt > 1 else cpus // ask.cpt
    known = ask.n if ask.n_set else 0
    on_nodes = nodes * ask.npn
    return (known or on_nodes if ask.release == R24 else on_nodes or known) or cpus // ask.cpt


class Cores:
    """The open cores of a node while tasks take them. `taken[s]` ascends."""

    def __init__(self, node: Picked, t: int) -> None:
        self.t = t
        self.open = [list(cores) for cores in node.offer.node.cores]
        self.taken: list[list[int]] = [[] for _ in self.open]

    def take(self, socket: int, count: int) -> int:
        """Take up to `count` of the lowest cores of a socket; gives how many."""
        found = self.open[socket][: max(0, count)]
        del self.open[socket][: len(found)]
        self.taken[socket] += found
        return len(found)


def cores_of(ask: types.Ask, node: Picked, tasks: int) -> list[list[int]] | None:
    """Cores of each socket for so many tasks; None where the open ones run out."""
    machine = node.offer.node.machine
    if ask.exclusive:
        return [list(machine.cores_of(s)) for s in range(machine.sockets)]
    t = ask.t(machine)
    left = max(math.ceil(min(tasks * ask.cpt, node.cpus) / t), node.offer.min_cores)
    if node.trimmed:
        left = min(left, math.ceil(node.cpus / t))
    cores = Cores(node, t)
    sockets = list(range(len(cores.open)))
    if ask.nps:
        _skip_sockets(ask, cores, sockets, tasks, left)
    elif ask.cpt > 1:
        left -= _whole_tasks(ask, cores, tasks, left)
    while left > 0 and any(cores.open[s] for s in sockets):
        for s in sockets:
            left -= cores.take(s, min(1, left))
    return cores.taken if left <= 0 else None


def _skip_sockets(ask: types.Ask, cores: Cores, sockets: list[int], tasks: int, want: int) -> None:
    """Tasks per socket: leave out sockets from the lowest while the others hold all tasks and cores."""
    held = [min(len(free) * cores.t, ask.nps * ask.cpt) for free in cores.open]
    while len(sockets) > 1:
        rest = sockets[1:]
        if sum(held[s] for s in rest) < tasks * ask.cpt or sum(len(cores.open[s]) for s in rest) < want:
            return
        del sockets[0]


def _whole_tasks(ask: types.Ask, cores: Cores, tasks: int, want: int) -> int:
    """Tasks of several CPUs go whole to the sockets in order; gives the cores taken, at most `want`."""
    taken = 0
    if ask.release == R22:
        tasks = max(tasks, math.ceil(want * cores.t / ask.cpt))
    for s, free in enumerate(cores.open):
        count = min(tasks, len(free) * cores.t // ask.cpt)
        tasks -= count
        taken += cores.take(s, min(math.ceil(count * ask.cpt / cores.t), want - taken))
    return taken
