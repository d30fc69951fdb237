"""The queue on instances whose answers can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from placer.placement import queue, queue_classes, queue_later, queue_model
from placer.placement import queue_greedy as greedy
from placer.placement import queue_problem as arrays
from placer.placement import types as place


def cluster(
    free: list[int], pieces: list[tuple[int, int, int]], modes: list[arrays.Mode], jobs: list[arrays.Waiting]
) -> arrays.Problem:
    """Nodes of 8 GPUs, 32 CPUs and 80 memory, as free as told; the first half is rack 0, the rest rack 1."""
    n = len(free)
    room = np.array([free, [4 * f for f in free], [10 * f for f in free]])
    racks = np.array([[2 * i // n for i in range(n)]])
    nodes = arrays.Nodes(room, np.full(n, 80), np.array([f == 8 for f in free]), racks)
    return arrays.Problem(
        nodes, (np.ones(n, dtype=np.bool_),), tuple(map(arrays.Piece, pieces)), tuple(modes), tuple(jobs)
    )


def single(number: int) -> arrays.Mode:
    return arrays.Mode(((1, number),))


def test_queue_optimum_beats_best_fit_by_size() -> None:
    """5 + 5 + 3 + 3 GPUs fill two nodes; largest first takes 6 and 5 and leaves 3 + 2 beside them."""
    pieces = [(6, 6, 6), (5, 5, 5), (3, 3, 3)]
    jobs = [arrays.Waiting((q,), float(pieces[q][0])) for q in (0, 1, 1, 2, 2)]
    answer = queue.solve(cluster([8, 8], pieces, [single(0), single(1), single(2)], jobs))
    assert (answer.value, answer.greedy_value) == (16.0, 14.0)
    assert [start.job for start in answer.starts] == [1, 2, 3, 4]
    assert answer.solve.termination is place.Termination.OPTIMAL


def test_queue_first_tier_comes_first_whatever_the_others_are_worth() -> None:
    pieces = [(4, 1, 1), (8, 1, 1)]
    jobs = [arrays.Waiting((0,), 4.0, 0), arrays.Waiting((1,), 800.0, 1)]
    problem = cluster([8], pieces, [single(0), single(1)], jobs)
    assert [start.job for start in queue.solve(problem).starts] == [0]
    weights = [arrays.Waiting((0,), 4.0), arrays.Waiting((1,), 800.0)]
    assert [start.job for start in queue.solve(cluster([8], pieces, [single(0), single(1)], weights)).starts] == [1]


def test_queue_job_of_two_nodes_never_lies_twice_on_one() -> None:
    """Two pieces of 4 fit on the free node, but the job wants two nodes."""
    answer = queue.solve(cluster([8, 0], [(4, 1, 1)], [arrays.Mode(((2, 0),))], [arrays.Waiting((0,), 8.0)]))
    assert answer.starts == ()
    assert answer.solve.termination is place.Termination.OPTIMAL


@pytest.mark.parametrize(("level", "starts"), [(None, 1), (0, 0)])
def test_queue_required_level_keeps_a_job_in_one_rack(level: int | None, starts: int) -> None:
    mode = arrays.Mode(((2, 0),), level=level)
    problem = cluster([8, 0, 8, 0], [(8, 8, 8)], [mode], [arrays.Waiting((0,), 16.0)])
    assert len(queue.solve(problem).starts) == starts


def test_queue_cpus_run_out_before_gpus() -> None:
    """8 GPUs but 32 CPUs: jobs of 1 GPU and 20 CPUs fit once, beside one of 12."""
    jobs = [arrays.Waiting((0,), 2.0), arrays.Waiting((0,), 2.0), arrays.Waiting((1,), 1.0), arrays.Waiting((1,), 1.0)]
    problem = cluster([8], [(1, 20, 1), (1, 12, 1)], [single(0), single(1)], jobs)
    answer = queue.solve(problem)
    assert answer.value == 3.0
    assert arrays.violation(problem, answer.starts) is None


def test_queue_whole_node_excludes_others() -> None:
    pieces = (arrays.Piece((1, 1, 1), whole=True), arrays.Piece((1, 1, 1)))
    base = cluster([8, 7], [], [], [])
    jobs = (arrays.Waiting((0,), 5.0), *(arrays.Waiting((1,), 1.0) for _ in range(9)))
    problem = arrays.Problem(base.nodes, base.allowed, pieces, (single(0), single(1)), jobs)
    answer = queue.solve(problem)
    assert answer.value == 5.0 + 7.0  # node 0 is taken whole, 7 single GPUs are left on node 1
    assert {start.nodes for start in answer.starts if start.job == 0} == {((0,),)}


def test_queue_way_with_a_bonus_decides_between_equal_plans() -> None:
    inside, anywhere = arrays.Mode(((2, 0),), level=0, bonus=True), arrays.Mode(((2, 0),))
    problem = cluster([8, 0, 8, 8], [(8, 8, 8)], [inside, anywhere], [arrays.Waiting((1, 0), 16.0)])
    assert [start.nodes for start in queue.solve(problem, place.SolveLimits()).starts] in ([((2, 3),)], [((0, 2),)])
    assert queue.solve(problem).value == 16.0


def test_queue_nested_sizes_need_few_rows() -> None:
    """Nodes of any number of free GPUs are one class when sizes are powers of two: one row for each size."""
    pieces = [(s, s, s) for s in (1, 2, 4, 8)]
    jobs = [arrays.Waiting((q,), float(pieces[q][0])) for q in range(4) for _ in range(9)]
    problem = cluster([1, 3, 5, 6, 7, 8], pieces, [single(q) for q in range(4)], jobs)
    (only,) = queue_classes.build(problem)
    assert only.form == queue_classes.NESTED
    assert [int(only.slots(s).sum()) for s in (1, 2, 4, 8)] == [30, 13, 5, 1]
    model = queue_model.build(problem, [only])
    assert len(model.milp.rows) == 4 + 4  # sizes, and the starts of each mode


def test_queue_nothing_waits_gives_nothing() -> None:
    answer = queue.solve(cluster([8], [], [], []))
    assert (answer.starts, answer.value, answer.solve.termination) == ((), 0.0, place.Termination.OPTIMAL)


def test_queue_greedy_takes_the_tightest_node() -> None:
    problem = cluster([8, 3, 4], [(3, 3, 3)], [single(0)], [arrays.Waiting((0,), 3.0)] * 3)
    starts = greedy.fill(problem, greedy.Room(problem), greedy.order(problem), lambda: False)
    assert [start.nodes for start in starts] == [((1,),), ((2,),), ((0,),)]


def test_queue_later_starts_when_the_running_job_ends() -> None:
    """The node is full until 600 s; the horizon of 960 s has steps of 10 s; the second job follows the first."""
    problem = cluster([0], [(8, 32, 80)], [single(0)], [arrays.Waiting((0,), 8.0)] * 2)
    gives = np.array([[8], [32], [80]])
    running = [queue_later.Running(595, np.array([0]), gives)]
    found = queue_later.walk(problem, (), running, {0: 100, 1: 100}, whole=gives, horizon=960)
    assert {job: expected.after for job, expected in found.items()} == {0: 600, 1: 700}
