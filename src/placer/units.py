"""Quantities as people and Slurm write them: memory, durations, moments. Inside placer they are plain numbers.

Memory is MiB (int), durations are seconds (int), moments are seconds since 1970 UTC (int). Unknown is None.
"""

from __future__ import annotations

import datetime
import re

from placer import errors

_MEMORY = re.compile(r"\s*(\d{1,15})(?:\.(\d{1,6}))?\s*(?:([KMGTP])(?:iB?|B)?|(B))?\s*\Z", re.IGNORECASE | re.ASCII)
_BYTES_PER = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_MIB = 1 << 20
MAX_MEMORY_MIB = 1 << 44
"""16 EiB, what 64 bits of bytes address; more than that is a mistake and would not fit the searches' arrays."""
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,6}))?(?::(\d{1,6}))?\Z", re.ASCII)
_UNLIMITED = frozenset(
    {"UNLIMITED", "INFINITE", "NONE", "N/A", "(NULL)", "NOT_SET", "INVALID", "PARTITION_LIMIT", "-1", ""}
)
_UTC = datetime.UTC
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=_UTC)
_RAW_MOMENT = re.compile(r"@(-?\d{1,19})\Z", re.ASCII)


def parse_memory(text: str, *, source: str = "memory", default_unit: str = "M") -> int:
    """`"100G"` -> 102400 MiB. A bare number counts in `default_unit` (Slurm: megabytes). Rounds up. Raises ParseError.

    All units are powers of 1024, as Slurm reads them; `G`, `GB`, `Gi` and `GiB` are the same, `B` is bytes.
    """
    match = _MEMORY.match(text)
    if match is None:
        raise errors.ParseError("not an amount of memory like `100G` or `512M`", source=source, excerpt=text)
    decimals = match[2] or ""
    unit = (match[3] or match[4] or default_unit).upper()
    mib: int = -(-int(match[1] + decimals) * _BYTES_PER[unit] // (_MIB * 10 ** len(decimals)))
    if mib > MAX_MEMORY_MIB:
        raise errors.ParseError("more memory than 64 bits address", source=source, excerpt=text)
    return mib


def format_memory(mib: int) -> str:
    """102400 -> `"100G"`: the largest unit that stays a whole number."""
    for unit, size in (("T", 1024**2), ("G", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def parse_duration(text: str, *, source: str = "time") -> int | None:
    """Slurm's time formats in seconds: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`; unlimited and unset are None.

    `0` is 0: that Slurm takes a *limit* of zero as no limit is for the reader of limits to say. Raises ParseError.
    """
    text = text.strip()
    if text.upper() in _UNLIMITED:
        return None
    match = _DURATION.match(text)
    if match is None:
        raise errors.ParseError("not a time like `30`, `2:00:00` or `1-12`", source=source, excerpt=text)
    days, *rest = match.groups()
    numbers = [int(n) for n in rest if n is not None]
    if days is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)


def format_duration(seconds: int) -> str:
    """90061 -> `"1-01:01:01"`, the form that Slurm prints and reads; a negative amount gets a sign in front."""
    if seconds < 0:
        return "-" + format_duration(-seconds)
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def parse_moment(text: str, *, source: str = "moment") -> int | None:
    """`"2026-01-31T12:00:00Z"` -> seconds since 1970. Without a zone it is taken as UTC. Unset words are None.

    `@1769860800` are the seconds themselves. Raises ParseError.
    """
    text = text.strip()
    if text.upper() in _UNLIMITED or text.upper() == "UNKNOWN":
        return None
    raw = _RAW_MOMENT.match(text)
    if raw is not None:
        return int(raw[1])
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise errors.ParseError("not a moment like `2026-01-31T12:00:00Z`", source=source, excerpt=text) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_UTC)
    return (moment - _EPOCH) // datetime.timedelta(seconds=1)


def format_moment(seconds: int) -> str:
    """Seconds since 1970 -> `"2026-01-31T12:00:00Z"`; outside the years 1 to 9999 `@SECONDS`."""
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        return f"@{seconds}"
    return moment.replace(tzinfo=None).isoformat() + "Z"
