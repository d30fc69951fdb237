"""Defragmentation on clusters whose answers can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from placer.placement import defrag, defrag_bounds, defrag_moves, defrag_order
from placer.placement import defrag_problem as arrays
from placer.placement import types as place

GPUS = 8


def need(gpus: int) -> tuple[int, int, int]:
    return gpus, 4 * gpus, 10 * gpus


def cluster(used: list[list[int]], request: arrays.Request, *, fixed: int = -1, level: int = 0) -> arrays.Problem:
    """Nodes of 8 GPUs with jobs of these sizes, CPUs and memory in proportion; node `fixed` never gives a job away."""
    n = len(used)
    jobs = [
        arrays.Resident((node,), (need(size),), 0, 1000 + 10 * size)
        for node, sizes in enumerate(used)
        for size in sizes
        if node != fixed
    ]
    room = np.array([[GPUS - sum(sizes), 32 - 4 * sum(sizes), 80 - 10 * sum(sizes)] for sizes in used]).T.copy()
    clear = np.array([node != fixed or not sizes for node, sizes in enumerate(used)])
    racks = np.array([[2 * node // n for node in range(n)]])
    return arrays.Problem(room, np.full(n, 80), clear, racks, (np.ones(n, dtype=np.bool_),), tuple(jobs), request)


def wants(count: int, gpus: int, **more: int) -> arrays.Request:
    return arrays.Request(count, need(gpus), 0, **more)  # type: ignore[arg-type]


def test_defrag_two_moves_free_four_gpus_on_the_second_node() -> None:
    """4+2+1, 4+2, 4+2+1: the single GPU makes room for the pair of the second node."""
    problem = cluster([[4, 2, 1], [4, 2], [4, 2, 1]], wants(1, 4))
    answer = defrag.solve(problem)
    assert answer.targets == (1,)
    assert [(move.step, problem.jobs[move.job].needs[0][0]) for move in answer.moves] == [(1, 1), (2, 2)]
    assert answer.solve.objective == pytest.approx(2.03)
    assert answer.solve.termination is place.Termination.OPTIMAL
    assert arrays.violation(problem, answer) is None


def test_defrag_nothing_moves_where_it_fits() -> None:
    answer = defrag.solve(cluster([[8], [4]], wants(1, 4)))
    assert (answer.moves, answer.targets, answer.solve.objective) == ((), (1,), 0.0)


def test_defrag_without_enough_gpus_in_all_is_infeasible() -> None:
    answer = defrag.solve(cluster([[4, 2], [4, 2], [4]], wants(2, 8)))
    assert answer.solve.termination is place.Termination.INFEASIBLE
    assert (answer.moves, answer.targets, answer.solve.objective) == ((), (), None)


def test_defrag_enough_gpus_that_cannot_be_gathered_is_infeasible() -> None:
    """8 GPUs are free in all, but no node takes a job of 5 beside another."""
    assert defrag.solve(cluster([[5], [5], [6]], wants(1, 8))).solve.termination is place.Termination.INFEASIBLE


def test_defrag_one_large_job_or_two_small_ones_fewest_jobs_win() -> None:
    problem = cluster([[4], [2, 2], [2]], wants(1, 8), fixed=2)
    answer = defrag.solve(problem)
    assert answer.targets == (0,)
    assert answer.solve.objective == pytest.approx(1.04)


def test_defrag_job_that_must_not_move_stays() -> None:
    problem = cluster([[4], [2, 2], [2]], wants(1, 8), fixed=0)
    answer = defrag.solve(problem)
    assert answer.targets == (2,)
    assert answer.solve.objective == pytest.approx(1.02)


def test_defrag_within_a_level_takes_both_nodes_from_one_rack() -> None:
    """Anywhere two nodes are free at once; in one rack a job of 2 has to leave."""
    used = [[], [2], [], [8]]
    assert defrag.solve(cluster(used, wants(2, 8))).moves == ()
    answer = defrag.solve(cluster(used, wants(2, 8, level=0)))
    assert answer.targets == (0, 1)
    assert answer.solve.objective == pytest.approx(1.02)


def test_defrag_memory_of_moved_jobs_counts() -> None:
    """The pair finds two GPUs on node 1, but not its memory."""
    problem = cluster([[2], [6]], wants(1, 8), fixed=1)
    room = problem.room.copy()
    room[arrays.MEMORY, 1] = 19
    short = arrays.Problem(
        room, problem.memory, problem.clear, problem.domain_of, problem.allowed, problem.jobs, problem.request
    )
    assert defrag.solve(problem).solve.objective == pytest.approx(1.02)
    assert defrag.solve(short).solve.termination is place.Termination.INFEASIBLE


def test_defrag_job_of_two_nodes_counts_once_and_keeps_the_node_it_can() -> None:
    gang = arrays.Resident((0, 1), (need(4), need(4)), 0, 1080)
    base = cluster([[4], [4], [], [4]], wants(2, 8))
    problem = arrays.Problem(
        base.room, base.memory, np.array([True, True, True, False]), base.domain_of, base.allowed, (gang,), base.request
    )
    answer = defrag.solve(problem)
    assert arrays.violation(problem, answer) is None
    assert answer.solve.objective == pytest.approx(1.08)
    assert [(move.source, move.target) for move in answer.moves] in ([(0, 3)], [(1, 3)])


def test_defrag_order_waits_for_room_of_an_earlier_move() -> None:
    """The 4 goes where the 2 has left: it comes second."""
    problem = cluster([[4, 2], [2, 2, 2], [4]], wants(1, 8))
    jobs = {0: (1,), 3: (2,)}
    placed = defrag_moves.Placed(tuple(jobs.items()), (0,))
    ordered = defrag_order.order(problem, placed)
    assert [move.job for move in ordered.moves] == [3, 0]
    assert ordered.note == ""


def test_defrag_cycle_without_a_spare_is_told() -> None:
    """Two full nodes: to swap 8 and 4 + 4 both have to stop."""
    problem = cluster([[8], [4, 4]], wants(1, 8))
    placed = defrag_moves.Placed(((0, (1,)), (1, (0,)), (2, (0,))), (0,))
    ordered = defrag_order.order(problem, placed)
    assert {move.step for move in ordered.moves} == {1}
    assert "no order exists" in ordered.note


def test_defrag_bounds_are_those_of_the_cheapest_sets() -> None:
    problem = cluster([[4, 2, 1], [4, 2], [1, 1, 1, 1], [8]], wants(1, 8), fixed=3)
    bounds = defrag_bounds.bounds(problem, problem.allowed[0])
    assert bounds.least.tolist() == [3070, 2060, 4040, defrag_bounds.NEVER]
    assert sorted(bounds.jobs[1]) == [3, 4]
    assert bounds.cheapest.tolist() == [1010, 1020, 1010, defrag_bounds.NEVER]
