"""Many waiting jobs at once, in arrays: the question, the answer, and when an answer is allowed.

Symbols, used by every search of this question:

    n nodes i in natural name order; D resources d: GPUs, logical CPUs, memory, then GPU types that share a node with
    others; room_di = what is free; L levels l, closest first, every node in one domain of each
    q piece: what one node must give: need_qd of every resource, on the nodes that it may use, perhaps a whole one
    m mode: one way to run a job: k_mq pieces q, all on different nodes, all in one domain of level l_m if it names one
    j job: its modes M_j, its value v_j, its tier; at most one mode of it starts

An answer starts some jobs now, so that no node gives more than it has. It is better when the value of its jobs of the
first tier is greater, then that of the second, and so on; each job's value counts a little more in a mode of `bonus`.
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
"""Rows of `room` and positions in `Piece.need`; GPU types come behind."""

BONUS_SHARE = 0.01
"""All bonuses together are worth this share of the least value: they decide only between plans of equal value."""


class Nodes(msgspec.Struct, frozen=True, eq=False):
    """n nodes in natural order. `room` int [D, n] is free; `memory` int [n] what each has in all.

    `untouched` bool [n]: nothing runs there. `domain_of` int [L, n]: dense domain numbers, none missing.
    """

    room: Ints
    memory: Ints
    untouched: Mask
    domain_of: Ints

    @property
    def count(self) -> int:
        """n."""
        return int(self.room.shape[1])


class Piece(msgspec.Struct, frozen=True):
    """What one node must give. `allowed` is a position in `Problem.allowed`.

    `all_memory`: the node's whole memory, free; `need` says 0 then. `whole`: an untouched node, and nothing beside it.
    """

    need: tuple[int, ...]
    allowed: int = 0
    whole: bool = False
    all_memory: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of the piece."""
        return self.need[GPUS]


class Mode(msgspec.Struct, frozen=True):
    """One way to run a job: `parts` are (number of nodes, piece). All nodes differ.

    `level`: all of them in one domain of it. `most`: (level, number): at most so many domains of that level. `forced`
    and `at_least` name positions in `Problem.allowed`: every node of it, or so many nodes of it, must be among them.
    """

    parts: tuple[tuple[int, int], ...]
    level: int | None = None
    bonus: bool = False
    forced: int | None = None
    at_least: tuple[tuple[int, int], ...] = ()
    most: tuple[int, int] | None = None
    copy: int = 0  # tells modes apart that are otherwise equal

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(count for count, _ in self.parts)

    @property
    def simple(self) -> bool:
        """Whether several jobs of this mode can be counted together, not told apart."""
        return len(self.parts) == 1 and self.forced is None and not self.at_least and self.most is None


class Waiting(msgspec.Struct, frozen=True):
    """One job of the queue. Tier 0 comes first. Jobs stand in the order in which equal ones start."""

    modes: tuple[int, ...]
    value: float
    tier: int = 0


