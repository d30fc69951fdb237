"""The knapsack of `pod_sets` on a tree: K_s of many items for each set s, at least cost, where touched groups cost too.

Item j costs c_js >= 0 when it is taken for set s, and is taken for at most one. k = (k_1..k_m) counts what is taken.

    F_g(k) = w_0 [k != 0] + least cost of taking k from the items of g                     g a group of level 0
    F_g(k) = w_l [k != 0] + min { Σ_c F_c(k_c) : Σ_c k_c = k }                             c the groups inside g
    answer = min over the groups g of the topmost level of F_g(K)

All groups of level 0 take their j-th item at once, and all neighbours of a round are merged at once, so that numpy does
the work. The choice is read back from the tables; where two splits cost the same, the earlier group takes more, and of
equal items the earlier is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Table = npt.NDArray[Any]
"""int64, or Python's integers where sums would not fit."""
Cell = tuple[int, ...]
Index = tuple[Any, ...]

_NEVER = 1 << 60


class LateError(Exception):
    """The caller said stop between two pieces of work. Internal to the search: it answers with what it has."""


class _Round(msgspec.Struct, frozen=True, eq=False):
    """Tables [G, K_1+1, …] before a round; the next round's j-th is left[j], with its neighbour where joined[j]."""

    tables: Table
    left: Ints
    joined: Mask


def cheapest(
    groups: Sequence[Ints],
    cost: Ints,
    forced: Mask,
    weights: Sequence[int],
    counts: Sequence[int],
    late: Callable[[], bool],
) -> tuple[tuple[int, ...], ...]:
    """For each set the items taken, ascending. `groups[l][j]` is the group of item j at level l; the groups are nested.

    `cost` int [m, n], -1 where the item cannot be taken for the set; `forced` bool [m, n]. Some group of the topmost
    level must hold all sets. Raises LateError.
    """
    items = _needed(groups[0], cost, forced, sum(counts))
    order = items[np.lexsort((items, *(group[items] for group in groups)))]
    begin = np.flatnonzero(np.diff(groups[0][order], prepend=-1))
    ends = np.append(begin[1:], len(order))
    tables = _leaves(cost[:, order], forced[:, order], begin, ends, counts, _kind(weights, cost, counts), late)
    rounds: list[_Round] = []
    first = order[begin]
    for level, weight in enumerate(weights):
        if level:
            parent = groups[level][first]
            tables = _merge(tables, parent, rounds, late)
            first = first[np.flatnonzero(np.diff(parent, prepend=-1))]
        _touch(tables, weight)
    wanted: Index = (slice(None), *counts)
    top = int(np.argmin(tables[wanted]))
    taken = _read_back({top: tuple(counts)}, rounds)
    chosen: list[list[int]] = [[] for _ in counts]
    for leaf, cell in sorted(taken.items()):
        mine = order[begin[leaf] : ends[leaf]]
        for item, s in _split_leaf(cost[:, mine], forced[:, mine], cell):
            chosen[s].append(int(mine[item]))
    return tuple(tuple(sorted(part)) for part in chosen)


