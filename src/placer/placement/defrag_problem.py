"""The fewest moves that make room for a request, in arrays: the question, the answer, and when an answer is allowed.

Symbols, used by every search of this question:

    n nodes i in natural name order; D resources d: GPUs, logical CPUs, memory, then GPU types that share a node with
    others; room_di = what is free
    j running job that may be moved: pieces p_j on nodes, all different; need_pd of each; A_j the nodes it may use; c_j
    what moving it costs. A job of several pieces moves as a whole.
    the request: K pieces on different nodes of A_0, need_0d each, all in one domain of level l_0 if it names one

An answer moves some jobs, each piece to a node of A_j, pieces of one job to different nodes, and chooses K target
nodes, so that no node gives more than it has. Some pieces of a moved job of several may keep their nodes. An answer is
better when Σ c_j over the moved jobs is less. It is carried out step by step: the moves of a step leave their nodes
together and must then fit where they go.
"""

from __future__ import annotations

import functools

import msgspec
import numpy as np
import numpy.typing as npt

from placer.placement import types as place

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

GPUS, CPUS, MEMORY = 0, 1, 2


class Resident(msgspec.Struct, frozen=True):
    """A running job that may be moved: its nodes, what it takes of each, where it may go (a position in `allowed`).

    `cost` in thousandths of a move.
    """

    nodes: tuple[int, ...]
    needs: tuple[tuple[int, ...], ...]
    allowed: int
    cost: int


class Request(msgspec.Struct, frozen=True):
    """K pieces. `whole`: every node of it must be empty; `need` says what it takes all the same."""

    count: int
    need: tuple[int, ...]
    allowed: int
    level: int | None = None
    whole: bool = False
    all_memory: bool = False


class Pieces(msgspec.Struct, frozen=True, eq=False):
    """Jobs of one piece by node, then cost, then number: number, node, need int [D, P], cost."""

    job: Ints
    node: Ints
    need: Ints
    cost: Ints


class Problem(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The whole question. `room` int [D, n] is free, `memory` int [n] what a node has in all.

    `clear` bool [n]: nothing runs there but pieces of `jobs`. `domain_of` int [L, n], none missing. `allowed` bool [n].
    """

    room: Ints
    memory: Ints
    clear: Mask
    domain_of: Ints
    allowed: tuple[Mask, ...]
    jobs: tuple[Resident, ...]
    request: Request

    @property
    def count(self) -> int:
        """n."""
        return int(self.room.shape[1])

    @functools.cached_property
    def pieces(self) -> Pieces:
        """The jobs of one piece as arrays."""
        single = [j for j, job in enumerate(self.jobs) if len(job.nodes) == 1]
        node = np.array([self.jobs[j].nodes[0] for j in single], dtype=np.int64)
        cost = np.array([self.jobs[j].cost for j in single], dtype=np.int64)
        need = np.array([self.jobs[j].needs[0] for j in single], dtype=np.int64).reshape(-1, len(self.room)).T
        number = np.array(single, dtype=np.int64)
        order = np.lexsort((number, cost, node))
        return Pieces(number[order], node[order], need[:, order], cost[order])

    def wanted(self, node: int) -> tuple[int, ...]:
        """What the request takes of a node."""
        need = list(self.request.need)
        if self.request.all_memory:
            need[MEMORY] = int(self.memory[node])
        return tuple(need)


class Move(msgspec.Struct, frozen=True):
    """One piece of one job. Pieces with the same `step` are moved together."""

    step: int
    job: int
    piece: int
    source: int
    target: int


class Answer(msgspec.Struct, frozen=True):
    """The moves in the order in which they are carried out, and the nodes that the request then gets.

    `solve.objective` is Σ c_j in moves; `detours` counts moves beyond it, to a node that a job leaves again. `order`
    says what is known of the order: empty where every move stands alone.
    """

    solve: place.SolveResult
    moves: tuple[Move, ...] = ()
    targets: tuple[int, ...] = ()
    detours: int = 0
    order: str = ""


def unmoved(problem: Problem) -> dict[tuple[int, int], int]:
    """(job, piece) -> node, as things are."""
    return {(j, p): node for j, job in enumerate(problem.jobs) for p, node in enumerate(job.nodes)}


def violation(problem: Problem, answer: Answer) -> str | None:
    """What an answer breaks, carried out step by step; None when it is allowed."""
    room = problem.room.copy()
    where = unmoved(problem)
    for step in sorted({move.step for move in answer.moves}):
        moves = [move for move in answer.moves if move.step == step]
        for move in moves:
            if where[move.job, move.piece] != move.source or move.source == move.target:
                return f"job {move.job} is not where step {step} takes it from"
            room[:, move.source] += np.array(problem.jobs[move.job].needs[move.piece], dtype=np.int64)
        for move in moves:
            room[:, move.target] -= np.array(problem.jobs[move.job].needs[move.piece], dtype=np.int64)
            where[move.job, move.piece] = move.target
        if (room[:, [move.target for move in moves]] < 0).any():
            return f"step {step} does not fit"
    for j, job in enumerate(problem.jobs):
        nodes = [where[j, p] for p in range(len(job.nodes))]
        if len(set(nodes)) < len(nodes) or (nodes != list(job.nodes) and not problem.allowed[job.allowed][nodes].all()):
            return f"job {j} may not lie there"
    return _targets(problem, answer, room, where)


def _targets(problem: Problem, answer: Answer, room: Ints, where: dict[tuple[int, int], int]) -> str | None:
    request, targets = problem.request, list(answer.targets)
    if len(set(targets)) != request.count or not problem.allowed[request.allowed][targets].all():
        return "the request does not get its nodes"
    if request.level is not None and len(np.unique(problem.domain_of[request.level, targets])) > 1:
        return "the request lies in several domains"
    for node in targets:
        if (room[:, node] < np.array(problem.wanted(node), dtype=np.int64)).any():
            return f"node {node} has no room for the request"
        if request.whole and (not problem.clear[node] or node in where.values()):
            return f"node {node} is not empty"
    return None
