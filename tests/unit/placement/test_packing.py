"""The packing rule against published values of its parts, FGD's own definition, and brute force."""

from __future__ import annotations

import csv
import itertools
import os
import pathlib

import numpy as np
import pytest

from placer.placement import fgd, packing, packing_fill, packing_fragments, packing_holes, packing_prices
from placer.placement import packing_nodes as nodes_of

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))
MODELS = ("A10", "G2", "G3", "P100", "T4", "V100M16", "V100M32")


def pods(trace: str) -> list[fgd.Pod]:
    path = DATA / "openb" / f"openb_pod_list_{trace}.csv"
    if not path.is_file():
        pytest.skip("needs the public openb trace: set PLACER_DATA to the folder that holds openb/")
    with path.open(newline="", encoding="utf-8") as file:
        return [
            fgd.Pod(
                int(row["cpu_milli"]),
                int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
                int(row["num_gpu"]),
                tuple(row["gpu_spec"].split("|")) if row["gpu_spec"] else (),
            )
            for row in csv.DictReader(file)
        ]


def shapes() -> list[packing.Shape]:
    with (DATA / "openb" / "openb_node_list_gpu_node.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [packing.Shape(row["model"], int(row["cpu_milli"]), int(row["gpu"])) for row in rows]


@pytest.fixture(scope="module")
def rule() -> packing.Rule:
    return packing.Rule(packing.whole_mix(pods("default")), shapes())


@pytest.mark.parametrize(
    ("hole", "value"),
    [(190, 0), (220, 0.10), (230, 0.25), (320, 0.333), (350, 0.333), (440, 0.35), (460, 0.5), (540, 0.5), (550, 0.65),
     (590, 0.667), (680, 0.667), (810, 1)],
)  # fmt: skip
def test_hole_values_of_the_public_trace(rule: packing.Rule, hole: int, value: float) -> None:
    assert rule.holes[hole // 10] == pytest.approx(value, abs=0.01)


@pytest.mark.parametrize(
    ("cpus", "gpus", "value"),
    [
        (96, [1000] * 8, 8.0),
        (48, [1000] * 8, 8.0),
        (8, [1000] * 8, 2.823),
        (0, [1000] * 8, 0.0),
        (96, [530] * 8, 4.0),
        (20, [530, 530, 350, 190], 1.333),
        (4, [530, 350], 0.661),
        (96, [190] * 8, 0.0),
    ],
)
def test_earning_of_nodes_on_the_public_trace(rule: packing.Rule, cpus: int, gpus: list[int], value: float) -> None:
    padded = np.array([gpus + [0] * (8 - len(gpus))])
    assert rule.earning(np.array([cpus * 1000]), padded)[0] == pytest.approx(value, abs=0.01)


def test_pressure_of_the_trace_with_most_named_models(rule: packing.Rule) -> None:
    mix = packing.whole_mix(pods("gpuspec33"))
    found = packing_prices.pressure(mix, MODELS, rule.capacity)
    wanted = {"A10": 1.25, "T4": 1.25, "P100": 0.78, "V100M16": 0.78, "V100M32": 0.78, "G3": 0.42, "G2": 0.10}
    assert dict(zip(MODELS, found.round(2).tolist(), strict=True)) == wanted


def test_pressure_without_pods_that_depend_on_a_model_is_none() -> None:
    mix = packing.whole_mix([fgd.Pod(4000, 1000, 1), fgd.Pod(9000, 0, 0), fgd.Pod(99000, 1000, 1)])
    found = packing.Rule(mix, [packing.Shape("A", 8000, 2), packing.Shape("B", 4000, 8, 3)])
    assert found.models == ("A", "B")
    assert found.capacity.tolist() == [2.0, 24.0]
    assert not found.pressure.any()
    assert found.prices(0.5, np.array([1000.0, 1000.0])) is None


def test_pressure_counts_pods_that_are_too_large_for_other_models() -> None:
    """Half of all GPUs are asked for by pods of 8 CPUs: 13 GPUs' worth, and only A, with 2 GPUs, has such nodes."""
    mix = packing.whole_mix([fgd.Pod(4000, 1000, 1), fgd.Pod(8000, 1000, 1)])
    found = packing.Rule(mix, [packing.Shape("A", 8000, 2), packing.Shape("B", 4000, 8, 3)])
    assert found.pressure.tolist() == pytest.approx([13 / 2, 0.0])


def test_pressure_raises_the_least_loaded_model_first() -> None:
    """10 GPUs each. Half of the 20 GPUs' demand wants A only, the other half A or B: all of that goes to B."""
    mix = (
        fgd.Weighted(fgd.Pod(1000, 1000, 1, ("A",)), 0.5),
        fgd.Weighted(fgd.Pod(1000, 1000, 1, ("A", "B")), 0.5),
    )
    found = packing_prices.pressure(mix, ("A", "B"), np.array([10.0, 10.0]))
    assert found == pytest.approx([1.0, 1.0])


def test_prices_fall_with_what_has_arrived_and_rise_with_scarcity() -> None:
    rho, gpus = np.array([0.5, 0.0]), np.array([10.0, 10.0])
    found = packing_prices.prices(rho, gpus, 0.25, np.array([4000.0, 4000.0]))
    assert found is not None
    assert found == pytest.approx([3.5 * 0.5 * 10 * 0.75 / 4, 0.0])
    scarce = packing_prices.prices(rho, gpus, 0.25, np.array([0.0, 0.0]))
    assert scarce is not None
    assert scarce[0] == pytest.approx(3.5 * 0.5 * 10 * 0.75)
    assert packing_prices.prices(rho, gpus, 1.0, np.array([4000.0, 4000.0])) is None


def test_knapsack_equals_all_multisets() -> None:
    earn = {19: 0.1, 32: 0.35, 47: 0.5}
    best = packing_holes.knapsack(earn)
    for hole in range(101):
        all_counts = itertools.product(range(6), range(4), range(3))
        fit = (n for n in all_counts if 19 * n[0] + 32 * n[1] + 47 * n[2] <= hole)
        assert best[hole] == pytest.approx(max(0.1 * n[0] + 0.35 * n[1] + 0.5 * n[2] for n in fit))


def test_duals_give_the_least_number_of_gpus() -> None:
    """10 of 60 %, 10 of 40 %: pairs, 10 GPUs. With 4 more of 40 %: two on a GPU, 2 GPUs more."""
    patterns = [{60: 1}, {40: 2}]
    for small, gpus in ((10, 10.0), (14, 12.0)):
        duals = packing_holes.duals({60: 10, 40: small}, patterns)
        assert 10 * duals[60] + small * duals[40] == pytest.approx(gpus)


def test_hole_values_of_a_mix_without_shares() -> None:
    values = packing_holes.hole_values((fgd.Weighted(fgd.Pod(1000, 1000, 1), 1.0),))
    assert values.tolist() == [0.0] * 100 + [1.0]


def random_mix(draw: np.random.Generator) -> list[fgd.Weighted]:
    kinds = [(0, 0), (1000, 1), (1000, 2), (1000, 8), (505, 1), (133, 1), (810, 1), (300, 2)]
    found = []
    for _ in range(12):
        milli, count = kinds[int(draw.integers(len(kinds)))]
        models = ("", "A", "B")[int(draw.integers(3))]
        pod = fgd.Pod(int(draw.integers(1, 9)) * 500, milli, count, (models,) if models else ())
        found.append(fgd.Weighted(pod, float(draw.random())))
    return found


def random_nodes(draw: np.random.Generator, count: int) -> nodes_of.Nodes:
    gpu = np.where(draw.random((count, 8)) < 0.3, 1000, draw.integers(0, 1001, (count, 8)))
    gpu *= draw.random((count, 8)) < 0.8
    cpu, model = draw.integers(0, 6000, count), draw.integers(0, 2, count)
    return nodes_of.Nodes(cpu, gpu, model, np.full(count, 8), np.zeros(count, dtype=np.int64))


@pytest.mark.parametrize("seed", range(10))
def test_fragments_equal_their_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    mix, nodes = random_mix(draw), random_nodes(draw, 40)
    found = packing_fragments.Fragments(mix, ("A", "B"), 8).of(nodes.cpu_milli, nodes.gpu_milli, nodes.model)
    for i in range(40):
        wanted = fgd.expected(int(nodes.cpu_milli[i]), nodes.gpu_milli[i].tolist(), "AB"[nodes.model[i]], tuple(mix))
        assert found[i] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_fill_equals_its_definition(seed: int) -> None:
    draw = np.random.default_rng(seed)
    mix = [w for w in random_mix(draw) if w.pod.gpu_count and (w.pod.gpu_count == 1 or w.pod.gpu_milli == 1000)]
    nodes = random_nodes(draw, 40)
    gpu = nodes.gpu_milli // 10 * 10
    fill = packing_fill.Fill(mix, ("A", "B"))
    found = fill.of(nodes.cpu_milli, gpu.sum(axis=1), nodes.model, fill.columns[gpu // 10].sum(axis=1))
    for i in range(40):
        wanted = 0.0
        for w in mix:
            if w.pod.models and "AB"[nodes.model[i]] not in w.pod.models:
                continue
            if w.pod.gpu_milli < 1000:
                most = float(sum(g // w.pod.gpu_milli for g in gpu[i].tolist()))
            else:
                most = float(sum(g == 1000 for g in gpu[i].tolist()) // w.pod.gpu_count)
            held = min(most, int(nodes.cpu_milli[i]) / w.pod.cpu_milli)
            wanted += w.share * (int(gpu[i].sum()) - held * w.pod.gpu_milli * w.pod.gpu_count)
        assert found[i] == pytest.approx(wanted, abs=1e-6)


def one(cpus: int, *gpus: int) -> nodes_of.Nodes:
    ones = np.zeros(1, dtype=np.int64)
    return nodes_of.Nodes(np.array([cpus * 1000]), np.array([gpus + (0,) * (8 - len(gpus))]), ones + 4, ones + 8, ones)


def test_score_is_the_fall_of_the_potential_at_its_best_gpu(rule: packing.Rule) -> None:
    pod = fgd.Pod(4000, 470, 1)
    before = one(48, 1000, 530, 680, 190)
    states = {1: (1000, 60, 680, 190), 0: (530, 530, 680, 190), 2: (1000, 530, 210, 190)}
    gains = {g: float((rule.potential(before) - rule.potential(one(44, *left)))[0]) for g, left in states.items()}
    found = rule.score(before, pod)
    assert found.value[0] == pytest.approx(max(gains.values()))
    assert found.gpu[0] == max(gains, key=lambda g: gains[g]) == 1  # 470s pair up, their rest is worth nothing anyway


def test_potential_of_a_full_node_is_nothing(rule: packing.Rule) -> None:
    assert rule.potential(one(96))[0] == 0.0


def test_options_leave_out_gpus_with_equal_room() -> None:
    found = nodes_of.options(np.array([[1000, 500, 500, 1000], [400, 470, 0, 0]]), fgd.Pod(1, 470, 1))
    assert list(zip(found.row.tolist(), found.gpu.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1)]
    assert found.after.tolist() == [[530, 500, 500, 1000], [1000, 30, 500, 1000], [400, 0, 0, 0]]


def test_several_takes_those_with_least_left_that_suffice() -> None:
    left = np.array([[900, 400, 300, 350]])
    assert nodes_of.several(left, fgd.Pod(1, 320, 2)).tolist() == [[False, True, False, True]]
    assert nodes_of.several(np.array([[1000, 0, 1000, 1000]]), fgd.Pod(1, 1000, 2)).tolist() == [
        [True, False, True, False]
    ]


def test_whole_mix_counts_every_type() -> None:
    mix = packing.whole_mix([fgd.Pod(1, 0, 0)] * 3 + [fgd.Pod(2, 500, 1)])
    assert mix == (fgd.Weighted(fgd.Pod(1, 0, 0), 0.75), fgd.Weighted(fgd.Pod(2, 500, 1), 0.25))


def test_rule_of_an_empty_mix_still_places(rule: packing.Rule) -> None:
    empty = packing.Rule((), [packing.Shape(model, 96000, 8) for model in MODELS])
    assert np.isfinite(empty.score(one(48, 1000), fgd.Pod(1000, 500, 1)).value[0])
    assert empty.prices(0.0, np.zeros(len(MODELS))) is None
    assert rule.models == MODELS
