"""Node lists against ClusterShell, and against themselves."""

from __future__ import annotations

import warnings

from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors, hostlist

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ClusterShell.NodeSet import NodeSet

words = st.text("abz-", min_size=1, max_size=2)
numbers = st.integers(0, 120).flatmap(lambda n: st.integers(0, 4).map(lambda width: str(n).zfill(width)))
names = st.lists(st.one_of(words, numbers), min_size=1, max_size=4).map("".join)


@st.composite
def written_ranges(draw: st.DrawFn) -> str:
    """One entry in list syntax, of one or two brackets, without mixed padding in a bracket's ends."""
    text = ""
    for _ in range(draw(st.integers(1, 2))):
        spans = []
        for _ in range(draw(st.integers(1, 3))):
            first = draw(st.integers(0, 30))
            last = first + draw(st.integers(0, 12))
            width = draw(st.integers(0, 3))
            low, high = str(first).zfill(width), str(last).zfill(width)
            # ClusterShell wants both ends equally wide where the first is padded
            spans.append(low if first == last else f"{low}-{high if low[0] == '0' else last}")
        text += f"{draw(st.sampled_from('ab'))}[{','.join(spans)}]"
    return text


@settings(max_examples=200, deadline=None)
@given(st.lists(written_ranges(), min_size=1, max_size=3).map(",".join))
def test_expand_equals_clustershell(text: str) -> None:
    assert set(hostlist.expand(text)) == set(NodeSet(text))


@settings(max_examples=200, deadline=None)
@given(st.lists(names, max_size=30))
def test_fold_expands_to_the_same_names(nodes: list[str]) -> None:
    folded = hostlist.fold(nodes)
    assert sorted(hostlist.expand(folded)) == sorted(set(nodes))
    assert folded == hostlist.fold(reversed(nodes))


@settings(max_examples=100, deadline=None)
@given(st.lists(names, min_size=1, max_size=30))
def test_fold_is_read_by_clustershell(nodes: list[str]) -> None:
    assert set(NodeSet(hostlist.fold(nodes))) == set(nodes)


@settings(max_examples=100, deadline=None)
@given(st.sets(st.integers(0, 400), min_size=1), st.sampled_from([1, 3]))
def test_fold_one_prefix_equals_clustershell_text(numbers: set[int], width: int) -> None:
    nodes = [f"gpu{n:0{width}}" for n in numbers]
    assert hostlist.fold(nodes) == str(NodeSet.fromlist(nodes))


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_expand_any_text_gives_names_or_parse_error(text: str) -> None:
    try:
        expanded = hostlist.expand(text, limit=1000)
    except errors.ParseError:
        return
    assert len(expanded) == len(set(expanded)) <= 1000


@settings(max_examples=200, deadline=None)
@given(st.text("a1-9[],0 {", max_size=30))
def test_expand_near_miss_gives_names_or_parse_error(text: str) -> None:
    column = 1
    expanded: tuple[str, ...] = ()
    try:
        expanded = hostlist.expand(text, limit=1000)
    except errors.ParseError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1
    assert all(name and not set(name) & set("[],{} ") for name in expanded)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("a0123", max_size=6), min_size=3, max_size=3))
def test_natural_key_numbers_in_equal_frames_order_as_integers(parts: list[str]) -> None:
    frame = "n%sx"
    values = [int("".join(c for c in part if c.isdigit()) or "0") for part in parts]
    nodes = [frame % value for value in values]
    assert [int(node[1:-1]) for node in hostlist.sort(nodes)] == sorted(values)
