"""The fewest moves of running jobs that make room for a request, and the order in which each move fits.

The groups of nodes alike (`defrag_groups`) give a small MILP (`defrag_model`) whose optimum no plan undercuts. Its
jobs and targets are given nodes (`defrag_moves`); where none are found, the model of single nodes decides
(`defrag_nodes`). So the cost is proven, and so is that no plan exists. The moves are then put in order
(`defrag_order`).

A request that must lie in one domain is solved domain by domain: first those whose K cheapest targets cost least, until
no domain can be cheaper than the best plan. Jobs of several nodes are left out at first: where they could make a plan
cheaper, or possible, it is solved again with them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from placer.placement import defrag_bounds as bounding
from placer.placement import defrag_groups as grouping
from placer.placement import defrag_model as model
from placer.placement import defrag_moves as moves
from placer.placement import defrag_nodes as single
from placer.placement import defrag_order as ordering
from placer.placement import defrag_problem as defrag
from placer.placement import milp
from placer.placement import types as place
from placer.placement.gang_problem import Deadline

METHOD = "milp over node groups"
NODES = "milp over nodes"
THOUSAND = 1000


class _Found(msgspec.Struct, frozen=True):
    """The best plan of a region, no plan of which costs less than `bound` (None = there is none)."""

    bound: int | None
    placed: moves.Placed | None = None
    late: bool = False
    method: str = METHOD


def solve(problem: defrag.Problem, limits: place.SolveLimits = milp.NO_LIMITS) -> defrag.Answer:
    """The cheapest plan, proven; INFEASIBLE is proven as well. When the time is over: LIMIT, the best plan so far."""
    search = _Search(problem, limits)
    found = search.run()
    seconds = search.deadline.seconds
    if found.placed is None:
        if found.bound is None:
            return defrag.Answer(place.SolveResult(found.method, place.Termination.INFEASIBLE, seconds=seconds))
        bound = found.bound / THOUSAND
        return defrag.Answer(place.SolveResult(found.method, place.Termination.LIMIT, None, bound, None, seconds))
    ordered = ordering.order(problem, moves.stay(problem, found.placed))
    cost = search.cost(found.placed)
    bound = min(cost, found.bound if found.bound is not None else cost)
    termination = place.Termination.OPTIMAL
    if bound < cost:
        termination = place.Termination.LIMIT if found.late else place.Termination.FEASIBLE
    gap = (cost - bound) / max(cost, 1)
    solved = place.SolveResult(
        found.method, termination, cost / THOUSAND, bound / THOUSAND, gap, search.deadline.seconds
    )
    return defrag.Answer(solved, ordered.moves, ordered.targets, ordered.detours, ordered.note)


class _Search:
    """One question with its deadline."""

    def __init__(self, problem: defrag.Problem, limits: place.SolveLimits) -> None:
        self.problem, self.deadline = problem, Deadline(limits)

    def cost(self, placed: moves.Placed) -> int:
        """Σ c_j in thousandths."""
        return sum(self.problem.jobs[j].cost for j, _ in placed.jobs)

    def run(self) -> _Found:
        """Everywhere, or domain by domain."""
        everywhere = self.problem.allowed[self.problem.request.allowed]
        if int(everywhere.sum()) < self.problem.request.count or self._too_little():
            return _Found(None)
        self.gangs = [j for j, job in enumerate(self.problem.jobs) if len(job.nodes) > 1]
        self.known = bounding.bounds(self.problem, everywhere)
        least = np.sort(self._least(self.gangs)[everywhere])[: self.problem.request.count]
        if least[-1] >= bounding.NEVER:
            return _Found(None)
        if self.deadline.passed:
            return _Found(int(least.sum()), late=True)
        self.table = grouping.Table(self.problem)
        level = self.problem.request.level
        if level is None:
            return self._region(everywhere, None)
        return self._domains(everywhere, self.problem.domain_of[level])

    def _too_little(self) -> bool:
        """Whether less is free in all than the request wants: moves make no room, they only gather it."""
        need = np.array(self.problem.request.need, dtype=np.int64) * self.problem.request.count
        return bool((np.maximum(self.problem.room, 0).sum(axis=1) < need).any())

    def _domains(self, everywhere: defrag.Mask, domain: defrag.Ints) -> _Found:
        count = self.problem.request.count
        least = self._least(self.gangs)
        bounds: list[tuple[int, int]] = []
        for d in np.unique(domain[everywhere]).tolist():
            cheapest = np.sort(least[everywhere & (domain == d)])[:count]
            if len(cheapest) == count and cheapest[-1] < bounding.NEVER:
                bounds.append((int(cheapest.sum()), d))
        best: _Found | None = None
        open_bounds: list[int] = []
        late = False
        for bound, d in sorted(bounds):
            most = self.cost(best.placed) if best is not None and best.placed is not None else None
            if most is not None and bound >= most:
                break
            if self.deadline.passed:
                open_bounds.append(bound)
                late = True
                break
            found = self._region(everywhere & (domain == d), most)
            if found.bound is not None:
                open_bounds.append(found.bound)
                late = late or found.late
            if found.placed is not None and (most is None or self.cost(found.placed) < most):
                best = found
        if best is None or best.placed is None:
            return _Found(min(open_bounds), late=True) if open_bounds else _Found(None)
        return _Found(min(open_bounds), best.placed, late, best.method)

    def _least(self, gangs: list[int]) -> defrag.Ints:
        """int [n]: what it costs at least to make a node a target, where these jobs of several pieces may move, too."""
        least = self.known.least.copy()
        for j in gangs:
            nodes = list(self.problem.jobs[j].nodes)
            least[nodes] = np.minimum(least[nodes], grouping.share(self.problem.jobs[j]))
        return least

    def _region(self, targets: defrag.Mask, most: int | None) -> _Found:
        """The best plan with targets among these that costs less than `most`."""
        free = np.flatnonzero(targets & (self.known.known == 0))
        if len(free) >= self.problem.request.count:
            return _Found(0, moves.Placed((), tuple(free[: self.problem.request.count].tolist())))
        thumb = bounding.first_plan(self.problem, self.known, targets)
        if thumb is not None and (most is None or self.cost(thumb) < most):
            most = self.cost(thumb) + 1  # the model's own answer of that cost has the better targets
        else:
            thumb = None
        found = self._with(targets, None if most is None else most - 1, [])
        if found.placed is None and thumb is not None:
            found = _Found(found.bound if found.bound is not None else self.cost(thumb), thumb, found.late)
        reach = self.cost(found.placed) if found.placed is not None else most
        costs = [self.problem.jobs[j].cost for j in self.gangs]
        gangs = [j for j, cost in zip(self.gangs, costs, strict=True) if reach is None or cost < reach]
        if not gangs or found.late:
            return found
        other = self._with(targets, None if reach is None else reach - 1, gangs)
        if other.placed is not None and (found.placed is None or self.cost(other.placed) <= self.cost(found.placed)):
            return other
        if found.placed is None:
            return other
        bound = found.bound if other.bound is None else min(other.bound, found.bound or 0)
        return msgspec.structs.replace(found, bound=bound, late=other.late)

    def _floor(self, targets: defrag.Mask, gangs: list[int]) -> int:
        """What the K cheapest targets cost at least."""
        return int(np.sort(self._least(gangs)[targets])[: self.problem.request.count].sum())

    def _reach(self, targets: defrag.Mask, most: int | None, gangs: list[int]) -> grouping.Reach:
        """What options may cost in a plan that costs at most `most`."""
        least, count = self._least(gangs), self.problem.request.count
        if most is None:
            return grouping.Reach(None, None, None, least, self.known.cheapest)
        cheapest = np.sort(least[targets])[:count]
        others, all_targets = int(cheapest[:-1].sum()), int(cheapest.sum())
        moved = min((job.cost for job in self.problem.jobs), default=1)
        nodes = count + most // max(1, moved) * max((len(self.problem.jobs[j].nodes) for j in gangs), default=1)
        return grouping.Reach(most - others, most - all_targets, nodes, least, self.known.cheapest)

    def _with(self, targets: defrag.Mask, most: int | None, gangs: list[int]) -> _Found:
        """The same with these jobs of several pieces among those that may move."""
        reach = self._reach(targets, most, gangs)
        groups = grouping.Builder(self.table, targets, reach, gangs, lambda: self.deadline.passed).build()
        if self.deadline.passed:
            return _Found(self._floor(targets, gangs), late=True)
        solved = model.solve(self.table, groups, gangs, self.deadline.rest)
        late = solved.termination is place.Termination.LIMIT
        if solved.chosen is None:
            if not late and groups.complete:
                return _Found(None)
            if late:
                return _Found(solved.bound, late=True)
        else:
            placed = moves.place(self.problem, solved.chosen.jobs, solved.chosen.targets)
            if placed is not None:
                return _Found(solved.bound if groups.complete else 0, placed, late)
        if late or single.size(self.problem, self.table) > single.MOST_VARIABLES:
            return _Found(solved.bound, late=True)
        exact = single.solve(self.problem, self.table, targets, gangs, solved.bound, self.deadline.rest)
        late = exact.termination is place.Termination.LIMIT
        if exact.placed is None and not late:
            return _Found(None, method=NODES)
        return _Found(exact.bound, exact.placed, late, NODES)
