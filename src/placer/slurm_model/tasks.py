"""Section 5 of the rules: tasks to nodes, then cores."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from placer.slurm_model import types
from placer.slurm_model.nodes import Picked
from placer.slurm_model.release import R22, R24, R26
from placer.slurm_model.usable import INFINITE


def to_place(ask: types.Ask, nodes: int, gpus: int) -> int:
    """M: how many tasks are laid out."""
    ncpus = max(nodes * ask.npn, ask.q * gpus, ask.min_cpus, nodes * ask.pn_min, ask.cpg * gpus)
    if ask.release == R22:
        return nodes * ask.npn if ask.npn and ask.cpt > 1 else ncpus // ask.cpt
    if ask.release == R24:
        return ask.n if ask.n_set else nodes * ask.npn or ncpus // ask.cpt
    return nodes * ask.npn or (ask.n if ask.n_set else ncpus // ask.cpt)


def spread(ask: types.Ask, picked: Sequence[Picked], gpus: int) -> list[int] | None:
    """Tasks of each node; None where they do not all find a place."""
    M = to_place(ask, len(picked), gpus)
    limits = []
    for p in picked:
        limit = p.cpus // ask.cpt
        if ask.npn:
            limit = min(limit, ask.npn)
        if ask.per_task:
            limit = min(limit, (p.gpus if ask.release >= R24 else p.offer.gpus) // ask.per_task)
        limits.append(limit)
    counts = [0] * len(picked)
    placed = 0
    for i in range(len(picked)):
        if placed < M and counts[i] < limits[i]:
            counts[i] += 1
            placed += 1
    for i, p in enumerate(picked):
        T = p.offer.node.machine.threads
        while placed < M and counts[i] < limits[i] and counts[i] * ask.cpt % T:
            counts[i] += 1
            placed += 1
    moved = True
    while placed < M and moved:
        moved = False
        for i, p in enumerate(picked):
            for _ in range(max(1, p.offer.node.machine.threads // ask.cpt)):
                if placed < M and counts[i] < limits[i]:
                    counts[i] += 1
                    placed += 1
                    moved = True
    if ask.release >= R24 and not all(k or p.offer.min_cores for k, p in zip(counts, picked)):
        return None
    if placed < M:
        if ask.release >= R24:
            return None
        i = 0
        while placed < M:
            counts[i % len(counts)] += 1
            placed += 1
            i += 1
    return counts


def cores_of(ask: types.Ask, p: Picked, tasks: int) -> list[list[int]] | None:
    """Cores of each socket on one node; None where they run out."""
    machine = p.offer.node.machine
    if ask.exclusive:
        C = machine.cores_per_socket
        return [list(range(s * C, (s + 1) * C)) for s in range(machine.sockets)]
    t = ask.t(machine)
    want = max(math.ceil(min(tasks * ask.cpt, p.cpus) / t), p.offer.min_cores)
    if p.reduced:
        want = min(want, math.ceil(p.cpus / t))
    open_cores = [list(c) for c in p.offer.node.cores]
    taken: list[list[int]] = [[] for _ in open_cores]

    def take(s: int) -> None:
        taken[s].append(open_cores[s].pop(0))

    left = want
    usable = list(range(len(open_cores)))
    if ask.nps:
        held = [min(len(c) * t, ask.nps * ask.cpt) for c in open_cores]
        while (
            len(usable) > 1
            and sum(held[s] for s in usable[1:]) >= tasks * ask.cpt
            and sum(len(open_cores[s]) for s in usable[1:]) >= left
        ):
            usable.pop(0)
    elif ask.cpt > 1:
        whole = [len(c) * t // ask.cpt for c in open_cores]
        todo = max(tasks, math.ceil(left * t / ask.cpt)) if ask.release == R22 else tasks
        for s in usable:
            count = min(todo, whole[s])
            need = min(math.ceil(count * ask.cpt / t), len(open_cores[s]), left)
            todo -= count
            for _ in range(need):
                take(s)
                left -= 1
    while left > 0:
        progress = False
        for s in usable:
            if left > 0 and open_cores[s]:
                take(s)
                left -= 1
                progress = True
        if not progress:
            return None
    return taken
