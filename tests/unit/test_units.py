"""Quantities. Values by hand; the time forms are those of the sbatch manual (`--time`), memory that of `--mem`."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors, units


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("0", 0),
        ("512", 512),
        ("512M", 512),
        ("100G", 102_400),
        ("1000G", 1_024_000),
        ("2T", 2_097_152),
        ("1P", 1_073_741_824),
        ("1K", 1),
        ("1024K", 1),
        ("1025K", 2),
        ("1.5G", 1536),
        ("0.1G", 103),
        ("100g", 102_400),
        ("100GB", 102_400),
        ("100GiB", 102_400),
        ("100Gi", 102_400),
        (" 3 G ", 3072),
        ("512B", 1),
        ("2097153B", 3),
        ("16777216T", 1 << 44),
    ],
)
def test_parse_memory_in_mib(text: str, mib: int) -> None:
    assert units.parse_memory(text) == mib


def test_parse_memory_bare_number_counts_in_the_given_unit() -> None:
    assert units.parse_memory("2048", default_unit="K") == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "G",
        "-1G",
        "1e3",
        "1,5G",
        "0x10",
        "nan",
        "inf",
        "1X",
        "1GG",
        "1\u212a",
        "٣G",
        "1\u0131B",
        "17000000T",
        "9" * 16,
        "1\n2",
    ],
)
def test_parse_memory_nonsense_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        units.parse_memory(text, source="--mem")


@pytest.mark.parametrize(
    ("mib", "text"),
    [(0, "0M"), (1, "1M"), (1024, "1G"), (1025, "1025M"), (102_400, "100G"), (1 << 20, "1T"), (1 << 44, "16777216T")],
)
def test_format_memory_is_the_largest_whole_unit(mib: int, text: str) -> None:
    assert units.format_memory(mib) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 1800),  # minutes
        ("30:15", 1815),  # minutes:seconds
        ("2:00:00", 7200),  # hours:minutes:seconds
        ("1-12", 129_600),  # days-hours
        ("1-12:30", 131_400),  # days-hours:minutes
        ("1-01:01:01", 90_061),  # days-hours:minutes:seconds
        ("0", 0),
        ("00:00:00", 0),
        ("365-00:00:00", 31_536_000),
        (" 10 ", 600),
    ],
)
def test_parse_duration_forms_of_the_sbatch_manual(text: str, seconds: int) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["UNLIMITED", "infinite", "Partition_Limit", "NOT_SET", "INVALID", "N/A", "(null)", "", "-1"]
)
def test_parse_duration_unset_is_none(text: str) -> None:
    assert units.parse_duration(text) is None


@pytest.mark.parametrize(
    "text", ["-", "1-", "-2", "1:2:3:4", "1.5", "1h", "٣", "1--2", ":30", "30:", "9" * 10, "1-2-3"]
)
def test_parse_duration_nonsense_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "00:00:00"),
        (59, "00:00:59"),
        (86_399, "23:59:59"),
        (86_400, "1-00:00:00"),
        (90_061, "1-01:01:01"),
        (-5, "-00:00:05"),
    ],
)
def test_format_duration_as_slurm_prints(seconds: int, text: str) -> None:
    assert units.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-31T12:00:00Z", 1_769_860_800),  # date -u -d 2026-01-31T12:00:00Z +%s
        ("2026-01-31T12:00:00", 1_769_860_800),
        ("2026-01-31T13:00:00+01:00", 1_769_860_800),
        ("2026-01-31T12:00:00.900Z", 1_769_860_800),
        ("1969-12-31T23:59:59.500Z", -1),
        ("@1769860800", 1_769_860_800),
        ("@-5", -5),
    ],
)
def test_parse_moment_counts_from_1970(text: str, seconds: int) -> None:
    assert units.parse_moment(text) == seconds


@pytest.mark.parametrize("text", ["Unknown", "N/A", "None", "", "(null)"])
def test_parse_moment_unset_is_none(text: str) -> None:
    assert units.parse_moment(text) is None


@pytest.mark.parametrize(
    "text", ["yesterday", "2026-13-01", "2026-01-31T25:00:00", "\ud800", "@", "@1.5", "@" + "9" * 20]
)
def test_parse_moment_nonsense_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        units.parse_moment(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_769_860_800, "2026-01-31T12:00:00Z"),
        (-62_000_000_000, "0005-04-19T09:46:40Z"),
        (10**18, "@1000000000000000000"),
        (-(10**12), "@-1000000000000"),
    ],
)
def test_format_moment_is_utc_whatever_the_year(seconds: int, text: str) -> None:
    assert units.format_moment(seconds) == text


@settings(max_examples=200, deadline=None)
@given(
    st.datetimes(timezones=st.sampled_from([datetime.timezone(datetime.timedelta(hours=h)) for h in (-12, 0, 5, 14)]))
)
def test_moment_of_any_datetime_comes_back(moment: datetime.datetime) -> None:
    seconds = units.parse_moment(moment.isoformat())
    assert seconds is not None
    assert units.parse_moment(units.format_moment(seconds)) == seconds
    assert 0 <= moment.timestamp() - seconds < 1.001


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**9))
def test_duration_and_memory_come_back(number: int) -> None:
    assert units.parse_duration(units.format_duration(number)) == number
    assert units.parse_memory(units.format_memory(number)) == number


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.text("0123456789-:.KMGTPiB@TZ +", max_size=25)))
def test_any_text_gives_a_number_or_a_parse_error(text: str) -> None:
    for parse in (units.parse_memory, units.parse_duration, units.parse_moment):
        try:
            value = parse(text)
        except errors.ParseError:
            continue
        assert value is None or -(2**64) < value < 2**64
