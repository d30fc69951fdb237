"""Rank binding as a MILP: both problems of `affinity_model` in one model, whose docstring gives the maths.

The convex cost of a shared NIC is unrolled: slot l of NIC n holds one GPU at w (l - 1), and cheaper slots fill first.
"""

from __future__ import annotations

import msgspec

from placer.placement import affinity_model, milp
from placer.placement import types as plan


class Deal(msgspec.Struct, frozen=True):
    """y_rj, the NIC of each GPU, and how they were found. Empty parts when the solver came back without an answer."""

    cores: tuple[tuple[int, ...], ...]
    nics: tuple[int, ...]
    solve: plan.SolveResult


def solve(cores: affinity_model.CoreProblem, nics: affinity_model.NicProblem, limits: plan.SolveLimits) -> Deal:
    """The least cost of both problems together."""
    model = milp.Model()
    y = _add_cores(model, cores)
    z = _add_nics(model, nics)
    answer = milp.solve(model, limits)
    result = plan.SolveResult("milp", answer.termination, answer.objective, answer.bound, answer.gap, answer.seconds)
    if not answer.values:
        return Deal((), (), result)
    return Deal(
        tuple(tuple(round(answer.values[v]) for v in row) for row in y),
        tuple(next(n for n, v in row.items() if answer.values[v] > 0.5) for row in z),
        result,
    )


def _add_cores(model: milp.Model, problem: affinity_model.CoreProblem) -> list[list[int]]:
    classes = range(len(problem.size))
    y = [
        [
            model.variable(0, min(want, problem.size[j] * problem.turns), integer=True, cost=problem.distance[r][j])
            for j in classes
        ]
        for r, want in enumerate(problem.demand)
    ]
    for r, want in enumerate(problem.demand):
        model.row([(y[r][j], 1.0) for j in classes], low=want, high=want)
        for numa in dict.fromkeys(problem.numa):
            u = model.variable(0, 1, integer=True, cost=problem.spread_weight)
            own = [(y[r][j], 1.0) for j in classes if problem.numa[j] == numa]
            model.row([*own, (u, -float(want))], high=0.0)
    for j in classes:
        model.row([(row[j], 1.0) for row in y], high=problem.size[j] * problem.turns)
    return y


def _add_nics(model: milp.Model, problem: affinity_model.NicProblem) -> list[dict[int, int]]:
    z = [
        {n: model.variable(0, 1, integer=True, cost=prior) for n, prior in enumerate(row) if prior is not None}
        for row in problem.prior
    ]
    for row in z:
        model.row([(v, 1.0) for v in row.values()], low=1.0, high=1.0)
    for n in range(len(problem.prior[0]) if problem.prior else 0):
        users = [row[n] for row in z if n in row]
        slots = [model.variable(0, 1, cost=affinity_model.SHARED_NIC * load) for load in range(len(users))]
        if users:
            model.row([*((v, 1.0) for v in users), *((v, -1.0) for v in slots)], low=0.0, high=0.0)
    return z
