"""The deal, its proof and the MILP against all assignments of small instances."""

import itertools
import random

import pytest

from placer.placement import affinity_milp, affinity_model
from placer.placement import types as plan


def best_cores(problem: affinity_model.CoreProblem) -> float:
    """The least objective over every matrix y, tried one by one; the objective is written out anew."""
    weight = 1 / (2 * len(problem.demand) * len(set(problem.numa)))
    options = [
        [ys for ys in itertools.product(*(range(n * problem.turns + 1) for n in problem.size)) if sum(ys) == want]
        for want in problem.demand
    ]
    best = float("inf")
    for deal in itertools.product(*options):
        if any(sum(ys[j] for ys in deal) > n * problem.turns for j, n in enumerate(problem.size)):
            continue
        cost: float = sum(problem.distance[r][j] * y for r, ys in enumerate(deal) for j, y in enumerate(ys))
        cost += weight * sum(len({problem.numa[j] for j, y in enumerate(ys) if y}) for ys in deal)
        best = min(best, cost)
    return best


def best_nics(problem: affinity_model.NicProblem) -> float:
    best = float("inf")
    for chosen in itertools.product(*([n for n, p in enumerate(row) if p is not None] for row in problem.prior)):
        cost = sum(row[n] or 0 for row, n in zip(problem.prior, chosen, strict=True))
        cost += sum(10 * k for n in set(chosen) for k in range(chosen.count(n)))
        best = min(best, cost)
    return best


def random_cores(chance: random.Random) -> affinity_model.CoreProblem:
    ranks, classes = chance.randint(1, 3), chance.randint(1, 3)
    size = [chance.randint(1, 3) for _ in range(classes)]
    turns = 1 if sum(size) >= ranks else -(-ranks // sum(size))
    demand = [1] * ranks
    while turns == 1 and sum(demand) < sum(size) and chance.random() < 0.7:
        demand[chance.randrange(ranks)] += 1
    return affinity_model.CoreProblem(
        demand=tuple(demand),
        size=tuple(size),
        distance=tuple(tuple(chance.choice((0, 1, 2, 11, 22)) for _ in size) for _ in demand),
        numa=tuple(chance.choice((0, 1, None)) for _ in size),
        turns=turns,
    )


def random_nics(chance: random.Random) -> affinity_model.NicProblem:
    nics = chance.randint(1, 3)
    rows = []
    for _ in range(chance.randint(0, 4)):
        row: list[int | None] = [chance.choice((0, 1, 3, 5, 20, None)) for _ in range(nics)]
        row[chance.randrange(nics)] = chance.choice((0, 5, 20))
        rows.append(tuple(row))
    return affinity_model.NicProblem(tuple(rows))


@pytest.mark.parametrize("seed", range(40))
def test_core_deal_bound_and_milp_agree_with_all_assignments(seed: int) -> None:
    problem = random_cores(random.Random(seed))
    best = best_cores(problem)
    dealt = affinity_model.core_objective(problem, affinity_model.deal_cores(problem))
    bound = affinity_model.core_lower_bound(problem)
    assert bound <= best + 1e-9
    assert dealt >= best - 1e-9
    solved = affinity_milp.solve(problem, affinity_model.NicProblem(()), plan.SolveLimits())
    assert solved.solve.termination is plan.Termination.OPTIMAL
    assert affinity_model.core_objective(problem, solved.cores) == pytest.approx(best)
    assert solved.solve.objective == pytest.approx(best)


@pytest.mark.parametrize("seed", range(40))
def test_nic_deal_proof_and_milp_agree_with_all_assignments(seed: int) -> None:
    problem = random_nics(random.Random(1000 + seed))
    best = best_nics(problem)
    dealt = affinity_model.deal_nics(problem)
    value = affinity_model.nic_objective(problem, dealt)
    assert affinity_model.nics_are_optimal(problem, dealt) == (value == best)
    empty = affinity_model.CoreProblem((), (), (), ())
    solved = affinity_milp.solve(empty, problem, plan.SolveLimits())
    assert affinity_model.nic_objective(problem, solved.nics) == best


def test_nic_deal_that_blocks_a_later_gpu_is_recognised_and_repaired() -> None:
    # GPU 0 reaches both NICs equally and takes the first; GPU 1 reaches the first only
    problem = affinity_model.NicProblem(((0, 0), (0, None)))
    dealt = affinity_model.deal_nics(problem)
    assert dealt == (0, 0)
    assert not affinity_model.nics_are_optimal(problem, dealt)
    empty = affinity_model.CoreProblem((), (), (), ())
    assert affinity_milp.solve(empty, problem, plan.SolveLimits()).nics == (1, 0)


def test_core_deal_keeps_a_rank_in_one_numa_node_where_it_fits() -> None:
    # 3 cores each in two NUMA nodes, two ranks of 2 equally far from all: 2 + 2, not 2 + (1 + 1)
    problem = affinity_model.CoreProblem((2, 2), (3, 3), ((11, 11), (11, 11)), (0, 1))
    assert affinity_model.deal_cores(problem) == ((2, 0), (0, 2))
