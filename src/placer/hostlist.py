"""Node-list syntax as Slurm reads and prints it: `gpu[01-04,7],login1`, `rack[1-2]n[01-16]`.

Facts checked with `scontrol show hostnames` of 22.05: entries stand between commas or blanks; the width of the first
number of a range is the width of all (`[08-10]`, `[1-010]` is 1 to 10); two brackets multiply, the last one fastest
(with three Slurm mixes the order, here the last stays the fastest); there are no steps (`0-10:2`, `0-10/2`) and no
nested brackets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator

from placer import errors

_SEPARATORS = re.compile(r"[\s,]*+")
_ENTRY = re.compile(r"(?:[^\s,\[\]{}]++|\[[^\[\]]*+\])++")
_RANGE = re.compile(r"\s*([0-9]{1,18})(?:-([0-9]{1,18}))?\s*\Z")
_DIGITS = "0123456789"
_NUMBER = re.compile(r"[0-9]+")
_LONGEST_NUMBER = 18  # digits; a longer tail is part of the name and is not counted with
_LAST_NUMBER = re.compile(r"([0-9]+)([^0-9]+)\Z")
_TAIL_SCAN = 256  # characters from the end in which a number before the last is looked for


def expand(text: str, *, source: str = "node list", limit: int = 100_000) -> tuple[str, ...]:
    """`"gpu[01-02],login"` -> `("gpu01", "gpu02", "login")`, in the order written, each name once.

    `""` and Slurm's `(null)` are the empty list. Text after a bracket (`n[1-2].lan`) is understood too. Raises
    ParseError, also when more than `limit` names would come out: that is found before any of them is made.
    """
    if text.strip() == "(null)":
        return ()
    _refuse_unprintable(text, source)
    if not any(c in text for c in "[]{}"):
        names = text.replace(",", " ").split()
        if len(names) > limit:
            raise _error(text, 0, source, f"more than {limit} nodes")
        return tuple(dict.fromkeys(names))
    found: dict[str, None] = {}
    written = 0
    for start, entry in _entries(text, source):
        if "[" not in entry:
            written += 1
            found[entry] = None
            continue
        parts = _parts(text, start, entry, source)
        written += _count(parts, limit)
        if written > limit:
            raise _error(text, start, source, f"more than {limit} nodes")
        for chosen in itertools.product(*(_spell(part) for part in parts)):
            found["".join(chosen)] = None
    if written > limit:
        raise _error(text, 0, source, f"more than {limit} nodes")
    return tuple(found)


def fold(names: Iterable[str]) -> str:
    """The shortest usual form that Slurm reads back: `("gpu2", "gpu1")` -> `"gpu[1-2]"`.

    In natural order, each name once. Only numbers at the end of a name go into brackets, and numbers before them where
    what follows is equal (`rack[1-2]n[01-16]`), since Slurm 22.05 takes no text after the last bracket. Numbers of
    unlike padding stay apart (`a[1-2,01-02]`). Names must be free of commas, brackets and blanks.
    """
    return ",".join(_fold(set(names)))


def natural_key(name: str) -> tuple[str, str]:
    """A key under which `gpu2` stands before `gpu10`: digits compare as numbers, everything else by code point.

    Total and deterministic for any text: names that differ only in padding fall back on plain text order
    (`a01` before `a1`).
    """
    return _NUMBER.sub(_by_magnitude, name), name


def sort(names: Iterable[str]) -> tuple[str, ...]:
    """Names in natural order; repeats are kept."""
    return tuple(sorted(names, key=natural_key))


# --- expanding


def _refuse_unprintable(text: str, source: str) -> None:
    if not text.isprintable():
        for at, char in enumerate(text):
            if not (char.isprintable() or char.isspace()):
                raise _error(text, at, source, "a character that cannot be printed")


def _entries(text: str, source: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each entry between separators."""
    at = _end_of_separators(text, 0)
    while at < len(text):
        match = _ENTRY.match(text, at)
        end = match.end() if match else at
        if end < len(text) and text[end] in "[]{}":
            raise _error(text, end, source, _complaint(text[end]))
        yield at, text[at:end]
        at = _end_of_separators(text, end)


def _end_of_separators(text: str, at: int) -> int:
    match = _SEPARATORS.match(text, at)
    return match.end() if match else at


def _complaint(char: str) -> str:
    if char in "{}":
        return "host-list functions like `switch{…}` need Slurm itself"
    return "`]` without `[`" if char == "]" else "`[` is not closed, or nested"


_Spans = list[tuple[int, int, int]]  # first number, last number, width


def _parts(text: str, start: int, entry: str, source: str) -> list[str | _Spans]:
    """An entry as plain pieces and bracketed spans, in order."""
    parts: list[str | _Spans] = []
    at = 0
    while at < len(entry):
        opening = entry.find("[", at)
        if opening < 0:
            parts.append(entry[at:])
            break
        if opening > at:
            parts.append(entry[at:opening])
        closing = entry.index("]", opening)
        parts.append(_spans(text, start + opening + 1, entry[opening + 1 : closing], source))
        at = closing + 1
    return parts