def _needed(leaf: Ints, cost: Ints, forced: Mask, count: int) -> Ints:
    """In each group the `count` cheapest items of each set; the others are never needed. Forced ones are."""
    keep: Mask = np.any(forced, axis=0)
    for row in cost:
        able = np.flatnonzero(row >= 0)
        order = able[np.lexsort((able, row[able], leaf[able]))]
        begin = np.flatnonzero(np.diff(leaf[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(begin, np.diff(begin, append=len(order)))
        keep[order[rank < count]] = True
    return np.flatnonzero(keep)


def _kind(weights: Sequence[int], cost: Ints, counts: Sequence[int]) -> type[np.int64] | type[np.object_]:
    """int64, or Python's integers where sums would not fit."""
    most = sum(counts) * (sum(weights) + int(cost.max(initial=0)))
    return np.int64 if most < _NEVER else np.object_


def _leaves(
    cost: Ints,
    forced: Mask,
    begin: Ints,
    ends: Ints,
    counts: Sequence[int],
    kind: type[np.int64] | type[np.object_],
    late: Callable[[], bool],
) -> Table:
    """F_g of every group of level 0 without w_0; its items lie side by side from begin[g] to ends[g]."""
    never = _NEVER if kind is np.int64 else _NEVER**3
    tables: Table = np.full((len(begin), *(count + 1 for count in counts)), never, dtype=kind)
    nothing: Index = (slice(None), *(0 for _ in counts))
    tables[nothing] = 0
    for step in range(int((ends - begin).max())):
        if late():
            raise LateError
        rows = np.flatnonzero(begin + step < ends)
        item = begin[rows] + step
        tables[rows] = _with_item(tables[rows], cost[:, item], forced[:, item], never)
    return tables


def _with_item(tables: Table, cost: Ints, forced: Mask, never: int) -> Table:
    """One more item for each table; `cost` and `forced` [m, G]."""
    out = tables.copy()
    out[forced.any(axis=0)] = never
    for s in range(len(cost)):
        able = np.flatnonzero((cost[s] >= 0) & (forced[s] | ~forced.any(axis=0)))
        into: Index = (able, *(slice(None) for _ in range(s)), slice(1, None))
        source: Index = (able, *(slice(None) for _ in range(s)), slice(None, -1))
        price = cost[s][able].reshape(-1, *(1 for _ in range(tables.ndim - 1)))
        out[into] = np.minimum(out[into], np.minimum(tables[source] + price, never))
    return out


def _touch(tables: Table, weight: int) -> None:
    """Every cell but that of nothing taken costs w_l more."""
    nothing: Index = (slice(None), *(0 for _ in tables.shape[1:]))
    kept = tables[nothing].copy()
    tables += weight
    np.minimum(tables, _NEVER if tables.dtype == np.int64 else _NEVER**3, out=tables)
    tables[nothing] = kept


def _merge(tables: Table, parent: Ints, rounds: list[_Round], late: Callable[[], bool]) -> Table:
    """One table for each run of equal `parent`s; neighbours are merged two by two."""
    while True:
        begin = np.flatnonzero(np.diff(parent, prepend=-1))
        parts = np.diff(begin, append=len(parent))
        if parts.max() == 1:
            return tables
        left = np.flatnonzero((np.arange(len(parent)) - np.repeat(begin, parts)) % 2 == 0)
        joined = np.append(parent, -1)[left + 1] == parent[left]
        rounds.append(_Round(tables, left, joined))
        one = left[joined]
        out = tables[left]
        out[joined] = _min_plus(tables[one], tables[one + 1], late)
        tables, parent = out, parent[left]


def _min_plus(a: Table, b: Table, late: Callable[[], bool]) -> Table:
    """out[j, k] = min_x a[j, x] + b[j, k - x]."""
    never = _NEVER if a.dtype == np.int64 else _NEVER**3
    out: Table = np.full(a.shape, never, dtype=a.dtype)
    for x in itertools.product(*(range(size) for size in a.shape[1:])):
        cell: Index = (slice(None), *x)
        price = a[cell]
        rows = np.flatnonzero(price < never)
        if not len(rows):
            continue
        if late():
            raise LateError
        into: Index = (rows, *(slice(k, None) for k in x))
        source: Index = (rows, *(slice(None, size - k) for k, size in zip(x, a.shape[1:], strict=True)))
        out[into] = np.minimum(out[into], b[source] + price[rows].reshape(-1, *(1 for _ in x)))
    merged: Table = np.minimum(out, never)
    return merged


def _read_back(taken: dict[int, Cell], rounds: list[_Round]) -> dict[int, Cell]:
    """What each group of level 0 gives, from what each group of the top gives."""
    for step in reversed(rounds):
        parts: dict[int, Cell] = {}
        for j, cell in taken.items():
            left = int(step.left[j])
            x = _split(step.tables[left], step.tables[left + 1], cell) if step.joined[j] else cell
            rest = tuple(k - k_left for k, k_left in zip(cell, x, strict=True))
            parts.update({group: part for group, part in ((left, x), (left + 1, rest)) if any(part)})
        taken = parts
    return taken


def _split(a: Table, b: Table, cell: Cell) -> Cell:
    """How much of a cell the left one of two neighbours gives: the most, first set first, that attains the least."""
    inside = tuple(slice(0, k + 1) for k in cell)
    total = a[inside] + b[inside][tuple(slice(None, None, -1) for _ in cell)]
    last = int(np.flatnonzero(total.ravel() == total.min())[-1])
    return tuple(int(k) for k in np.unravel_index(last, total.shape))


def _split_leaf(cost: Ints, forced: Mask, cell: Cell) -> list[tuple[int, int]]:
    """(item, set) of a group of level 0 that gives this cell."""
    never = _NEVER**3
    table: Table = np.full((1, *(k + 1 for k in cell)), never, dtype=np.object_)
    table.flat[0] = 0
    steps = [table]
    for item in range(cost.shape[1]):
        steps.append(_with_item(steps[-1], cost[:, [item]], forced[:, [item]], never))
    found = []
    for item in reversed(range(cost.shape[1])):
        before, after = steps[item][0], steps[item + 1][0][cell]
        if not forced[:, item].any() and before[cell] == after:
            continue
        for s in range(len(cell)):
            less = tuple(k - (t == s) for t, k in enumerate(cell))
            able = cost[s, item] >= 0 and min(less) >= 0 and (forced[s, item] or not forced[:, item].any())
            if able and before[less] + int(cost[s, item]) == after:
                found.append((item, s))
                cell = less
                break
    return found