class Problem(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The whole question. `allowed` are bool [n]: sets of nodes that pieces and modes name by position."""

    nodes: Nodes
    allowed: tuple[Mask, ...]
    pieces: tuple[Piece, ...]
    modes: tuple[Mode, ...]
    jobs: tuple[Waiting, ...]

    @property
    def tiers(self) -> tuple[int, ...]:
        """The tiers that occur, the first one first."""
        return tuple(sorted({job.tier for job in self.jobs}))

    @functools.cached_property
    def fits(self) -> tuple[Mask, ...]:
        """For each piece bool [n]: the nodes that could give it, were it alone."""
        return tuple(fits_on(self, piece, self.nodes.room, self.nodes.untouched) for piece in self.pieces)

    @functools.cached_property
    def wanted(self) -> tuple[int, ...]:
        """For each piece how many of it the jobs take at most, each in the mode that takes most."""
        count = [0] * len(self.pieces)
        alike: dict[tuple[int, ...], int] = {}
        for job in self.jobs:
            alike[job.modes] = alike.get(job.modes, 0) + 1
        for modes, jobs in alike.items():
            taken: dict[int, int] = {}
            for mode in modes:
                own: dict[int, int] = {}
                for nodes, piece in self.modes[mode].parts:
                    own[piece] = own.get(piece, 0) + nodes
                for piece, nodes in own.items():
                    taken[piece] = max(taken.get(piece, 0), nodes)
            for piece, nodes in taken.items():
                count[piece] += jobs * nodes
        return tuple(count)

    def needs(self, piece: Piece, nodes: Ints) -> Ints:
        """int [D, len(nodes)]: what a piece takes of these nodes."""
        needed = np.repeat(np.array(piece.need, dtype=np.int64)[:, None], len(nodes), axis=1)
        if piece.all_memory:
            needed[MEMORY] = self.nodes.memory[nodes]
        return needed


class Start(msgspec.Struct, frozen=True):
    """A job that starts: its mode, and for each part of it the nodes, ascending."""

    job: int
    mode: int
    nodes: tuple[tuple[int, ...], ...]


class Answer(msgspec.Struct, frozen=True):
    """Which jobs start, in the order of the jobs. `value` sums their values, `greedy_value` those of the rule of thumb.

    `solve.objective` is minus `value` and `solve.bound` minus the most that any plan can reach, over all tiers; of
    several tiers it is the bound of the last one under what the ones before it have.
    """

    solve: place.SolveResult
    starts: tuple[Start, ...]
    value: float
    greedy_value: float


def bound_at(mode: Mode) -> int | None:
    """The level at which a mode limits the domains of its nodes; None = it does not."""
    return mode.level if mode.level is not None else (mode.most[0] if mode.most is not None else None)


def levels_of(mode: Mode) -> tuple[int, ...]:
    """All levels at which a mode limits the domains of its nodes."""
    return tuple(level for level in (mode.level, mode.most[0] if mode.most is not None else None) if level is not None)


def fits_on(problem: Problem, piece: Piece, room: Ints, untouched: Mask) -> Mask:
    """bool [n]: the nodes on which a piece fits in `room`."""
    fits: Mask = problem.allowed[piece.allowed] & (room >= np.array(piece.need, dtype=np.int64)[:, None]).all(axis=0)
    if piece.all_memory:
        fits &= room[MEMORY] >= problem.nodes.memory
    if piece.whole:
        fits &= untouched
    return fits


def value_of(problem: Problem, starts: tuple[Start, ...] | list[Start]) -> float:
    """Σ v_j over the jobs that start, added in the order of the jobs."""
    return float(sum(problem.jobs[number].value for number in sorted(start.job for start in starts)))


def violation(problem: Problem, starts: tuple[Start, ...]) -> str | None:
    """What an answer breaks, by the definitions above; None when it is allowed."""
    room, untouched = problem.nodes.room.copy(), problem.nodes.untouched.copy()
    if len({start.job for start in starts}) < len(starts):
        return "a job starts twice"
    for start in starts:
        mode = problem.modes[start.mode]
        if start.mode not in problem.jobs[start.job].modes or [len(part) for part in start.nodes] != [
            count for count, _ in mode.parts
        ]:
            return f"job {start.job} does not run so"
        for (_, number), part in zip(mode.parts, start.nodes, strict=True):
            piece, where = problem.pieces[number], np.array(part, dtype=np.int64)
            if not fits_on(problem, piece, room, untouched)[where].all():
                return f"job {start.job} does not fit"
            room[:, where] -= problem.needs(piece, where)
            untouched[where] = False
            if piece.whole:
                room[:, where] = -1
        if not keeps(problem, mode, [node for part in start.nodes for node in part]):
            return f"job {start.job} does not keep its constraints"
    return None


def keeps(problem: Problem, mode: Mode, nodes: list[int]) -> bool:
    """Whether the nodes of a job differ and keep what its mode says of all of them together."""
    where = np.array(nodes, dtype=np.int64)
    domain = problem.nodes.domain_of
    return (
        len(set(nodes)) == mode.nodes
        and (mode.level is None or len(np.unique(domain[mode.level, where])) == 1)
        and (mode.most is None or len(np.unique(domain[mode.most[0], where])) <= mode.most[1])
        and (mode.forced is None or set(np.flatnonzero(problem.allowed[mode.forced]).tolist()) <= set(nodes))
        and all(int(problem.allowed[group][where].sum()) >= least for group, least in mode.at_least)
    )
