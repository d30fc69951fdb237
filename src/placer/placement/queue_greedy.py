"""The rule of thumb for a whole queue: job by job, the tightest nodes that fit.

Jobs are taken by tier, value for each GPU, size (largest first) and order; each starts in the first of its modes that
fits. A piece goes to the node with the fewest free GPUs, then CPUs, then memory, then in natural order; a job that
must stay in one domain to the domain with the fewest nodes that fit. `Room` also serves to repair and to look ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from placer.placement import queue_problem as queue

Ints = queue.Ints
Mask = queue.Mask


class Room:
    """What is free while jobs are being placed; a copy, so that the problem stays as it is."""

    def __init__(self, problem: queue.Problem) -> None:
        self.problem = problem
        self.room = problem.nodes.room.copy()
        self.untouched = problem.nodes.untouched.copy()
        self._full: set[int] = set()  # modes that have failed: room only shrinks

    def reopen(self) -> None:
        """Forget what did not fit, since something was given back."""
        self._full.clear()

    def place(self, mode_number: int) -> tuple[tuple[int, ...], ...] | None:
        """The nodes of each part, taken; None when the mode does not fit any more."""
        if mode_number in self._full:
            return None
        mode = self.problem.modes[mode_number]
        found = self._choose(mode)
        if found is None:
            self._full.add(mode_number)
            return None
        for (_, piece), nodes in zip(mode.parts, found, strict=True):
            self.take(piece, nodes)
        return tuple(tuple(sorted(nodes.tolist())) for nodes in found)

    def many(self, mode_number: int, count: int) -> list[int]:
        """The nodes of up to `count` jobs of one node each, one after the other, as `place` would choose them."""
        if mode_number in self._full:
            return []
        ((_, number),) = self.problem.modes[mode_number].parts
        found = self.pieces(number, count, np.arange(self.problem.nodes.count))
        if len(found) < count:
            self._full.add(mode_number)
        return found

    def pieces(self, number: int, count: int, among: Ints) -> list[int]:
        """Up to `count` equal pieces on some of these nodes, each on the tightest node; a node may give several."""
        piece = self.problem.pieces[number]
        where = among[self.fits(number, among)]
        if count == 1:
            where = where[[np.argmin(self._tightness(where))]] if len(where) else where
            self.take(number, where)
            return [int(node) for node in where]
        where = self.tightest(where)
        times = self._times(piece, where)
        ends = np.cumsum(times)
        times = np.clip(times - (ends - count), 0, times)
        where, times = where[times > 0], times[times > 0]
        self.room[:, where] -= self.problem.needs(piece, where) * times
        self.untouched[where] = False
        if piece.whole:
            self.room[:, where] = -1
        return [int(node) for node in np.repeat(where, times)]

    def take(self, number: int, nodes: Ints) -> None:
        """Take a piece of each of these nodes."""
        piece = self.problem.pieces[number]
        self.room[:, nodes] -= self.problem.needs(piece, nodes)
        self.untouched[nodes] = False
        if piece.whole:
            self.room[:, nodes] = -1

    def fits(self, number: int, among: Ints) -> Mask:
        """For each of these nodes whether a piece fits there now."""
        problem, piece = self.problem, self.problem.pieces[number]
        found = problem.allowed[piece.allowed][among]
        for d, need in enumerate(piece.need):
            if need:
                found = found & (self.room[d, among] >= need)
            elif d == queue.GPUS:
                found = found & (self.room[d, among] >= 0)
        if piece.all_memory:
            found = found & (self.room[queue.MEMORY, among] >= problem.nodes.memory[among])
        return found & self.untouched[among] if piece.whole else found

    def _times(self, piece: queue.Piece, where: Ints) -> Ints:
        """How often a piece fits on each of these nodes, where it fits once."""
        if piece.whole:
            return np.ones(len(where), dtype=np.int64)
        needed = self.problem.needs(piece, where)
        times = np.where(needed > 0, self.room[:, where] // np.maximum(needed, 1), np.iinfo(np.int64).max)
        least: Ints = times.min(axis=0)
        return np.minimum(least, 1 << 20)

    def tightest(self, where: Ints) -> Ints:
        """These nodes, those with the least free GPUs first, then CPUs, then memory, then the first ones."""
        order: Ints = where[np.argsort(self._tightness(where), kind="stable")]
        return order

    def _tightness(self, where: Ints) -> Ints:
        """One number that orders by GPUs, CPUs (up to 2^16) and memory (up to 2^32 MiB)."""
        gpus, cpus, memory = (self.room[d, where] for d in (queue.GPUS, queue.CPUS, queue.MEMORY))
        one: Ints = ((gpus << 16) + np.minimum(cpus, (1 << 16) - 1) << 32) + np.minimum(memory, (1 << 32) - 1)
        return one

    def _choose(self, mode: queue.Mode) -> list[Ints] | None:
        everywhere = np.arange(self.problem.nodes.count)
        fits = [self.fits(number, everywhere) for _, number in mode.parts]
        anywhere = np.logical_or.reduce(fits)
        if int(anywhere.sum()) < mode.nodes:
            return None
        for inside in self._homes(mode, anywhere):
            found = self._inside(mode, [fit & inside for fit in fits])
            if found is not None:
                return found
        return None

    def _homes(self, mode: queue.Mode, fits: Mask) -> Iterable[Mask]:
        """Where all nodes of the job may lie, the tightest place first."""
        level = queue.bound_at(mode)
        if level is None:
            yield np.ones(len(fits), dtype=np.bool_)
            return
        domain = self.problem.nodes.domain_of[level]
        room = np.bincount(domain[fits], minlength=int(domain.max()) + 1)
        for home in np.argsort(room, kind="stable"):
            if room[home] >= mode.nodes:
                yield domain == home
        if mode.level is None and mode.most is not None:
            yield np.isin(domain, np.argsort(-room, kind="stable")[: mode.most[1]])

    def _inside(self, mode: queue.Mode, fits: list[Mask]) -> list[Ints] | None:
        """The tightest nodes for each part; forced ones and those that count for `at_least` first."""
        first = np.zeros(self.problem.nodes.count, dtype=np.int64)
        if mode.forced is not None:
            first -= 1000 * self.problem.allowed[mode.forced]
        for group, _ in mode.at_least:
            first -= self.problem.allowed[group]
        free, found = np.ones(self.problem.nodes.count, dtype=np.bool_), []
        for (count, _), fit in zip(mode.parts, fits, strict=True):
            where = self.tightest(np.flatnonzero(fit & free))
            if len(where) < count:
                return None
            where = where[np.argsort(first[where], kind="stable")][:count] if first.any() else where[:count]
            free[where] = False
            found.append(where)
        kept = queue.keeps(self.problem, mode, [int(node) for nodes in found for node in nodes])
        return found if kept else None


class _Batch(msgspec.Struct, frozen=True):
    """Neighbours in the order of the rule that have the same modes."""

    modes: tuple[int, ...]
    jobs: list[int]


def order(problem: queue.Problem) -> list[int]:
    """Jobs by tier, value for each GPU, size and order."""

    def key(number: int) -> tuple[float, ...]:
        job = problem.jobs[number]
        size = max(1, max((gpus_of(problem, m) for m in job.modes), default=1))
        return (job.tier, -job.value / size, -size, *job.modes, number)

    return sorted(range(len(problem.jobs)), key=key)


def gpus_of(problem: queue.Problem, mode: int) -> int:
    """GPUs that a job takes in this mode."""
    return sum(count * problem.pieces[number].gpus for count, number in problem.modes[mode].parts)


def fill(problem: queue.Problem, room: Room, jobs: Iterable[int], late: Callable[[], bool]) -> list[queue.Start]:
    """Start what fits of these jobs, in this order, until it is `late`."""
    starts: list[queue.Start] = []
    for batch in _batches(problem, jobs):
        if late():
            break
        left = list(batch.jobs)
        for mode in batch.modes:
            shape = problem.modes[mode]
            if shape.nodes == 1 and shape.simple and shape.level is None:
                nodes = room.many(mode, len(left))
                starts += [queue.Start(job, mode, ((node,),)) for job, node in zip(left, nodes, strict=False)]
                left = left[len(nodes) :]
                continue
            while left and (found := room.place(mode)) is not None:
                starts.append(queue.Start(left.pop(0), mode, found))
    return sorted(starts, key=lambda start: start.job)


def _batches(problem: queue.Problem, jobs: Iterable[int]) -> Iterable[_Batch]:
    batch = _Batch((), [])
    for number in jobs:
        modes = problem.jobs[number].modes
        if modes != batch.modes:
            if batch.jobs:
                yield batch
            batch = _Batch(modes, [])
        batch.jobs.append(number)
    if batch.jobs:
        yield batch
