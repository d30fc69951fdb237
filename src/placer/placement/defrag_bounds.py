"""What it costs at least to make a node a target, for all nodes at once, and a first plan by rule of thumb.

Both come from the sets of up to three one-piece jobs of a node, and from all of them together. A node for which no such
set suffices needs at least the four cheapest; one for which not even all suffice cannot be a target (unless jobs of
several pieces leave it, which the caller sees to).
"""

from __future__ import annotations

import itertools

import msgspec
import numpy as np

from placer.placement import defrag_moves as moves
from placer.placement import defrag_problem as defrag

Ints = defrag.Ints
Mask = defrag.Mask

NEVER = int(np.iinfo(np.int64).max) // 4
REACH = 8
"""Jobs of a node that are neighbours in the list of a set; a node has few jobs beside each other in practice."""
TRIES = 12
"""Sets of targets that the rule of thumb tries."""


class Bounds(msgspec.Struct, frozen=True, eq=False):
    """int [n]. `least` <= what making a node a target costs, `NEVER` where it cannot be; `jobs[i]` do it for `known`.

    `cheapest` is the cost of the cheapest one-piece job of a node, `NEVER` without one.
    """

    least: Ints
    known: Ints
    cheapest: Ints
    jobs: dict[int, tuple[int, ...]]


def bounds(problem: defrag.Problem, targets: Mask) -> Bounds:
    """For all nodes; those outside `targets` are never targets."""
    pieces = problem.pieces
    count = problem.count
    wanted = np.repeat(np.array(problem.request.need, dtype=np.int64)[:, None], count, axis=1)
    if problem.request.all_memory:
        wanted[defrag.MEMORY] = problem.memory
    short = wanted - problem.room
    cheapest = np.full(count, NEVER, dtype=np.int64)
    np.minimum.at(cheapest, pieces.node, pieces.cost)
    everything = np.zeros_like(problem.room)
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, pieces.node, pieces.cost)
    for d in range(len(everything)):
        np.add.at(everything[d], pieces.node, pieces.need[d])
    known = np.full(count, NEVER, dtype=np.int64)
    jobs: dict[int, tuple[int, ...]] = {}
    free = targets & (short <= 0).all(axis=0)
    if problem.request.whole:
        empty = targets & problem.clear & (short <= everything).all(axis=0)
        gangs = [node for job in problem.jobs if len(job.nodes) > 1 for node in job.nodes]
        empty[gangs] = False
        known[empty] = total[empty]
        jobs = _of_nodes(pieces, np.flatnonzero(empty))
        return Bounds(known.copy(), known, cheapest, jobs)
    known[free] = 0
    for nodes, sets, costs in _sets(pieces, short, targets & ~free):
        for node, members, cost in zip(nodes.tolist(), sets.T.tolist(), costs.tolist(), strict=True):
            if cost < known[node]:
                known[node] = cost
                jobs[node] = tuple(members)
    least = known.copy()
    rest = targets & (known == NEVER) & (short <= everything).all(axis=0)
    least[rest] = _four(pieces, count)[rest]
    known[rest] = total[rest]
    jobs.update(_of_nodes(pieces, np.flatnonzero(rest)))
    return Bounds(least, known, cheapest, jobs)


def _sets(pieces: defrag.Pieces, short: Ints, open_: Mask) -> list[tuple[Ints, Ints, Ints]]:
    """(nodes, jobs [k, m], costs) of all sets of k = 1, 2, 3 jobs of one node that make it a target, per offset."""
    found = []
    steps = [(), *((a,) for a in range(1, REACH)), *itertools.combinations(range(1, REACH), 2)]
    total = len(pieces.node)
    for offsets in steps:
        first = np.arange(max(0, total - (offsets[-1] if offsets else 0)))
        at = np.array([first, *(first + offset for offset in offsets)])
        nodes = pieces.node[at]
        keep = open_[nodes[0]] & (nodes == nodes[0]).all(axis=0)
        at, nodes = at[:, keep], nodes[:, keep]
        enough = (pieces.need[:, at].sum(axis=1) >= short[:, nodes[0]]).all(axis=0)
        at = at[:, enough]
        found.append((pieces.node[at[0]], pieces.job[at], pieces.cost[at].sum(axis=0)))
    return found


def _four(pieces: defrag.Pieces, count: int) -> Ints:
    """int [n]: the costs of the four cheapest jobs of each node, of fewer where it has fewer."""
    total = np.zeros(count, dtype=np.int64)
    begins = np.flatnonzero(np.diff(pieces.node, prepend=-1))
    rank = np.arange(len(pieces.node)) - np.repeat(begins, np.diff(begins, append=len(pieces.node)))
    np.add.at(total, pieces.node[rank < 4], pieces.cost[rank < 4])
    return total


def _of_nodes(pieces: defrag.Pieces, nodes: Ints) -> dict[int, tuple[int, ...]]:
    begin, end = np.searchsorted(pieces.node, nodes), np.searchsorted(pieces.node, nodes, side="right")
    return {node: tuple(pieces.job[b:e].tolist()) for node, b, e in zip(nodes.tolist(), begin, end, strict=True)}


def first_plan(problem: defrag.Problem, known: Bounds, targets: Mask) -> moves.Placed | None:
    """The K cheapest targets, or the next ones, whose jobs find other nodes at once; None proves nothing."""
    count = problem.request.count
    nodes = np.flatnonzero(targets & (known.known < NEVER))
    order = nodes[np.lexsort((nodes, -problem.room[defrag.GPUS, nodes], known.known[nodes]))]
    for begin in range(min(TRIES, len(order) - count + 1)):
        chosen = order[begin : begin + count].tolist()
        jobs = sorted(j for node in chosen for j in known.jobs.get(node, ()))
        placed = moves.place(problem, jobs, chosen)
        if placed is not None:
            return placed
        if count > 1 and begin >= 2:
            break
    return None
