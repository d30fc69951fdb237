"""Slurm's generic-resource strings, in every spelling that its tools print.

    gpu:a100:8(S:0-1)            configured on a node; sockets
    gpu:a100:6(IDX:0-2,4-6)      in use; indices
    gpu(CNT:2)                   in use, no device files
    shard:8(-/5,5/5,3/5,0/5)     in use, shares of each device; `-` = the whole device is out
    gres/gpu:2  gres:gpu:2  gpu:2  gres/gpu=2  gres/gpu:a100=2      requests and TRES

In a TRES string the typed and the untyped entry are the same GPUs. MIG slices and shards are read but are no GPUs.
"""

from __future__ import annotations

import functools
import re

import msgspec

from placer import errors, ranges

MAX_COUNT = 4096
"""More devices of one kind on one node are a mistake; Slurm itself stops at a few hundred."""

_NOTHING = frozenset({"", "(null)", "N/A", "none", "(none)"})
_MIG = re.compile(r"(?<!\d)\d{1,2}g\.\d{1,3}gb", re.IGNORECASE)
_COUNT = re.compile(r"(\d{1,12})([KMGT]?)\Z", re.IGNORECASE)
_FACTOR = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


class Gres(msgspec.Struct, frozen=True):
    """One entry. `indices` is None when the text tells none; `shares` counts the used shares of each device."""

    name: str
    type: str | None
    count: int
    indices: tuple[int, ...] | None = None
    shares: tuple[int, ...] | None = None

    @property
    def is_mig(self) -> bool:
        """A slice of a GPU, named like `1g.5gb` or `a100_3g.20gb`."""
        return self.name == "gpu" and self.type is not None and _MIG.search(self.type) is not None

    @property
    def is_gpu(self) -> bool:
        """Whole GPUs: not MIG slices, shards or MPS shares."""
        return self.name == "gpu" and not self.is_mig


class Ask(msgspec.Struct, frozen=True):
    """GPUs that a request or TRES string names. `types` in the order written; `others` are entries that are no GPUs."""

    count: int | None = None
    types: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def parse(text: str, *, source: str = "gres") -> tuple[Gres, ...]:
    """The entries of a gres string. `(null)` and `N/A` are none. Raises ParseError."""
    try:
        return _entries(text)
    except errors.ParseError as error:
        raise _at(error, source) from None


def ask(text: str, *, source: str = "tres") -> Ask:
    """What a request or TRES string (`cpu=2,gres/gpu=1`) says about GPUs. Raises ParseError."""
    try:
        return _ask(text)
    except errors.ParseError as error:
        raise _at(error, source) from None


# A cluster has few distinct texts and prints each thousands of times.
@functools.lru_cache(maxsize=8192)
def _entries(text: str) -> tuple[Gres, ...]:
    if text.strip() in _NOTHING:
        return ()
    return tuple(_entry(part, column) for column, part in _split(text) if part.strip())


@functools.lru_cache(maxsize=8192)
def _ask(text: str) -> Ask:
    if text.strip() in _NOTHING:
        return Ask()
    entries = [_entry(part, column) for column, part in _split(text) if _is_gres(part.strip().partition("(")[0])]
    gpus = [entry for entry in entries if entry.is_gpu]
    others = tuple(dict.fromkeys(_label(entry) for entry in entries if not entry.is_gpu))
    if not gpus:
        return Ask(None, (), others)
    typed = [entry for entry in gpus if entry.type is not None]
    untyped = [entry.count for entry in gpus if entry.type is None]
    # The same GPUs twice: once by type, once in all.
    count = max(sum(entry.count for entry in typed), *untyped, 0)
    return Ask(count, tuple(dict.fromkeys(entry.type or "" for entry in typed)), others)


def layout(entries: tuple[Gres, ...]) -> tuple[str | None, ...] | None:
    """The type of each index of a node's `gpu` gres, in gres order, MIG slices included. None: more than MAX_COUNT."""
    gpus = [entry for entry in entries if entry.name == "gpu"]
    if sum(entry.count for entry in gpus) > MAX_COUNT:
        return None
    return tuple(entry.type for entry in gpus for _ in range(entry.count))


def used(entries: tuple[Gres, ...]) -> tuple[tuple[int, ...], int]:
    """Indices of GPUs in use, and how many are in use with or without a known index.

    A GPU of which shards are in use cannot be given as a whole, so it counts as used.
    """
    indices: set[int] = set()
    blind = 0
    for entry in entries:
        if entry.is_gpu:
            if entry.indices is None:
                blind += entry.count
            else:
                indices.update(entry.indices)
        elif entry.shares is not None:
            indices.update(index for index, share in enumerate(entry.shares) if share > 0)
    return tuple(sorted(indices)), len(indices) + blind


def _at(error: errors.ParseError, source: str) -> errors.ParseError:
    """The same complaint about a text with a name."""
    return errors.ParseError("not a gres like `gpu:a100:4`", source=source, column=error.column, excerpt=error.excerpt)


def _label(entry: Gres) -> str:
    return entry.name if entry.type is None else f"{entry.name}:{entry.type}"


def _is_gres(part: str) -> bool:
    """TRES strings also hold `cpu=2`, `mem=4G`, `node=1`, `billing=2`, `license/x=1`, `fs/disk=0`."""
    if part.startswith(("gres/", "gres:")):
        return True
    name = re.split(r"[:=]", part, maxsplit=1)[0]
    return name in {"gpu", "shard", "mps"}


def _split(text: str) -> list[tuple[int, str]]:
    """Column and text of each part between commas that stand outside brackets."""
    parts: list[tuple[int, str]] = []
    depth = start = 0
    for at, char in enumerate(text):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append((start + 1, text[start:at]))
            start = at + 1
    parts.append((start + 1, text[start:]))
    return parts


def _entry(part: str, column: int) -> Gres:
    body, bracket, tail = part.strip().partition("(")
    if body.startswith(("gres/", "gres:")):
        body = body[5:]
    if bracket and not tail.endswith(")"):
        raise errors.ParseError("`(` is not closed", source="gres", column=column, excerpt=part)
    name, kind, count = _body(body, column)
    indices, shares, counted = _bracket(tail[:-1], column) if bracket else (None, None, None)
    return Gres(name, kind, count if counted is None else counted, indices, shares)


def _body(body: str, column: int) -> tuple[str, str | None, int]:
    left, equals, right = body.rpartition("=")
    pieces = (left if equals else body).split(":")
    number = right if equals else (pieces.pop() if len(pieces) > 1 and _COUNT.match(pieces[-1]) else "1")
    match = _COUNT.match(number)
    name, *rest = [piece for piece in pieces if piece != "no_consume"] or [""]
    if match is None or not name or len(rest) > 1:
        raise errors.ParseError("not a gres like `gpu:a100:4`", source="gres", column=column, excerpt=body)
    return name, rest[0] if rest and rest[0] else None, int(match[1]) * _FACTOR[match[2].upper()]


def _bracket(text: str, column: int) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, int | None]:
    key, colon, value = text.partition(":")
    if colon and key == "IDX":
        return (() if value == "N/A" else ranges.parse(value)), None, None
    if colon and key == "CNT":
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise errors.ParseError("not a count", source="gres", column=column, excerpt=text)
        return None, None, int(value)
    if "/" in text and not colon:
        return None, tuple(_share(piece) for piece in text.split(",")[:MAX_COUNT]), None
    return None, None, None  # S:0-1 and what later releases add


def _share(piece: str) -> int:
    share = piece.partition("/")[0].strip()
    return int(share) if share.isascii() and share.isdigit() and len(share) < 10 else 0
