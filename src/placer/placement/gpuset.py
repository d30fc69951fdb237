"""Which GPUs of one node: the best k of the free ones, for every free mask.

For free mask M and size k the answer is the set S ⊆ M, |S| = k, that is first by

1. predicted bandwidth (`bandwidth`), the larger first; an unknown one after every known one;
2. locality: Σ over pairs of S of their distance (`wiring`), the smaller first; unknown is the farthest;
3. leftover damage D(M, S) (`leftover`);
4. lowest indices.

A single GPU has neither bandwidth nor locality: damage decides, so that it goes where something is broken already.
Two workloads change the order. `independent` ranks exchange nothing: damage comes first. `host-bound` ranks live from
the path to the CPUs: first the fewest GPUs of any one NUMA node, then as above.

Up to 10 GPUs the answers of a size stand in a table over all 2^n free masks, built at the first question; above, each
mask that occurs is answered once.
"""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import numpy.typing as npt

from placer import ranges
from placer.cluster import types as cluster
from placer.placement import bandwidth, leftover, wiring
from placer.topology import links
from placer.topology import types as topo

Masks = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_SETS = 20_000
"""Sets that are looked at for one mask; where there are more, only neighbours in PCIe order are."""

_FAR = np.iinfo(np.int64).max
_UNKNOWN_DISTANCE = 402  # as `wiring` gives a pair of which nothing is known


class SetChoice(msgspec.Struct, frozen=True):
    """The best set. `order` holds its gres indices in ring order, the rank order that gives the bandwidth.

    `busbw_gbps` None = unknown, or one GPU. `damage` in thousandths of a GPU; `locality` 0 = as near as can be.
    `exact` False where the machine has too many sets to look at all.
    """

    mask: int
    order: tuple[int, ...]
    busbw_gbps: float | None
    limited_by: str
    damage: int
    locality: int
    assumed: tuple[str, ...] = ()
    exact: bool = True


class _Rated(msgspec.Struct, frozen=True):
    """Sets of one size in order of their lowest indices, and what is fixed about them."""

    masks: Masks
    busbw: Floats  # -inf = unknown
    distance: Masks


class _Table(msgspec.Struct, frozen=True):
    chosen: Masks
    busbw: Floats
    damage: Masks


def indices(mask: int) -> tuple[int, ...]:
    """Gres indices of a mask, ascending."""
    return ranges.from_mask(mask)


