"""Whole queues over thousands of nodes: racks of 32, half of the GPUs in use; build, solve and nodes included.

`extra_info`: what the optimum gains over best fit by priority and size, and over first come first served.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from placer.placement import queue
from placer.placement import queue_greedy as greedy
from placer.placement import queue_problem as arrays
from placer.placement import types as place

FREE = [0, 1, 2, 3, 4, 5, 6, 7, 8]
OFTEN = [0.3, 0.05, 0.08, 0.04, 0.12, 0.03, 0.06, 0.02, 0.3]
KINDS: dict[str, dict[str, Any]] = {
    "powers of two": {},
    "priorities all different": {"priorities": 0},
    "any sizes": {"sizes": (1, 2, 3, 4, 5, 6, 8)},
    "gangs": {"gangs": 0.6},
}


def cluster(
    n: int, jobs: int, seed: int, *, sizes: tuple[int, ...] = (1, 2, 4, 8), priorities: int = 5, gangs: float = 0.1
) -> arrays.Problem:
    """Single jobs of every size, and gangs of 2 to 12 whole nodes in one rack."""
    draw = np.random.default_rng(seed)
    free = draw.choice(FREE, n, p=OFTEN)
    racks = np.array([np.arange(n) // 32, np.arange(n) // 256])
    nodes = arrays.Nodes(np.array([free, free * 16, free * 128]), np.full(n, 1024), free == 8, racks)
    pieces = tuple(arrays.Piece((s, s * 16, s * 128)) for s in sizes)
    modes = [arrays.Mode(((1, q),)) for q in range(len(sizes))]
    modes += [arrays.Mode(((k, len(sizes) - 1),), level=0) for k in range(2, 13)]
    waiting = []
    for _ in range(jobs):
        weight = float(draw.integers(1, priorities + 1)) if priorities else float(draw.random())
        mode = int(draw.integers(len(sizes), len(modes)) if draw.random() < gangs else draw.integers(len(sizes)))
        size = sum(count * sizes[q] for count, q in modes[mode].parts)
        waiting.append(arrays.Waiting((mode,), weight * size))
    return arrays.Problem(nodes, (np.ones(n, dtype=np.bool_),), pieces, tuple(modes), tuple(waiting))


def served_in_order(problem: arrays.Problem) -> float:
    """First come first served, each on the tightest nodes, no job passed over."""
    starts = greedy.fill(problem, greedy.Room(problem), range(len(problem.jobs)), lambda: False)
    first = {start.job for start in starts}
    blocked = next((job for job in range(len(problem.jobs)) if job not in first), len(problem.jobs))
    return arrays.value_of(problem, [start for start in starts if start.job < blocked])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("jobs", "nodes", "budget"), [(1000, 1000, 0.5), (2000, 5000, 1.5)])
def test_bench_queue(benchmark: Any, jobs: int, nodes: int, budget: float, kind: str) -> None:
    seeds = iter(range(1000))

    def solve() -> tuple[arrays.Problem, arrays.Answer]:
        problem = cluster(nodes, jobs, next(seeds), **KINDS[kind])
        return problem, queue.solve(problem, place.SolveLimits(60.0, 1e-4, time.perf_counter))

    problem, answer = benchmark.pedantic(solve, rounds=3, warmup_rounds=1)
    assert arrays.violation(problem, answer.starts) is None
    assert answer.solve.gap is not None
    assert answer.solve.gap <= 1.1e-4
    benchmark.extra_info.update(
        budget_seconds=budget,
        value=answer.value,
        gap=answer.solve.gap,
        gain_over_best_fit_pct=100 * (answer.value / answer.greedy_value - 1),
        gain_over_in_order_pct=100 * (answer.value / max(served_in_order(problem), 1e-9) - 1),
    )
