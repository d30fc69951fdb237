"""Number lists, values by hand; the forms are those of `lscpu`, `taskset -c` and Slurm's IDX."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors, ranges


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ()),
        (" \n", ()),
        ("0", (0,)),
        ("0-2,7", (0, 1, 2, 7)),
        ("7,0-2", (0, 1, 2, 7)),
        ("0-3,2-5,4", (0, 1, 2, 3, 4, 5)),
        ("0-9,3", (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)),
        (" 1 , 3-4\n", (1, 3, 4)),
        ("007", (7,)),
        ("1048576", (1 << 20,)),
    ],
)
def test_parse_gives_ascending_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert ranges.parse(text) == numbers


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("x", 1),
        ("0,  x", 5),
        ("0-", 1),
        ("-3", 1),
        ("1,5-3", 3),
        ("0-1048577", 1),
        ("99999999999", 1),
        ("٣", 1),
        ("²", 1),
        ("0-31:2/4", 1),
        ("1-2-3", 1),
        ("0x3", 1),
        ("1 2", 1),
        ("N/A", 1),
    ],
)
def test_parse_nonsense_tells_the_column(text: str, column: int) -> None:
    with pytest.raises(errors.ParseError) as caught:
        ranges.parse(text, source="cpus")
    assert (caught.value.source, caught.value.column) == ("cpus", column)


def test_parse_repeated_large_spans_takes_the_time_of_one() -> None:
    # A million times a million numbers, were each span walked.
    assert len(ranges.parse(",".join(["0-1048576"] * 100_000))) == (1 << 20) + 1


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 7], "0-2,7"),
        ([7, 0, 2, 1, 1], "0-2,7"),
        ([*range(24), *range(48, 72)], "0-23,48-71"),
    ],
)
def test_format_is_the_shortest_list(numbers: list[int], text: str) -> None:
    assert ranges.format(numbers) == text


@pytest.mark.parametrize(("mask", "numbers"), [(0, ()), (1, (0,)), (0b1011, (0, 1, 3)), (1 << 200, (200,))])
def test_mask_bits_are_numbers(mask: int, numbers: tuple[int, ...]) -> None:
    assert ranges.from_mask(mask) == numbers
    assert ranges.to_mask(numbers) == mask


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 300)))
def test_numbers_come_back_from_text_and_mask(numbers: set[int]) -> None:
    expected = tuple(sorted(numbers))
    assert ranges.parse(ranges.format(numbers)) == expected
    assert ranges.from_mask(ranges.to_mask(numbers)) == expected
    assert ranges.to_mask(numbers).bit_count() == len(numbers)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.text("0123456789-, ", max_size=20)))
def test_any_text_gives_numbers_or_a_parse_error(text: str) -> None:
    numbers: tuple[int, ...] = ()
    try:
        numbers = ranges.parse(text)
    except errors.ParseError:
        return
    assert list(numbers) == sorted(set(numbers))
