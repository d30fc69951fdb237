"""Tree search, MILP and exhaustive search agree on random small instances of every kind."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placer.placement import exhaustive, gang, gang_milp, gang_problem, gang_tree
from placer.placement import types as place

Termination = place.Termination
NAN, INF = float("nan"), float("inf")


def tree(draw: random.Random, nodes: int, levels: int) -> list[list[int]]:
    """Random nested domains, uneven: some nodes and some trees lack some levels."""
    rows = [[draw.randrange(1 + nodes // 2) for _ in range(nodes)]]
    for _ in range(1, levels):
        into = {d: draw.randrange(1 + len(set(rows[-1])) // 2) for d in sorted(set(rows[-1]))}
        rows.append([into[d] for d in rows[-1]])
    if draw.random() < 0.25:
        for node in range(nodes):
            kind = draw.random()
            if kind < 0.2:
                rows[0][node] = -1
            elif kind < 0.3:
                for row in rows:
                    row[node] = -1
    if draw.random() < 0.2:  # a tree that ends a level below the others
        ended = draw.choice(rows[-1])
        rows[-1] = [-1 if d == ended else d for d in rows[-1]]
    return rows


def overlapping(draw: random.Random, nodes: int, levels: int) -> list[list[int]]:
    """Domains that are no tree."""
    return [[draw.randrange(-1, 3) for _ in range(nodes)] for _ in range(levels)]


def instance(seed: int, *, crossing: bool = False, nested: bool = True) -> gang_problem.GangProblem:
    """A random question; with `crossing` also `side` and `max_domains` above 1."""
    draw = random.Random(seed)
    nodes, levels = draw.randrange(1, 10), draw.randrange(1, 4)
    rows = (tree if nested else overlapping)(draw, nodes, levels)
    known = draw.random() < 0.2
    limits: tuple[tuple[int, int], ...] = ()
    side: tuple[gang_problem.SideConstraint, ...] = ()
    if crossing:
        if draw.random() < 0.7:
            limits = tuple((draw.randrange(levels), draw.randrange(1, 4)) for _ in range(draw.randrange(1, 3)))
        if draw.random() < 0.7:
            side = tuple(
                gang_problem.SideConstraint(
                    np.array([draw.random() < 0.5 for _ in range(nodes)]), draw.randrange(2), draw.choice([None, 1, 2])
                )
                for _ in range(draw.randrange(1, 3))
            )
    elif draw.random() < 0.1:
        limits = ((draw.randrange(levels), 1),)
    return gang_problem.GangProblem(
        count=min(draw.randrange(1, nodes + 2), draw.randrange(1, nodes + 2)),
        domain_of=np.array(rows),
        bandwidth=np.array([100.0 if known else draw.choice([100, 200, 200, 400, NAN, INF]) for _ in range(nodes)]),
        nic=np.array([NAN if known else draw.choice([12, 24, 48, 96, NAN]) for _ in range(nodes)]),
        damage=np.array([draw.choice([0, 500, 1000, 1000, 2500]) for _ in range(nodes)]),
        forced=np.array([draw.random() < 0.08 for _ in range(nodes)]),
        required=draw.randrange(levels) if draw.random() < 0.15 else None,
        preferred=draw.randrange(levels) if draw.random() < 0.4 else None,
        max_domains=limits,
        oversubscription=tuple(draw.choice([1.0, 1.0, 2.0, 4.0, 0.5]) for _ in range(levels))
        if draw.random() < 0.6
        else (),
        spans_roots=draw.random() < 0.8,
        side=side,
    )


def assert_sound(problem: gang_problem.GangProblem, answer: gang_problem.GangSolution) -> None:
    """The choice keeps every constraint, by a check of its own, and the account of the search adds up."""
    solve = answer.solve
    if solve.termination is Termination.INFEASIBLE:
        assert (answer.chosen, answer.key, solve.objective) == ((), (), None)
        return
    assert solve.termination is Termination.OPTIMAL
    assert (solve.objective, solve.gap) == (solve.bound, 0.0)
    assert solve.objective == pytest.approx(answer.key[2] + answer.key[3] / 1e6)
    chosen = set(answer.chosen)
    assert len(chosen) == len(answer.chosen) == problem.count
    assert set(np.flatnonzero(problem.forced).tolist()) <= chosen
    for rule in problem.side:
        inside = sum(bool(rule.members[i]) for i in chosen)
        assert rule.at_least <= inside <= (inside if rule.at_most is None else rule.at_most)
    for level, most in problem.max_domains:
        assert answer.domains_used[level] <= most
    if problem.required is not None:
        assert answer.domains_used[problem.required] == 1


@pytest.mark.parametrize("block", range(5))
def test_searches_on_random_trees_agree_on_the_whole_key(block: int) -> None:
    feasible = 0
    for seed in range(block * 200, block * 200 + 200):
        problem = instance(seed)
        oracle = exhaustive.best(problem)
        by_tree, by_milp = gang_tree.solve(problem), gang_milp.solve(problem)
        for answer in (by_tree, by_milp):
            assert answer.key == oracle.key, seed
            assert answer.solve.termination is oracle.solve.termination, seed
            assert (answer.busbw, answer.common_level) == (oracle.busbw, oracle.common_level), seed
            assert_sound(problem, answer)
        feasible += bool(oracle.chosen)
    assert feasible > 100


def test_entry_with_constraints_across_the_tree_agrees_with_exhaustive() -> None:
    methods = set()
    for seed in range(400):
        problem = instance(seed, crossing=True)
        oracle, answer, by_milp = exhaustive.best(problem), gang.solve(problem), gang_milp.solve(problem)
        assert answer.key == by_milp.key == oracle.key, seed
        assert_sound(problem, answer)
        methods.add((answer.solve.method, bool(answer.chosen)))
    assert methods == {("tree search", True), ("tree search", False), ("milp", True), ("milp", False)}


def test_entry_with_overlapping_domains_agrees_with_exhaustive() -> None:
    for seed in range(200):
        problem = instance(seed, crossing=seed % 2 == 0, nested=False)
        oracle, answer = exhaustive.best(problem), gang.solve(problem)
        assert answer.key == oracle.key, seed
        assert_sound(problem, answer)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), crossing=st.booleans())
def test_entry_on_any_instance_equals_exhaustive(seed: int, crossing: bool) -> None:
    problem = instance(seed, crossing=crossing)
    answer = gang.solve(problem)
    assert answer.key == exhaustive.best(problem).key
    assert_sound(problem, answer)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), shuffle=st.integers(0, 2**32))
def test_entry_with_domains_numbered_otherwise_chooses_the_same_nodes(seed: int, shuffle: int) -> None:
    problem = instance(seed)
    draw = random.Random(shuffle)
    renamed = problem.domain_of.copy()
    for row in renamed:
        numbers = list(range(20))
        draw.shuffle(numbers)
        row[row >= 0] = np.array(numbers)[row[row >= 0]]
    again = gang_problem.GangProblem(
        **{name: getattr(problem, name) for name in problem.__struct_fields__ if name != "domain_of"},
        domain_of=renamed,
    )
    assert gang.solve(again) == gang.solve(problem) == gang.solve(problem)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), shuffle=st.integers(0, 2**32))
def test_entry_with_nodes_in_another_order_has_the_same_key(seed: int, shuffle: int) -> None:
    problem = instance(seed)
    order = np.array(random.Random(shuffle).sample(range(problem.nodes), problem.nodes))
    columns = {name: getattr(problem, name)[order] for name in ("bandwidth", "nic", "damage", "forced")}
    kept = ("count", "required", "preferred", "max_domains", "oversubscription", "spans_roots")
    again = gang_problem.GangProblem(
        **columns, **{name: getattr(problem, name) for name in kept}, domain_of=problem.domain_of[:, order]
    )
    assert gang.solve(again).key == gang.solve(problem).key


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), stop=st.integers(0, 12))
def test_tree_search_at_its_deadline_gives_a_sound_choice_and_a_true_bound(seed: int, stop: int) -> None:
    problem = instance(seed)
    best = exhaustive.best(problem)
    time = iter(range(10**6))
    answer = gang_tree.solve(problem, place.SolveLimits(seconds=stop, clock=lambda: float(next(time))))
    if not best.chosen:
        assert answer.solve.termination is Termination.INFEASIBLE
        return
    assert best.solve.objective is not None
    assert answer.solve.objective is not None
    assert answer.solve.bound is not None
    assert answer.key >= best.key
    assert len(answer.chosen) == problem.count
    assert answer.solve.bound <= min(answer.solve.objective, best.solve.objective + 1e-9)
    if answer.solve.termination is Termination.OPTIMAL:
        assert answer.key == best.key
    else:
        assert answer.solve.termination is Termination.LIMIT
