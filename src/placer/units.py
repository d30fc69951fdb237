"""Quantities as people and Slurm write them: memory, durations, moments. Inside placer they are plain numbers.

Memory is MiB (int), durations are seconds (int), moments are seconds since 1970 UTC (int). Unknown is None.
"""

from __future__ import annotations

import datetime
import re

from placer import errors

_MEMORY = re.compile(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGTP]?)(?:i?B)?\s*\Z", re.IGNORECASE)
_MIB_PER = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,6}))?(?::(\d{1,6}))?\Z")
_UNLIMITED = frozenset({"UNLIMITED", "INFINITE", "NONE", "N/A", "(NULL)", "NOT_SET", "PARTITION_LIMIT", "-1", ""})
_UTC = datetime.UTC


def parse_memory(text: str, *, source: str = "memory", default_unit: str = "M") -> int:
    """`"100G"` -> 102400 MiB. A bare number counts in `default_unit` (Slurm: megabytes). Rounds up. Raises ParseError."""
    match = _MEMORY.match(text)
    if match is None:
        raise errors.ParseError("not an amount of memory like `100G` or `512M`", source=source, excerpt=text)
    value = float(match[1]) * _MIB_PER[(match[2] or default_unit).upper()]
    return int(value) if value == int(value) else int(value) + 1


def format_memory(mib: int) -> str:
    """102400 -> `"100G"`: the largest unit that stays a whole number."""
    for unit, size in (("T", 1024**2), ("G", 1024)):
        if mib and mib % size == 0:
            return f"{mib // size}{unit}"
    return f"{mib}M"


def parse_duration(text: str, *, source: str = "time") -> int | None:
    """Slurm's time formats in seconds: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M`, `D-H:M:S`; unlimited and unset are None."""
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
    """90061 -> `"1-01:01:01"`, the form that Slurm prints and reads."""
    days, rest = divmod(seconds, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock


def parse_moment(text: str, *, source: str = "moment") -> int | None:
    """`"2026-01-31T12:00:00Z"` -> seconds since 1970. Without a zone it is taken as UTC. Unset words are None."""
    text = text.strip()
    if text.upper() in _UNLIMITED or text.upper() == "UNKNOWN":
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise errors.ParseError("not a moment like `2026-01-31T12:00:00Z`", source=source, excerpt=text) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=_UTC)
    return int(moment.timestamp())


def format_moment(seconds: int) -> str:
    """Seconds since 1970 -> `"2026-01-31T12:00:00Z"`."""
    return datetime.datetime.fromtimestamp(seconds, _UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