def _spans(text: str, start: int, inner: str, source: str) -> _Spans:
    spans: _Spans = []
    at = start
    for piece in inner.split(","):
        match = _RANGE.match(piece)
        if match is None:
            raise _error(text, at, source, "not a number or range like `01-16`", piece)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise _error(text, at, source, "range must ascend", piece)
        spans.append((first, last, len(match[1])))
        at += len(piece) + 1
    return spans


def _count(parts: list[str | _Spans], limit: int) -> int:
    """How many names come of an entry; stops counting above `limit`."""
    count = 1
    for part in parts:
        if not isinstance(part, str):
            count *= sum(last - first + 1 for first, last, _ in part)
            if count > limit:
                break
    return count


def _spell(part: str | _Spans) -> Iterable[str]:
    if isinstance(part, str):
        return (part,)
    return (str(number).zfill(width) for first, last, width in part for number in range(first, last + 1))


def _error(text: str, at: int, source: str, message: str, excerpt: str | None = None) -> errors.ParseError:
    line_start = text.rfind("\n", 0, at) + 1
    return errors.ParseError(
        message,
        source=source,
        line=text.count("\n", 0, at) + 1,
        column=at - line_start + 1,
        excerpt=text[at : at + 40] if excerpt is None else excerpt,
    )


# --- folding


def _by_magnitude(match: re.Match[str]) -> str:
    """Digits so that text order is the order of numbers: how many digits, then the digits."""
    digits = match[0].lstrip("0")
    return f"{len(digits):09}{digits}"


def _fold(names: set[str]) -> list[str]:
    by_prefix: dict[str, list[str]] = {}
    for name in names:
        prefix = name.rstrip(_DIGITS)
        if len(name) - len(prefix) > _LONGEST_NUMBER:
            prefix = name
        by_prefix.setdefault(prefix, []).append(name[len(prefix) :])
    folded = []
    for prefix, numbers in by_prefix.items():
        bare = [""] if "" in numbers else []
        numbers = [number for number in numbers if number]
        folded += [(natural_key(prefix), prefix, "") for _ in bare]
        if numbers:
            least, bracket = _bracket(numbers)
            folded.append((natural_key(prefix + least), prefix, bracket))
    folded.sort()
    return _multiply([(prefix, bracket) for _, prefix, bracket in folded])


def _multiply(folded: list[tuple[str, str]]) -> list[str]:
    """Joins neighbours like `r1n[1-2]`, `r2n[1-2]`, which differ in one number before an equal bracket."""
    out: list[str] = []
    for tail, group in itertools.groupby(folded, key=_head_and_tail):
        entries = list(group)
        if tail[1].startswith("[") or len(entries) == 1 or not tail[1]:
            out += [prefix + bracket for prefix, bracket in entries]
        else:
            heads = {(prefix + bracket)[: -len(tail[1])] for prefix, bracket in entries}
            out += [head + tail[1] for head in _fold(heads)]
    return out


def _head_and_tail(entry: tuple[str, str]) -> tuple[str, str]:
    """What entries must share to be joined: the text before the last number of the prefix, and all after it."""
    prefix, bracket = entry
    match = _LAST_NUMBER.search(prefix, max(0, len(prefix) - _TAIL_SCAN)) if bracket.startswith("[") else None
    if match is None:
        return prefix + bracket, ""
    return "", match[2] + bracket


def _bracket(numbers: list[str]) -> tuple[str, str]:
    """The least of `numbers` and all of them as `[1-3,7]`, or as plain digits where there is one."""
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    spans = _runs(numbers)
    texts = [_span_text(first, last, width) for first, last, width in spans]
    first, _, width = spans[0]
    return str(first).zfill(width), f"[{','.join(texts)}]"


def _span_text(first: int, last: int, width: int) -> str:
    low = str(first).zfill(width)
    return low if first == last else f"{low}-{str(last).zfill(width)}"


def _runs(numbers: list[str]) -> _Spans:
    """Runs of consecutive numbers, ascending; numbers without a leading zero may continue a padded run (08, 09, 10)."""
    if all(number[0] != "0" for number in numbers):
        return _plain_runs(sorted(map(int, numbers)), 1)
    width = len(numbers[0])
    if all(len(number) == width for number in numbers):
        return _plain_runs(sorted(map(int, numbers)), width)
    runs: _Spans = []
    open_runs: dict[int, int] = {}  # width -> position in `runs` of its last run; width 1 = not padded
    for number, length, text in sorted((int(text), len(text), text) for text in numbers):
        widths = [length] if text[0] == "0" else [w for w in sorted(open_runs) if w <= length]
        width = next((w for w in widths if w in open_runs and runs[open_runs[w]][1] == number - 1), 0)
        if width:
            at = open_runs[width]
            runs[at] = (runs[at][0], number, width)
        else:
            width = length if text[0] == "0" else 1
            open_runs[width] = len(runs)
            runs.append((number, number, width))
    return runs


def _plain_runs(numbers: list[int], width: int) -> _Spans:
    runs: _Spans = []
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            runs.append((first, last, width))
            first = number
        last = number
    runs.append((first, last, width))
    return runs
