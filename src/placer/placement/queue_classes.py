"""Nodes that are alike for a queue: the classes on which its MILP counts, instead of jobs on nodes.

Two nodes are alike when the same pieces may use them and they hold the same. What "the same" is depends on what runs
out first (sizes s are the pieces' GPUs; f a node's free GPUs):

* *nested*: the sizes form a chain in which each divides the next, and GPUs are all that runs out. Then pieces fit on a
  set of nodes exactly when for every size s

      Σ_{q: s_q >= s} (s_q / s) y_q <= Σ_i floor(f_i / s),

  since pieces of descending size lose no room for the next one, wherever they go. Nodes of any f are one class.
* *patterns*: any other sizes, or CPUs or memory run out, too. A class has nodes of equal room, and each of them takes
  one of the class's maximal patterns, the ways to fill it to which no piece can be added.
* *sums*: there are too many patterns. One node is exact (its resources, summed); several are a relaxation.

GPUs are all that runs out on a node when no set of pieces that fits into its f needs more of another resource than it
has (an unbounded knapsack over f). A resource that every piece needs in the same proportion to its GPUs never runs out
otherwise than GPUs do: it lowers f to what it lets use.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import msgspec
import numpy as np

from placer.placement import queue_problem as queue

Ints = queue.Ints
Mask = queue.Mask

NESTED, PATTERNS, SUMS = "nested", "patterns", "sums"
MOST_PATTERNS = 300
"""Patterns of one class; above, its resources are only summed."""


class NodeClass(msgspec.Struct, frozen=True, eq=False):
    """Nodes that are alike. `gpus` int [n]: what each can use of its free GPUs; `room` int [D, n].

    `kinds`: pieces that fit on some node and share it, those together that nothing here tells apart. `patterns` count
    kinds. `levels` are those at which some job of the class must stay in one domain; `pooled` has nodes of several.
    """

    nodes: Ints
    form: str
    gpus: Ints
    room: Ints
    kinds: tuple[tuple[int, ...], ...]
    wholes: tuple[int, ...] = ()  # pieces that take a node whole
    levels: tuple[int, ...] = ()
    patterns: tuple[tuple[int, ...], ...] = ()

    @property
    def exact(self) -> bool:
        """Whether every whole number of pieces that keeps the rows of the class fits, were they of different jobs."""
        return self.form != SUMS or len(self.nodes) == 1

    def slots(self, size: int) -> Ints:
        """int [n]: pieces of this size that each node holds."""
        held: Ints = self.gpus // size
        return held


def build(problem: queue.Problem, apart: Mask | None = None) -> list[NodeClass]:
    """All classes; nodes that nothing fits on are in none. Nodes of `apart` (bool [n]) are a class each."""
    fits = problem.fits
    if not fits or not problem.nodes.count:
        return []
    useful = np.logical_or.reduce(fits)
    marks = np.array([*problem.allowed, apart if apart is not None else np.zeros(len(useful), dtype=np.bool_)])
    number = labels(marks)
    found: list[NodeClass] = []
    for label in range(int(number.max()) + 1):
        nodes = np.flatnonzero((number == label) & useful)
        if len(nodes):
            alone = apart is not None and bool(apart[nodes[0]])
            found += _Alike(problem, nodes, alone).classes()
    return sorted(found, key=lambda c: int(c.nodes[0]))


def labels(rows: np.ndarray) -> Ints:
    """A number for each distinct column."""
    packed = np.packbits(rows, axis=0)
    code = np.zeros(rows.shape[1], dtype=np.int64)
    for row in packed:
        _, code = np.unique(code * 256 + row, return_inverse=True)
    return code


class _Alike:
    """Nodes that the same sets of `allowed` hold."""

    def __init__(self, problem: queue.Problem, nodes: Ints, alone: bool) -> None:
        self.problem, self.nodes, self.alone = problem, nodes, alone
        here = [q for q in range(len(problem.pieces)) if problem.fits[q][nodes].any()]
        self.pieces = [problem.pieces[q] for q in here if not problem.pieces[q].whole]
        self.shared = tuple(q for q in here if not problem.pieces[q].whole)
        self.wholes = tuple(q for q in here if problem.pieces[q].whole)
        self.sizes = sorted({piece.gpus for piece in self.pieces} - {0})
        self.chain = all(b % a == 0 for a, b in zip(self.sizes, self.sizes[1:], strict=False))
        self.all_memory = any(piece.all_memory for piece in self.pieces)
        self.room = problem.nodes.room[:, nodes]
        self.gpus = self._usable()
        self.most = [self._most(d) for d in range(len(self.room))]

    def classes(self) -> list[NodeClass]:
        """The classes among these nodes."""
        if self.alone:
            levels = tuple(range(len(self.problem.nodes.domain_of)))
            return [self._class(np.array([at]), SUMS, levels, plain=False) for at in range(len(self.nodes))]
        plain = np.ones(len(self.nodes), dtype=np.bool_)
        for d in range(1, len(self.room)):
            if not self._proportional(d):
                plain &= self.room[d] >= self.most[d]
        whole = np.array([self.problem.fits[q][self.nodes] for q in self.wholes], dtype=np.int64)
        single = whole.any(axis=0) if len(whole) else np.zeros(len(self.nodes), dtype=np.bool_)
        found: list[NodeClass] = []
        keys = np.array([np.where(single | (not self.chain), self.gpus, -1), *whole])
        for rows in groups(keys, np.flatnonzero(plain)):
            found += self._by_domain(rows, NESTED if self.chain else PATTERNS, plain=True)
        keys = np.array([*self._capped(), *whole, self.problem.nodes.memory[self.nodes] * self.all_memory])
        for rows in groups(keys, np.flatnonzero(~plain)):
            found += self._by_domain(rows, PATTERNS, plain=False)
        return found

    def _proportional(self, d: int) -> bool:
        """Whether every piece needs resource d in the same proportion to its GPUs."""
        if any(p.gpus == 0 and p.need[d] for p in self.pieces) or (d == queue.MEMORY and self.all_memory):
            return False
        sized = [p for p in self.pieces if p.gpus]
        return all(p.need[d] * sized[0].gpus == sized[0].need[d] * p.gpus for p in sized)

    def _usable(self) -> Ints:
        gpus: Ints = self.room[queue.GPUS].copy()
        sized = [p for p in self.pieces if p.gpus]
        for d in range(1, len(self.room)):
            if sized and self._proportional(d) and sized[0].need[d]:
                np.minimum(gpus, self.room[d] * sized[0].gpus // sized[0].need[d], out=gpus)
        return np.maximum(gpus, 0)

    def _most(self, d: int) -> Ints:
        """int [n]: the most of resource d that pieces may need together that fit into a node's GPUs."""
        if d == queue.MEMORY and self.all_memory:
            return np.full(len(self.nodes), np.iinfo(np.int64).max)
        most = [0] * (int(self.gpus.max()) + 1)
        sized = {(p.gpus, p.need[d]) for p in self.pieces if p.gpus}
        for f in range(1, len(most)):
            most[f] = max([most[f - 1], *(need + most[f - gpus] for gpus, need in sized if gpus <= f)])
        without = [q for q in self.shared if not self.problem.pieces[q].gpus]
        beside = sum(self.problem.pieces[q].need[d] * self.problem.wanted[q] for q in without)
        table: Ints = np.array(most, dtype=np.int64)[self.gpus] + beside
        return table

    def _capped(self) -> list[Ints]:
        """Room in steps in which it makes a difference, no more than can be used."""
        rows = [self.gpus]
        for d in range(1, len(self.room)):
            step = functools.reduce(math.gcd, (p.need[d] for p in self.pieces), 0)
            if d == queue.MEMORY and self.all_memory:
                step = 1
            rows.append(np.minimum(self.room[d], self.most[d]) // step if step else np.zeros_like(self.gpus))
        return rows

    def _by_domain(self, rows: Ints, form: str, *, plain: bool) -> list[NodeClass]:
        """One class, or one for each domain where a job that must stay in one shares nodes in an inexact way.

        Nodes of several domains can be one class when such jobs take whole nodes or pieces of the largest size there:
        these can be given their nodes first.
        """
        levels: set[int] = set()
        sizes: set[int] = set()
        some = self.nodes[rows]
        for mode in self.problem.modes:
            bound = queue.levels_of(mode)
            here = [q for _, q in mode.parts if self.problem.fits[q][some].any()] if bound else []
            if here:
                levels.update(bound)
                sizes |= {self.problem.pieces[q].gpus for q in here if not self.problem.pieces[q].whole}
        found = tuple(sorted(levels))
        if not found or (form == NESTED and sizes <= set(self.sizes[-1:])):
            return [self._class(rows, form, found, plain=plain)]
        keys = self.problem.nodes.domain_of[list(found)][:, self.nodes]
        return [self._class(part, form, found, plain=plain) for part in groups(keys, rows)]

    def _class(self, rows: Ints, form: str, levels: tuple[int, ...] = (), *, plain: bool) -> NodeClass:
        nodes, fits = self.nodes[rows], self.problem.fits
        alike: dict[tuple[int, ...], list[int]] = {}
        for q in self.shared:
            if fits[q][nodes].any():
                need = self.problem.needs(self.problem.pieces[q], nodes[:1])[:, 0].tolist()
                alike.setdefault(tuple(need[:1] if plain else need), []).append(q)
        patterns: tuple[tuple[int, ...], ...] = ()
        if form == PATTERNS:
            room = [int(value) for value in self.room[:, rows].min(axis=1)]
            wanted = [sum(self.problem.wanted[q] for q in kind) for kind in alike.values()]
            patterns = _patterns(list(alike), [int(self.gpus[rows].min())] if plain else room, wanted)
            form = PATTERNS if patterns else SUMS
        wholes = tuple(q for q in self.wholes if fits[q][nodes].any())
        kinds = tuple(tuple(kind) for kind in alike.values())
        return NodeClass(nodes, form, self.gpus[rows], self.room[:, rows], kinds, wholes, levels, patterns)


def groups(keys: np.ndarray, rows: Ints) -> list[Ints]:
    """The given columns of `keys`, those that are equal together, ascending."""
    if not len(rows):
        return []
    _, number = np.unique(keys[:, rows], axis=1, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    return [rows[part] for part in np.split(order, np.flatnonzero(np.diff(number.ravel()[order])) + 1)]


def _patterns(
    needs: Sequence[tuple[int, ...]], room: Sequence[int], wanted: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """All maximal ways to fill `room`; empty when they are too many."""
    found: list[tuple[int, ...]] = []
    steps = 0

    def descend(at: int, left: tuple[int, ...], chosen: tuple[int, ...]) -> bool:
        nonlocal steps
        steps += 1
        if steps > 40 * MOST_PATTERNS or len(found) > MOST_PATTERNS:
            return False
        if at == len(needs):
            addable = any(
                chosen[q] < wanted[q] and all(n <= r for n, r in zip(need, left, strict=True))
                for q, need in enumerate(needs)
            )
            if not addable:
                found.append(chosen)
            return True
        need = needs[at]
        most = min([wanted[at], *(r // n for n, r in zip(need, left, strict=True) if n > 0)])
        for times in range(most, -1, -1):
            rest = tuple(r - times * n for n, r in zip(need, left, strict=True))
            if not descend(at + 1, rest, (*chosen, times)):
                return False
        return True

    complete = descend(0, tuple(room), ())
    return tuple(found) if complete and len(found) <= MOST_PATTERNS else ()
