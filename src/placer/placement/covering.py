"""The covering knapsack on a tree: take K of many items at least cost, where every group that is touched costs too.

Items j with cost c_j >= 0 lie in groups of level 0, those in groups of level 1, and so on; touching a group of level l
costs w_l once. Items that are forced are always taken. All K items lie in one group of the topmost level H.

    f_g(k) = w_0 [k > 0] + Σ of the k least costs in g               g a group of level 0; its forced items come first
    f_g(k) = w_l [k > 0] + min { Σ_c f_c(k_c) : Σ_c k_c = k }        c the groups of level l-1 inside g
    answer = min over the groups g of level H of f_g(K)

The inner minimum is a min-plus convolution. Neighbours are merged two by two, and all pairs of a level whose tables
have about the same width at once, so that numpy does the work whether a group has three parts or five thousand. The
choice is read back from the tables of all rounds; where two splits cost the same, the earlier group takes more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# More than any cost, with room to add three of them in int64.
_NEVER = 1 << 60
# Measured: up to this width a loop over one table's columns is faster, above it windows in blocks of 256 KiB are.
_NARROW = 40
_BLOCK = 1 << 15


class LateError(Exception):
    """The caller said stop between two pieces of work. Internal to the searches: they answer with what they have."""


class _Tables(msgspec.Struct, frozen=True, eq=False):
    """f_g(k) of many groups end to end: group j's values for k = 0..width[j]-1 begin at start[j]."""

    flat: Ints
    start: Ints
    width: Ints

    def rows(self, which: Ints, never: int) -> Ints:
        """Tables as the rows of a matrix; short ones are filled up with `never`."""
        columns = np.arange(int(self.width[which].max()))
        index = self.start[which][:, None] + columns
        values: Ints = self.flat[np.minimum(index, len(self.flat) - 1)]
        values[columns >= self.width[which][:, None]] = never
        return values


class _Round(msgspec.Struct, frozen=True, eq=False):
    """A round of merging: the next round's table j is that of left[j], with that of left[j] + 1 where joined[j]."""

    tables: _Tables
    left: Ints
    joined: Mask


def cheapest(
    groups: Sequence[Ints],
    cost: Ints,
    forced: Mask,
    weights: Sequence[int],
    count: int,
    late: Callable[[], bool],
) -> tuple[int, ...]:
    """The indices of the `count` cheapest items, group by group. `groups[l][j]` is the group of item j at level l.

    The groups are nested, and each group of the topmost level holds `count` items and every forced one.
    Exact for costs of any size: where int64 would overflow, Python's integers are used. Raises LateError.
    """
    order = np.lexsort((cost, ~forced, *groups))
    begin = np.flatnonzero(np.diff(groups[0][order], prepend=-1))
    never = _never(groups, cost, weights, count)
    tables = _leaves(cost[order], forced[order], begin, weights[0], count, never)
    rounds: list[_Round] = []
    first = order[begin]
    for level in range(1, len(groups)):
        parent = groups[level][first]
        only = count if level == len(groups) - 1 else None
        tables = _merge(tables, parent, count, only, never, rounds, late)
        first = first[np.flatnonzero(np.diff(parent, prepend=-1))]
        touched = np.ones(len(tables.flat), dtype=np.bool_)
        touched[tables.start] = False
        tables = _Tables(tables.flat + touched * weights[level], tables.start, tables.width)
    holds = np.flatnonzero(tables.width > count)
    top = holds[np.argmin(tables.flat[tables.start[holds] + count])]
    taken = _read_back({int(top): count}, rounds)
    return tuple(int(item) for j, k in sorted(taken.items()) for item in order[begin[j] : begin[j] + k])


def distinct(group: Ints) -> int:
    """How many groups there are."""
    return int(np.count_nonzero(np.bincount(group)))


def _never(groups: Sequence[Ints], cost: Ints, weights: Sequence[int], count: int) -> int:
    """A number above every cost of a choice; above 2^60 it tells that int64 is too small."""
    touched = sum(w * min(count, distinct(group)) for w, group in zip(weights, groups, strict=True))
    most = touched + count * int(cost.max())
    return max(_NEVER, 1 << most.bit_length())


def _leaves(cost: Ints, forced: Mask, begin: Ints, weight: int, count: int, never: int) -> _Tables:
    """f_g of the groups of level 0, whose items lie side by side from begin[g] on, in the order they are taken."""
    kind = np.int64 if never == _NEVER else np.object_
    size = np.diff(begin, append=len(cost))
    width = np.minimum(size, count) + 1
    start = np.cumsum(width) - width
    group = np.repeat(np.arange(len(begin)), width)
    k = np.arange(len(group)) - start[group]
    until = np.concatenate(([0], np.cumsum(cost.astype(kind))))
    flat = until[begin[group] + k] - until[begin[group]] + (k > 0).astype(kind) * weight
    flat[k < np.add.reduceat(forced.astype(np.int64), begin)[group]] = never
    return _Tables(flat, start, width)


