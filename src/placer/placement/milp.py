"""PuLP and HiGHS behind one call: the only module that knows them, so that every search reads one kind of answer.

    minimise  Σ_j c_j x_j + constant
    subject to  low_i ≤ Σ_j a_ij x_j ≤ high_i   for every row i,   lower_j ≤ x_j ≤ upper_j,   x_j whole where integer_j

What is held here, and why:

* Only minimisation: PuLP 3.3 negates the objective of a maximisation, and the sign of the bound goes with it.
* Status, values and bound are read from the HiGHS object. PuLP 3.3 reports a time-out as "Optimal", and 3.3 and 4.x
  return results of different shape; the object is the same in both.
* One thread and a fixed seed: the same model gives the same answer. HiGHS releases the GIL while it solves.
* Nothing is written to standard output: HiGHS's log is off at both of its switches. (highspy 1.16.0 prints before any
  switch can be set; the project's requirements exclude it. Swapping `sys.stdout` would be no guard: all threads of a
  daemon share it, and HiGHS writes below it.)
* `pulp` and `highspy` are imported when a model is solved, never with this module: they cost about 0.3 s.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from placer import errors
from placer.placement import types as place

SEED = 1
NO_LIMITS = place.SolveLimits()
# HiGHS stops at this absolute gap and calls it optimal (its default of `mip_abs_gap` and of feasibility tolerances).
TOLERANCE = 1e-6


class MilpAnswer(msgspec.Struct, frozen=True):
    """What the solver found. `values[j]` belongs to variable j, whole numbers exactly whole; empty = no solution found.

    `objective` is that of `values`, `bound` the proven lower bound; None = none known. `gap` as in `SolveResult`.
    """

    termination: place.Termination
    objective: float | None = None
    bound: float | None = None
    gap: float | None = None
    seconds: float = 0.0
    values: tuple[float, ...] = ()


class Packing(msgspec.Struct, frozen=True):
    """`total` is the most that fits; `amounts[j]` is how much of column j it takes."""

    total: float
    amounts: tuple[float, ...]


class _Row(msgspec.Struct, frozen=True):
    columns: tuple[int, ...]
    factors: tuple[float, ...]
    low: float
    high: float


class Model:
    """A minimisation under construction. Variables are known by the integer that `variable` returns, counted from 0."""

    def __init__(self) -> None:
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.cost: dict[int, float] = {}
        self.constant = 0.0
        self.rows: list[_Row] = []

    def variable(self, lower: float = 0.0, upper: float = math.inf, *, integer: bool = False, cost: float = 0.0) -> int:
        """Add one variable with its bounds (infinite = none) and its cost per unit; returns its number."""
        self.lower.append(float(lower))
        self.upper.append(float(upper))
        self.integer.append(integer)
        number = len(self.lower) - 1
        if cost:
            self.cost[number] = float(cost)
        return number

    def row(self, terms: Iterable[tuple[int, float]], *, low: float = -math.inf, high: float = math.inf) -> None:
        """Add low <= Σ factor · variable <= high. A variable that appears twice counts with the sum of its factors."""
        summed = _summed(terms)
        self.rows.append(_Row(tuple(summed), tuple(summed.values()), float(low), float(high)))

    def minimise(self, terms: Iterable[tuple[int, float]], *, constant: float = 0.0) -> None:
        """Replace the whole objective, also the costs that were given with the variables."""
        self.cost = _summed(terms)
        self.constant = float(constant)

    def value(self, values: Sequence[float]) -> float:
        """The objective at a point."""
        return self.constant + math.fsum(factor * values[column] for column, factor in self.cost.items())


def _summed(terms: Iterable[tuple[int, float]]) -> dict[int, float]:
    """One factor for each variable; those that come to 0 are left out, as PuLP would."""
    summed: dict[int, float] = {}
    for column, factor in terms:
        summed[column] = summed.get(column, 0.0) + float(factor)
    return {column: factor for column, factor in summed.items() if factor}


def solve(model: Model, limits: place.SolveLimits = NO_LIMITS) -> MilpAnswer:
    """The least objective, within `limits.seconds` from now and to `limits.gap` relative (0 = proven optimal).

    Terminations: OPTIMAL (gap 0), FEASIBLE (stopped at the allowed gap), INFEASIBLE, LIMIT (time; values may be empty).
    Raises InputError for a model without a least value (unbounded) and PlacerError when the solver itself fails.
    """
    begin = limits.clock()
    if any(not row.columns and not row.low <= 0.0 <= row.high for row in model.rows):
        return MilpAnswer(place.Termination.INFEASIBLE)
    if any(low > high for low, high in zip(model.lower, model.upper, strict=True)):
        return MilpAnswer(place.Termination.INFEASIBLE)
    used = sorted(set(model.cost).union(*(row.columns for row in model.rows)))
    if not used:  # PuLP has no model without variables
        rest = tuple(_resting(low, high) for low, high in zip(model.lower, model.upper, strict=True))
        return MilpAnswer(place.Termination.OPTIMAL, model.constant, model.constant, 0.0, limits.clock() - begin, rest)
    solved = _run(model, used, limits)
    return _answer(model, used, solved, limits, limits.clock() - begin)


def maximise_packing(columns: Sequence[Sequence[int]], capacities: Sequence[float]) -> Packing:
    """max Σ_H x_H  subject to  Σ_{H ∋ e} x_H <= capacities[e] for every e, x >= 0: how many columns fit at once.

    `columns[H]` lists the elements e (indices into `capacities`) that one unit of H uses; an element that is listed
    twice is used twice. Raises InputError when a column uses nothing, since then no amount is the most.
    """
    if any(not column for column in columns):
        raise errors.InputError("a column that uses nothing can be packed without end")
    model = Model()
    users: list[list[tuple[int, float]]] = [[] for _ in capacities]
    for column in columns:
        x_h = model.variable(cost=-1.0)
        for element in column:
            users[element].append((x_h, 1.0))
    for terms, capacity in zip(users, capacities, strict=True):
        if terms:
            model.row(terms, high=capacity)
    answer = solve(model)
    return Packing(-(answer.objective or 0.0) + 0.0, answer.values)


def _run(model: Model, used: list[int], limits: place.SolveLimits) -> Any:
    """Hand the model to HiGHS by PuLP and return the HiGHS object after its run."""
    import pulp  # before highspy: PuLP 4 loads it with the flags that it needs

    problem = pulp.LpProblem("placer", pulp.LpMinimize)
    variable = {}
    for column in used:
        low, high = model.lower[column], model.upper[column]
        variable[column] = problem.add_variable(
            f"x{column:09d}",  # PuLP 3.3 sorts by name; padded, that is our order
            None if math.isinf(low) else low,
            None if math.isinf(high) else high,
            cat="Integer" if model.integer[column] else "Continuous",
        )
    terms = [factor * variable[column] for column, factor in model.cost.items()]
    # Without an objective PuLP 3.3 adds a variable of its own before ours; ours comes last, whatever the version.
    problem += pulp.lpSum(terms or [problem.add_variable("z", 0, 0)])
    for row in model.rows:
        if not row.columns:
            continue
        total = pulp.lpSum(f * variable[c] for c, f in zip(row.columns, row.factors, strict=True))
        if row.low == row.high:
            problem += total == row.low
            continue
        if not math.isinf(row.low):
            problem += total >= row.low
        if not math.isinf(row.high):
            problem += total <= row.high
    # PuLP 3.3 knows no word for HiGHS's solution and memory limits; what HiGHS itself says is read afterwards.
    with contextlib.suppress(KeyError):
        problem.solve(_solver(pulp, limits))
    return problem.solverModel


def _solver(pulp: Any, limits: place.SolveLimits) -> Any:
    seconds = None if limits.seconds is None else max(float(limits.seconds), 0.0)
    return pulp.HiGHS(
        msg=False,
        threads=1,
        timeLimit=seconds,
        gapRel=max(float(limits.gap), 0.0),
        random_seed=SEED,
        output_flag=False,
        log_to_console=False,
    )


def _answer(model: Model, used: list[int], solved: Any, limits: place.SolveLimits, seconds: float) -> MilpAnswer:
    """Read HiGHS's own account of the run."""
    import highspy

    states = highspy.HighsModelStatus
    status, info = solved.getModelStatus(), solved.getInfo()
    if status == states.kInfeasible:
        return MilpAnswer(place.Termination.INFEASIBLE, seconds=seconds)
    if status in (states.kUnbounded, states.kUnboundedOrInfeasible):
        raise errors.InputError("the optimisation model has no least value")
    stopped = status in (
        states.kTimeLimit,
        states.kIterationLimit,
        states.kInterrupt,
        states.kSolutionLimit,
        states.kMemoryLimit,
    )
    if not stopped and status != states.kOptimal:
        raise errors.PlacerError(f"the solver HiGHS failed: {solved.modelStatusToString(status)}")
    whole = any(model.integer[column] for column in used)
    found = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    proven = (
        info.mip_dual_bound if whole else (info.objective_function_value if status == states.kOptimal else -math.inf)
    )
    bound = proven + model.constant if math.isfinite(proven) else None
    if not found:
        return MilpAnswer(place.Termination.LIMIT, bound=bound, seconds=seconds)
    values = _values(model, used, solved.getSolution().col_value)
    objective = model.value(values)
    if bound is not None and (objective - bound <= TOLERANCE * max(1.0, abs(objective))):
        bound = objective  # as exact as the solver is
    gap = None if bound is None else (objective - bound) / max(abs(objective), 1e-9)
    termination = place.Termination.LIMIT
    if not stopped:
        termination = place.Termination.OPTIMAL if gap == 0.0 else place.Termination.FEASIBLE
    return MilpAnswer(termination, objective, bound, gap, seconds, values)


def _values(model: Model, used: list[int], found: Sequence[float]) -> tuple[float, ...]:
    """The solver's point in the model's numbering; integers are rounded, a variable of no row rests at a bound."""
    values = [_resting(low, high) for low, high in zip(model.lower, model.upper, strict=True)]
    for column, value in zip(used, found[: len(used)], strict=True):
        values[column] = float(round(value)) if model.integer[column] else float(value)
    return tuple(values)


def _resting(low: float, high: float) -> float:
    """The value of a variable that nothing depends on: the number nearest to 0 within its bounds."""
    return min(max(0.0, low), high)
