"""Defragmentation as a MILP over groups of nodes (symbols of `defrag_problem`, groups and slots of `defrag_groups`).

Sets: groups g of n_g nodes with options o, each of which lets pieces E_goq of kind q leave, may make the node a target,
costs c_o, and changes the slots of its σ by Δ_gos; gangs j (jobs of several pieces).

    z_go ∈ {0, 1, …}    nodes of group g with option o; the others stay as they are
    e_j ∈ {0, 1}        gang j moves
    r_qσ ∈ {0, 1, …}    pieces of kind q that go to nodes of σ;  r_jpσ ∈ {0, 1}  the same for piece p of a gang

    min Σ_go (c_o + ε GPUs that leave a target) z_go + Σ_j c_j e_j
    (use)       Σ_o z_go <= n_g                                                       every g
    (request)   Σ_{go: target} z_go = K
    (gang)      Σ_{o: j leaves} z_go = e_j                                            every j, every node g of it
    (replace)   Σ_σ r_qσ = Σ_go E_goq z_go,   Σ_σ r_jpσ = e_j                         every q; every j, p
    (slots)     Σ_q floor(s_q/s) r_qσ <= slots_σs + Σ_{g ∈ σ, o} Δ_gos z_go           every σ, s; gangs' pieces alike
    (room)      Σ_q need_qd r_qσ <= room_σd + Σ_{g ∈ σ, o} Δroom_god z_go             every σ, d; gangs' pieces alike

Every answer keeps these rows, so the optimum is never more than the least cost; `defrag_moves` gives it nodes. Costs
are whole thousandths; all ε together stay below one half of them and prefer the targets with most room already.
"""

from __future__ import annotations

import math

import msgspec

from placer.placement import defrag_groups as grouping
from placer.placement import defrag_problem as defrag
from placer.placement import milp
from placer.placement import types as place

Term = tuple[int, float]

SLACK = 0.4
"""What all ε of an answer come to at most, in thousandths of a move."""


class Chosen(msgspec.Struct, frozen=True):
    """What the model decides: the jobs that move, and the targets."""

    jobs: tuple[int, ...]
    targets: tuple[int, ...]


class Solved(msgspec.Struct, frozen=True):
    """How the model ended; `chosen` None = no point. `bound`: no answer costs less, in thousandths."""

    termination: place.Termination
    bound: int
    chosen: Chosen | None = None


def solve(table: grouping.Table, groups: grouping.Groups, gangs: list[int], limits: place.SolveLimits) -> Solved:
    """The least cost of the relaxation by slots; `gangs` are the jobs of several pieces that may move."""
    problem, model = table.problem, milp.Model()
    most = max((_leaving(problem, groups, o) for g in groups.groups for o in g.options), default=0)
    epsilon = SLACK / (1 + most * problem.request.count)
    z = [
        [
            model.variable(
                upper=len(g.nodes),
                integer=True,
                cost=o.cost + (epsilon * _leaving(problem, groups, o) if o.target else 0.0),
            )
            for o in g.options
        ]
        for g in groups.groups
    ]
    e = {j: model.variable(upper=1, integer=True, cost=problem.jobs[j].cost) for j in gangs}
    targets: list[Term] = []
    for group, variables in zip(groups.groups, z, strict=True):
        model.row(((v, 1.0) for v in variables), high=len(group.nodes))
        targets += [(v, 1.0) for v, o in zip(variables, group.options, strict=True) if o.target]
        for j in sorted({j for o in group.options for j in o.gangs}):
            leaving = [(v, 1.0) for v, o in zip(variables, group.options, strict=True) if j in o.gangs]
            model.row([*leaving, (e[j], -1.0)], low=0, high=0)
    model.row(targets, low=problem.request.count, high=problem.request.count)
    _receive(problem, groups, model, z, e)
    answer = milp.solve(model, limits)
    bound = whole(answer.bound)
    if not answer.values:
        return Solved(answer.termination, bound)
    return Solved(answer.termination, bound, _chosen(table, groups, z, e, answer.values))


