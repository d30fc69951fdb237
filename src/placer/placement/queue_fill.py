"""From counts on node classes to jobs on nodes (symbols of `queue_model`).

Jobs of a group start in their order. The nodes that a home's jobs take of each cell are dealt to them one job after
the other, each as compact as what is left for the others allows: with J jobs left that need pieces on different
nodes, a job takes at least y_e - n_e (J - 1) of cell e. Inside a class pieces are placed in descending size, those
bound to a cell first, jobs of many nodes before single ones, on the tightest nodes; where that fails because pieces of
one job must lie apart, on the nodes with most room. What then still fails is told, for the class to be split.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from placer.placement import queue_classes as classes
from placer.placement import queue_greedy as greedy
from placer.placement import queue_model as models
from placer.placement import queue_problem as queue

Ints = queue.Ints


class Filled(msgspec.Struct, frozen=True):
    """Jobs with their nodes; jobs that found none though the model counts them; the classes where that was."""

    starts: tuple[queue.Start, ...]
    left: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()


class _Share(msgspec.Struct, frozen=True):
    """What one job takes of one cell for one part."""

    run: int  # position in the list of runs
    several: bool  # whether its mode has several parts
    part: int
    piece: int
    cell: int
    count: int


class _Run(msgspec.Struct, frozen=True):
    """A job that starts, in its mode."""

    job: int
    mode: int


def fill(problem: queue.Problem, model: models.Model, values: Sequence[float]) -> Filled:
    """Nodes for every job that a point of the model starts."""
    runs, shares = _deal(problem, model, values)
    room = greedy.Room(problem)
    nodes: list[list[list[int]]] = [[[] for _ in problem.modes[run.mode].parts] for run in runs]
    failed: set[int] = set()
    bad: set[int] = set()
    for number, c in enumerate(model.classes):
        mine = [share for share in shares if model.cells[share.cell].of == number]
        z = [round(values[v]) for v in model.patterns[number]]
        found = _Place(problem, model, room, c, z).place(mine)
        for share, where in zip(mine, found, strict=True):
            nodes[share.run][share.part] += where
            if len(where) < share.count:
                failed.add(number)
                bad.add(share.run)
    starts, left = [], []
    for at, (run, parts) in enumerate(zip(runs, nodes, strict=True)):
        flat = [node for part in parts for node in part]
        if at in bad or not queue.keeps(problem, problem.modes[run.mode], flat):
            left.append(run.job)
        else:
            starts.append(queue.Start(run.job, run.mode, tuple(tuple(sorted(part)) for part in parts)))
    starts.sort(key=lambda start: start.job)
    return Filled(tuple(starts), tuple(sorted(left)), tuple(sorted(failed)))


def _deal(problem: queue.Problem, model: models.Model, values: Sequence[float]) -> tuple[list[_Run], list[_Share]]:
    """Which jobs start, in which mode and home, and what each takes of which cell."""
    waiting = jobs(problem, model, values)
    runs: list[_Run] = []
    shares: list[_Share] = []
    for home in model.homes:
        mine = [waiting[home.mode].pop(0) for _ in range(round(values[home.jobs]))]
        amounts = [{e: round(values[v] * f) for e, (v, f) in part} for part in home.parts]
        mode = problem.modes[home.mode]
        for at, job in enumerate(mine):
            for part, ((count, piece), amount) in enumerate(zip(mode.parts, amounts, strict=True)):
                for cell, taken in _own(amount, count, len(mine) - at - 1, model).items():
                    amount[cell] -= taken
                    shares.append(_Share(len(runs), len(mode.parts) > 1, part, piece, cell, taken))
            runs.append(_Run(job, home.mode))
    return runs, shares


def jobs(problem: queue.Problem, model: models.Model, values: Sequence[float]) -> dict[int, list[int]]:
    """For each mode the jobs that start in it, in order; of equal modes the first tier and the greatest value first."""
    total: dict[int, int] = {}
    for home in model.homes:
        total[home.mode] = total.get(home.mode, 0) + round(values[home.jobs])
    started: dict[int, list[int]] = {mode: [] for mode in total}
    several = [group for group in model.groups if len(group.starts) > 1]
    for group in several:
        left = list(group.jobs)
        for mode, s in group.starts:
            count = round(values[s])
            started.setdefault(mode, []).extend(left[:count])
            left = left[count:]
    single = [group for group in model.groups if len(group.starts) == 1]
    for group in sorted(single, key=lambda g: (problem.jobs[g.jobs[0]].tier, -problem.jobs[g.jobs[0]].value, g.jobs)):
        mode = group.starts[0][0]
        if mode in total:
            started[mode] += group.jobs[: max(0, total[mode] - len(started[mode]))]
    return {mode: sorted(found) for mode, found in started.items()}


def _own(amount: dict[int, int], count: int, others: int, model: models.Model) -> dict[int, int]:
    """What one job takes of each cell, `count` nodes in all, so that `others` can still share the rest."""
    taken = {e: max(0, y - len(model.cells[e].nodes) * others) if count > 1 else 0 for e, y in amount.items()}
    left = count - sum(taken.values())
    for e in sorted(amount, key=lambda e: (-amount[e], e)):
        more = min(left, amount[e] - taken[e], len(model.cells[e].nodes) - taken[e])
        taken[e] += more
        left -= more
    return {e: n for e, n in taken.items() if n}


class _Place:
    """Pieces of one class on its nodes."""

    def __init__(
        self, problem: queue.Problem, model: models.Model, room: greedy.Room, c: classes.NodeClass, z: list[int]
    ) -> None:
        self.problem, self.model, self.room, self.c = problem, model, room, c
        self.kind = {q: number for number, kind in enumerate(c.kinds) for q in kind}
        self.pattern: Ints | None = None
        if c.form == classes.PATTERNS:
            times = [p for p, number in zip(c.patterns, z, strict=True) for _ in range(number)]
            rest = [(0,) * len(c.kinds)] * (len(c.nodes) - len(times))
            self.pattern = np.array([*times, *rest], dtype=np.int64)[: len(c.nodes)]

    def place(self, shares: list[_Share]) -> list[list[int]]:
        """The nodes of each share; fewer than it asks where they do not fit."""
        before = (self.room.room.copy(), self.room.untouched.copy())
        pattern = None if self.pattern is None else self.pattern.copy()
        found = self._all(shares, roomiest=False)
        if any(len(where) < share.count for share, where in zip(shares, found, strict=True)):
            again = (self.room.room, self.room.untouched)
            self.room.room, self.room.untouched = before
            self.pattern = pattern
            second = self._all(shares, roomiest=True)
            if sum(map(len, second)) >= sum(map(len, found)):
                return second
            self.room.room, self.room.untouched = again
        return found

    def _all(self, shares: list[_Share], *, roomiest: bool) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in shares]
        at = 0
        order = sorted(range(len(shares)), key=lambda number: (*self._key(shares[number]), number))
        while at < len(order):
            share = shares[order[at]]
            if share.count > 1 or share.several or self.pattern is not None:
                found[order[at]] = self._apart(share, self._used(shares, found, share), roomiest=roomiest)
                at += 1
                continue
            end = at
            while end < len(order) and self._key(shares[order[end]]) == self._key(share):
                end += 1
            where = self.room.pieces(share.piece, end - at, self.model.cells[share.cell].nodes)
            for number, node in zip(order[at:end], where, strict=False):
                found[number] = [node]
            at = end
        return found

    def _used(self, shares: list[_Share], found: list[list[int]], share: _Share) -> list[int]:
        """Nodes of this class that other parts of the same job have."""
        if not share.several:
            return []
        return [node for other, where in zip(shares, found, strict=True) if other.run == share.run for node in where]

    def _key(self, share: _Share) -> tuple[int, ...]:
        piece = self.problem.pieces[share.piece]
        bound = len(self.model.cells[share.cell].nodes) < len(self.c.nodes)
        return (not piece.whole, -piece.gpus, not bound, -share.count, share.piece, share.cell)

    def _apart(self, share: _Share, used: list[int], *, roomiest: bool) -> list[int]:
        """Different nodes for the pieces of one job."""
        among = self.model.cells[share.cell].nodes
        fits = self.room.fits(share.piece, among)
        kind = self.kind.get(share.piece)
        if self.pattern is not None:
            left = self.pattern[np.searchsorted(self.c.nodes, among)]
            fits = fits & (left[:, kind] > 0 if kind is not None else ~left.any(axis=1))
        where = self.room.tightest(among[fits & ~np.isin(among, used)])
        where = (where[::-1] if roomiest else where)[: share.count]
        self.room.take(share.piece, where)
        if self.pattern is not None and kind is not None:
            self.pattern[np.searchsorted(self.c.nodes, where), kind] -= 1
        return [int(node) for node in where]
