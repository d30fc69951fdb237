"""What the model predicts against what real Slurm 22.05, 24.11 and 26.05 gave."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import pytest

RELEASES = ("22.05", "24.11", "26.05")
Record = dict[str, Any]
Read = Callable[[Record], tuple[str, Any]]
Lines = Callable[[str], list[Record]]

KNOWN_MISSES = {
    "22.05": [("H", 1, 23)],  # --ntasks-per-gpu=3 -n9 --cpus-per-gpu=1: rejected, predicted to run
    "24.11": [("G", 0, 13)],  # --ntasks-per-socket=2 --cpus-per-gpu=3 on 8 sockets: rejected, predicted to wait
    "26.05": [],
}
"""Lines of the sample whose rule is not known; in the whole recordings 18, 4 and 1 of 2,756 are missed."""


@pytest.mark.parametrize("release", RELEASES)
def test_predict_sample_of_every_family_and_kind_as_recorded(
    release: str, sample: Lines, recorded: Read, predicted: Read
) -> None:
    lines = sample(f"{release}.jsonl")
    wrong = [(line["kind"], line["seq"], line["i"]) for line in lines if predicted(line) != recorded(line)]
    families = ("gpn", "gres", "gpus", "gpt", "ntpg", "gps", "cpu")
    assert {(line["kind"], line["family"]) for line in lines} == {(k, f) for k in "ABCDEFGHTU" for f in families}
    assert wrong == KNOWN_MISSES[release]


@pytest.mark.parametrize("release", RELEASES)
def test_predict_whole_recording_right_for_99_percent(
    release: str, whole: Lines, recorded: Read, predicted: Read
) -> None:
    """Every fifth line: the outcome of 99 %, and of those that run 99 % to the last GPU index and CPU id."""
    lines = whole(f"{release}.jsonl")[::5]
    outcomes: collections.Counter[bool] = collections.Counter()
    grants: collections.Counter[bool] = collections.Counter()
    for line in lines:
        (outcome, real), (mine, given) = recorded(line), predicted(line)
        outcomes[(outcome == "running") == (mine == "running")] += 1
        if outcome == "running":
            grants[given == real] += 1
    assert outcomes[True] >= 0.99 * len(lines)
    assert grants[True] >= 0.99 * grants.total() > 300


@pytest.mark.parametrize("release", RELEASES)
def test_predict_each_family_right_for_97_percent(release: str, whole: Lines, recorded: Read, predicted: Read) -> None:
    """No way of asking for GPUs is left behind: outcome in three ways, nodes, GPU indices and CPU ids."""
    right: collections.Counter[str] = collections.Counter()
    every: collections.Counter[str] = collections.Counter()
    for line in whole(f"{release}.jsonl")[2::5]:
        every[line["family"]] += 1
        right[line["family"]] += predicted(line) == recorded(line)
    assert {family: count for family, count in right.items() if count < 0.97 * every[family] - 1} == {}
    assert set(every) == {"gpn", "gres", "gpus", "gpt", "ntpg", "gps", "cpu"}