def whole(bound: float | None) -> int:
    """The least whole number of thousandths that a bound of the model leaves possible."""
    return 0 if bound is None else max(0, math.ceil(bound - SLACK - 1e-3))


def _leaving(problem: defrag.Problem, groups: grouping.Groups, option: grouping.Option) -> int:
    """GPUs that leave the node; a piece of a gang counts as its first."""
    gangs = sum(problem.jobs[j].needs[0][defrag.GPUS] for j in option.gangs)
    return gangs + sum(count * groups.kinds[q].need[defrag.GPUS] for q, count in option.leave)


def _receive(
    problem: defrag.Problem, groups: grouping.Groups, model: milp.Model, z: list[list[int]], e: dict[int, int]
) -> None:
    """(replace), (slots), (room)."""
    leaving: dict[int, list[Term]] = {}
    for group, variables in zip(groups.groups, z, strict=True):
        for v, option in zip(variables, group.options, strict=True):
            for q, count in option.leave:
                leaving.setdefault(q, []).append((v, float(count)))
    taken: list[list[tuple[int, tuple[int, ...]]]] = [[] for _ in groups.pools]  # (r, need)
    for q in sorted(leaving):
        r = {s: model.variable(integer=True) for s, pool in enumerate(groups.pools) if q in pool.kinds}
        model.row([*((v, 1.0) for v in r.values()), *((v, -f) for v, f in leaving[q])], low=0, high=0)
        for s, v in r.items():
            taken[s].append((v, groups.kinds[q].need))
    _gangs(problem, groups, model, e, taken)
    for s, pool in enumerate(groups.pools):
        _pool_rows(groups, model, z, s, pool, taken[s])


def _gangs(
    problem: defrag.Problem,
    groups: grouping.Groups,
    model: milp.Model,
    e: dict[int, int],
    taken: list[list[tuple[int, tuple[int, ...]]]],
) -> None:
    """(replace) of jobs of several pieces; a piece may go wherever its job may, and where it is."""
    for j, moves in e.items():
        job = problem.jobs[j]
        for node, need in zip(job.nodes, job.needs, strict=True):
            r = {
                s: model.variable(upper=1, integer=True)
                for s, first in enumerate(groups.first)
                if problem.allowed[job.allowed][first] or groups.sigma[node] == s
            }
            model.row([*((v, 1.0) for v in r.values()), (moves, -1.0)], low=0, high=0)
            for s, v in r.items():
                taken[s].append((v, need))


def _pool_rows(
    groups: grouping.Groups,
    model: milp.Model,
    z: list[list[int]],
    s: int,
    pool: grouping.Pool,
    taken: list[tuple[int, tuple[int, ...]]],
) -> None:
    """(slots) and (room) of one σ."""
    mine = [
        (v, option)
        for group, variables in zip(groups.groups, z, strict=True)
        if group.sigma == s
        for v, option in zip(variables, group.options, strict=True)
    ]
    for at, size in enumerate(pool.sizes):
        rows = [(v, float(need[defrag.GPUS] // size)) for v, need in taken]
        model.row([*rows, *((v, -float(o.slots[at])) for v, o in mine)], high=pool.slots[at])
    for d in range(1, len(pool.room)):
        rows = [(v, float(need[d])) for v, need in taken]
        if any(factor for _, factor in rows):
            model.row([*rows, *((v, -float(o.room[d])) for v, o in mine)], high=pool.room[d])


def _chosen(
    table: grouping.Table,
    groups: grouping.Groups,
    z: list[list[int]],
    e: dict[int, int],
    values: tuple[float, ...],
) -> Chosen:
    """Of each group the first nodes, option by option; of each kind on a node the cheapest jobs."""
    jobs = [j for j, v in e.items() if values[v] > 0.5]
    targets: list[int] = []
    for group, variables in zip(groups.groups, z, strict=True):
        at = 0
        for v, option in zip(variables, group.options, strict=True):
            for node in group.nodes[at : at + round(values[v])].tolist():
                for q, count in option.leave:
                    jobs += table.residents(node)[q][:count]
                if option.target:
                    targets.append(node)
            at += round(values[v])
    return Chosen(tuple(sorted(jobs)), tuple(sorted(targets)))
