"""The queue against the naive model of jobs on nodes, on random small instances of every kind."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from placer.placement import queue, queue_naive
from placer.placement import queue_problem as arrays
from placer.placement import types as place

CASES = 200
SIZES = ([1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 3, 4, 5, 6], [2, 3, 4], [1, 3, 6])


class Draw:
    """A random queue: nodes half used, pieces whose CPUs and memory may run out, gangs in racks, several ways."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.gpus, self.per_gpu = draw.choice([4, 8, 8]), draw.choice([2, 4])
        self.sizes = [s for s in draw.choice(SIZES) if s <= self.gpus]
        self.even = draw.random() < 0.4
        self.pieces: list[arrays.Piece] = []
        self.modes: list[arrays.Mode] = []

    def problem(self) -> arrays.Problem:
        nodes = self._nodes(self.draw.randrange(2, 9))
        n = nodes.count
        self.allowed = [np.ones(n, dtype=np.bool_)]
        self.allowed += [self._some(n) for _ in range(self.draw.randrange(3))]
        kinds = [tuple(self._mode() for _ in range(self.draw.choice([1, 1, 1, 2]))) for _ in range(6)]
        tiers, jobs = self.draw.choice([1, 1, 2, 3]), []
        used: set[int] = set()
        for _ in range(self.draw.randrange(1, 14)):
            modes = tuple(dict.fromkeys(self.draw.choice(kinds)))
            if any(not self.modes[m].simple and m in used for m in modes):
                continue  # each job has such a mode to itself
            used.update(modes)
            size = max(1, *(sum(c * self.pieces[q].gpus for c, q in self.modes[m].parts) for m in modes), 1)
            jobs.append(
                arrays.Waiting(modes, float(size * self.draw.choice([1, 1, 2, 3, 5])), self.draw.randrange(tiers))
            )
        return arrays.Problem(nodes, tuple(self.allowed), tuple(self.pieces), tuple(self.modes), tuple(jobs))

    def _nodes(self, n: int) -> arrays.Nodes:
        draw = self.draw
        free = [draw.randrange(self.gpus + 1) for _ in range(n)]
        cpus = [f * self.per_gpu if draw.random() < 0.6 else draw.randrange(self.gpus * self.per_gpu + 1) for f in free]
        memory = [f * 10 if draw.random() < 0.6 else draw.randrange(self.gpus * 10) for f in free]
        untouched = [draw.random() < 0.25 for _ in range(n)]
        whole = (self.gpus, self.gpus * self.per_gpu, self.gpus * 10)
        room = np.array(
            [whole if u else r for u, r in zip(untouched, zip(free, cpus, memory, strict=True), strict=True)]
        )
        racks = np.unique([draw.randrange(3) for _ in range(n)], return_inverse=True)[1]
        spines = np.unique([[0, 0, 1][r] for r in racks], return_inverse=True)[1]
        return arrays.Nodes(room.T.copy(), np.full(n, self.gpus * 10), np.array(untouched), np.array([racks, spines]))

    def _some(self, n: int) -> arrays.Mask:
        return np.array([self.draw.random() < 0.6 for _ in range(n)])

    def _piece(self) -> int:
        draw = self.draw
        g = draw.choice(self.sizes) if draw.random() > 0.08 else 0
        need = (
            g,
            g * self.per_gpu if self.even and g else draw.randrange(0 if g else 1, g * self.per_gpu + 3),
            g * 10 if self.even and g else draw.choice([0, 0, draw.randrange(g * 12 + 5)]),
        )
        kind = draw.random()
        piece = arrays.Piece(need, draw.randrange(len(self.allowed)), kind < 0.06, kind > 0.95)
        if piece.all_memory:
            piece = arrays.Piece((g, need[1], 0), piece.allowed, piece.whole, True)
        if piece not in self.pieces:
            self.pieces.append(piece)
        return self.pieces.index(piece)

    def _mode(self) -> int:
        draw = self.draw
        count = draw.choice([1, 1, 1, 2, 2, 3])
        parts: tuple[tuple[int, int], ...] = ((count, self._piece()),)
        if count > 1 and draw.random() < 0.15:
            parts = ((count - 1, self._piece()), (1, self._piece()))
        level = draw.randrange(2) if count > 1 and draw.random() < 0.4 else None
        most = (draw.randrange(2), draw.choice([1, 2])) if count > 1 and level is None and draw.random() < 0.1 else None
        group = draw.randrange(len(self.allowed))
        size = int(self.allowed[group].sum())
        forced = group if group and 0 < size <= count and draw.random() < 0.3 else None
        least = ((group, 1),) if group and draw.random() < 0.06 else ()
        mode = arrays.Mode(parts, level=level, most=most, forced=forced, at_least=least)
        if mode not in self.modes:
            self.modes.append(mode)
        return self.modes.index(mode)


@pytest.mark.parametrize("block", range(10))
def test_queue_equals_the_naive_model(block: int) -> None:
    """The same value, proven; every answer allowed; never below the rule of thumb in the first tier."""
    for seed in range(block * CASES // 10, (block + 1) * CASES // 10):
        problem = Draw(seed).problem()
        answer = queue.solve(problem)
        assert arrays.violation(problem, answer.starts) is None, seed
        assert answer.value == pytest.approx(queue_naive.best(problem)), seed
        assert (answer.solve.termination, answer.solve.gap) == (place.Termination.OPTIMAL, 0.0), seed
        assert answer.solve.objective == pytest.approx(-answer.value), seed
        assert len(problem.tiers) > 1 or answer.value >= answer.greedy_value - 1e-9, seed


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.01, 0.1])
def test_queue_deadline_gives_an_allowed_answer_and_a_true_bound(seconds: float) -> None:
    for seed in range(12):
        problem = Draw(seed).problem()
        answer = queue.solve(problem, place.SolveLimits(seconds, clock=time.perf_counter))
        assert arrays.violation(problem, answer.starts) is None, seed
        best = queue_naive.best(problem)
        assert best is not None
        assert answer.solve.bound is not None
        assert answer.value == pytest.approx(arrays.value_of(problem, answer.starts)), seed
        assert len(problem.tiers) > 1 or answer.value - 1e-9 <= best <= -answer.solve.bound + 1e-6, seed
        assert answer.solve.termination in {place.Termination.OPTIMAL, place.Termination.LIMIT}, seed


def test_queue_same_question_same_answer() -> None:
    for seed in range(20):
        assert queue.solve(Draw(seed).problem()) == queue.solve(Draw(seed).problem()), seed
