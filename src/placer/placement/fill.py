"""A total of GPUs that no even shape can give now: filled node by node, as `sbatch --gpus=N` allows.

Symbols: candidate i can give at most c_i units of GPUs, P are wanted, S is a choice of candidates in one allowed domain
D. A unit is one GPU, or the GPUs of one task.

    Σ_{i ∈ S} c_i >= P,  every i ∈ S gives at least one unit, the forced ones are in S,  K <= |S| <= min(P, L)

The fewest nodes of a domain are its largest c_i, the forced ones first, so |S| is least for every D. Among the domains
with the least |S| the closest level wins, then the earliest domain. Bandwidth is predicted for the answer but not
searched for, so the answer is *feasible*, not proven best.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from placer.cluster import capacity
from placer.placement import shapes

Ints = npt.NDArray[np.int64]


def choose(
    most: Ints,
    total: int,
    forced: npt.NDArray[np.bool_],
    domain_of: npt.NDArray[np.integer],
    *,
    required: int | None,
    spans_roots: bool,
    least: int,
    largest: int,
) -> tuple[tuple[int, int], ...]:
    """(candidate, units) in the order of candidates; () when nothing fits.

    `most` int [n], `forced` bool [n], `domain_of` int [L, n] (-1 = none); `least` and `largest` bound the number of
    nodes.
    """
    best: tuple[int, int, tuple[tuple[int, int], ...]] | None = None
    for level, members in _domains(domain_of, len(most), required, spans_roots):
        if not set(np.flatnonzero(forced).tolist()) <= set(members.tolist()):
            continue
        given = _fill(most, total, forced, members, (least, largest))
        if given and (best is None or (len(given), level) < best[:2]):
            best = (len(given), level, given)
    return best[2] if best is not None else ()


def _domains(
    domain_of: npt.NDArray[np.integer], n: int, required: int | None, spans_roots: bool
) -> list[tuple[int, Ints]]:
    """(level, members) of every domain in which a job may lie, closest level first."""
    levels = len(domain_of)
    highest = levels - 1 if required is None else required
    found = [
        (level, np.flatnonzero(domain_of[level] == domain))
        for level in range(highest + 1)
        for domain in np.unique(domain_of[level])
        if domain >= 0
    ]
    if required is None and (spans_roots or not levels):
        found.append((levels, np.arange(n)))
    return found


def _fill(
    most: Ints, total: int, forced: npt.NDArray[np.bool_], members: Ints, bounds: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    least, largest = max(bounds[0], int(forced[members].sum())), min(bounds[1], total)
    order = sorted(members[most[members] > 0].tolist(), key=lambda i: (not forced[i], -int(most[i]), i))
    chosen: list[int] = []
    room = 0
    for i in order:
        if room >= total and len(chosen) >= least:
            break
        chosen.append(i)
        room += int(most[i])
    if room < total or not least <= len(chosen) <= largest or not all(most[forced] > 0):
        return ()
    left, given = total - len(chosen), {}
    for i in chosen:  # one unit each first, then the largest nodes are filled
        more = min(left, int(most[i]) - 1)
        given[i] = 1 + more
        left -= more
    return tuple(sorted(given.items()))


def most_units(free: capacity.FreeNode, mask: int, steps: Sequence[shapes.Demand], *, empty: bool) -> int:
    """c_i: how many units a node can give, by its free GPUs of the type and by what so many units need.

    `steps[i]` is what i + 1 units need; needs only grow.
    """
    node = free.node
    gpus = mask.bit_count() - (0 if empty else free.unplaced)
    cpus, memory = (node.cpus, node.memory_mib) if empty else (free.cpus, free.memory_mib)

    def too_much(one: shapes.Demand) -> bool:
        wanted = node.memory_mib if one.memory_mib is None else one.memory_mib
        return one.gpus > gpus or one.cpus > cpus or wanted > memory

    return bisect.bisect_left(steps, True, key=too_much)
