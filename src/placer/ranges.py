"""Sets of small numbers in list syntax: `0-23,48-71` for CPUs, GPU indices and NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable

from placer import errors

# A machine has thousands of CPUs at most; a larger number is a mistake and would only eat memory.
MAX_NUMBER = 1 << 20


def parse(text: str, *, source: str = "list") -> tuple[int, ...]:
    """`"0-2,7"` -> `(0, 1, 2, 7)`, ascending and without repeats; `""` is the empty set.

    A stride as the Linux kernel prints it (`0-31:2/4`) is not understood here, nor does any tool we read print one.
    Raises ParseError.
    """
    spans: list[range] = []
    column = 1
    for part in text.split(","):
        if part.strip():
            spans.append(_span(part, column, source))
        column += len(part) + 1
    spans.sort(key=lambda span: span.start)
    found: list[int] = []
    for span in spans:  # ascending, so time is bounded by the largest number however often a span repeats
        found.extend(range(max(span.start, found[-1] + 1), span.stop) if found else span)
    return tuple(found)


def _span(part: str, column: int, source: str) -> range:
    column += len(part) - len(part.lstrip())
    part = part.strip()
    low, dash, high = part.partition("-")
    if not (_is_number(low) and (not dash or _is_number(high))):
        raise errors.ParseError("not a list of numbers like `0-3,8`", source=source, column=column, excerpt=part)
    first, last = int(low), int(high) if dash else int(low)
    if last < first or last > MAX_NUMBER:
        raise errors.ParseError(
            f"range must ascend and stay below {MAX_NUMBER}", source=source, column=column, excerpt=part
        )
    return range(first, last + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def format(numbers: Iterable[int]) -> str:  # noqa: A001 - reads `ranges.format(…)`
    """`(0, 1, 2, 7)` -> `"0-2,7"`; the inverse of `parse`. Numbers are not negative."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def from_mask(mask: int) -> tuple[int, ...]:
    """Bits that are set in `mask` (>= 0), ascending."""
    return tuple(i for i, bit in enumerate(f"{mask:b}"[::-1]) if bit == "1")


def to_mask(numbers: Iterable[int]) -> int:
    """The bit mask of a set of numbers; the inverse of `from_mask`."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
