"""New nodes for the jobs that move (symbols of `defrag_problem`).

Pieces of descending size go to the nodes of least room that hold them once all moves are done, those first that hold
them already, so that moves wait for each other as little as can be. Where a piece finds no node the last choices are
taken back, within a bounded number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from placer.placement import defrag_problem as defrag

Ints = defrag.Ints

MOST_STEPS = 4000
WIDTH = 6
"""Different nodes that are tried for one piece."""


_REST = -1
"""Stands for the nodes that were not listed yet."""


class Placed(msgspec.Struct, frozen=True):
    """A full answer but for the order: for each job that moves the new node of each piece; the targets."""

    jobs: tuple[tuple[int, tuple[int, ...]], ...]
    targets: tuple[int, ...]


def stay(problem: defrag.Problem, placed: Placed) -> Placed:
    """The same with as few pieces on other nodes as can be: those of a job with equal needs may change places."""
    jobs = []
    for j, nodes in placed.jobs:
        job, new = problem.jobs[j], list(nodes)
        for p, own in enumerate(job.nodes):
            other = new.index(own) if own in new else p
            if other != p and job.needs[other] == job.needs[p]:
                new[p], new[other] = new[other], new[p]
        jobs.append((j, tuple(new)))
    return Placed(tuple(jobs), placed.targets)


class _Piece(msgspec.Struct, frozen=True):
    job: int
    piece: int
    need: tuple[int, ...]


def place(problem: defrag.Problem, jobs: Sequence[int], targets: Sequence[int]) -> Placed | None:
    """Nodes for all pieces of these jobs; None when none were found, which proves nothing."""
    return _Search(problem, jobs, targets).run()


class _Search:
    def __init__(self, problem: defrag.Problem, jobs: Sequence[int], targets: Sequence[int]) -> None:
        self.problem, self.jobs, self.targets = problem, list(jobs), tuple(targets)
        pieces = [_Piece(j, p, need) for j in jobs for p, need in enumerate(problem.jobs[j].needs)]
        self.pieces = sorted(pieces, key=lambda piece: (tuple(-amount for amount in piece.need), piece.job))
        self.now = problem.room.copy()
        self.then = problem.room.copy()
        for piece in pieces:
            self.then[:, problem.jobs[piece.job].nodes[piece.piece]] += np.array(piece.need, dtype=np.int64)
        for node in targets:
            wanted = np.array(problem.wanted(node), dtype=np.int64)
            self.then[:, node] -= wanted
            self.now[:, node] -= wanted
            if problem.request.whole:
                self.then[:, node] = -1
        self.at: dict[tuple[int, int], int] = {}
        self.steps = 0

    def run(self) -> Placed | None:
        """All pieces, or None."""
        if (self.then[:, list(self.targets)] < (-1 if self.problem.request.whole else 0)).any() or not self._all():
            return None
        found = [(j, tuple(self.at[j, p] for p in range(len(self.problem.jobs[j].nodes)))) for j in self.jobs]
        moved = [(j, nodes) for j, nodes in found if nodes != self.problem.jobs[j].nodes]
        return Placed(tuple(sorted(moved)), self.targets)

    def _all(self) -> bool:
        """Place every piece. A loop, not a recursion: a plan may have hundreds."""
        tried: list[list[int]] = []  # nodes to try, the first is where the piece lies
        while len(tried) < len(self.pieces):
            nodes = self._nodes(self.pieces[len(tried)], 1)
            self.steps += 1
            if nodes:
                tried.append([*nodes, _REST])
                self._put(self.pieces[len(tried) - 1], nodes[0], back=False)
            elif self.steps > MOST_STEPS or not self._back(tried):
                return False
        return True

    def _back(self, tried: list[list[int]]) -> bool:
        """Take the last choice back that has another one left."""
        while tried:
            piece, nodes = self.pieces[len(tried) - 1], tried[-1]
            first = nodes.pop(0)
            self._put(piece, first, back=True)
            if nodes == [_REST]:
                nodes[:] = [node for node in self._nodes(piece, WIDTH) if node != first]
            if nodes:
                self._put(piece, nodes[0], back=False)
                return True
            tried.pop()
        return False

    def _put(self, piece: _Piece, node: int, *, back: bool) -> None:
        sign = 1 if back else -1
        need = np.array(piece.need, dtype=np.int64) * sign
        self.then[:, node] += need
        self.now[:, node] += need
        if back:
            del self.at[piece.job, piece.piece]
        else:
            self.at[piece.job, piece.piece] = node

    def _nodes(self, piece: _Piece, most: int) -> list[int]:
        """Up to so many nodes to try, the best first; of equal ones only the first."""
        job = self.problem.jobs[piece.job]
        fits = self.problem.allowed[job.allowed].copy()
        if len(job.nodes) == 1:
            fits[job.nodes[0]] = False
        else:
            fits[job.nodes[piece.piece]] = True
            fits[[node for (j, _), node in self.at.items() if j == piece.job]] = False
        for d, need in enumerate(piece.need):
            if need or d == defrag.GPUS:
                fits &= self.then[d] >= need
        where = np.flatnonzero(fits)
        if not len(where):
            return []
        later = np.zeros(len(where), dtype=np.bool_)
        for d, need in enumerate(piece.need):
            later |= self.now[d, where] < need
        rank: Ints = later.astype(np.int64)
        for row in self.then[:, where]:
            rank = rank * (int(row.max()) + 1) + row
        if len(job.nodes) > 1:
            rank[where == job.nodes[piece.piece]] = -1  # it may stay
        if most == 1:
            return [int(where[np.argmin(rank)])]
        _, first = np.unique(rank, return_index=True)
        return [int(node) for node in where[first[:most]]]
