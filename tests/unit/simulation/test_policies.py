"""Scores of the published policies, computed by hand from their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placer.placement import fgd, packing_fragments
from placer.placement import packing_nodes as packing
from placer.simulation import policies

SHARE = fgd.Pod(6000, 500, 1)
PAIR = fgd.Pod(12000, 1000, 2)
CPU = fgd.Pod(4000, 0, 0)


def nodes(cpu: int, gpus: list[int], classes: int = 0, count: int = 4) -> packing.Nodes:
    one = [np.array([x]) for x in (cpu, 0, count, classes)]
    return packing.Nodes(one[0], np.array([gpus]), one[1], one[2], one[3])


def score(policy: policies.Policy, pod: fgd.Pod, **state: object) -> tuple[float, int]:
    found = policy.score(nodes(**state), pod)  # type: ignore[arg-type]
    return float(found.value[0]), int(found.gpu[0])


def test_dotprod_is_what_is_free_times_what_is_asked() -> None:
    # 64000 x 6000 / 128000² = .0234375, 1600 x 500 / 8000² = .0125: ⌊100 (1 - .01797)⌋
    assert score(policies.DotProd(), SHARE, cpu=64000, gpus=[1000, 600, 0, 0]) == (98, 1)
    # 128000 x 12000 / 128000² = .09375, 4000 x 2000 / 8000² = .125: ⌊100 (1 - .109375)⌋
    assert score(policies.DotProd(), PAIR, cpu=128000, gpus=[1000] * 4) == (89, packing.NO_GPU)


def test_best_fit_is_what_would_be_left() -> None:
    # (64000 - 6000)/128000 = .453125, (1600 - 500)/8000 = .1375: ⌊100 (1 - .2953)⌋
    assert score(policies.BestFit(), SHARE, cpu=64000, gpus=[1000, 600, 0, 0]) == (70, 1)
    assert score(policies.BestFit(), CPU, cpu=4000, gpus=[0, 0, 0, 0]) == (100, packing.NO_GPU)


def test_best_fit_stretches_scores_that_span_more_than_a_hundred() -> None:
    values = np.array([-np.inf, -400.0, 99.0, 100.0])
    # stretched to 0..100 in whole numbers: 499 x 100 / 500 = 99.8 -> 99, so 100 stays alone at the top
    assert policies.BestFit().choose(values) == 3
    assert policies.BestFit().choose(np.array([-900.0, 99.5, 100.0])) == 2
    assert policies.BestFit().choose(np.array([50.0, 80.0, 80.0])) == 1


@pytest.mark.parametrize(
    ("pod", "gpus", "value"),
    [
        (SHARE, [1000] * 4, 29),  # untouched: max(33 - 4, 4)
        (SHARE, [600, 1000, 1000, 1000], 94),  # 100 - ⌊60 % / 10⌋
        (SHARE, [400, 1000, 1000, 1000], 49),  # must take a free one: max(50 - 1, 33)
        (PAIR, [400, 1000, 1000, 1000], 48),
        (CPU, [1000] * 4, 0),
    ],
)
def test_gpu_packing_prefers_used_gpus_then_used_nodes(pod: fgd.Pod, gpus: list[int], value: float) -> None:
    assert score(policies.GpuPacking(), pod, cpu=96000, gpus=gpus)[0] == value


@pytest.mark.parametrize(
    ("classes", "value"),
    [
        (0b001, 17 + 75),  # only shares run there
        (0b101, 17 + 50),  # shares and pairs
        (0b000, 17 + 25),  # nothing
        (0b100, 17),  # only pairs
    ],
)
def test_gpu_clustering_keeps_classes_together(classes: int, value: float) -> None:
    # 2400 thousandths are left: ⌊25 (8000 - 2400) / 8000⌋ = 17
    assert score(policies.GpuClustering(), SHARE, cpu=96000, gpus=[600] * 4, classes=classes)[0] == value


def test_gpu_clustering_classes_are_shares_and_numbers_of_whole_gpus() -> None:
    assert [policies.class_bit(pod) for pod in (SHARE, PAIR, CPU, fgd.Pod(1, 1000, 1))] == [1, 4, 0, 2]


def test_fgd_is_the_sigmoid_of_what_fragmentation_it_spares() -> None:
    mix = (fgd.Weighted(SHARE, 0.5), fgd.Weighted(PAIR, 0.5))
    policy = policies.Fgd(packing_fragments.Fragments(mix, [""], 4))
    before = fgd.expected(96000, [600, 1000, 1000, 0], "", mix)
    after = [fgd.expected(90000, g, "", mix) for g in ([100, 1000, 1000, 0], [600, 500, 1000, 0])]
    wanted = [math.trunc(100 / (1 + math.exp(-(before - a) / 1000))) for a in after]
    assert wanted[0] != wanted[1]
    found = score(policy, SHARE, cpu=96000, gpus=[600, 1000, 1000, 0])
    assert found == (max(wanted), wanted.index(max(wanted)))


def test_fgd_of_equal_gpus_takes_the_first() -> None:
    policy = policies.Fgd(packing_fragments.Fragments((fgd.Weighted(SHARE, 1.0),), [""], 4))
    assert score(policy, SHARE, cpu=96000, gpus=[0, 700, 700, 700])[1] == 1


def test_random_chooses_all_that_fit_and_nothing_else() -> None:
    policy = policies.Random(np.random.default_rng(1))
    values = np.array([-np.inf, 0.0, 0.0, -np.inf, 0.0])
    assert {policy.choose(values) for _ in range(100)} == {1, 2, 4}
    gpus = np.array([1000, 400, 500, 0])
    assert {policy.choose_gpu(gpus, SHARE, 2) for _ in range(100)} == {0, 2}
    assert policy.choose_gpu(gpus, PAIR, packing.NO_GPU) == packing.NO_GPU
