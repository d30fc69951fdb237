"""Why a pending job starts or waits, in words."""

from __future__ import annotations

from placer.advice import queue_entries
from placer.placement import queue_greedy as greedy
from placer.placement import queue_jobs, shapes
from placer.placement import queue_problem as arrays


class Reasons:
    """Words about the entries of one plan."""

    def __init__(self, made: queue_jobs.Queue, answer: arrays.Answer) -> None:
        self.made = made
        self.refused = dict(made.refused)
        self._alone: dict[tuple[int, ...], bool] = {}
        whole = queue_jobs.room_of(queue_jobs.emptied(made.site.free), made.types)
        nodes = made.problem.nodes
        self._empty = arrays.Nodes(whole, nodes.memory, nodes.memory >= 0, nodes.domain_of)
        self._ever: dict[tuple[int, ...], bool] = {}

    def gpus(self, entry: int, member: int) -> int | None:
        """GPUs of one task of a member in the first of its shapes."""
        ways = self.made.ways[entry]
        return ways[0].shapes[member].gpus if ways else None

    def of(self, entry: int, count: int, one: queue_entries.Waiting) -> str:
        """Why `count` tasks of an entry start and the others do not."""
        if entry in self.refused:
            return self.refused[entry]
        if count == one.of:
            return "fits now"
        held = one.of - one.tasks
        if count:
            limit = f"; the array's own limit holds {held} back" if held else ""
            more = "; jobs of more value take the room of the others" if count < one.tasks else ""
            return f"{count} of {one.of} tasks fit now{more}{limit}"
        ways = self.made.ways[entry]
        modes, wants = tuple(way.mode for way in ways), _wants(ways[0].shapes) if ways else "no shape"
        if self._fits(modes, self.made.problem.nodes, self._alone):
            kept = " or it is kept for them" if self.made.entries[entry].avoid else ""
            return f"{wants} would fit now, but jobs of more value take the room{kept}"
        if not self._fits(modes, self._empty, self._ever):
            return f"{wants} cannot be had from the nodes that are up, even when they are empty"
        return f"{wants} cannot be had now{self._counts(entry)}"

    def _fits(self, modes: tuple[int, ...], nodes: arrays.Nodes, known: dict[tuple[int, ...], bool]) -> bool:
        """Whether a job fits on these nodes alone, by the rule of thumb."""
        if modes not in known:
            problem = self.made.problem
            alone = arrays.Problem(nodes, problem.allowed, problem.pieces, problem.modes, ())
            known[modes] = any(greedy.Room(alone).place(mode) is not None for mode in modes)
        return known[modes]

    def _counts(self, entry: int) -> str:
        """How many nodes could give the largest piece of the first way."""
        problem = self.made.problem
        parts = problem.modes[self.made.ways[entry][0].mode].parts
        count, number = max(parts, key=lambda part: problem.pieces[part[1]].gpus)
        return f": {int(problem.fits[number].sum())} of {problem.nodes.count} nodes fit, {count} needed"


def _wants(found: tuple[shapes.Shape, ...]) -> str:
    return " and ".join(_shape(shape) for shape in found)


def _shape(shape: shapes.Shape) -> str:
    nodes = "1 node" if shape.count == 1 else f"{shape.count} nodes"
    if shape.fill or shape.extra:
        return f"{shape.gpus} GPUs on {nodes}" + ("" if shape.exactly else " or more")
    if not shape.demand.gpus:
        return nodes
    return f"{shape.count} x {shape.demand.gpus} GPU" + ("s" if shape.demand.gpus > 1 else "")
