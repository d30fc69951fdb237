"""Which running jobs to move so that a request fits, in which order, and that nothing cheaper would do.

Every shape that the request allows is asked; the plan that costs least is told. Nothing is carried out here.
"""

from __future__ import annotations

import shlex

import msgspec

from placer import errors
from placer.advice import advise, queue_entries
from placer.cluster import types as cluster
from placer.placement import defrag, defrag_jobs, job, shapes
from placer.placement import defrag_problem as arrays
from placer.placement import gang_problem as problems
from placer.placement import types as plan

MOST_KEPT = 5
"""Jobs that stay named in the notes; the rest is counted."""


class Options(msgspec.Struct, frozen=True):
    """How a plan is made. `within`: a level, all nodes of the request in one domain of it."""

    limits: plan.SolveLimits = plan.SolveLimits()
    within: str | None = None
    move_all: bool = False
    oversubscription: tuple[tuple[str, float], ...] = ()
    nic_gbits: float | None = None


class MigrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The moves in order, where the request then fits, what it costs; `shape` None = no shape fits.

    `jobs` and `gpus` count what moves. `solve.objective` is the weighted number of moves (`placement.defrag_jobs`).
    """

    solve: plan.SolveResult
    moves: tuple[defrag_jobs.Moved, ...] = ()
    targets: tuple[tuple[str, tuple[int, ...]], ...] = ()
    shape: shapes.Shape | None = None
    jobs: int = 0
    gpus: int = 0
    fits: bool = False
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


NO_OPTIONS = Options()


class _Best(msgspec.Struct, frozen=True):
    question: job.Question
    answer: arrays.Answer


def request_of(snapshot: cluster.ClusterSnapshot, name: str) -> cluster.JobRequest:
    """The request of a waiting job, by its id or the way the queue lists it. Raises RequestError."""
    for one in snapshot.jobs:
        if name in {one.id, one.alias}:
            if one.allocations:
                raise errors.RequestError(f"job {errors.printable(name)} runs already", hint="`squeue` lists all jobs")
            partition = one.partition or one.request.partition
            return msgspec.structs.replace(one.request, partition=partition)
    raise errors.RequestError(f"there is no job `{errors.printable(name)}`", hint="`squeue` lists all jobs")


def make_room(
    snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, options: Options = NO_OPTIONS
) -> MigrationPlan:
    """The cheapest moves after which a request fits; INFEASIBLE is proven. Raises InputError for a senseless one."""
    deadline = problems.Deadline(options.limits)
    snapshot = queue_entries.ordered(snapshot)
    site = job.site(
        snapshot,
        workload=request.workload,
        oversubscription=options.oversubscription,
        nic_gbits=options.nic_gbits,
    )
    levels = [level.name for level in snapshot.topology.fabric.levels]
    within = job.level_index(levels, options.within or request.topology.required, "within")
    if within is None and request.switches == 1 and levels:
        within = 0
    fleet = defrag_jobs.fleet(site, move_all=options.move_all)
    found = _ask(fleet, advise.ask(site, request, options.limits), within, deadline)
    best = found[0]
    solve = msgspec.structs.replace(_over_all(found), seconds=deadline.seconds)
    notes = _kept(fleet)
    if not best.answer.targets:
        return MigrationPlan(solve=solve, notes=notes)
    carried = defrag_jobs.carry_out(fleet, best.question, best.answer)
    names = {move.job for move in carried.moves}
    told = [best.answer.order] if best.answer.order else []
    if best.answer.detours:
        told.append(f"{best.answer.detours} move more than the least, since no order of the least fits step by step")
    return MigrationPlan(
        solve=solve,
        moves=carried.moves,
        targets=carried.targets,
        shape=best.question.shape,
        jobs=len(names),
        gpus=sum(len(move.source_gpus) for move in carried.moves),
        fits=True,
        commands=_commands(snapshot, carried.moves),
        notes=(*told, *notes),
    )


def _ask(
    fleet: defrag_jobs.Fleet, questions: tuple[job.Question, ...], within: int | None, deadline: problems.Deadline
) -> list[_Best]:
    """The answers for all shapes, the cheapest first; those without a plan last."""
    found: list[_Best] = []
    refused: errors.RequestError | None = None
    for question in questions:
        try:
            problem = fleet.problem_of(question, within)
        except errors.RequestError as error:
            refused = error
            continue
        found.append(_Best(question, defrag.solve(problem, deadline.rest)))
    if not found:
        raise refused or errors.RequestError("the request has no shape", hint="`placer defrag --help`")
    return sorted(found, key=_worth)


def _worth(found: _Best) -> tuple[bool, float, int]:
    objective = found.answer.solve.objective
    return (not found.answer.targets, objective if objective is not None else 0.0, found.question.shape.count)


def _over_all(found: list[_Best]) -> plan.SolveResult:
    """How the best of all shapes was found: proven when every other shape is proven not to be cheaper."""
    best = found[0].answer.solve
    bounds = [
        one.answer.solve.bound if one.answer.solve.bound is not None else 0.0
        for one in found
        if one.answer.solve.termination is not plan.Termination.INFEASIBLE
    ]
    if best.objective is None:
        if not bounds:
            return best
        return plan.SolveResult(best.method, plan.Termination.LIMIT, None, min(bounds), None)
    bound = min([best.objective, *bounds])
    if bound >= best.objective:
        return msgspec.structs.replace(best, termination=plan.Termination.OPTIMAL, bound=best.objective, gap=0.0)
    late = any(one.answer.solve.termination is plan.Termination.LIMIT for one in found)
    termination = plan.Termination.LIMIT if late else plan.Termination.FEASIBLE
    gap = (best.objective - bound) / max(best.objective, 1e-9)
    return plan.SolveResult(best.method, termination, best.objective, bound, gap)


def _kept(fleet: defrag_jobs.Fleet) -> tuple[str, ...]:
    """Which jobs were never to be moved, by reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in fleet.kept:
        reasons.setdefault(reason, []).append(name)
    notes = []
    for reason, names in reasons.items():
        shown = ", ".join(names[:MOST_KEPT]) + (f" and {len(names) - MOST_KEPT} more" if len(names) > MOST_KEPT else "")
        more = " (`--move-all` allows it)" if reason == "it is not preemptible" else ""
        notes.append(f"job {shown} stays: {reason}{more}")
    return tuple(notes)


def _commands(snapshot: cluster.ClusterSnapshot, moves: tuple[defrag_jobs.Moved, ...]) -> tuple[str, ...]:
    """What an administrator of Slurm would run; jobs of the same step go back to the queue together."""
    if snapshot.source.system != "slurm":
        return ()
    lines: list[str] = []
    for step in sorted({move.step for move in moves}):
        nodes: dict[str, list[str]] = {}
        for move in moves:
            if move.step == step:
                nodes.setdefault(move.job, []).append(move.target)
        lines.append(f"scontrol requeuehold {','.join(nodes)}")
        for name, targets in nodes.items():
            lines.append(f"scontrol update JobId={shlex.quote(name)} ReqNodeList={shlex.quote(','.join(targets))}")
        lines.append(f"scontrol release {','.join(nodes)}")
    return tuple(lines)