def _merge(
    tables: _Tables,
    parent: Ints,
    count: int,
    only: int | None,
    never: int,
    rounds: list[_Round],
    late: Callable[[], bool],
) -> _Tables:
    """One table for each run of equal `parent`s. `only` = the one k that is wanted of each in the end, None = all."""
    while True:
        begin = np.flatnonzero(np.diff(parent, prepend=-1))
        parts = np.diff(begin, append=len(parent))
        if parts.max() == 1:
            return tables
        left = np.flatnonzero((np.arange(len(parent)) - np.repeat(begin, parts)) % 2 == 0)
        joined = np.append(parent, -1)[left + 1] == parent[left]
        rounds.append(_Round(tables, left, joined))
        tables = _one_round(rounds[-1], count, only if parts.max() == 2 else None, never, late)
        parent = parent[left]


def _one_round(step: _Round, count: int, only: int | None, never: int, late: Callable[[], bool]) -> _Tables:
    old, left = step.tables, step.left
    one = left[step.joined]
    width = old.width[left].copy()
    width[step.joined] = np.minimum(old.width[one] + old.width[one + 1] - 1, count + 1)
    start = np.cumsum(width) - width
    flat = np.empty(int(width.sum()), dtype=old.flat.dtype)
    alone = np.flatnonzero(~step.joined)
    if len(alone):
        row = np.repeat(alone, width[alone])
        k = np.arange(len(row)) - np.repeat(np.cumsum(width[alone]) - width[alone], width[alone])
        flat[start[row] + k] = old.flat[old.start[left[row]] + k]
    into = np.flatnonzero(step.joined)
    narrow = np.where(old.width[one] <= old.width[one + 1], one, one + 1)
    wide = 2 * one + 1 - narrow
    # Equal powers of two of both widths share a matrix: at most half of it is filling.
    shape = np.frexp(old.width[narrow] - 1)[1] * 64 + np.frexp(old.width[wide] - 1)[1]
    for kind in np.unique(shape):
        if late():
            raise LateError
        these = np.flatnonzero(shape == kind)
        target = into[these]
        columns = np.arange(int(width[target].max()))
        out = _min_plus(old.rows(narrow[these], never), old.rows(wide[these], never), len(columns), only, never)
        filled = columns < width[target][:, None]
        flat[(start[target][:, None] + columns)[filled]] = out[filled]
    return _Tables(flat, start, width)


def _min_plus(a: Ints, b: Ints, columns: int, only: int | None, never: int) -> Ints:
    """out[j, k] = min_x a[j, x] + b[j, k - x], for k < columns; with `only`, for that k alone."""
    out = np.full((len(a), columns), never, dtype=a.dtype)
    if only is not None:
        low, high = max(0, only + 1 - b.shape[1]), min(a.shape[1] - 1, only)
        if only < columns and low <= high:
            mirrored = b[:, only - high : only - low + 1][:, ::-1]
            out[:, only] = (a[:, low : high + 1] + mirrored).min(axis=1)
    elif a.shape[1] <= _NARROW:
        for x in range(a.shape[1]):
            reach = min(b.shape[1], columns - x)
            if reach > 0:
                part = out[:, x : x + reach]
                np.minimum(part, b[:, :reach] + a[:, x : x + 1], out=part)
    else:
        _min_plus_wide(a, b, out, never)
    return np.minimum(out, never)


def _min_plus_wide(a: Ints, b: Ints, out: Ints, never: int) -> None:
    """The same for wide tables: window k of b, mirrored, meets a as a row; blocks of k stay in the cache."""
    rows, wide = a.shape
    columns = out.shape[1]
    told = min(b.shape[1], columns)
    padded = np.full((rows, columns + wide - 1), never, dtype=a.dtype)
    padded[:, wide - 1 : wide - 1 + told] = b[:, :told]
    windows = np.lib.stride_tricks.sliding_window_view(padded, wide, axis=1)  # [j, k, y] = b[j, k - (wide - 1 - y)]
    mirrored = a[:, None, ::-1]
    block = max(1, _BLOCK // (rows * wide))
    for k in range(0, columns, block):
        until = min(columns, k + block)
        y = slice(max(0, wide - until), min(wide, wide - k + b.shape[1] - 1))  # elsewhere b has no value
        (mirrored[:, :, y] + windows[:, k:until, y]).min(axis=2, out=out[:, k:until])


def _read_back(taken: dict[int, int], rounds: list[_Round]) -> dict[int, int]:
    """How many items each group of level 0 gives, from how many each group of the top gives."""
    for step in reversed(rounds):
        parts: dict[int, int] = {}
        for j, k in taken.items():
            left = int(step.left[j])
            x = _split(step.tables, left, k) if step.joined[j] else k
            parts.update({group: k_group for group, k_group in ((left, x), (left + 1, k - x)) if k_group})
        taken = parts
    return taken


def _split(tables: _Tables, left: int, k: int) -> int:
    """How many of k items the left one of two neighbours gives: the most that attains the least cost."""
    begin_a, begin_b = tables.start[left : left + 2].tolist()
    width_a, width_b = tables.width[left : left + 2].tolist()
    low, high = max(0, k + 1 - width_b), min(width_a - 1, k)
    a = tables.flat[begin_a + low : begin_a + high + 1]
    b = tables.flat[begin_b + k - high : begin_b + k - low + 1][::-1]
    total = a + b
    return int(low + np.flatnonzero(total == total.min())[-1])
