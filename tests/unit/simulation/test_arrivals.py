"""The order and number of arrivals against the published rule, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from placer import errors
from placer.simulation import arrivals, openb

PODS = [openb.Pod(f"p{i}", 1000, 1, 500, 1) for i in range(10)]


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_arrange_at_the_very_demand_shuffles_only() -> None:
    order = arrivals.arrange(PODS, 5000, 1.0, rng())
    assert sorted(pod.name for pod in order) == sorted(pod.name for pod in PODS)
    assert [pod.name for pod in order] != [pod.name for pod in PODS]


def test_arrange_does_not_depend_on_the_order_of_the_list() -> None:
    assert arrivals.arrange(PODS, 5000, 1.0, rng()) == arrivals.arrange(PODS[::-1], 5000, 1.0, rng())


def test_arrange_inflates_until_the_next_pod_would_exceed_the_target() -> None:
    order = arrivals.arrange(PODS, 5000, 1.33, rng())  # 6650: three more of 500, a fourth would make 7000
    assert len(order) == 13
    assert [pod.name.split("-")[1:] for pod in order[10:]] == [["tuned", "0"], ["tuned", "1"], ["tuned", "2"]]
    assert all(pod.name.split("-")[0] in {p.name for p in PODS} for pod in order[10:])


def test_arrange_counts_one_gpu_only_of_the_pod_that_would_exceed_the_target() -> None:
    pods = [openb.Pod("p", 1000, 1, 1000, 8)]
    order = arrivals.arrange(pods, 10_000, 1.7, rng())  # 8000 + 1000 and 16000 + 1000 <= 17000, 24000 + 1000 is not
    assert sum(pod.demand_milli for pod in order) == 24_000


def test_arrange_deflates_until_the_demand_is_not_above_the_target() -> None:
    order = arrivals.arrange(PODS, 5000, 0.49, rng())  # 2450: four of 500
    assert len(order) == 4


def test_arrange_is_the_same_for_the_same_seed_and_differs_by_seed() -> None:
    assert arrivals.arrange(PODS, 5000, 1.0, rng(2)) == arrivals.arrange(PODS, 5000, 1.0, rng(2))
    assert arrivals.arrange(PODS, 5000, 1.0, rng(2)) != arrivals.arrange(PODS, 5000, 1.0, rng(3))


@pytest.mark.parametrize("load", [0.0, -1.0, float("nan")])
def test_arrange_without_a_positive_load_is_refused(load: float) -> None:
    with pytest.raises(errors.InputError):
        arrivals.arrange(PODS, 5000, load, rng())


def test_tie_order_is_a_permutation() -> None:
    assert sorted(arrivals.tie_order(50, rng())) == list(range(50))
