"""The solver behind one call: optima by hand and by enumeration, truthful limits, a clean standard output."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys

import pytest

from placer import errors
from placer.placement import milp
from placer.placement import types as place

Termination = place.Termination


def hard_packing(size: int) -> milp.Model:
    """A market-split model (Cornuéjols and Dawande 1998): far beyond what a fraction of a second can prove."""
    draw = random.Random(7)
    model = milp.Model()
    x = [model.variable(upper=1, integer=True) for _ in range(size)]
    for _ in range(size // 10 + 2):
        factors = [draw.randrange(100) for _ in x]
        over, under = model.variable(cost=1.0), model.variable(cost=1.0)
        half = sum(factors) // 2
        model.row([*zip(x, factors, strict=True), (over, -1.0), (under, 1.0)], low=half, high=half)
    return model


def test_solve_knapsack_equals_enumeration() -> None:
    draw = random.Random(3)
    for _ in range(5):
        worth = [draw.randrange(1, 30) for _ in range(8)]
        weight = [draw.randrange(1, 20) for _ in range(8)]
        model = milp.Model()
        x = [model.variable(upper=1, integer=True, cost=-w) for w in worth]
        model.row(zip(x, weight, strict=True), high=40)
        answer = milp.solve(model)
        best = max(
            sum(w * c for w, c in zip(worth, chosen, strict=True))
            for chosen in itertools.product((0, 1), repeat=8)
            if sum(w * c for w, c in zip(weight, chosen, strict=True)) <= 40
        )
        assert answer.termination is Termination.OPTIMAL
        assert (answer.objective, answer.bound, answer.gap) == (-best, -best, 0.0)
        assert all(value in (0.0, 1.0) for value in answer.values)


def test_solve_lp_gives_fractions_and_its_own_bound() -> None:
    # minimise x + y with x + 2y >= 3, 3x + y >= 4: corner (1, 1); by hand.
    model = milp.Model()
    x, y = model.variable(cost=1), model.variable(cost=1)
    model.row([(x, 1), (y, 2)], low=3)
    model.row([(x, 3), (y, 1)], low=4)
    answer = milp.solve(model)
    assert answer.values == pytest.approx((1.0, 1.0))
    assert answer.objective == pytest.approx(2.0)
    assert (answer.bound, answer.gap) == (answer.objective, 0.0)


def test_solve_constant_counts_in_objective_and_bound() -> None:
    model = milp.Model()
    x = model.variable(upper=5, integer=True)
    model.row([(x, 2), (x, 1)], low=7)  # 3x >= 7, so x = 3
    model.minimise([(x, 1.0)], constant=10.0)
    answer = milp.solve(model)
    assert (answer.objective, answer.bound, answer.values) == (13.0, 13.0, (3.0,))


def test_solve_two_sided_row_and_negative_bounds() -> None:
    model = milp.Model()
    x = model.variable(lower=-math.inf, cost=1.0)
    y = model.variable(lower=-4, upper=-2)
    model.row([(x, 1), (y, 1)], low=-9, high=50)
    answer = milp.solve(model)
    assert answer.objective == pytest.approx(-7.0)  # y = -2 lets x go down to -7


def test_solve_unused_variables_rest_inside_their_bounds() -> None:
    model = milp.Model()
    x = model.variable(lower=1, cost=2.0)
    model.variable(lower=-3, upper=8)
    model.variable(lower=2, upper=8)
    model.variable(lower=-8, upper=-5)
    assert milp.solve(model).values == (1.0, 0.0, 2.0, -5.0)
    assert x == 0


def test_solve_without_objective_finds_a_point() -> None:
    model = milp.Model()
    x, y = model.variable(upper=3, integer=True), model.variable(upper=3, integer=True)
    model.row([(x, 1), (y, 1)], low=6)
    assert milp.solve(model) == milp.MilpAnswer(Termination.OPTIMAL, 0.0, 0.0, 0.0, 0.0, (3.0, 3.0))


def test_solve_factors_of_zero_are_left_out() -> None:
    model = milp.Model()
    x, y = model.variable(upper=3, integer=True), model.variable(upper=3, integer=True)
    model.row([(x, 1), (y, 0)], low=2)
    model.row([(y, 1), (y, -1)], high=0)
    model.minimise([(x, 0.0)])
    assert milp.solve(model).values == (2.0, 0.0)


def test_solve_without_used_variables_needs_no_solver() -> None:
    model = milp.Model()
    model.row([], high=4.0)
    assert milp.solve(model) == milp.MilpAnswer(Termination.OPTIMAL, 0.0, 0.0, 0.0, 0.0, ())


@pytest.mark.parametrize("case", ["empty row", "bounds", "rows", "whole numbers"])
def test_solve_infeasible_is_a_result(case: str) -> None:
    model = milp.Model()
    x = model.variable(upper=1, integer=True, cost=1)
    if case == "empty row":
        model.row([], low=1)
    elif case == "bounds":
        model.variable(lower=2, upper=1)
    elif case == "rows":
        model.row([(x, 1)], low=2)
    else:
        model.row([(x, 1)], low=0.25, high=0.75)
    answer = milp.solve(model)
    assert (answer.termination, answer.objective, answer.values) == (Termination.INFEASIBLE, None, ())


def test_solve_unbounded_is_an_error() -> None:
    model = milp.Model()
    model.row([(model.variable(cost=-1.0), 1.0)], low=0)
    with pytest.raises(errors.InputError, match="no least value"):
        milp.solve(model)


def test_solve_time_out_is_reported_as_limit() -> None:
    # PuLP 3.3 says "Optimal" here.
    answer = milp.solve(hard_packing(60), place.SolveLimits(seconds=0.3))
    assert answer.termination is Termination.LIMIT
    if answer.values:
        assert answer.objective is not None
        assert answer.bound is not None
        assert answer.bound < answer.objective
        assert answer.gap == pytest.approx((answer.objective - answer.bound) / answer.objective)


def test_solve_time_out_before_any_solution_has_no_values() -> None:
    answer = milp.solve(hard_packing(60), place.SolveLimits(seconds=0.0))
    assert answer.termination is Termination.LIMIT
    assert answer.objective is None or answer.values


def test_solve_allowed_gap_is_not_called_optimal() -> None:
    answer = milp.solve(hard_packing(60), place.SolveLimits(seconds=20, gap=1e9))
    assert answer.termination is Termination.FEASIBLE
    assert answer.gap is not None
    assert answer.gap > 0


def test_solve_measures_seconds_by_the_given_clock() -> None:
    ticks = iter([10.0, 12.5])
    model = milp.Model()
    model.row([(model.variable(cost=1), 1)], low=1)
    assert milp.solve(model, place.SolveLimits(clock=lambda: next(ticks))).seconds == 2.5


def test_solve_twice_gives_the_same_answer() -> None:
    model = milp.Model()
    x = [model.variable(upper=1, integer=True, cost=1) for _ in range(12)]
    model.row([(column, 1) for column in x], low=5)
    assert milp.solve(model) == milp.solve(model)


def test_solve_writes_nothing_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    milp.solve(hard_packing(20), place.SolveLimits(seconds=0.2))
    milp.maximise_packing([[0]], [1.0])
    assert capfd.readouterr() == ("", "")


def test_maximise_packing_ring_of_complete_mesh() -> None:
    # 4 GPUs, each pair one link of 20: the three Hamiltonian cycles pack to (k-1) c / 2 = 30 in all.
    edges = list(itertools.combinations(range(4), 2))
    cycles = [(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3)]
    columns = [[edges.index(tuple(sorted((c[i], c[(i + 1) % 4])))) for i in range(4)] for c in cycles]  # type: ignore[arg-type]
    packed = milp.maximise_packing(columns, [20.0] * 6)
    assert packed.total == pytest.approx(30.0)
    assert packed.amounts == pytest.approx((10.0, 10.0, 10.0))


def test_maximise_packing_bottleneck_and_doubled_element() -> None:
    assert milp.maximise_packing([[0, 1], [0, 2]], [5.0, 3.0, 9.0]).total == pytest.approx(5.0)
    assert milp.maximise_packing([[0, 0]], [5.0]).total == pytest.approx(2.5)
    assert milp.maximise_packing([], [5.0]) == milp.Packing(0.0, ())
    assert milp.maximise_packing([[0]], [0.0]).total == 0.0


def test_maximise_packing_column_that_uses_nothing_is_an_error() -> None:
    with pytest.raises(errors.InputError):
        milp.maximise_packing([[]], [1.0])


def test_import_loads_no_solver() -> None:
    code = "import sys, placer.placement.milp; print(sorted({'pulp', 'highspy', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
