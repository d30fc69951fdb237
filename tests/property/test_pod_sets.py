"""Several sets of nodes: the search equals brute force on random small trees; its limit and its spares are honest."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.placement import pod_sets
from placer.placement import types as place

NAN, INF = math.nan, math.inf


def tree(draw: random.Random, nodes: int, levels: int) -> list[list[int]]:
    """Nested domains; sometimes a node hangs on nothing."""
    rows = [[draw.randrange(1 + nodes // 2) for _ in range(nodes)]]
    for _ in range(1, levels):
        into = {d: draw.randrange(1 + len(set(rows[-1])) // 2) for d in sorted(set(rows[-1]))}
        rows.append([into[d] for d in rows[-1]])
    if draw.random() < 0.15:
        for row in rows:
            row[0] = -1
    return rows


def instance(seed: int) -> pod_sets.SetsProblem:
    draw = random.Random(seed)
    nodes, levels, sets = draw.randrange(2, 8), draw.randrange(1, 4), draw.choice([1, 2, 2, 2, 3])
    shape = (sets, nodes)

    def drawn(choices: list[float]) -> np.ndarray:
        return np.array([[draw.choice(choices) for _ in range(nodes)] for _ in range(sets)])

    return pod_sets.SetsProblem(
        counts=tuple(draw.choice([1, 1, 2, 3]) for _ in range(sets)),
        domain_of=np.array(tree(draw, nodes, levels)),
        fits=drawn([0, 1, 1, 1]) > 0,
        bandwidth=drawn([100, 200, 400, NAN, INF]),
        nic=drawn([12, 48, NAN]),
        damage=drawn([0, 500, 1000, 2500]).astype(np.int64),
        forced=np.array([[draw.random() < 0.03 for _ in range(nodes)] for _ in range(sets)]).reshape(shape),
        required=draw.randrange(levels) if draw.random() < 0.3 else None,
        preferred=draw.randrange(levels) if draw.random() < 0.4 else None,
        oversubscription=tuple(draw.choice([1.0, 2.0, 4.0]) for _ in range(levels)) if draw.random() < 0.5 else (),
        spans_roots=draw.random() < 0.6,
    )


def key_of(problem: pod_sets.SetsProblem, chosen: tuple[tuple[int, ...], ...]) -> tuple[float, ...] | None:
    """The key by its definition in plain Python; None where the choice is not allowed."""
    rows = [list(row) for row in problem.domain_of.tolist()]
    everyone = [i for part in chosen for i in part]
    for i in everyone:  # a missing domain is the one below it, and a lone node its own
        below: object = ("node", i)
        for level, row in enumerate(rows):
            below = row[i] = (level, row[i]) if row[i] != -1 and not isinstance(row[i], tuple) else below
    used = [len({row[i] for i in everyone}) for row in rows]
    common = next((level for level, count in enumerate(used) if count == 1), len(rows))
    if common == len(rows) and not problem.spans_roots:
        return None
    if problem.required is not None and used[problem.required] > 1:
        return None
    factors = (problem.oversubscription or (1.0,) * len(rows))[:common]
    crossing = math.prod(max(1.0, factor) for factor in factors)
    speeds = []
    for s, part in enumerate(chosen):
        for i in part:
            inside, outside = problem.bandwidth[s][i], problem.nic[s][i]
            value = 0.0 if math.isnan(inside) else float(inside)
            if len(everyone) > 1 and not math.isnan(outside):
                value = min(value, float(outside) / crossing)
            speeds.append(value)
    slow = INF if min(speeds) == 0 else 1 / min(speeds)
    unmet = 0 if problem.preferred is None else used[problem.preferred] - 1
    damage = sum(int(problem.damage[s][i]) for s, part in enumerate(chosen) for i in part)
    return unmet, slow, sum(4**level * count for level, count in enumerate(used)), damage


def brute(problem: pod_sets.SetsProblem) -> tuple[float, ...] | None:
    """The least key over all disjoint choices."""
    nodes = range(problem.domain_of.shape[1])
    options = [
        [
            part
            for part in itertools.combinations([i for i in nodes if problem.fits[s][i]], count)
            if set(np.flatnonzero(problem.forced[s]).tolist()) <= set(part)
        ]
        for s, count in enumerate(problem.counts)
    ]
    keys = [
        key
        for chosen in itertools.product(*options)
        if len({i for part in chosen for i in part}) == sum(problem.counts)
        and (key := key_of(problem, chosen)) is not None
    ]
    return min(keys, default=None)


def assert_best(problem: pod_sets.SetsProblem, seed: int) -> bool:
    answer, oracle = pod_sets.solve(problem), brute(problem)
    if oracle is None:
        assert (answer.chosen, answer.solve.termination) == ((), place.Termination.INFEASIBLE), seed
        return False
    assert answer.solve.termination is place.Termination.OPTIMAL, seed
    assert tuple(len(part) for part in answer.chosen) == problem.counts
    assert answer.key == pytest.approx(oracle), seed
    assert key_of(problem, answer.chosen) == pytest.approx(oracle), seed
    assert all(problem.fits[s][i] for s, part in enumerate(answer.chosen) for i in part)
    assert answer.solve.objective == answer.solve.bound == pytest.approx(oracle[2] + oracle[3] / 1e6)
    return True


def test_sets_on_random_trees_equal_brute_force() -> None:
    feasible = sum(assert_best(instance(seed), seed) for seed in range(400))
    assert 150 < feasible < 350


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_sets_on_any_tree_equal_brute_force(seed: int) -> None:
    assert_best(instance(seed), seed)


def wide(counts: tuple[int, ...], nodes: int = 300) -> pod_sets.SetsProblem:
    """Racks of 10, spines of 5 racks."""
    draw = np.random.default_rng(5)
    shape, at = (len(counts), nodes), np.arange(nodes)
    return pod_sets.SetsProblem(
        counts=counts,
        domain_of=np.array([at // 10, at // 50]),
        fits=draw.random(shape) < 0.7,
        bandwidth=draw.choice([100.0, 200.0], shape),
        nic=np.full(shape, 48.0),
        damage=draw.integers(0, 8000, shape),
        forced=np.zeros(shape, dtype=np.bool_),
        spans_roots=True,
    )


@pytest.mark.parametrize("looks", [0, 1, 10, 100, 1000])
def test_sets_at_any_deadline_are_valid_and_their_bound_holds(looks: int) -> None:
    problem = wide((2, 30))
    exact = pod_sets.solve(problem)
    ticks = itertools.count()
    answer = pod_sets.solve(problem, place.SolveLimits(seconds=looks + 0.5, clock=lambda: float(next(ticks))))
    assert exact.solve.objective is not None
    if not answer.chosen:
        assert (answer.solve.termination, answer.solve.objective) == (place.Termination.LIMIT, None)
        return
    assert answer.solve.bound is not None
    assert answer.solve.objective is not None
    assert answer.solve.bound <= min(exact.solve.objective, answer.solve.objective)
    assert len({i for part in answer.chosen for i in part}) == 32
    if answer.solve.termination is place.Termination.OPTIMAL:
        assert answer.chosen == exact.chosen


def test_sets_too_large_for_the_tables_are_placed_one_after_the_other_and_say_so() -> None:
    problem = wide((70, 70))
    answer = pod_sets.solve(problem)
    assert answer.solve.termination is place.Termination.FEASIBLE
    assert [len(part) for part in answer.chosen] == [70, 70]
    assert not set(answer.chosen[0]) & set(answer.chosen[1])
    assert all(problem.fits[s, i] for s, part in enumerate(answer.chosen) for i in part)
    assert answer.solve.bound is not None
    assert answer.solve.objective is not None
    assert answer.solve.bound <= answer.solve.objective
    assert pod_sets.solve(wide((200, 200))).solve.termination is place.Termination.INFEASIBLE
