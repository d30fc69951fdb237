"""Many waiting jobs at once: which of them start now, and where, so that their value is greatest, with proof.

First the rule of thumb (`queue_greedy`), which gives an answer at any deadline; when it starts every job, nothing is
left to search. Then one MILP over node classes (`queue_model`) for each tier, whose counts are given nodes
(`queue_fill`). The model is exact but for two things: pieces of one job that share a class must lie on different
nodes, and classes with too many patterns are summed. Where that keeps a job from its nodes, the class is split into
its nodes, for which the rows are exact, and the model is solved again; its bound holds all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from placer.placement import milp
from placer.placement import queue_classes as classes
from placer.placement import queue_fill as filling
from placer.placement import queue_greedy as greedy
from placer.placement import queue_model as models
from placer.placement import queue_problem as queue
from placer.placement import types as place
from placer.placement.gang_problem import Deadline

METHOD = "milp over node classes"
GREEDY = "best fit by priority and size"
EXACT = 1e-5
"""Relative: the solver keeps its rows to 1e-6 each, and a bound sums several; values closer than this are equal."""
ROUNDING = 1e-9
"""Relative: what adding numbers in another order changes."""
MOST_SPLIT = 600
"""Nodes that are taken out of their classes; above, the answer is repaired and its gap told."""


class _Best(msgspec.Struct, frozen=True):
    """An allowed answer and the greatest value that is still possible for each tier that has been searched."""

    starts: tuple[queue.Start, ...]
    bounds: tuple[float, ...] = ()
    late: bool = False


def solve(problem: queue.Problem, limits: place.SolveLimits = milp.NO_LIMITS) -> queue.Answer:
    """The jobs that start now, and their nodes.

    Without `limits.seconds` the answer is proven to within `limits.gap` (0: OPTIMAL), unless a class that cannot be
    counted exactly is too large to be split (FEASIBLE). When the time is over, the best answer so far is given with
    termination LIMIT and a bound that holds.
    """
    deadline = Deadline(limits)
    if limits.seconds is not None and limits.seconds <= 0:
        return _answer(problem, _Best((), late=True), 0.0, GREEDY, deadline)
    thumb = tuple(greedy.fill(problem, greedy.Room(problem), greedy.order(problem), lambda: deadline.passed))
    value = queue.value_of(problem, thumb)
    if len(thumb) == len(_possible(problem)):
        bounds = tuple(_tier_value(problem, thumb, tier) for tier in problem.tiers)
        return _answer(problem, _Best(thumb, bounds), value, GREEDY, deadline)
    if deadline.passed:
        return _answer(problem, _Best(thumb, late=True), value, GREEDY, deadline)
    return _answer(problem, _refine(problem, thumb, deadline), value, METHOD, deadline)


def _possible(problem: queue.Problem) -> set[int]:
    """Jobs that could start, were they alone, as far as their pieces say; the others never do."""
    room = [int(fits.sum()) for fits in problem.fits]
    some = {
        number for number, mode in enumerate(problem.modes) if all(room[piece] >= count for count, piece in mode.parts)
    }
    return {number for number, job in enumerate(problem.jobs) if some.intersection(job.modes)}


def _refine(problem: queue.Problem, thumb: tuple[queue.Start, ...], deadline: Deadline) -> _Best:
    """Solve, give nodes, split the classes that fail, until nothing fails."""
    apart = np.zeros(problem.nodes.count, dtype=np.bool_)
    best = _Best(thumb, late=True)
    while True:
        found = classes.build(problem, apart)
        model = models.build(problem, found)
        solved = _tiers(problem, model, best.starts, deadline)
        bounds = tuple(map(min, solved.bounds, best.bounds)) if best.bounds else solved.bounds
        if not solved.values:
            return _Best(best.starts, bounds, solved.late)
        filled = filling.fill(problem, model, solved.values)
        starts = _repair(problem, filled, lambda: deadline.passed)
        best = _Best(_better(problem, best.starts, starts), bounds, solved.late)
        split = np.concatenate([np.zeros(0, dtype=np.int64), *(found[c].nodes for c in filled.failed)])
        if solved.late or not filled.left or not len(split) or int(apart.sum()) + len(split) > MOST_SPLIT:
            return best
        apart[split] = True


class _Solved(msgspec.Struct, frozen=True):
    """A point of the model, empty when the answer at hand is as good; each tier's greatest value; out of time."""

    values: tuple[float, ...]
    bounds: tuple[float, ...]
    late: bool = False


