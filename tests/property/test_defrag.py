"""Defragmentation against the model of single nodes, on random small clusters of every kind."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from placer.placement import defrag, defrag_naive
from placer.placement import defrag_problem as arrays
from placer.placement import types as place

CASES = 480
SIZES = ([1, 2, 4, 8], [1, 2, 4], [1, 2, 4, 8], [1, 2, 3, 4], [2, 3, 5])


class Draw:
    """A random cluster: jobs with CPUs and memory in proportion, or short, some fixed, some of several nodes."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.gpus, self.per_gpu = draw.choice([4, 8, 8]), draw.choice([2, 4])
        self.sizes = draw.choice(SIZES)
        self.kind = draw.choice(["free", "even", "even", "loose", "tight"])
        self.jobs: list[arrays.Resident] = []

    def problem(self) -> arrays.Problem:
        draw, n = self.draw, self.draw.randrange(3, 10)
        short = 100_000 if self.kind == "free" else 0
        self.room = np.array([[self.gpus] * n, [short or self.gpus * self.per_gpu] * n, [short or self.gpus * 10] * n])
        self.memory, self.clear = self.room[2].copy(), np.ones(n, dtype=np.bool_)
        sets = [np.ones(n, dtype=np.bool_)]
        sets += [np.array([draw.random() < 0.7 for _ in range(n)]) for _ in range(draw.choice([0, 0, 0, 1, 2]))]
        fill = draw.choice([0.5, 0.6, 0.7, 0.8])
        for _ in range(draw.choice([0, 0, 1, 2])):
            self._gang(n)
        for node in range(n):
            self._fill(node, fill, len(sets))
        racks = np.unique([draw.randrange(3) for _ in range(n)], return_inverse=True)[1]
        size = draw.choice([*(s for s in self.sizes if s <= self.gpus), self.gpus, self.gpus])
        request = arrays.Request(
            draw.choice([1, 1, 1, 2, 3]),
            (size, size * self.per_gpu, size * 5) if self.kind == "tight" else self._need(size),
            draw.randrange(len(sets)),
            level=0 if draw.random() < 0.35 else None,
            whole=draw.random() < 0.12,
        )
        return arrays.Problem(
            self.room, self.memory, self.clear, np.array([racks]), tuple(sets), tuple(self.jobs), request
        )

    def _need(self, gpus: int) -> tuple[int, int, int]:
        draw = self.draw
        if self.kind in {"free", "even"}:
            return gpus, gpus * self.per_gpu, gpus * 10
        if self.kind == "loose":
            return gpus, draw.randrange(self.per_gpu * gpus + 1), draw.randrange(gpus * 10 + 1)
        return gpus, draw.randrange(self.per_gpu * gpus + 4), draw.randrange(gpus * 13)

    def _fits(self, node: int, need: tuple[int, ...]) -> bool:
        return bool((self.room[:, node] >= np.array(need)).all())

    def _fill(self, node: int, fill: float, sets: int) -> None:
        draw = self.draw
        for _ in range(20):
            if self.room[0, node] <= self.gpus * (1 - fill):
                return
            need: tuple[int, ...] = self._need(draw.choice(self.sizes))
            if draw.random() < 0.06:
                need = (0, draw.randrange(1, self.per_gpu * 2), 0)
            if not self._fits(node, need):
                continue
            self.room[:, node] -= np.array(need)
            if draw.random() < 0.15:
                self.clear[node] = False
                continue
            cost = 1000 + 10 * need[0] + draw.choice([0, 0, 0, 1, 2]) + (100_000 if draw.random() < 0.05 else 0)
            self.jobs.append(
                arrays.Resident((node,), (need,), draw.randrange(sets) if draw.random() < 0.5 else 0, cost)
            )

    def _gang(self, n: int) -> None:
        need = self._need(self.draw.choice(self.sizes))
        nodes = [node for node in range(n) if self._fits(node, need)][: self.draw.choice([2, 2, 3])]
        if len(nodes) > 1:
            self.room[:, nodes] -= np.array(need)[:, None]
            self.jobs.append(arrays.Resident(tuple(nodes), (need,) * len(nodes), 0, 1000 + 10 * need[0] * len(nodes)))


@pytest.mark.parametrize("block", range(12))
def test_defrag_finds_a_plan_exactly_when_single_nodes_have_one(block: int) -> None:
    """The same cost, proven; no plan only where there is none; every step replayed and fitting."""
    for seed in range(block * CASES // 12, (block + 1) * CASES // 12):
        problem = Draw(seed).problem()
        answer, naive = defrag.solve(problem), defrag_naive.best(problem)
        assert answer.solve.termination is naive.termination, seed
        if naive.objective is None:
            assert (answer.targets, answer.moves) == ((), ()), seed
            continue
        assert answer.solve.objective == pytest.approx(naive.objective / 1000), seed
        assert (answer.solve.bound, answer.solve.gap) == (answer.solve.objective, 0.0), seed
        assert arrays.violation(problem, answer) is None, seed
        steps = {move.step: move.job for move in answer.moves}
        assert answer.order or len({(m.step, m.job) for m in answer.moves}) == len(steps), seed


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.01, 0.1])
def test_defrag_deadline_gives_an_allowed_plan_and_a_true_bound(seconds: float) -> None:
    for seed in range(40):
        problem = Draw(seed).problem()
        answer = defrag.solve(problem, place.SolveLimits(seconds, clock=time.perf_counter))
        naive = defrag_naive.best(problem)
        if answer.targets:
            assert arrays.violation(problem, answer) is None, seed
        if answer.solve.termination is place.Termination.INFEASIBLE:
            assert naive.termination is place.Termination.INFEASIBLE, seed
        elif naive.objective is not None:
            assert answer.solve.bound is not None
            assert answer.solve.bound <= naive.objective / 1000 + 1e-9, seed
            assert answer.solve.objective is None or answer.solve.objective >= naive.objective / 1000 - 1e-9, seed


def test_defrag_same_question_same_answer() -> None:
    for seed in range(40):
        assert defrag.solve(Draw(seed).problem()) == defrag.solve(Draw(seed).problem()), seed
