"""One job over many nodes: answers known by hand, the published sizes, limits, and what must be refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from placer import errors
from placer.placement import covering, gang, gang_milp, gang_problem, gang_tree
from placer.placement import types as place

Termination = place.Termination


def question(count: int, levels: list[list[int]], **more: object) -> gang_problem.GangProblem:
    n = len(levels[0])
    columns: dict[str, object] = {
        "domain_of": np.array(levels),
        "bandwidth": np.full(n, 200.0),
        "nic": np.full(n, np.nan),
        "damage": np.full(n, 1000),
        "forced": np.zeros(n, dtype=np.bool_),
        "spans_roots": True,
    }
    return gang_problem.GangProblem(count=count, **(columns | more))  # type: ignore[arg-type]


def free_nodes(nodes: int, count: int, seed: int, **more: object) -> gang_problem.GangProblem:
    """Racks of 32, 8 racks a spine, 35 % of the nodes fully free: the shape of the published measurement."""
    free = np.flatnonzero(np.random.default_rng(seed).random(nodes) < 0.35)
    return question(count, [(free // 32).tolist(), (free // 256).tolist()], **more)


# racks a a b b b c c | spines A A A A A B B
RACKS, SPINES = [0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("count", "chosen", "used"),
    [
        (1, (0,), (1, 1)),
        (2, (0, 1), (1, 1)),
        (3, (2, 3, 4), (1, 1)),
        (5, (0, 1, 2, 3, 4), (2, 1)),
        (6, (0, 1, 2, 3, 4, 5), (3, 2)),
        (7, (0, 1, 2, 3, 4, 5, 6), (3, 2)),
    ],
)
def test_solve_small_tree_by_hand(count: int, chosen: tuple[int, ...], used: tuple[int, int]) -> None:
    answer = gang.solve(question(count, [RACKS, SPINES]))
    assert (answer.chosen, answer.domains_used) == (chosen, used)
    assert answer.solve.objective == pytest.approx(used[0] + 4 * used[1] + 0.001 * count)
    assert (answer.solve.termination, answer.solve.gap) == (Termination.OPTIMAL, 0.0)


def test_solve_ranks_stand_rack_by_rack_when_names_interleave() -> None:
    assert gang.solve(question(4, [[0, 1, 0, 1], [0, 0, 0, 0]])).chosen == (0, 2, 1, 3)


def test_solve_bandwidth_goes_before_spread_and_spread_before_damage() -> None:
    slow_rack = np.array([100.0, 100.0, 200.0, 400.0, 400.0])
    answer = gang.solve(question(2, [[0, 0, 1, 1, 2]], bandwidth=slow_rack))
    assert (answer.chosen, answer.busbw) == ((3, 4), 400.0)  # two racks, but twice the speed
    damage = np.array([9000, 9000, 0, 0, 0])
    assert gang.solve(question(2, [[0, 0, 1, 2, 3]], damage=damage)).chosen == (0, 1)
    assert gang.solve(question(2, [[0, 0, 0, 1, 1]], damage=np.array([1, 2, 0, 1, 0]))).chosen == (0, 2)


def test_solve_preferred_level_goes_before_bandwidth() -> None:
    bandwidth = np.array([100.0, 100.0, 400.0, 400.0])
    racks = [[0, 0, 1, 2]]
    assert gang.solve(question(2, racks, bandwidth=bandwidth)).chosen == (2, 3)
    assert gang.solve(question(2, racks, bandwidth=bandwidth, preferred=0)).key == (0.0, 0.01, 1.0, 2000.0)


def test_solve_oversubscribed_switch_makes_the_slow_rack_faster() -> None:
    nic = np.array([48.0, 48.0, 96.0, 96.0])
    racks = [[0, 0, 1, 2]]
    assert gang.solve(question(2, racks, nic=nic, oversubscription=(1.0,))).chosen == (2, 3)
    answer = gang.solve(question(2, racks, nic=nic, oversubscription=(4.0,)))
    assert (answer.chosen, answer.busbw, answer.common_level) == ((0, 1), 48.0, 0)


def test_solve_one_node_needs_no_nic() -> None:
    answer = gang.solve(question(1, [[0, 0]], nic=np.array([1.0, 50.0])))
    assert (answer.chosen, answer.busbw) == ((0,), 200.0)


def test_solve_unknown_wiring_is_last_and_its_speed_is_not_told() -> None:
    bandwidth = np.array([np.nan, 12.0, np.nan])
    assert gang.solve(question(1, [[0, 0, 1]], bandwidth=bandwidth)).chosen == (1,)
    assert gang.solve(question(3, [[0, 0, 1]], bandwidth=bandwidth)).busbw is None
    assert gang.solve(question(2, [[0, 0]], bandwidth=np.full(2, np.inf))).busbw == np.inf


def test_solve_forced_nodes_are_in_and_draw_the_others_near() -> None:
    forced = np.array([i == 5 for i in range(7)])
    assert gang.solve(question(2, [RACKS, SPINES], forced=forced)).chosen == (5, 6)
    answer = gang.solve(question(3, [RACKS, SPINES], forced=forced))
    assert answer.domains_used == (2, 2)
    assert 5 in answer.chosen


def test_solve_uneven_tree_a_node_without_leaf_stands_alone() -> None:
    # Node 2 hangs on the spine itself: taking it costs a leaf of its own.
    answer = gang.solve(question(3, [[0, 0, -1, 1], [0, 0, 0, 0]]))
    assert answer.domains_used == (2, 1)
    two = gang.solve(question(2, [[-1, -1, 0, 0], [0, 0, 0, 0]]))
    assert two.chosen == (2, 3)


def test_solve_a_tree_that_ends_early_is_one_domain_further_up() -> None:
    answer = gang.solve(question(2, [[0, 0, 1], [-1, -1, 0]], spans_roots=False, required=1))
    assert (answer.chosen, answer.domains_used) == ((0, 1), (1, 1))


def test_solve_separate_roots_never_run_together_unless_told() -> None:
    levels = [[0, 1, -1, -1], [0, 1, -1, -1]]
    assert gang.solve(question(2, levels, spans_roots=False)).solve.termination is Termination.INFEASIBLE
    assert gang.solve(question(1, levels, spans_roots=False)).chosen == (0,)
    spanning = gang.solve(question(2, levels))
    assert (spanning.common_level, spanning.domains_used) == (2, (2, 2))


def test_solve_without_any_level_nothing_is_apart() -> None:
    problem = gang_problem.GangProblem(
        count=2,
        domain_of=np.zeros((0, 3), dtype=np.int32),
        bandwidth=np.array([100.0, 50.0, 100.0]),
        nic=np.full(3, np.nan),
        damage=np.array([5, 0, 5]),
        forced=np.zeros(3, dtype=np.bool_),
    )
    answer = gang.solve(problem)
    assert (answer.chosen, answer.domains_used, answer.common_level) == ((0, 2), (), 0)
    assert gang_milp.solve(problem).key == answer.key


@pytest.mark.parametrize(
    "more",
    [
        {"required": 0},
        {"max_domains": ((0, 1),)},
        {"max_domains": ((0, 2), (1, 1)), "forced": np.array([i in {0, 5} for i in range(7)])},
        {"max_domains": ((0, 2),), "preferred": 0, "forced": np.array([i in {0, 2, 5} for i in range(7)])},
        {"side": (gang_problem.SideConstraint(np.ones(7, dtype=np.bool_), at_most=3),)},
        {"side": (gang_problem.SideConstraint(np.zeros(7, dtype=np.bool_), at_least=1),)},
        {"forced": np.ones(7, dtype=np.bool_)},
    ],
)
def test_solve_infeasible_is_a_result(more: dict[str, object]) -> None:
    answer = gang.solve(question(5, [RACKS, SPINES], **more))
    assert (answer.chosen, answer.key, answer.busbw, answer.common_level) == ((), (), None, None)
    assert answer.solve.termination is Termination.INFEASIBLE
    assert answer.solve.objective is None


def test_solve_more_nodes_than_there_are_is_infeasible() -> None:
    for search in (gang.solve, gang_tree.solve, gang_milp.solve):
        assert search(question(8, [RACKS, SPINES])).solve.termination is Termination.INFEASIBLE
        assert search(question(1, [[]])).solve.termination is Termination.INFEASIBLE


def test_solve_side_constraint_spares_what_another_wants() -> None:
    # At most one of nodes 2-4, so rack b cannot take three; two of rack a and one of b share a spine.
    rule = gang_problem.SideConstraint(np.array([i in {2, 3, 4} for i in range(7)]), at_most=1)
    answer = gang.solve(question(3, [RACKS, SPINES], side=(rule,)))
    assert (answer.solve.method, answer.domains_used, answer.chosen) == ("milp", (2, 1), (0, 1, 2))


def test_solve_switch_limit_without_slack_is_answered_by_the_tree() -> None:
    # Unlimited: 2 + 2 + 2 of three racks on one spine (3 + 4 = 7). Two racks: 4 + 2 on two spines (2 + 8 = 10).
    racks, spines = [0, 0, 1, 1, 2, 2, 3, 3, 3, 3], [0] * 6 + [1] * 4
    assert gang.solve(question(6, [racks, spines])).domains_used == (3, 1)
    answer = gang.solve(question(6, [racks, spines], max_domains=((0, 2),)))
    assert (answer.domains_used, answer.solve.method) == ((2, 2), "tree search")
    assert answer.key[0] == 0.0
    assert gang_milp.solve(question(6, [racks, spines], max_domains=((0, 2),))).key == answer.key


@pytest.mark.parametrize(
    ("nodes", "count", "seed"), [(100, 8, 1), (1000, 8, 2), (1000, 64, 3), (1000, 64, 4), (300, 40, 5)]
)
def test_solve_racks_and_spines_equals_the_milp(nodes: int, count: int, seed: int) -> None:
    problem = free_nodes(nodes, count, seed)
    answer = gang.solve(problem)
    assert answer.key == gang_milp.solve(problem).key


def test_solve_ten_thousand_nodes_reaches_the_published_optimum() -> None:
    # 10,000 nodes, 8: one rack and its spine; 64: five racks of one spine.
    assert gang.solve(free_nodes(10_000, 8, 1)).solve.objective == pytest.approx(5.008)
    assert gang.solve(free_nodes(10_000, 64, 1)).solve.objective == pytest.approx(9.064)


def test_solve_wide_tables_equal_the_milp() -> None:
    # Tables wider than 40 take the other way through the convolution; damages make ties rare.
    draw = np.random.default_rng(11)
    racks = np.sort(draw.integers(0, 6, 400))
    problem = question(150, [racks.tolist(), (racks // 2).tolist()], damage=draw.integers(0, 8000, 400))
    assert gang.solve(problem).key == gang_milp.solve(problem).key


def test_solve_damages_beyond_int64_packing_stay_exact() -> None:
    damage = np.array([2**61, 2**61 + 2**10, 2**61 + 2**11, 2**61, 2**61 + 2**12])
    problem = question(2, [[0, 0, 0, 1, 1]], damage=damage, preferred=0)
    assert gang_tree.solve(problem).chosen == (0, 1)


def test_cheapest_with_costs_that_overflow_equals_small_ones() -> None:
    groups = [np.array([0, 0, 1, 1, 2, 2]), np.zeros(6, dtype=np.int64)]
    forced = np.zeros(6, dtype=np.bool_)
    cost = np.array([5, 1, 2, 9, 1, 4])
    small = covering.cheapest(groups, cost, forced, [3, 0], 3, lambda: False)
    assert small == (1, 4, 5)  # by hand: 1 + (1 + 4) + 2 · 3 = 12; with both of rack 0 it is 13
    assert covering.cheapest(groups, cost * 2**50, forced, [3 * 2**50, 0], 3, lambda: False) == small


def test_solve_tree_at_its_deadline_is_feasible_and_bounded() -> None:
    draw = np.random.default_rng(5)
    problem = free_nodes(3000, 64, 5)
    problem = question(64, problem.domain_of.tolist(), damage=draw.integers(0, 8000, problem.nodes))
    best = gang.solve(problem)
    for seconds in (1, 3, 8):
        ticks = map(float, range(10**6))
        answer = gang.solve(problem, place.SolveLimits(seconds=seconds, clock=ticks.__next__))
        assert answer.solve.termination is Termination.LIMIT
        assert len(set(answer.chosen)) == 64
        assert answer.solve.bound is not None
        assert answer.solve.objective is not None
        assert answer.solve.gap is not None
        assert best.solve.objective is not None
        assert answer.solve.bound <= best.solve.objective < answer.solve.objective
        assert answer.solve.gap == pytest.approx(1 - answer.solve.bound / answer.solve.objective)


def test_solve_milp_at_its_deadline_is_called_limit() -> None:
    problem = free_nodes(3000, 64, 5)
    answer = gang_milp.solve(problem, place.SolveLimits(seconds=0.02, clock=time.monotonic))
    assert answer.solve.termination is Termination.LIMIT
    best = gang.solve(problem).solve.objective
    assert best is not None
    assert answer.solve.bound is not None
    assert answer.solve.bound <= best
    if answer.chosen:
        assert len(answer.chosen) == 64
        assert answer.solve.objective is not None
        assert answer.solve.objective >= best


def test_solve_writes_nothing_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    rule = gang_problem.SideConstraint(np.array([i in {2, 3, 4} for i in range(7)]), at_most=1)
    gang.solve(question(3, [RACKS, SPINES], side=(rule,)))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "more",
    [
        {"count": 0},
        {"required": 2},
        {"preferred": -1},
        {"max_domains": ((5, 1),)},
        {"oversubscription": (1.0,)},
        {"bandwidth": np.zeros(3)},
        {"damage": np.full(7, -1)},
    ],
)
def test_problem_that_contradicts_itself_is_refused(more: dict[str, object]) -> None:
    count = more.pop("count", 2)
    assert isinstance(count, int)
    with pytest.raises(errors.RequestError):
        question(count, [RACKS, SPINES], **more)
