"""One job over 10,000 nodes, exact: racks of 32, 8 racks a spine. `extra_info`: what a rule of thumb would choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placer.placement import gang, gang_problem
from placer.placement import types as place


def cluster(count: int, free: float, classes: int, **more: Any) -> gang_problem.GangProblem:
    """Candidates are the free nodes. One class: each costs one GPU of damage. More: random wiring, NICs and damage."""
    draw = np.random.default_rng(1)
    nodes = np.flatnonzero(draw.random(10_000) < free)
    n = len(nodes)
    plain = classes == 1
    return gang_problem.GangProblem(
        count=count,
        domain_of=np.array([nodes // 32, nodes // 256]),
        bandwidth=draw.choice([100.0, 200.0, 300.0, 400.0][:classes], n),
        nic=np.full(n, np.nan if plain else 48.0),
        damage=np.full(n, 1000) if plain else draw.integers(0, 8000, n),
        forced=np.zeros(n, dtype=np.bool_),
        oversubscription=() if plain else (1.0, 2.0),
        spans_roots=True,
        **more,
    )


def largest_first(problem: gang_problem.GangProblem) -> gang_problem.GangSolution:
    """The rule of thumb: the spine with most candidates, in it the rack with most, and so on until the job fits."""
    racks, spines = problem.domain_of
    order = np.lexsort((problem.damage, racks, -np.bincount(racks)[racks], spines, -np.bincount(spines)[spines]))
    forest = gang_problem.Forest(problem)
    chosen = order[: problem.count]
    return gang_problem.answer(problem, forest, chosen, method="largest first", floor=0.0, seconds=0.0)


@pytest.mark.parametrize("count", [8, 64, 512])
@pytest.mark.parametrize(
    ("free", "classes", "more"),
    [
        (0.35, 1, {}),
        (0.35, 4, {}),
        (0.35, 4, {"preferred": 0}),
        (0.35, 4, {"preferred": 1}),
        (0.35, 4, {"required": 1}),
        (1.0, 1, {}),
        (1.0, 4, {}),
        (1.0, 4, {"preferred": 0}),
    ],
    ids=[
        "35%",
        "35%-wiring",
        "35%-prefer-rack",
        "35%-prefer-spine",
        "35%-require-spine",
        "all",
        "all-wiring",
        "all-rack",
    ],
)
def test_bench_one_job(benchmark: Any, count: int, free: float, classes: int, more: dict[str, int]) -> None:
    problem = cluster(count, free, classes, **more)
    answer = benchmark(gang.solve, problem)
    thumb = largest_first(problem)
    benchmark.extra_info.update(
        candidates=problem.nodes,
        objective=answer.solve.objective,
        key=answer.key,
        largest_first=thumb.key,
        budget_ms=20,
    )
    assert answer.solve.termination in {place.Termination.OPTIMAL, place.Termination.INFEASIBLE}
    assert not answer.chosen or more or answer.key <= thumb.key
