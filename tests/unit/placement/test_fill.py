from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.placement import fill

NO_LEVELS = np.empty((0, 3), dtype=np.int32)


def fewest(
    most: list[int], total: int, forced: list[bool], leaf: list[int], one_leaf: bool, count: int | None
) -> int | None:
    """The least number of nodes by trying every subset; None when there is none."""
    n = len(most)
    sizes = range(1, n + 1) if count is None else [count]
    for size in sizes:
        for chosen in itertools.combinations(range(n), size):
            together = not one_leaf or len({leaf[i] for i in chosen}) == 1
            held = all(i in chosen for i in range(n) if forced[i])
            if together and held and size <= total <= sum(most[i] for i in chosen):
                return size
    return None


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], int, list[bool], list[int], bool, int | None]:
    n = draw(st.integers(1, 6))
    most = draw(st.lists(st.integers(1, 8), min_size=n, max_size=n))
    forced = draw(st.lists(st.sampled_from([False, False, False, True]), min_size=n, max_size=n))
    leaf = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    return most, draw(st.integers(1, 30)), forced, leaf, draw(st.booleans()), draw(st.none() | st.integers(1, n))


@given(cases())
@settings(max_examples=300, deadline=None)
def test_choose_uses_as_few_nodes_as_any_subset_could(
    case: tuple[list[int], int, list[bool], list[int], bool, int | None],
) -> None:
    most, total, forced, leaf, one_leaf, count = case
    given_gpus = fill.choose(
        np.array(most),
        total,
        np.array(forced),
        np.array([leaf]),
        required=0 if one_leaf else None,
        spans_roots=True,
        least=count or 1,
        largest=count or total,
    )
    least = fewest(most, total, forced, leaf, one_leaf, count)
    assert len(given_gpus) == (least or 0)
    if given_gpus:
        assert sum(size for _, size in given_gpus) == total
        assert all(1 <= size <= most[i] for i, size in given_gpus)
        assert {i for i in range(len(most)) if forced[i]} <= {i for i, _ in given_gpus}
        assert not one_leaf or len({leaf[i] for i, _ in given_gpus}) == 1


def test_choose_prefers_the_closest_level_for_the_same_number_of_nodes() -> None:
    domains = np.array([[0, 1, 1], [0, 0, 0]])
    found = fill.choose(
        np.array([8, 4, 7]), 11, np.zeros(3, dtype=bool), domains, required=None, spans_roots=False, least=1, largest=9
    )
    assert found == ((1, 4), (2, 7))  # 8 + 4 would do as well, but crosses leaves


def test_choose_without_a_common_root_stays_in_one_tree() -> None:
    apart = np.array([[0, 1, 2]])
    most, free = np.array([4, 4, 4]), np.zeros(3, dtype=bool)
    assert fill.choose(most, 6, free, apart, required=None, spans_roots=False, least=1, largest=9) == ()
    assert len(fill.choose(most, 6, free, apart, required=None, spans_roots=True, least=1, largest=9)) == 2
    assert len(fill.choose(most, 6, free, NO_LEVELS, required=None, spans_roots=False, least=1, largest=9)) == 2
