"""Rings over a set of GPUs: how much bandwidth a packing of NVLink rings gives, and which rings exist.

A ring is a Hamiltonian cycle H of the set S. With c_ij the bandwidth of the link between i and j each way (0 = none)
and x_H the bandwidth that ring H is given, the bus bandwidth of an all-reduce over S is

    B = 2 max Σ_H x_H   subject to   Σ_{H ∋ ij} x_H <= c_ij for every link ij,  x >= 0

because a link carries its bandwidth both ways, so every cycle is run in both directions. |S| = 2 is its link: B = c.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import msgspec

from placer.placement import milp

MOST_CYCLES = 2520
"""Rings that are looked at for one set: all of those of 8 GPUs with a link between each pair. A set with more is
rated by the first ones, which is a bandwidth that is surely there."""

Matrix = tuple[tuple[float, ...], ...]
"""Symmetric capacities by position; 0 on the diagonal and where there is no link."""


class RingPacking(msgspec.Struct, frozen=True):
    """`busbw_gbps` of the best packing and its widest ring, as positions; no ring at all: 0 and ()."""

    busbw_gbps: float
    order: tuple[int, ...]


NO_RING = RingPacking(0.0, ())


def pack(capacity: Matrix) -> RingPacking:
    """The best packing of rings over all positions of `capacity` (two or more)."""
    size = len(capacity)
    if size == 2:
        return RingPacking(capacity[0][1], (0, 1)) if capacity[0][1] > 0 else NO_RING
    if min(sum(c > 0 for c in row) for row in capacity) < 2:
        return NO_RING
    # Sets that are wired alike are solved once: positions are sorted by what their links look like.
    to = sorted(range(size), key=lambda i: (_signature(capacity, i), i))
    found = _pack_sorted(tuple(tuple(capacity[i][j] for j in to) for i in to))
    return RingPacking(found.busbw_gbps, normal(tuple(to[p] for p in found.order))) if found.order else NO_RING


def _signature(capacity: Matrix, i: int) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Links of a position, each with the links of its other end: equal for positions that are wired alike."""
    return tuple(sorted((c, tuple(sorted(capacity[j]))) for j, c in enumerate(capacity[i]) if j != i))


@functools.lru_cache(maxsize=4096)
def _pack_sorted(capacity: Matrix) -> RingPacking:
    size = len(capacity)
    links = {c for i, row in enumerate(capacity) for j, c in enumerate(row) if i != j}
    if len(links) == 1:  # complete and equal: each GPU uses all its links
        return RingPacking((size - 1) * links.pop(), tuple(range(size)))
    if size == 3:
        return (
            RingPacking(2 * min(capacity[0][1], capacity[0][2], capacity[1][2]), (0, 1, 2))
            if 0 not in links
            else NO_RING
        )
    if size == 4:
        return _pack_four(capacity)
    found = list(cycles(tuple(sum(1 << j for j, c in enumerate(row) if c > 0) for row in capacity)))
    if not found:
        return NO_RING
    return _pack_many(capacity, found)


def _pack_four(c: Matrix) -> RingPacking:
    """Four GPUs have three rings, each of which leaves out one of the three perfect matchings.

    With d_m the weaker link of matching m, the rings that use m share d_m: x_2 + x_3 <= d_1 and so on, whose best sum
    is min((d_1 + d_2 + d_3) / 2, d_1 + d_2, d_1 + d_3, d_2 + d_3).
    """
    d = (min(c[0][1], c[2][3]), min(c[0][2], c[1][3]), min(c[0][3], c[1][2]))
    total = min(sum(d) / 2, d[0] + d[1], d[0] + d[2], d[1] + d[2])
    if total <= 0:
        return NO_RING
    # The widest ring uses the two strongest matchings.
    left_out = min(range(3), key=lambda m: (d[m], -m))
    return RingPacking(2 * total, ((0, 2, 1, 3), (0, 1, 2, 3), (0, 1, 3, 2))[left_out])


def _pack_many(capacity: Matrix, found: Sequence[tuple[int, ...]]) -> RingPacking:
    number: dict[tuple[int, int], int] = {}
    limits: list[float] = []
    columns = []
    for ring in found:
        column = []
        for a, b in edges(ring):
            link = (min(a, b), max(a, b))
            if link not in number:
                number[link] = len(limits)
                limits.append(capacity[a][b])
            column.append(number[link])
        columns.append(column)
    if len(found) == 1:
        return RingPacking(2 * min(limits), found[0])
    answer = milp.maximise_packing(columns, limits)
    widest = max(range(len(found)), key=lambda h: (round(answer.amounts[h], 6), -h))
    return RingPacking(2 * round(answer.total, 9), found[widest])


def edges(ring: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The directed edges of a ring, the one back to the start included."""
    return zip(ring, (*ring[1:], ring[0]), strict=True)


def normal(ring: tuple[int, ...]) -> tuple[int, ...]:
    """The same undirected ring, from its lowest member towards the lower of that one's neighbours."""
    at = ring.index(min(ring))
    turned = ring[at:] + ring[:at]
    return turned if len(turned) < 3 or turned[1] < turned[-1] else (turned[0], *reversed(turned[1:]))


def cycles(adjacent: Sequence[int], most: int = MOST_CYCLES) -> Iterator[tuple[int, ...]]:
    """Hamiltonian cycles of an undirected graph, each once and in lexicographic order, at most `most` of them.

    `adjacent[i]` is the bit mask of the neighbours of i.
    """
    size = len(adjacent)
    everyone = (1 << size) - 1
    if falls_apart(adjacent):
        return
    stack: list[tuple[int, ...]] = [(0,)]
    masks = [1]
    given = 0
    while stack and given < most:
        path, used = stack.pop(), masks.pop()
        last = path[-1]
        if used == everyone:
            if adjacent[last] & 1 and path[1] < last:
                given += 1
                yield path
            continue
        if _hopeless(adjacent, used, last):
            continue
        for step in range(size - 1, 0, -1):
            if adjacent[last] >> step & 1 and not used >> step & 1:
                stack.append((*path, step))
                masks.append(used | 1 << step)


def falls_apart(adjacent: Sequence[int]) -> bool:
    """A quick proof that there is no Hamiltonian cycle: without its h busiest positions more than h parts are left.

    A ring that loses h positions is in at most h pieces. Not every graph without a ring is found so.
    """
    busiest = sorted(range(len(adjacent)), key=lambda i: -adjacent[i].bit_count())
    left = (1 << len(adjacent)) - 1
    for gone in range(len(adjacent) // 2 + 1):
        if _parts(adjacent, left) > max(1, gone):
            return True
        left ^= 1 << busiest[gone]
    return False


def _parts(adjacent: Sequence[int], left: int) -> int:
    parts = 0
    while left:
        parts += 1
        edge = left & -left
        while edge:
            left &= ~edge
            reached = 0
            while edge:
                low = edge & -edge
                reached |= adjacent[low.bit_length() - 1]
                edge ^= low
            edge = reached & left
    return parts


def _hopeless(adjacent: Sequence[int], used: int, last: int) -> bool:
    """Some position that is still to come has fewer than two ends left to it, or the start cannot be reached again."""
    open_ends = ~used | 1 << last | 1
    rest = ~used & ((1 << len(adjacent)) - 1)
    if used != 1 and not adjacent[0] & rest:
        return True
    i = rest
    while i:
        low = i & -i
        if (adjacent[low.bit_length() - 1] & open_ends).bit_count() < 2:
            return True
        i ^= low
    return False
