"""Defragmentation on single nodes: where slots are not exact (symbols of `defrag_problem`, kinds of `defrag_groups`).

m_j ∈ {0, 1}      job j moves
r_qi ∈ {0, 1, …}  pieces of kind q that node i ∈ A_q receives
a_jpi ∈ {0, 1}    piece p of a gang j goes to node i, or stays there
t_i ∈ {0, 1}      node i ∈ A_0 is a target;  h_d ∈ {0, 1}  domain d of level l_0 has the targets

min Σ_j c_j m_j,  Σ_j c_j m_j >= what the groups have shown
(replace)  Σ_i r_qi = Σ_{j of kind q} m_j;   Σ_i a_jpi = m_j,  Σ_p a_jpi <= m_j
(room)     Σ_q need_qd r_qi + Σ need_jpd a_jpi + need_0d t_i <= room_di + Σ_{j on i} need_jd m_j     every i, d
(size)     Σ_i t_i = K;   t_i <= h_d for i ∈ d,  Σ_d h_d = 1
(whole)    r_qi <= C (1 - t_i),  a_jpi <= 1 - t_i,  t_i <= m_j for j on i     C = pieces that could fit on i
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from placer.placement import defrag_groups as grouping
from placer.placement import defrag_moves as moves
from placer.placement import defrag_problem as defrag
from placer.placement import milp
from placer.placement import types as place

MOST_VARIABLES = 60_000
"""Variables of a model that is still worth building."""


class Solved(msgspec.Struct, frozen=True):
    """How the model ended; `placed` None = no point. `bound`: no answer costs less, in thousandths."""

    termination: place.Termination
    bound: int
    placed: moves.Placed | None = None


class _Model:
    """The model under construction."""

    def __init__(self, problem: defrag.Problem, table: grouping.Table, targets: defrag.Mask, gangs: list[int]) -> None:
        self.problem, self.table, self.milp = problem, table, milp.Model()
        self.m = [
            self.milp.variable(upper=float(len(job.nodes) == 1 or j in gangs), integer=True, cost=job.cost)
            for j, job in enumerate(problem.jobs)
        ]
        self.into: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in range(problem.count)]
        self.out: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in range(problem.count)]
        for j, job in enumerate(problem.jobs):
            for node, need in zip(job.nodes, job.needs, strict=True):
                self.out[node].append((self.m[j], need))
        self.t = {int(i): self.milp.variable(upper=1, integer=True) for i in np.flatnonzero(targets)}
        self.r = [self._kind(q) for q in range(len(table.kinds))]
        self.a = {j: self._gang(j) for j in gangs}
        self._request()
        for i in range(problem.count):
            self._room(i)

    def _kind(self, q: int) -> dict[int, int]:
        kind = self.table.kinds[q]
        most = float(sum(own == q for own in self.table.kind_of))
        places = np.flatnonzero(self.problem.allowed[kind.allowed]).tolist()
        r = {i: self.milp.variable(upper=most, integer=True) for i in places}
        moved = [(self.m[j], -1.0) for j, own in enumerate(self.table.kind_of) if own == q]
        self.milp.row([*((v, 1.0) for v in r.values()), *moved], low=0, high=0)
        for i, v in r.items():
            self.into[i].append((v, kind.need))
        return r

    def _gang(self, j: int) -> list[dict[int, int]]:
        job, found = self.problem.jobs[j], []
        there: dict[int, list[int]] = {}
        for own, need in zip(job.nodes, job.needs, strict=True):
            places = sorted({*np.flatnonzero(self.problem.allowed[job.allowed]).tolist(), own})
            a = {i: self.milp.variable(upper=1, integer=True) for i in places}
            self.milp.row([*((v, 1.0) for v in a.values()), (self.m[j], -1.0)], low=0, high=0)
            for i, v in a.items():
                there.setdefault(i, []).append(v)
                self.into[i].append((v, need))
            found.append(a)
        for variables in there.values():
            self.milp.row([*((v, 1.0) for v in variables), (self.m[j], -1.0)], high=0)
        return found

    def _request(self) -> None:
        request = self.problem.request
        self.milp.row(((v, 1.0) for v in self.t.values()), low=request.count, high=request.count)
        if request.level is None:
            return
        domain = self.problem.domain_of[request.level]
        h = {int(d): self.milp.variable(upper=1, integer=True) for d in np.unique(domain)}
        self.milp.row(((v, 1.0) for v in h.values()), low=1, high=1)
        for i, v in self.t.items():
            self.milp.row([(v, 1.0), (h[int(domain[i])], -1.0)], high=0)

    def _room(self, i: int) -> None:
        problem, own = self.problem, self.t.get(i)
        if not self.into[i] and own is None:
            return
        wanted = problem.wanted(i)
        for d in range(len(problem.room)):
            rows = [(v, float(need[d])) for v, need in self.into[i]] + [(m, -float(need[d])) for m, need in self.out[i]]
            if own is not None:
                rows.append((own, float(wanted[d])))
            self.milp.row(rows, high=float(problem.room[d, i]))
        if problem.request.whole and own is not None:
            if not problem.clear[i]:
                self.milp.row([(own, 1.0)], high=0)
            for v, _ in self.into[i]:
                most = self.milp.upper[v]
                self.milp.row([(v, 1.0), (own, most)], high=most)
            for m, _ in self.out[i]:
                self.milp.row([(own, 1.0), (m, -1.0)], high=0)


def size(problem: defrag.Problem, table: grouping.Table) -> int:
    """Variables that the model would have, about."""
    kinds = sum(int(problem.allowed[kind.allowed].sum()) for kind in table.kinds)
    gangs = sum(len(problem.jobs[j].nodes) * int(problem.allowed[problem.jobs[j].allowed].sum()) for j in table.gangs)
    return kinds + gangs + len(problem.jobs) + problem.count


def solve(
    problem: defrag.Problem,
    table: grouping.Table,
    targets: defrag.Mask,
    gangs: list[int],
    least: int,
    limits: place.SolveLimits,
) -> Solved:
    """The least cost, which is at least `least`, with these gangs free to move; INFEASIBLE is proven."""
    model = _Model(problem, table, targets, gangs)
    model.milp.row(((m, job.cost) for m, job in zip(model.m, problem.jobs, strict=True)), low=least)
    answer = milp.solve(model.milp, limits)
    bound = least if answer.bound is None else max(least, math.ceil(answer.bound - 1e-3))
    if not answer.values:
        return Solved(answer.termination, bound)
    return Solved(answer.termination, bound, _placed(model, answer.values))


def _placed(model: _Model, values: tuple[float, ...]) -> moves.Placed:
    """New nodes: those that receive a kind take its jobs in order, each another node than its own.

    No best answer takes and gives the same kind on one node; where a job is left with its own node, it stays.
    """
    moved = [j for j, m in enumerate(model.m) if values[m] > 0.5]
    found: list[tuple[int, tuple[int, ...]]] = []
    for q in range(len(model.table.kinds)):
        jobs = [j for j in moved if model.table.kind_of[j] == q]
        places = [i for i, v in model.r[q].items() for _ in range(round(values[v]))]
        for j in jobs:
            own = model.problem.jobs[j].nodes[0]
            node = next((i for i in places if i != own), own)
            places.remove(node)
            if node != own:
                found.append((j, (node,)))
    for j, pieces in model.a.items():
        if j in moved:
            found.append((j, tuple(next(i for i, v in a.items() if values[v] > 0.5) for a in pieces)))
    targets = tuple(i for i, v in model.t.items() if values[v] > 0.5)
    return moves.Placed(tuple(sorted(found)), targets)
