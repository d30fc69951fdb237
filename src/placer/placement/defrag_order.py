"""In which order moves are carried out, so that each fits when its turn comes (symbols of `defrag_problem`).

A move is *safe* when its destination has room now for all that still goes there: it takes nothing from any other move
and is carried out at once. Between unsafe moves the order is searched, states visited once. Where no order of the
chosen destinations exists, the same jobs may go elsewhere; then one of them may stop over on a node with room, or
another job makes room (one more move). What is left then must stop together: a cycle without a spare.
"""

from __future__ import annotations

import msgspec
import numpy as np

from placer.placement import defrag_moves as assigned
from placer.placement import defrag_problem as defrag

Ints = defrag.Ints

MOST_STATES = 3000
MOST_JOBS = 12
MOST_OTHERS = 24
WIDTH = 8
"""Up to so many states, jobs that move, other jobs and nodes for a job another way is looked for."""


class Ordered(msgspec.Struct, frozen=True):
    """The moves with their steps; detours among them; what is to be known of the order, "" where each stands alone."""

    moves: tuple[defrag.Move, ...]
    targets: tuple[int, ...]
    detours: int = 0
    note: str = ""


def order(problem: defrag.Problem, placed: assigned.Placed) -> Ordered:
    """Steps for all moves."""
    found = _straight(problem, placed)
    if found is not None:
        return Ordered(_steps(problem, found), placed.targets)
    complete = False
    if all(len(problem.jobs[j].nodes) == 1 for j, _ in placed.jobs) and len(placed.jobs) <= MOST_JOBS:
        moved = [j for j, _ in placed.jobs]
        for detours, extra in [(0, -1), (1, -1), *((0, j) for j in _others(problem, moved))]:
            search = _Elsewhere(problem, placed, detours, [*moved, extra] if extra >= 0 else moved)
            other = search.run()
            if other is not None:
                steps, targets = other
                return Ordered(_steps(problem, steps), targets, max(0, len(steps) - len(moved)))
            if extra < 0 and not detours:
                complete = not search.cut
    return _together(problem, placed, complete=complete)


def _others(problem: defrag.Problem, moved: list[int]) -> list[int]:
    """Jobs of one piece that could move as well, the cheapest first."""
    single = [j for j, job in enumerate(problem.jobs) if len(job.nodes) == 1 and j not in set(moved)]
    return sorted(single, key=lambda j: (problem.jobs[j].cost, j))[:MOST_OTHERS]


Step = list[tuple[int, tuple[int, ...]]]
"""Jobs that move together, with their new nodes."""


def _straight(problem: defrag.Problem, placed: assigned.Placed) -> list[Step] | None:
    """The jobs one by one to their nodes."""
    state = _State(problem, dict(placed.jobs))
    steps: list[Step] = []
    state.safe(steps)
    seen: set[frozenset[int]] = set()
    stack = [(state, steps)]
    while stack and len(seen) < MOST_STATES:
        here, steps = stack.pop()
        if not here.left:
            return steps
        key = frozenset(here.left)
        if key in seen:
            continue
        seen.add(key)
        for j in reversed(here.left):
            if here.fits(j):
                after, more = here.copy(), list(steps)
                after.move(j)
                more.append([(j, here.goal[j])])
                after.safe(more)
                stack.append((after, more))
    return None


class _State:
    """What is free while jobs are on their way."""

    def __init__(self, problem: defrag.Problem, goal: dict[int, tuple[int, ...]]) -> None:
        self.problem, self.goal = problem, goal
        self.room = problem.room.copy()
        self.left = sorted(goal)
        self.coming = np.zeros_like(self.room)  # what still goes to each node
        for j in self.left:
            self._add(self.coming, goal[j], j, 1)

    def copy(self) -> _State:
        """A state of its own."""
        other = _State.__new__(_State)
        other.problem, other.goal = self.problem, self.goal
        other.room, other.left, other.coming = self.room.copy(), list(self.left), self.coming.copy()
        return other

    def _add(self, room: Ints, nodes: tuple[int, ...], j: int, sign: int) -> None:
        for node, need in zip(nodes, self.problem.jobs[j].needs, strict=True):
            room[:, node] += sign * np.array(need, dtype=np.int64)

    def fits(self, j: int) -> bool:
        """Whether the job can go now; its own pieces leave first."""
        self._add(self.room, self.problem.jobs[j].nodes, j, 1)
        self._add(self.room, self.goal[j], j, -1)
        fits = bool((self.room[:, list(self.goal[j])] >= 0).all())
        self._add(self.room, self.goal[j], j, 1)
        self._add(self.room, self.problem.jobs[j].nodes, j, -1)
        return fits

    def move(self, j: int) -> None:
        """Carry one move out."""
        self._add(self.room, self.problem.jobs[j].nodes, j, 1)
        self._add(self.room, self.goal[j], j, -1)
        self._add(self.coming, self.goal[j], j, -1)
        self.left.remove(j)

    def safe(self, steps: list[Step]) -> None:
        """Carry out safe moves until none is left."""
        moved = True
        while moved:
            moved = False
            for j in list(self.left):
                nodes = list(self.goal[j])
                if (self.room[:, nodes] >= self.coming[:, nodes]).all():
                    self.move(j)
                    steps.append([(j, self.goal[j])])
                    moved = True


