"""The model of NVIDIA's best-effort allocator against 1,500 recorded calls of it and against plain enumeration."""

from __future__ import annotations

import functools
import itertools
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.placement import plugin_model, plugin_scores

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))


@functools.cache
def _cases() -> list[dict[str, Any]]:
    path = DATA / "gpuallocator" / "cases.jsonl"
    if not path.is_file():
        pytest.skip(f"no {path}: set PLACER_DATA")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _scores(case: dict[str, Any]) -> plugin_scores.Scores:
    n = range(case["n"])
    return tuple(
        tuple(0 if i == j else plugin_scores.pair_score(case["p2p"][i][j], case["nv"][i][j]) for j in n) for i in n
    )


def test_possible_recorded_calls_holds_every_answer_and_little_else() -> None:
    held = equal = 0
    for case in _cases():
        predicted = set(
            plugin_model.possible(_scores(case), case["available"], case["size"], required=case["required"])
        )
        seen = {tuple(answer) for answer in case["answers"]}
        held += seen <= predicted
        equal += seen == predicted
    assert held == len(_cases()) == 1500
    assert equal >= 1450


def test_ordered_recorded_calls_are_reproduced() -> None:
    for case in _cases():
        found = plugin_model.ordered(_scores(case), case["available"], case["size"], case["required"])
        assert list(found) == case["ordered"], case["id"]


def _cuts(gpus: tuple[int, ...], size: int) -> Iterator[list[tuple[int, ...]]]:
    """All ways to cut the GPUs into sets of a size and at most one smaller set."""
    if len(gpus) <= size:
        yield [gpus] if gpus else []
        return
    rest = len(gpus) % size
    for part in {size, rest} - {0}:
        for others in itertools.combinations(gpus[1:], part - 1):
            chosen = (gpus[0], *others)
            for cut in _cuts(tuple(g for g in gpus if g not in chosen), size):
                yield [chosen, *cut]


@st.composite
def _questions(draw: st.DrawFn) -> tuple[plugin_scores.Scores, tuple[int, ...], int, tuple[int, ...]]:
    n = draw(st.integers(1, 7))
    pair = {p: draw(st.sampled_from([10, 20, 50, 110, 220])) for p in itertools.combinations(range(n), 2)}
    scores = tuple(tuple(0 if i == j else pair[min(i, j), max(i, j)] for j in range(n)) for i in range(n))
    available = draw(st.permutations(range(n)).map(lambda p: tuple(p[: max(1, n - 1)])))
    size = draw(st.integers(1, len(available)))
    required = draw(st.permutations(available).map(tuple))[: draw(st.integers(0, size))]
    return scores, available, size, required


@settings(max_examples=150, deadline=None)
@given(_questions())
def test_possible_small_nodes_equals_enumeration(
    question: tuple[plugin_scores.Scores, tuple[int, ...], int, tuple[int, ...]],
) -> None:
    scores, available, size, required = question

    def weight(gpus: tuple[int, ...]) -> int:
        return sum(scores[a][b] for a, b in itertools.combinations(gpus, 2))

    found: dict[int, set[tuple[int, ...]]] = {}
    for cut in _cuts(available, size):
        whole = [s for s in cut if len(s) == size and set(required) <= set(s)]
        if whole:
            top = max(map(weight, whole))
            answers = {tuple(sorted(s)) for s in whole if weight(s) == top}
            found.setdefault(sum(map(weight, cut)), set()).update(answers)
    expected = found[max(found)]
    predicted = plugin_model.predict(scores, available, size, required)
    assert set(predicted.possible) == expected
    assert predicted.exact == (len(expected) == 1)
    # Any order of the input gives one of them.
    assert plugin_model.ordered(scores, available, size, required) in expected


EQUAL = tuple(tuple(0 if i == j else 10 for j in range(4)) for i in range(4))


def test_possible_single_gpu_any_of_the_free_ones() -> None:
    # k8s-device-plugin#1193: single-GPU pods break NVLink pairs, since every GPU scores 0 alone.
    assert plugin_model.possible(EQUAL, [3, 1, 2], 1) == ((1,), (2,), (3,))
    assert plugin_model.ordered(EQUAL, [3, 1, 2], 1) == (3,)


@pytest.mark.parametrize(("size", "required"), [(0, []), (5, []), (1, [0, 1]), (2, [3])])
def test_possible_impossible_question_one_empty_answer(size: int, required: list[int]) -> None:
    assert plugin_model.predict(EQUAL, [0, 1, 2], size, required) == plugin_model.Prediction(((),))
    assert plugin_model.ordered(EQUAL, [0, 1, 2], size, required) == ()


@pytest.mark.parametrize("available", [[0, 0], [0, 4], [-1, 0]])
def test_possible_gpu_doubled_or_unknown_is_an_input_error(available: list[int]) -> None:
    with pytest.raises(errors.InputError):
        plugin_model.possible(EQUAL, available, 1)


def test_possible_more_gpus_than_can_be_cut_is_an_input_error() -> None:
    scores = tuple(tuple(10 * (i != j) for j in range(17)) for i in range(17))
    with pytest.raises(errors.InputError, match="17 GPUs"):
        plugin_model.possible(scores, range(17), 2)


# Two sockets of four GPUs with NVLink pairs 0-1, 2-3, 4-5, 6-7: NODE 20, SYS 10, one NVLink 100.
PAIRS = tuple(
    tuple(0 if i == j else (20 if i // 4 == j // 4 else 10) + 100 * (i // 2 == j // 2) for j in range(8))
    for i in range(8)
)


def test_through_kubelet_more_aligned_than_needed_chooses_among_them() -> None:
    found = plugin_model.through_kubelet(PAIRS, [0, 1, 4, 5, 6], 2, aligned=[4, 5, 6, 7])
    assert found.possible == ((4, 5),)


def test_through_kubelet_fewer_aligned_than_needed_takes_them_all() -> None:
    # 1 and 2 are taken first, although the plugin alone would keep the pairs 4-5 and 6-7 together; 3 fills up best.
    found = plugin_model.through_kubelet(PAIRS, [1, 2, 4, 5, 6, 7], 4, aligned=[1, 2])
    assert all({1, 2} <= set(answer) for answer in found.possible)
    assert plugin_model.possible(PAIRS, [1, 2, 4, 5, 6, 7], 4) == ((4, 5, 6, 7),)
    assert found.possible == ((1, 2, 4, 5), (1, 2, 6, 7))


def test_through_kubelet_as_many_aligned_as_needed_takes_exactly_them() -> None:
    assert plugin_model.through_kubelet(PAIRS, [1, 2, 4, 5], 2, aligned=[1, 2]).possible == ((1, 2),)


def test_through_kubelet_without_alignment_keeps_what_init_containers_had() -> None:
    found = plugin_model.through_kubelet(PAIRS, [1, 2, 4, 5], 2, aligned=None, reused=[0])
    assert found.possible == ((0, 1),)
