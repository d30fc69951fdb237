"""The oracle for small clusters: every piece on every node, no classes (symbols of `defrag_problem`).

m_j ∈ {0, 1}     job j moves
a_pi ∈ {0, 1}    piece p of it goes to node i ∈ A_j, another than its own if it is the only one
t_i ∈ {0, 1}     node i is a target, i ∈ A_0
h_d ∈ {0, 1}     the targets lie in domain d of level l_0

min Σ_j c_j m_j
(moved)   Σ_i a_pi = m_j                                                        every piece p of j
(apart)   Σ_{p of j} a_pi <= m_j                                                every j, i
(room)    Σ_p need_pd a_pi + need_0d t_i <= room_di + Σ_{p on i} need_pd m_j    every i, d
(size)    Σ_i t_i = K;   t_i <= h_d for i ∈ d,  Σ_d h_d = 1
(whole)   a_pi <= 1 - t_i,  t_i <= m_j for j on i,  t_i = 0 where others run
"""

from __future__ import annotations

import numpy as np

from placer.placement import defrag_problem as defrag
from placer.placement import milp
from placer.placement import types as place


def best(problem: defrag.Problem, limits: place.SolveLimits = milp.NO_LIMITS) -> milp.MilpAnswer:
    """The least Σ c_j, proven, or INFEASIBLE. Order of the moves is left out of account."""
    model, request = milp.Model(), problem.request
    into: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in range(problem.count)]
    out: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in range(problem.count)]
    for job in problem.jobs:
        m = model.variable(upper=1, integer=True, cost=job.cost)
        there: dict[int, list[int]] = {}
        for own, need in zip(job.nodes, job.needs, strict=True):
            out[own].append((m, need))
            a = {i: model.variable(upper=1, integer=True) for i in _places(problem, job, own)}
            model.row([*((v, 1.0) for v in a.values()), (m, -1.0)], low=0, high=0)
            for i, v in a.items():
                there.setdefault(i, []).append(v)
                into[i].append((v, need))
        for variables in there.values():
            model.row([*((v, 1.0) for v in variables), (m, -1.0)], high=0)
    t = {int(i): model.variable(upper=1, integer=True) for i in np.flatnonzero(problem.allowed[request.allowed])}
    model.row(((v, 1.0) for v in t.values()), low=request.count, high=request.count)
    if request.level is not None:
        domain = problem.domain_of[request.level]
        h = {int(d): model.variable(upper=1, integer=True) for d in np.unique(domain)}
        model.row(((v, 1.0) for v in h.values()), low=1, high=1)
        for i, v in t.items():
            model.row([(v, 1.0), (h[int(domain[i])], -1.0)], high=0)
    for i in range(problem.count):
        for d in range(len(problem.room)):
            rows = [(v, float(need[d])) for v, need in into[i]] + [(m, -float(need[d])) for m, need in out[i]]
            own_target = [(t[i], float(problem.wanted(i)[d]))] if i in t else []
            model.row([*rows, *own_target], high=float(problem.room[d, i]))
        if request.whole and i in t:
            _whole(problem, model, i, t[i], [v for v, _ in into[i]], [m for m, _ in out[i]])
    return milp.solve(model, limits)


def _places(problem: defrag.Problem, job: defrag.Resident, own: int) -> list[int]:
    places: list[int] = np.flatnonzero(problem.allowed[job.allowed]).tolist()
    if len(job.nodes) > 1:
        return sorted({*places, own})
    return [i for i in places if i != own]


def _whole(problem: defrag.Problem, model: milp.Model, node: int, t: int, into: list[int], out: list[int]) -> None:
    if not problem.clear[node]:
        model.row([(t, 1.0)], high=0)
    for v in into:
        model.row([(v, 1.0), (t, 1.0)], high=1)
    for m in out:
        model.row([(t, 1.0), (m, -1.0)], high=0)