class _Elsewhere:
    """The same jobs, each once, to any nodes with room; `detours` of the moves may be of a job that moves again."""

    def __init__(self, problem: defrag.Problem, placed: assigned.Placed, detours: int, jobs: list[int]) -> None:
        self.problem, self.detours, self.jobs = problem, detours, jobs
        self.goal = {j: nodes[0] for j, nodes in placed.jobs}
        self.room = problem.room.copy()
        self.where = {j: problem.jobs[j].nodes[0] for j in self.jobs}
        self.times = dict.fromkeys(self.jobs, 0)
        self.seen: set[tuple[object, ...]] = set()
        self.steps: list[Step] = []
        self.cut = False
        self.targets = problem.allowed[problem.request.allowed]

    def run(self) -> tuple[list[Step], tuple[int, ...]] | None:
        """Steps after which the request fits, and its nodes."""
        return self._descend(self.detours)

    def _descend(self, spare: int) -> tuple[list[Step], tuple[int, ...]] | None:
        targets = self._fitting()
        if targets is not None:
            return list(self.steps), targets
        key = (tuple(self.where[j] for j in self.jobs), tuple(self.times.values()), spare)
        if key in self.seen:
            return None
        self.seen.add(key)
        if len(self.seen) > MOST_STATES:
            self.cut = True
            return None
        for j in self.jobs:
            again = int(self.times[j] > 0)
            if again > spare or self.times[j] > 1:
                continue
            for node in self._nodes(j):
                before = self.where[j]
                self._move(j, before, node)
                self.steps.append([(j, (node,))])
                found = self._descend(spare - again)
                if found is not None:
                    return found
                self.steps.pop()
                self._move(j, node, before, back=True)
        return None

    def _move(self, j: int, source: int, target: int, *, back: bool = False) -> None:
        need = np.array(self.problem.jobs[j].needs[0], dtype=np.int64)
        self.room[:, source] += need
        self.room[:, target] -= need
        self.where[j] = target
        self.times[j] += -1 if back else 1

    def _nodes(self, j: int) -> list[int]:
        """Nodes with room now, the chosen one first; of equal ones only the first."""
        job = self.problem.jobs[j]
        fits = self.problem.allowed[job.allowed] & (self.room >= np.array(job.needs[0], dtype=np.int64)[:, None]).all(
            axis=0
        )
        fits[self.where[j]] = False
        where = np.flatnonzero(fits)
        order = where[np.lexsort((where, self.room[defrag.GPUS, where], where != self.goal.get(j, -1)))]
        found: list[int] = []
        seen: set[tuple[object, ...]] = set()
        for node in order.tolist():
            key = (*self.room[:, node].tolist(), *(bool(members[node]) for members in self.problem.allowed))
            key = (*key, *self.problem.domain_of[:, node].tolist(), bool(self.problem.clear[node]))
            if key not in seen or node == self.goal.get(j, -1):
                seen.add(key)
                found.append(node)
        self.cut = self.cut or len(found) > WIDTH
        return found[:WIDTH]

    def _fitting(self) -> tuple[int, ...] | None:
        """Nodes for the request, where it fits now."""
        problem, request = self.problem, self.problem.request
        wanted = np.repeat(np.array(request.need, dtype=np.int64)[:, None], problem.count, axis=1)
        if request.all_memory:
            wanted[defrag.MEMORY] = problem.memory
        fits = self.targets & (self.room >= wanted).all(axis=0)
        if request.whole:
            busy = np.zeros(problem.count, dtype=np.bool_)
            for j, job in enumerate(problem.jobs):
                busy[[self.where[j]] if j in self.where else list(job.nodes)] = True
            fits &= problem.clear & ~busy
        nodes = np.flatnonzero(fits)
        if request.level is None:
            return tuple(nodes[: request.count].tolist()) if len(nodes) >= request.count else None
        domain = problem.domain_of[request.level][nodes]
        for d in dict.fromkeys(domain.tolist()):
            inside = nodes[domain == d]
            if len(inside) >= request.count:
                return tuple(inside[: request.count].tolist())
        return None


def _together(problem: defrag.Problem, placed: assigned.Placed, *, complete: bool) -> Ordered:
    """Safe moves first, then those that fit, and what blocks itself in one step."""
    state = _State(problem, dict(placed.jobs))
    steps: list[Step] = []
    state.safe(steps)
    moved = True
    while moved:
        moved = False
        for j in list(state.left):
            if state.fits(j):
                state.move(j)
                steps.append([(j, state.goal[j])])
                state.safe(steps)
                moved = True
    proof = "no order exists" if complete else "no order was found"
    note = (
        f"{proof} in which each of the last {len(state.left)} moves fits by itself without a spare: they stop together"
    )
    steps.append([(j, state.goal[j]) for j in state.left])
    return Ordered(_steps(problem, steps), placed.targets, 0, note)


def _steps(problem: defrag.Problem, steps: list[Step]) -> tuple[defrag.Move, ...]:
    where = defrag.unmoved(problem)
    found: list[defrag.Move] = []
    for number, step in enumerate(steps, 1):
        for j, nodes in step:
            for p, node in enumerate(nodes):
                if where[j, p] != node:
                    found.append(defrag.Move(number, j, p, where[j, p], node))
                    where[j, p] = node
    return tuple(found)