def _tiers(problem: queue.Problem, model: models.Model, known: tuple[queue.Start, ...], deadline: Deadline) -> _Solved:
    """Solve tier by tier. Tiers that were not reached are bounded by all they have.

    HiGHS takes no first solution, and would look long for one as good as the answer at hand. So the relaxation (no
    variable whole) comes first: while the answer has of every tier what it allows within the gap, there is nothing to
    solve. Else its bound may prove an answer of the model's core.
    """
    values: tuple[float, ...] = ()
    bounds: list[float] = []
    follows = True
    for tier in problem.tiers:
        terms = models.aim(problem, model, tier)
        bound = _everything(problem, tier)
        reached = _tier_value(problem, known, tier) if follows else 0.0
        if reached < bound:
            slack = max(deadline.rest.gap, EXACT)
            linear = milp.solve(models.relaxed(model), deadline.rest)
            bound = min(bound, -linear.bound) if linear.bound is not None else bound
            if not follows or bound - reached > slack * reached:
                follows = False
                answer = _whole(problem, model, linear, bound, deadline)
                values = answer.values or values
                bound = bound if answer.bound is None else min(bound, -answer.bound)
                if answer.termination is place.Termination.LIMIT:
                    later = [_everything(problem, tier) for tier in problem.tiers[len(bounds) + 1 :]]
                    return _Solved(values, (*bounds, bound, *later), late=True)
                reached = _started(problem, model, values, tier)
        bounds.append(bound)
        model.milp.row(terms, low=reached - ROUNDING * max(1.0, reached))
    return _Solved(values, tuple(bounds))


def _whole(
    problem: queue.Problem, model: models.Model, linear: milp.MilpAnswer, bound: float, deadline: Deadline
) -> milp.MilpAnswer:
    """The model's answer: that of its core where the relaxation's `bound` proves it within the gap."""
    core = models.core(problem, model, linear.values) if linear.values else None
    if core is not None:
        answer = milp.solve(core, deadline.rest)
        value = -(answer.objective or 0.0)
        if answer.values and bound - value <= deadline.rest.gap * value:
            return msgspec.structs.replace(answer, bound=-bound)
    return milp.solve(model.milp, deadline.rest)


def _started(problem: queue.Problem, model: models.Model, values: Sequence[float], tier: int) -> float:
    """Σ v_j over the jobs of a tier that a point of the model starts."""
    started = {job for jobs in filling.jobs(problem, model, values).values() for job in jobs}
    return float(sum(problem.jobs[job].value for job in started if problem.jobs[job].tier == tier))


def _everything(problem: queue.Problem, tier: int) -> float:
    possible = _possible(problem)
    return float(sum(job.value for number, job in enumerate(problem.jobs) if job.tier == tier and number in possible))


def _tier_value(problem: queue.Problem, starts: tuple[queue.Start, ...], tier: int) -> float:
    return queue.value_of(problem, [start for start in starts if problem.jobs[start.job].tier == tier])


def _repair(problem: queue.Problem, filled: filling.Filled, late: Callable[[], bool]) -> tuple[queue.Start, ...]:
    """What was given nodes, and what else fits beside it by the rule of thumb."""
    started = {start.job for start in filled.starts}
    if len(started) == len(problem.jobs):
        return filled.starts
    room = greedy.Room(problem)
    for start in filled.starts:
        for (_, piece), nodes in zip(problem.modes[start.mode].parts, start.nodes, strict=True):
            room.take(piece, np.array(nodes, dtype=np.int64))
    rest = [job for job in greedy.order(problem) if job not in started]
    more = greedy.fill(problem, room, rest, late)
    return tuple(sorted((*filled.starts, *more), key=lambda start: start.job))


def _better(
    problem: queue.Problem, one: tuple[queue.Start, ...], other: tuple[queue.Start, ...]
) -> tuple[queue.Start, ...]:
    """The answer whose tiers are worth more, the first tier first; the second of equals, which the model knows best."""

    def worth(starts: tuple[queue.Start, ...]) -> list[float]:
        return [_tier_value(problem, starts, tier) for tier in problem.tiers]

    return one if worth(one) > worth(other) else other


def _answer(problem: queue.Problem, best: _Best, greedy_value: float, method: str, deadline: Deadline) -> queue.Answer:
    """Value and bound over all tiers. A tier whose value is its bound is proven; the first that is not ends that."""
    tiers = problem.tiers
    bounds = best.bounds or tuple(_everything(problem, tier) for tier in tiers)
    value = queue.value_of(problem, best.starts)
    total = max(value, float(sum(bounds)))
    if total - value <= EXACT * max(1.0, abs(value)):
        total = value
    gap = (total - value) / max(abs(value), 1e-9)
    termination = place.Termination.FEASIBLE
    if gap == 0.0:
        termination = place.Termination.OPTIMAL
    elif best.late:
        termination = place.Termination.LIMIT
    solved = place.SolveResult(method, termination, -value, -total, gap, deadline.seconds)
    return queue.Answer(solved, best.starts, value, greedy_value)
