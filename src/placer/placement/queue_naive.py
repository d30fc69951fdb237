"""The oracle for small queues: every job on every node, no classes (symbols of `queue_problem`).

s_jm ∈ {0, 1}     job j starts in mode m ∈ M_j
x_jmpi ∈ {0, 1}   node i is one of part p of it, for the nodes on which the piece fits alone
h_jmd ∈ {0, 1}    domain d holds nodes of it, at the level that mode m names (l_m, or that of `most`)

max Σ_jm (v_j + ε bonus_m) s_jm      for the first tier, then the next under Σ v_j s_jm >= what the first has, …

(once)      Σ_m s_jm <= 1                                              every j
(pieces)    Σ_i x_jmpi = k_p s_jm                                      every j, m, p
(apart)     Σ_p x_jmpi <= s_jm                                         every j, m, i
(room)      Σ_jmp need_pd x_jmpi <= room_di                            every i, d
(whole)     x_jmpi + x_j'm'p'i <= 1                                    every i, a whole piece and any other
(home)      Σ_{i ∈ d, p} x_jmpi <= k_m h_jmd,  Σ_d h_jmd <= most s_jm  (most = 1 for l_m)
(forced)    Σ_p x_jmpi = s_jm                                          every forced i
(at least)  Σ_{i ∈ group, p} x_jmpi >= least s_jm
"""

from __future__ import annotations

import numpy as np

from placer.placement import milp
from placer.placement import queue_problem as queue
from placer.placement import types as place


def best(problem: queue.Problem, limits: place.SolveLimits = milp.NO_LIMITS) -> float | None:
    """The greatest Σ v_j of an allowed answer, tiers one after the other; None when the time was too short."""
    model = milp.Model()
    starts: list[list[tuple[int, int]]] = [[] for _ in problem.jobs]  # per job (mode, s_jm)
    taken: list[list[tuple[int, queue.Piece]]] = [[] for _ in range(problem.nodes.count)]
    for number, job in enumerate(problem.jobs):
        for mode in job.modes:
            starts[number].append((mode, _mode(problem, model, problem.modes[mode], taken)))
        model.row(((s, 1.0) for _, s in starts[number]), high=1)
    for node, there in enumerate(taken):
        _room(problem, model, node, there)
    total = 0.0
    for tier in problem.tiers:
        mine = [number for number, job in enumerate(problem.jobs) if job.tier == tier]
        terms = [(s, problem.jobs[number].value) for number in mine for _, s in starts[number]]
        model.minimise((s, -value) for s, value in terms)
        answer = milp.solve(model, limits)
        if answer.termination is not place.Termination.OPTIMAL:
            return None
        found = sum(value for s, value in terms if answer.values[s] > 0.5)
        total += found
        model.row(terms, low=found - 1e-6)
    return total


def _mode(
    problem: queue.Problem, model: milp.Model, mode: queue.Mode, taken: list[list[tuple[int, queue.Piece]]]
) -> int:
    """The variables and rows of one job in one mode; gives s_jm."""
    s = model.variable(upper=1, integer=True)
    at: dict[int, list[int]] = {}
    for count, number in mode.parts:
        x = {int(i): model.variable(upper=1, integer=True) for i in np.flatnonzero(problem.fits[number])}
        model.row([*((v, 1.0) for v in x.values()), (s, -float(count))], low=0, high=0)
        for i, v in x.items():
            at.setdefault(i, []).append(v)
            taken[i].append((v, problem.pieces[number]))
    for variables in at.values():
        model.row([*((v, 1.0) for v in variables), (s, -1.0)], high=0)
    for level, most in ([(mode.level, 1)] if mode.level is not None else []) + ([mode.most] if mode.most else []):
        homes: dict[int, int] = {}
        for i, variables in at.items():
            d = int(problem.nodes.domain_of[level, i])
            homes.setdefault(d, model.variable(upper=1, integer=True))
            for v in variables:
                model.row([(v, 1.0), (homes[d], -1.0)], high=0)
        model.row([*((h, 1.0) for h in homes.values()), (s, -float(most))], high=0)
    if mode.forced is not None:
        for i in np.flatnonzero(problem.allowed[mode.forced]).tolist():
            model.row([*((v, 1.0) for v in at.get(i, [])), (s, -1.0)], low=0, high=0)
    for group, least in mode.at_least:
        inside = [(v, 1.0) for i, variables in at.items() if problem.allowed[group][i] for v in variables]
        model.row([*inside, (s, -float(least))], low=0)
    return s


def _room(problem: queue.Problem, model: milp.Model, node: int, there: list[tuple[int, queue.Piece]]) -> None:
    for d in range(len(problem.nodes.room)):
        terms = [(v, float(problem.needs(p, np.array([node]))[d, 0])) for v, p in there]
        model.row(terms, high=float(problem.nodes.room[d, node]))
    for at, (v, piece) in enumerate(there):
        if piece.whole:
            for other, (w, beside) in enumerate(there):
                if other != at and (other > at or not beside.whole):
                    model.row([(v, 1.0), (w, 1.0)], high=1)
