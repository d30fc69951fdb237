"""What a node's free GPUs can still hold, and what taking some of them spoils.

A *family* F is a list of equally good GPU sets of one size s. N_F(M) is the largest number of disjoint sets of F inside
the free set M. For each size s of 1, 2, 4, 8, 16 up to the machine's GPUs there are two families: the s-sets with the
machine's best bandwidth, and those of them that lie nearest together. With w the number of families,

    D(M, S) = 1000 / w  Σ_F s_F (N_F(M) - N_F(M \\ S))

is the damage of taking S from M in thousandths of a GPU: GPUs' worth of whole jobs, averaged over the families, that
the node could hold before and cannot after. It is never negative. An exact hole costs least (four free GPUs that are a
full quad lose one quad), breaking an untouched node most (it loses its only eight as well), and a single GPU goes to a
pair that is broken already.

The second measure is FGD's (`fgd`): what is left over seen with the cluster's own mix of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from placer import ranges
from placer.cluster import types as cluster
from placer.placement import fgd

Masks = npt.NDArray[np.int64]

SIZES = (1, 2, 4, 8, 16)
"""Sizes of the jobs that are to come, as training jobs have them."""

TABLE_GPUS = 10
"""Up to so many GPUs everything is tabled over all free masks; above, over the masks that occur."""

_BITS = np.array([byte.bit_count() for byte in range(256)], dtype=np.int64)


def popcount(masks: Masks) -> Masks:
    """Number of bits of each mask."""
    counts: Masks = _BITS[np.ascontiguousarray(masks).view(np.uint8).reshape(*masks.shape, 8)].sum(axis=-1)
    return counts


class Family(msgspec.Struct, frozen=True):
    """Equally good sets of one size. `weight` counts how many families of the definition it stands for.

    `groups` stands for `sets` where those are all subsets of that size of disjoint groups.
    """

    size: int
    sets: tuple[int, ...] = ()
    weight: int = 1
    groups: tuple[int, ...] | None = None


def whole_groups(family: Family) -> tuple[int, ...] | None:
    """The disjoint groups of which the family is *all* subsets of its size; None when it is not of that form."""
    groups: list[int] = []
    for chosen in family.sets:
        apart = [g for g in groups if not g & chosen]
        joined = chosen
        for g in groups:
            joined |= g if g & chosen else 0
        groups = [*apart, joined]
    expected = sum(_choose(g.bit_count(), family.size) for g in groups)
    return tuple(sorted(groups)) if expected == len(set(family.sets)) else None


def _choose(n: int, k: int) -> int:
    total = 1
    for i in range(k):
        total = total * (n - i) // (i + 1)
    return total


class Counter:
    """N_F for one family over any free masks of a machine with `count` GPUs."""

    def __init__(self, family: Family, count: int) -> None:
        self.family = family
        self.groups = family.groups if family.groups is not None else whole_groups(family)
        self.count = count
        by_lowest: dict[int, list[int]] = {}
        for chosen in family.sets:
            by_lowest.setdefault(chosen & -chosen, []).append(chosen)
        self._by_lowest = by_lowest
        self._known: dict[int, int] = {0: 0}
        self._table: Masks | None = None

    def of(self, masks: Masks) -> Masks:
        """N_F of each mask."""
        if self.groups is not None:
            total = np.zeros(masks.shape, dtype=np.int64)
            for group in self.groups:
                total += popcount(masks & group) // self.family.size
            return total
        if self.count <= TABLE_GPUS:
            if self._table is None:
                self._table = np.array([self._one(mask) for mask in range(1 << self.count)], dtype=np.int64)
            return self._table[masks]
        distinct, back = np.unique(masks, return_inverse=True)
        return np.array([self._one(int(mask)) for mask in distinct], dtype=np.int64)[back].reshape(masks.shape)

    def _one(self, mask: int) -> int:
        known = self._known.get(mask)
        if known is not None:
            return known
        low = mask & -mask
        best = self._one(mask ^ low)
        most = mask.bit_count() // self.family.size
        for chosen in self._by_lowest.get(low, ()):
            if best == most:
                break
            if chosen & mask == chosen:
                best = max(best, 1 + self._one(mask ^ chosen))
        self._known[mask] = best
        return best


class Remainder:
    """D(M, S) of one machine."""

    def __init__(self, families: Iterable[Family], count: int) -> None:
        self.counters = tuple(Counter(family, count) for family in families)
        self.weights = sum(counter.family.weight for counter in self.counters)
        self.count = count
        self._table: Masks | None = None

    def worth(self, masks: Masks) -> Masks:
        """Σ_F s_F N_F of each mask, families counted with their weights."""
        if self._table is not None:
            return self._table[masks]
        if self.count <= TABLE_GPUS:
            self._table = self._sum(np.arange(1 << self.count, dtype=np.int64))
            return self._table[masks]
        return self._sum(masks)

    def _sum(self, masks: Masks) -> Masks:
        total = np.zeros(masks.shape, dtype=np.int64)
        for counter in self.counters:
            total += counter.of(masks) * (counter.family.size * counter.family.weight)
        return total

    def damage(self, free: Masks, taken: Masks) -> Masks:
        """D of taking `taken` from `free`, elementwise, thousandths of a GPU rounded down."""
        return (self.worth(free) - self.worth(free & ~taken)) * 1000 // max(1, self.weights)


def mix(jobs: Sequence[cluster.Job]) -> fgd.Mix:
    """The cluster's own mix of jobs for the FGD measure: one pod for each node of each job that says what it needs."""
    pods: list[fgd.Pod] = []
    for job in jobs:
        request = job.request
        nodes = max(1, request.nodes or len(job.allocations) or 1)
        tasks = request.ntasks_per_node or -(-(request.ntasks or nodes) // nodes)
        gpus = request.gpus_per_node
        if gpus is None and request.gpus is not None:
            gpus = -(-request.gpus // nodes)
        if gpus is None:
            gpus = (request.gpus_per_task or 0) * tasks
        cpus = request.cpus_per_gpu * gpus if request.cpus_per_gpu and gpus else (request.cpus_per_task or 1) * tasks
        milli = 1000 if request.gpu_share is None or gpus > 1 else min(1000, request.gpu_share)
        if request.gpu_share is not None and gpus == 0:
            gpus = 1
        models = (request.gpu_type.casefold(),) if request.gpu_type else ()
        pods += [fgd.Pod(cpus * 1000, milli if gpus else 0, gpus, models)] * min(nodes, 1000)
    return fgd.typical(pods)


def fgd_node(
    free_mask: int, count: int, cpus: int, mix: fgd.Mix, *, model: str = "", shares: Sequence[int] | None = None
) -> float:
    """FGD's F_n(M) in thousandths of a GPU for a node with these free GPUs and CPUs.

    `shares` tells what is left of each GPU in thousandths, where GPUs are shared; by default free ones are whole.
    """
    taken = set(range(count)) - set(ranges.from_mask(free_mask))
    left = [0 if i in taken else (shares[i] if shares is not None else 1000) for i in range(count)]
    return fgd.expected(cpus * 1000, left, model, mix)
