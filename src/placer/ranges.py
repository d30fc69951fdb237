"""Sets of small numbers in list syntax: `0-23,48-71` for CPUs, GPU indices and NUMA nodes."""

from __future__ import annotations

from placer import errors

# A machine has thousands of CPUs at most; a larger number is a mistake and would only eat memory.
MAX_NUMBER = 1 << 20


def parse(text: str, *, source: str = "list") -> tuple[int, ...]:
    """`"0-2,7"` -> `(0, 1, 2, 7)`, ascending and without repeats; `""` is the empty set.

    A stride as the Linux kernel prints it (`0-31:2/4`) is not understood here, nor does any tool we read print one.
    Raises ParseError.
    """
    found: set[int] = set()
    column = 1
    for part in text.split(","):
        if part.strip():
            found.update(_span(part, column, source))
        column += len(part) + 1
    return tuple(sorted(found))


def _span(part: str, column: int, source: str) -> range:
    low, dash, high = part.strip().partition("-")
    if not (_is_number(low) and (not dash or _is_number(high))):
        raise errors.ParseError("not a list of numbers like `0-3,8`", source=source, column=column, excerpt=part)
    first, last = int(low), int(high) if dash else int(low)
    if last < first or last > MAX_NUMBER:
        raise errors.ParseError(f"range must ascend and stay below {MAX_NUMBER}", source=source, column=column, excerpt=part)
    return range(first, last + 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9


def format(numbers: tuple[int, ...] | list[int] | set[int] | frozenset[int]) -> str:  # noqa: A001 - reads `ranges.format(…)`
    """`(0, 1, 2, 7)` -> `"0-2,7"`; the inverse of `parse`."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def from_mask(mask: int) -> tuple[int, ...]:
    """Bits that are set in `mask`, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def to_mask(numbers: tuple[int, ...] | list[int] | set[int] | frozenset[int]) -> int:
    """The bit mask of a set of numbers; the inverse of `from_mask`."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask
