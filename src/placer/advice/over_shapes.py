"""The best answer over all shapes and variants of a request, within one deadline, and what is proven about it."""

from __future__ import annotations

import math

import msgspec

from placer.cluster import capacity
from placer.placement import gang_problem as problems
from placer.placement import job
from placer.placement import types as plan


class Found(msgspec.Struct, frozen=True):
    """The best answer, the question that led to it, and what holds for every other question.

    `complete` says that each question was searched to its end; otherwise no answer to any of them has a smaller
    objective than `bound`.
    """

    question: job.Question
    result: plan.GangResult
    complete: bool = True
    bound: float = 0.0

    @property
    def placed(self) -> bool:
        """Whether there is a placement."""
        return self.result.placement is not None

    @property
    def solve(self) -> plan.SolveResult:
        """How the answer over all questions was found: LIMIT unless each was searched to its end."""
        solve = self.result.solve
        if self.complete:
            return solve
        if solve.objective is None:
            return plan.SolveResult(solve.method, plan.Termination.LIMIT, seconds=solve.seconds)
        bound = min(self.bound, solve.objective)
        gap = (solve.objective - bound) / max(abs(solve.objective), 1e-9)
        return plan.SolveResult(solve.method, plan.Termination.LIMIT, solve.objective, bound, gap, solve.seconds)


def best(
    site: job.Site, questions: tuple[job.Question, ...], deadline: problems.Deadline, *, empty: bool = False
) -> Found:
    """The best placement over all questions; without any, the first question with what it excludes.

    Nodes are filled unevenly only where no even shape fits. The first question is always asked, the others as long as
    there is time.
    """
    found: list[Found] = []
    bounds: list[float] = []
    complete = True
    for fill in (False, True):
        for question in questions:
            if bool(question.shape.fill) is not fill:
                continue
            if found and deadline.passed:
                complete = False
                bounds.append(least_objective(site))
                continue
            result = job.search(site, msgspec.structs.replace(question, limits=deadline.rest), empty=empty)
            complete = complete and result.solve.termination is not plan.Termination.LIMIT
            if result.solve.termination is not plan.Termination.INFEASIBLE:
                bounds.append(result.solve.bound if result.solve.bound is not None else least_objective(site))
            found.append(Found(question, result))
        placed = [f for f in found if f.placed]
        if placed:
            return _with_proof(min(placed, key=rank_of), complete, bounds)
    return _with_proof(found[0], complete, bounds)


def _with_proof(found: Found, complete: bool, bounds: list[float]) -> Found:
    return msgspec.structs.replace(found, complete=complete, bound=min(bounds, default=0.0))


def least_objective(site: job.Site) -> float:
    """No placement at all has a smaller objective: one domain of each level, nothing spoilt."""
    return float(sum(problems.SPREAD_BASE**level for level in range(len(site.oversubscription))))


def rank_of(found: Found) -> tuple[float, float, int]:
    """Order over shapes: unmet preferred level, predicted slowness (unknown last), fewer nodes."""
    predicted = found.result.prediction
    busbw = predicted.allreduce_busbw_gbps if predicted is not None else None
    unmet = next((t.value or 0 for t in found.result.score if t.name == "unmet preferred level"), 0.0)
    alone = found.question.shape.gpus <= 1
    return unmet, 0.0 if alone else (1 / busbw if busbw else math.inf), found.question.shape.count


def possible(
    site: job.Site, questions: tuple[job.Question, ...], free: capacity.Capacity, deadline: problems.Deadline
) -> bool | None:
    """Whether any of the questions has an answer with so much free; None when the limit came before that was known."""
    unknown = False
    for question in questions:
        if deadline.passed:
            return None
        fits = job.possible(site, msgspec.structs.replace(question, limits=deadline.rest), free)
        if fits:
            return True
        unknown = unknown or fits is None
    return None if unknown else False