class SetTable:
    """Answers for one machine wiring and gres count (bits 0 … count-1 of every mask).

    `machine` None = wiring unknown; then the lowest free indices are the answer, and it says so.
    """

    def __init__(
        self,
        machine: topo.NodeTopology | None,
        count: int,
        *,
        workload: cluster.Workload = cluster.Workload.ALLREDUCE,
        host: links.Host | None = None,
    ) -> None:
        self.machine, self.count, self.workload = machine, count, workload
        self._wired = wiring.of(machine, host=host) if machine is not None and machine.gpus else None
        self._in_network = workload is cluster.Workload.ALLREDUCE
        self._place = {gpu: p for p, gpu in enumerate(self._wired.index)} if self._wired is not None else {}
        self._uniform = self._wired is not None and self._wired.uniform and set(range(count)) <= set(self._place)
        self._by_size: dict[int, bandwidth.SetBandwidth] = {}
        self._by_set: dict[int, bandwidth.SetBandwidth] = {}
        self._tables: dict[int, _Table] = {}
        self._answers: dict[tuple[int, int], tuple[int, float, int]] = {}
        self._remainder: leftover.Remainder | None = None
        self._distance = self._distances()

    def best(self, free_mask: int, size: int) -> SetChoice | None:
        """The best `size` of the free GPUs; None when fewer are free, or `size` is not positive."""
        free_mask &= (1 << self.count) - 1
        if not 0 < size <= free_mask.bit_count():
            return None
        mask, _, damage = self._answer(free_mask, size)
        found = self.rate(mask)
        exact = self._wired is None or math.comb(free_mask.bit_count(), size) <= MOST_SETS
        locality = int(self._localities(np.array([mask], dtype=np.int64))[0])
        return SetChoice(mask, found.order, found.busbw_gbps, found.limited_by, damage, locality, found.assumed, exact)

    def best_many(self, masks: Masks, size: int) -> tuple[Masks, Floats, Masks]:
        """For each free mask the best set, its bandwidth (nan = unknown or one GPU) and its damage.

        A mask with fewer than `size` GPUs gives set 0, nan, 0. All arrays have the shape of `masks`.
        """
        masks = np.asarray(masks, dtype=np.int64) & ((1 << self.count) - 1)
        if 0 < size <= self.count <= leftover.TABLE_GPUS:
            table = self._table(size)
            return table.chosen[masks], table.busbw[masks], table.damage[masks]
        distinct, back = np.unique(masks, return_inverse=True)
        answers = [self._answer(int(m), size) if 0 < size <= int(m).bit_count() else (0, math.nan, 0) for m in distinct]
        chosen = np.array([a[0] for a in answers], dtype=np.int64)
        busbw = np.array([a[1] for a in answers], dtype=np.float64)
        damage = np.array([a[2] for a in answers], dtype=np.int64)
        return (
            chosen[back].reshape(masks.shape),
            busbw[back].reshape(masks.shape),
            damage[back].reshape(masks.shape),
        )

    def rate(self, mask: int) -> bandwidth.SetBandwidth:
        """Bandwidth and ring order of a given set."""
        gpus = indices(mask)
        if self._wired is None:
            why = "single GPU" if len(gpus) == 1 else "unknown wiring"
            assumed = ("wiring unknown: GPUs are chosen by index",)
            return bandwidth.SetBandwidth(None, gpus, why, assumed)
        known = self._by_set.get(mask)
        if known is None:
            known = self._by_set[mask] = bandwidth.of_set(self._wired, gpus, in_network=self._in_network)
        return known

    def damage(self, free_mask: int, taken: int) -> int:
        """D(M, S), thousandths of a GPU, of any set."""
        free, gone = np.array([free_mask], dtype=np.int64), np.array([taken], dtype=np.int64)
        return int(self._left().damage(free, gone)[0])

    def _answer(self, free_mask: int, size: int) -> tuple[int, float, int]:
        if self.count <= leftover.TABLE_GPUS:
            table = self._table(size)
            return int(table.chosen[free_mask]), float(table.busbw[free_mask]), int(table.damage[free_mask])
        key = (free_mask, size)
        if key not in self._answers:
            self._answers[key] = self._search(free_mask, size)
        return self._answers[key]

    def _table(self, size: int) -> _Table:
        if size not in self._tables:
            self._tables[size] = self._build(size)
        return self._tables[size]

    def _build(self, size: int) -> _Table:
        """All 2^n masks at once: the least of (rank, damage, distance, position) among the sets that fit."""
        rated = self._rated(_subsets(range(self.count), size))
        free = np.arange(1 << self.count, dtype=np.int64)[:, None]
        fits = free & rated.masks == rated.masks
        damage = self._left().damage(free, rated.masks)
        near = _dense(rated.distance)
        key = ((self._rank(rated) * (int(damage.max()) + 1) + damage) * (int(near.max()) + 1) + near) * len(rated.masks)
        key = np.where(fits, key + np.arange(len(rated.masks)), _FAR)
        at = key.argmin(axis=1)
        some = fits.any(axis=1)
        busbw = np.where(np.isfinite(rated.busbw), rated.busbw, np.nan)
        row = np.arange(len(at))
        return _Table(
            np.where(some, rated.masks[at], 0),
            np.where(some, busbw[at], np.nan),
            np.where(some, damage[row, at], 0),
        )

    def _search(self, free_mask: int, size: int) -> tuple[int, float, int]:
        """One mask of a large machine."""
        if self._wired is None:
            mask = ranges.to_mask(indices(free_mask)[:size])
            return mask, math.nan, self.damage(free_mask, mask)
        rated = self._rated(self._least_crowded(self._candidates(free_mask, size)))
        rank = self._rank(rated)
        first = np.flatnonzero(rank == rank.min())
        free = np.full(len(first), free_mask, dtype=np.int64)
        damage = self._left().damage(free, rated.masks[first])
        at = np.lexsort((rated.distance[first], damage))[0]
        busbw = float(rated.busbw[first[at]])
        return int(rated.masks[first[at]]), busbw if math.isfinite(busbw) else math.nan, int(damage[at])

    def _candidates(self, free_mask: int, size: int) -> Masks:
        gpus = indices(free_mask)
        if math.comb(len(gpus), size) <= MOST_SETS or self._wired is None:
            return _subsets(gpus, size)
        nested = self._wired.nested
        near = sorted(gpus, key=lambda g: (nested[self._place[g]], g) if g in self._place else ((len(gpus),), g))
        windows = [ranges.to_mask(near[i : i + size]) for i in range(len(near) - size + 1)]
        return np.array(windows, dtype=np.int64)

    def _rank(self, rated: _Rated) -> Masks:
        """Dense rank by what does not depend on the free mask; 0 the best."""
        if self.workload is cluster.Workload.INDEPENDENT:
            return np.zeros(len(rated.masks), dtype=np.int64)
        keys: list[npt.NDArray[np.int64] | Floats] = [np.round(-rated.busbw, 6), rated.distance]
        if self.workload is cluster.Workload.HOST_BOUND:
            keys.insert(0, self._crowding(rated.masks))
        return _dense(*keys)

    def _least_crowded(self, masks: Masks) -> Masks:
        if self.workload is not cluster.Workload.HOST_BOUND:
            return masks
        crowding = self._crowding(masks)
        fewest: Masks = masks[crowding == crowding.min()]
        return fewest

    def _crowding(self, masks: Masks) -> Masks:
        """Most GPUs of a set in one NUMA node; those of unknown place count as one node."""
        groups: dict[int, int] = {}
        for gpu in range(self.count):
            place = self._place.get(gpu)
            numa = self._wired.numa[place] if self._wired is not None and place is not None else -1
            groups[numa] = groups.get(numa, 0) | 1 << gpu
        most: Masks = np.max([leftover.popcount(masks & group) for group in groups.values()], axis=0)
        return most

    def _rated(self, masks: Masks) -> _Rated:
        size = int(masks[0]).bit_count()
        distance = self._localities(masks)
        if size < 2 or self._wired is None:
            return _Rated(masks, np.full(len(masks), -math.inf), distance)
        if self._uniform:
            if size not in self._by_size:
                self._by_size[size] = self.rate(int(masks[0]))
            return _Rated(masks, np.full(len(masks), self._by_size[size].busbw_gbps or -math.inf), distance)
        return _Rated(masks, self._best_first(masks), distance)

    def _best_first(self, masks: Masks) -> Floats:
        """Bandwidth of each set; -inf where unknown, or where a bound shows that others are better.

        No NVLink ring gives more than the weakest GPU's links inside the set, no PCIe ring more than what it passes.
        Small machines, whose tables want every set, are rated in full.
        """
        busbw = np.full(len(masks), -math.inf)
        bound = self._bounds(masks) if self.count > leftover.TABLE_GPUS else np.full(len(masks), math.inf)
        best = -math.inf
        for at in np.argsort(-bound, kind="stable"):
            if bound[at] < best - 1e-6:
                break
            found = self.rate(int(masks[at])).busbw_gbps
            if found is not None:
                busbw[at] = found
                best = max(best, found)
        return busbw

    def _bounds(self, masks: Masks) -> Floats:
        """Least upper bounds that are quick to get: see `_best_first`. A set that leaves a group passes its way out."""
        wired = self._wired
        if wired is None:
            return np.full(len(masks), math.inf)
        gpu = {p: g for g, p in self._place.items()}
        fabric = np.zeros((self.count, self.count))
        for a, p in self._place.items():
            for b, q in self._place.items():
                if a < self.count and b < self.count:
                    fabric[a, b] = wired.fabric[p][q] * (wired.in_network * 2 + 1 if wired.switched[p] else 1)
        by_pcie = np.full(len(masks), max((edge or 0.0 for row in wired.path for edge in row), default=0.0))
        for group in wired.groups:
            inside = ranges.to_mask([gpu[p] for p in ranges.from_mask(group.members) if gpu[p] < self.count])
            at = list(ranges.from_mask(inside))
            others = [g for g in range(self.count) if g not in at]
            if not fabric[np.ix_(at, others)].any():
                leaves = (masks & inside != 0) & (masks & ~inside != 0)
                by_pcie = np.where(leaves, np.minimum(by_pcie, group.uplink_gbps), by_pcie)
        bits = (masks[:, None] >> np.arange(self.count)) & 1
        by_links = np.where(bits > 0, bits @ fabric, math.inf).min(axis=1)
        bounds: Floats = np.maximum(by_links, by_pcie)
        return bounds

    def _localities(self, masks: Masks) -> Masks:
        bits = (masks[:, None] >> np.arange(self.count)) & 1
        total: Masks = ((bits @ self._distance) * bits).sum(axis=1) // 2
        return total

    def _distances(self) -> Masks:
        distance = np.full((self.count, self.count), _UNKNOWN_DISTANCE, dtype=np.int64)
        np.fill_diagonal(distance, 0)
        for a, p in self._place.items():
            for b, q in self._place.items():
                if a < self.count and b < self.count and self._wired is not None:
                    distance[a, b] = self._wired.distance[p][q]
        return distance

    def _left(self) -> leftover.Remainder:
        if self._remainder is None:
            self._remainder = leftover.Remainder(self._families(), self.count)
        return self._remainder

    def _families(self) -> list[leftover.Family]:
        families = []
        everything = (1 << self.count) - 1
        for size in leftover.SIZES:
            if size > self.count:
                break
            if self._wired is None:
                families.append(leftover.Family(size, groups=(everything,), weight=2))
                continue
            if math.comb(self.count, size) > MOST_SETS:
                continue  # too many sets to know which are equal
            rated = self._rated(self._candidates(everything, size))
            best = rated.busbw.max() if len(rated.busbw) else -math.inf
            full = np.flatnonzero(rated.busbw >= best - 1e-6)
            near = full[rated.distance[full] == rated.distance[full].min()]
            if len(near) == len(full):
                families.append(leftover.Family(size, tuple(map(int, rated.masks[full])), 2))
            else:
                families.append(leftover.Family(size, tuple(map(int, rated.masks[full]))))
                families.append(leftover.Family(size, tuple(map(int, rated.masks[near]))))
        return families


def _subsets(gpus: range | tuple[int, ...], size: int) -> Masks:
    """All sets of `size` of these GPUs as masks, in order of their lowest indices."""
    return np.array([sum(1 << g for g in chosen) for chosen in itertools.combinations(gpus, size)], dtype=np.int64)


def _dense(*keys: npt.NDArray[np.int64] | Floats) -> Masks:
    """Rank of each element by the keys, the first the most significant; equal elements share a rank, from 0."""
    rank: Masks = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        _, part = np.unique(key, return_inverse=True)
        _, rank = np.unique(rank * (int(part.max()) + 1) + part, return_inverse=True)
    return rank
