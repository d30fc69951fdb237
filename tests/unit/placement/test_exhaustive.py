"""The oracle itself, against answers worked out by hand."""

from __future__ import annotations

import math

import numpy as np

from placer.placement import exhaustive, gang_problem
from placer.placement import types as place


def question(count: int, racks: list[int], **more: object) -> gang_problem.GangProblem:
    n = len(racks)
    columns: dict[str, object] = {
        "domain_of": np.array([racks]),
        "bandwidth": np.full(n, 200.0),
        "nic": np.full(n, np.nan),
        "damage": np.full(n, 1000),
        "forced": np.zeros(n, dtype=np.bool_),
        "spans_roots": True,
    }
    return gang_problem.GangProblem(count=count, **(columns | more))  # type: ignore[arg-type]


def test_best_takes_the_one_rack_that_holds_all() -> None:
    # rack 1 = nodes 1, 3, 4: one domain and 3 GPUs of damage.
    answer = exhaustive.best(question(3, [0, 1, 0, 1, 1]))
    assert answer.chosen == (1, 3, 4)
    assert answer.key == (0.0, 1 / 200, 1.0, 3000.0)
    assert answer.solve == place.SolveResult("exhaustive", place.Termination.OPTIMAL, 1.003, 1.003, 0.0)
    assert (answer.busbw, answer.common_level, answer.domains_used) == (200.0, 0, (1,))


def test_best_ranks_stand_domain_by_domain() -> None:
    assert exhaustive.best(question(4, [0, 1, 0, 1])).chosen == (0, 2, 1, 3)


def test_best_oversubscription_is_paid_only_across_the_level() -> None:
    nic = np.array([50.0, 50.0, 50.0])
    answer = exhaustive.best(question(3, [0, 0, 1], nic=nic, oversubscription=(2.0,)))
    assert (answer.busbw, answer.common_level) == (25.0, 1)
    inside = exhaustive.best(question(2, [0, 0, 1], nic=nic, oversubscription=(2.0,)))
    assert (inside.busbw, inside.common_level) == (50.0, 0)


def test_best_unknown_wiring_loses_to_any_known_one() -> None:
    answer = exhaustive.best(question(1, [0, 0], bandwidth=np.array([np.nan, 1.0])))
    assert answer.chosen == (1,)
    unknown = exhaustive.best(question(2, [0, 0], bandwidth=np.array([np.nan, 1.0])))
    assert (unknown.busbw, unknown.key[1]) == (None, math.inf)


def test_best_infeasible_is_a_result() -> None:
    for problem in (
        question(4, [0, 0, 1]),
        question(3, [0, 0, 1], required=0),
        question(3, [0, 0, 1], spans_roots=False),
        question(1, [0, 0, 1], forced=np.array([True, True, False])),
    ):
        answer = exhaustive.best(problem)
        assert (answer.chosen, answer.solve.termination) == ((), place.Termination.INFEASIBLE)
