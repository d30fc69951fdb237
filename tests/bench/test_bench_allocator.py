"""What the device plugin may answer: the recorded calls, and 16 GPUs, which take the plugin itself seconds."""

from __future__ import annotations

import json
import os
import pathlib
import random

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from placer.placement import plugin_model, plugin_scores

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))


def test_possible_answers_of_recorded_calls(benchmark: BenchmarkFixture) -> None:
    path = DATA / "gpuallocator" / "cases.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}: set PLACER_DATA")
    cases = [json.loads(line) for line in path.read_text().splitlines()]
    scores = [
        tuple(
            tuple(0 if i == j else plugin_scores.pair_score(c["p2p"][i][j], c["nv"][i][j]) for j in range(c["n"]))
            for i in range(c["n"])
        )
        for c in cases
    ]

    def run() -> int:
        held = 0
        for case, pairs in zip(cases, scores, strict=True):
            predicted = set(plugin_model.possible(pairs, case["available"], case["size"], case["required"]))
            held += predicted == {tuple(answer) for answer in case["answers"]}
        return held

    equal = benchmark(run)
    benchmark.extra_info["calls with equal sets, of 1500"] = equal
    assert equal >= 1450


@pytest.mark.parametrize("size", [2, 4, 6, 8])
def test_possible_answers_of_16_gpus(benchmark: BenchmarkFixture, size: int) -> None:
    draws = random.Random(1)
    pair = {(i, j): draws.choice([10, 20, 50, 110]) for i in range(16) for j in range(i)}
    scores = tuple(tuple(0 if i == j else pair[max(i, j), min(i, j)] for j in range(16)) for i in range(16))
    assert benchmark(plugin_model.possible, scores, range(16), size)
