from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer import errors
from placer.placement import features

NODES = {"n1": {"a100", "ib"}, "n2": {"a100"}, "n3": {"v100", "ib"}, "n4": set()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a100", "n1 n2"),
        ("a100&ib", "n1"),
        ("a100|v100", "n1 n2 n3"),
        ("a100|v100&ib", "n1 n3"),  # equal weight, left to right, as the sbatch manual says
        ("a100|(v100&ib)", "n1 n2 n3"),
        ("(a100|v100) & ib", "n1 n3"),
        ("a100,ib", "n1"),
        ("h200", ""),
        ("", "n1 n2 n3 n4"),
    ],
)
def test_parse_selects_nodes(text: str, expected: str) -> None:
    (variant,) = features.parse(text)
    assert " ".join(name for name, has in NODES.items() if variant.every(frozenset(has))) == expected


def test_parse_bracket_with_bar_is_one_variant_for_each_feature() -> None:
    variants = features.parse("ib&[a100|v100]")
    chosen = [[name for name, has in NODES.items() if v.every(frozenset(has))] for v in variants]
    assert chosen == [["n1"], ["n3"]]


def test_parse_counts_become_least_numbers() -> None:
    (variant,) = features.parse("[a100*2&ib*1]")
    assert variant.at_least == (("a100", 2), ("ib", 1))
    assert all(variant.every(frozenset(has)) for has in NODES.values())


@pytest.mark.parametrize(
    ("text", "column"),
    [("a100&", 6), ("&a", 1), ("(a", 3), ("[a|b", 1), ("a*", 3), ("a b", 3), ("[a|b]&[c|d]", 7), ("a)", 2)],
)
def test_parse_broken_expression_names_the_column(text: str, column: int) -> None:
    with pytest.raises(errors.ParseError) as caught:
        features.parse(text)
    assert (caught.value.source, caught.value.column) == ("--constraint", column)


@given(st.text(alphabet="ab&|()[]*, 12\n\x1b", max_size=60))
def test_parse_is_total(text: str) -> None:
    try:
        variants = features.parse(text)
    except errors.ParseError:
        return
    assert all(variant.every(frozenset({"a", "b"})) in (True, False) for variant in variants)
