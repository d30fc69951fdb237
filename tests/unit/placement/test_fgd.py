"""FGD's fragmentation against the values of its authors' own unit test and of a replica on the public trace."""

from __future__ import annotations

import csv
import os
import pathlib

import pytest

from placer.placement import fgd

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))


@pytest.fixture(scope="module")
def trace() -> fgd.Mix:
    path = DATA / "openb" / "openb_pod_list_default.csv"
    if not path.is_file():
        pytest.skip("needs the public openb trace: set PLACER_DATA to the folder that holds openb/")
    with path.open(newline="", encoding="utf-8") as file:
        pods = [
            fgd.Pod(
                int(row["cpu_milli"]),
                int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
                int(row["num_gpu"]),
                tuple(row["gpu_spec"].split("|")) if row["gpu_spec"] else (),
            )
            for row in csv.DictReader(file)
        ]
    return fgd.typical(pods)


def test_expected_of_one_typical_pod_without_cpu_is_all_that_is_left() -> None:
    """The authors' unit test: 0.0933 x 2700."""
    mix = (fgd.Weighted(fgd.Pod(6000, 465, 1), 0.0933),)
    assert fgd.expected(1000, [200, 1000, 1000, 500], "", mix) == pytest.approx(251.91, abs=0.01)


@pytest.mark.parametrize(
    ("cpu", "gpus", "fragment"),
    [
        (96_000, [1000] * 8, 1087.82),
        (96_000, [1000] * 2, 271.95),
        (0, [1000] * 8, 8000.00),
        (96_000, [500] * 8, 3260.37),
        (96_000, [1000] + [0] * 7, 135.98),
        (8_000, [1000] * 8, 4841.62),
        (32_000, [1000, 1000, 540, 540, 540, 200, 0, 0], 1791.01),
    ],
)
def test_expected_on_the_public_trace_is_the_replicas(
    trace: fgd.Mix, cpu: int, gpus: list[int], fragment: float
) -> None:
    assert fgd.expected(cpu, gpus, "", trace) == pytest.approx(fragment, abs=0.01)


def test_typical_of_the_public_trace_are_thirty_five_types(trace: fgd.Mix) -> None:
    assert len(trace) == 35
    assert sum(w.share for w in trace) == pytest.approx(1)
    assert trace[0].pod == fgd.Pod(3152, 810, 1)
    assert trace[0].share == pytest.approx(0.13482, abs=5e-6)
    assert trace[1].pod == fgd.Pod(11300, 1000, 1)
    assert trace[1].share == pytest.approx(0.11254, abs=5e-6)


def test_expected_of_the_empty_public_cluster_is_a_seventh(trace: fgd.Mix) -> None:
    """The authors' own runs say 13.88 to 14.08 % of 6,212 GPUs before the first pod comes; the replica 13.945 %."""
    with (DATA / "openb" / "openb_node_list_gpu_node.csv").open(newline="", encoding="utf-8") as file:
        nodes = [(int(row["cpu_milli"]), [1000] * int(row["gpu"]), row["model"]) for row in csv.DictReader(file)]
    assert sum(len(gpus) for _, gpus, _ in nodes) == 6212
    total = sum(fgd.expected(cpu, gpus, model, trace) for cpu, gpus, model in nodes)
    assert total == pytest.approx(866_232.6, abs=0.1)


def test_fragment_of_each_quadrant() -> None:
    left = [200, 1000, 600]
    assert fgd.fragment(4000, left, "T4", fgd.Pod(1000, 600, 1)) == 200  # fits: what is too small stays
    assert fgd.fragment(4000, left, "T4", fgd.Pod(1000, 1000, 2)) == 1800  # too few GPUs
    assert fgd.fragment(500, left, "T4", fgd.Pod(1000, 600, 1)) == 1800  # too little CPU
    assert fgd.fragment(4000, left, "T4", fgd.Pod(1000, 0, 0)) == 1800  # wants no GPU
    assert fgd.fragment(4000, left, "T4", fgd.Pod(1000, 600, 1, ("A10", "P100"))) == 1800  # wrong model
    assert fgd.fragment(4000, left, "A10", fgd.Pod(1000, 600, 1, ("A10", "P100"))) == 200


def test_typical_stops_at_the_share_and_breaks_ties_by_the_larger_type() -> None:
    many = [fgd.Pod(1000, 1000, 1)] * 90 + [fgd.Pod(0, 500, 1)] * 5 + [fgd.Pod(200, 500, 1)] * 5
    assert fgd.typical(many) == (
        fgd.Weighted(fgd.Pod(1000, 1000, 1), 90 / 95),
        fgd.Weighted(fgd.Pod(200, 500, 1), 5 / 95),
    )
    assert fgd.typical([]) == ()
