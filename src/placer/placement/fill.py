"""A total of GPUs that no even shape can give now: filled node by node, as `sbatch --gpus=N` allows.

Symbols: candidate i can give at most c_i >= 1 GPUs, P are wanted, S is a choice of candidates in one allowed domain D.

    Σ_{i ∈ S} c_i >= P,  every i ∈ S gives at least one GPU, the forced ones are in S,  |S| <= P,  |S| = K if K is fixed

The fewest nodes of a domain are its largest c_i, the forced ones first, so |S| is least for every D. Among the domains
with the least |S| the closest level wins, then the earliest domain. Bandwidth is predicted for the answer but not
searched for, so the answer is *feasible*, not proven best.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from placer.cluster import capacity
from placer.cluster import types as cluster
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
    count: int | None,
) -> tuple[tuple[int, int], ...]:
    """(candidate, GPUs) in the order of candidates; () when nothing fits.

    `most` int [n], `forced` bool [n], `domain_of` int [L, n] (-1 = none), `count` fixes the number of nodes.
    """
    best: tuple[int, int, tuple[tuple[int, int], ...]] | None = None
    for level, members in _domains(domain_of, len(most), required, spans_roots):
        if not set(np.flatnonzero(forced).tolist()) <= set(members.tolist()):
            continue
        given = _fill(most, total, forced, members, count)
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
    most: Ints, total: int, forced: npt.NDArray[np.bool_], members: Ints, count: int | None
) -> tuple[tuple[int, int], ...]:
    order = sorted(members.tolist(), key=lambda i: (not forced[i], -int(most[i]), i))
    least = int(forced[members].sum())
    chosen: list[int] = []
    room = 0
    for i in order:
        if len(chosen) == count or (count is None and room >= total and len(chosen) >= least):
            break
        chosen.append(i)
        room += int(most[i])
    complete = len(chosen) >= least and (count is None or len(chosen) == count)
    if not complete or not len(chosen) <= total <= room:
        return ()
    left, given = total - len(chosen), {}
    for i in chosen:  # one GPU each first, then the largest nodes are filled
        more = min(left, int(most[i]) - 1)
        given[i] = 1 + more
        left -= more
    return tuple(sorted(given.items()))


def most_gpus(
    free: capacity.FreeNode, mask: int, one: shapes.Demand, request: cluster.JobRequest, *, empty: bool
) -> int:
    """c_i: how many GPUs a node can give, by its free GPUs of the type and what each of them needs of CPUs and memory.

    `one` is what the node gives for its first GPU; only CPUs and memory asked for per GPU grow with more of them.
    """
    node = free.node
    cpus, memory = (node.cpus, node.memory_mib) if empty else (free.cpus, free.memory_mib)
    limits = [mask.bit_count() - (0 if empty else free.unplaced)]
    if request.cpus_per_gpu:
        limits.append(cpus // request.cpus_per_gpu)
    if request.memory_per_gpu_mib and one.memory_mib:
        limits.append(memory // request.memory_per_gpu_mib)
    return max(0, min(limits))
