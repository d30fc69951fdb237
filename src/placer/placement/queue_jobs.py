"""From a snapshot's pending jobs to the arrays of `queue_problem`, and from an answer back to nodes and GPU sets.

Pieces come from the shapes that a request allows, the nodes that they may use from `eligible`; everything that several
jobs say alike is made once. Which GPUs of a node a piece takes is chosen by the node's table (`gpuset`), pieces of
many GPUs first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from placer import errors
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, features, gang_problem, job, shapes
from placer.placement import queue_problem as queue
from placer.placement import types as plan

MOST_WAYS = 16
"""Ways to run one job that are considered, the first ones of what its request allows."""


class Entry(msgspec.Struct, frozen=True):
    """What starts together: a job, or all components of a heterogeneous one."""

    members: tuple[cluster.Job, ...]
    weight: float = 1.0  # its value for each GPU; a job without GPUs counts as one
    tier: int = 0
    tasks: int = 1  # equal copies, each of which starts by itself: the tasks of an array
    avoid: frozenset[str] = frozenset()  # nodes that are kept for others


class Way(msgspec.Struct, frozen=True):
    """One mode of an entry: the shape of each member, and which parts of the mode are its."""

    mode: int
    shapes: tuple[shapes.Shape, ...]
    spans: tuple[tuple[int, int], ...]


class Spelled(msgspec.Struct, frozen=True):
    """A shape, and what it asks of how many nodes."""

    shape: shapes.Shape
    parts: tuple[tuple[int, shapes.Demand], ...]


class Queue(msgspec.Struct, frozen=True, eq=False):
    """A problem with what its numbers stand for. `entry_of` and `ways` have one element for each of its jobs."""

    site: job.Site
    problem: queue.Problem
    entries: tuple[Entry, ...]
    entry_of: tuple[int, ...]
    ways: tuple[tuple[Way, ...], ...]  # per entry
    refused: tuple[tuple[int, str], ...]  # entries whose request cannot be read, and why
    types: tuple[str, ...] = ()  # GPU types that are resources of their own


Ask = Callable[[cluster.JobRequest], Sequence[job.Question]]
"""Every partition, shape and feature variant that a request allows. May raise InputError."""


class Places:
    """Sets of nodes, each made once."""

    def __init__(self, site: job.Site) -> None:
        self.site, self.nodes = site, site.snapshot.nodes
        self.sets: list[queue.Mask] = []
        self.empty = emptied(site.free)
        self._known: dict[bytes, int] = {}
        self._wanted: dict[tuple[object, ...], eligible.Wanted] = {}
        self._allowed: dict[tuple[object, ...], int] = {}

    def number(self, members: queue.Mask) -> int:
        """The position of a set."""
        key = members.tobytes()
        if key not in self._known:
            self._known[key] = len(self.sets)
            self.sets.append(members)
        return self._known[key]

    def named(self, names: frozenset[str]) -> int:
        """The nodes with these names."""
        return self.number(np.array([node.name in names for node in self.nodes], dtype=np.bool_))

    def featured(self, feature: str) -> int:
        """The nodes with a feature."""
        return self.number(np.array([feature in node.features for node in self.nodes], dtype=np.bool_))

    def wanted(self, asked: job.Question, count: int) -> eligible.Wanted:
        """`eligible.wanted`, looked up once."""
        request = asked.request
        key = (
            request.partition, asked.variant.text, request.nodelist, request.exclude, request.gpu_type,
            request.exclusive, request.reservation, request.time_limit, count,
        )  # fmt: skip
        if key not in self._wanted:
            self._wanted[key] = eligible.wanted(self.site.snapshot, request, asked.variant, count)
        return self._wanted[key]

    def allowed(self, want: eligible.Wanted, gpus: int, avoid: frozenset[str]) -> int:
        """The nodes that a request could use, as far as they are up, were they empty and large enough."""
        text = want.variant.text
        key = (msgspec.structs.replace(want, variant=features.ANY, exclusive=False), text, gpus > 0, avoid)
        if key not in self._allowed:
            anyone = msgspec.structs.replace(want, exclude=want.exclude | avoid)
            found = eligible.check(self.empty, anyone, shapes.Demand(min(gpus, 1), 1, 0, 1))
            members = np.zeros(len(self.nodes), dtype=np.bool_)
            members[list(found.positions)] = True
            self._allowed[key] = self.number(members)
        return self._allowed[key]


class _Builder:
    """The problem under construction."""

    def __init__(self, site: job.Site, ask: Ask) -> None:
        self.site, self.ask, self.places = site, ask, Places(site)
        self.levels = [level.name for level in site.snapshot.topology.fabric.levels]
        self.types: list[str] = []
        self.pieces: dict[queue.Piece, int] = {}
        self.modes: dict[queue.Mode, int] = {}
        self.mixed = mixed_types(site.free.classes.nodes)
        self.domain_of = domains(site)
        self._ways: dict[tuple[object, ...], tuple[Way, ...]] = {}

    def ways(self, entry: Entry) -> tuple[Way, ...]:
        """All ways to run an entry. Raises InputError."""
        key = (*(member.request for member in entry.members), entry.avoid)
        if key not in self._ways:
            choices = [
                [
                    (shape, mode)
                    for question in self.ask(member.request)
                    for shape in _spelled(question.shape)
                    for mode in self._modes(question, shape, entry.avoid)
                ]
                for member in entry.members
            ]
            made = [self._way(choice) for choice in itertools.islice(itertools.product(*choices), MOST_WAYS)]
            first: dict[int, Way] = {}
            for way in made:
                first.setdefault(way.mode, way)
            self._ways[key] = tuple(first.values())
        return self._ways[key]

    def _modes(self, asked: job.Question, shape: Spelled, avoid: frozenset[str]) -> list[queue.Mode]:
        """The modes of one shape: in one domain of a preferred level, then as required."""
        request, count = asked.request, sum(nodes for nodes, _ in shape.parts)
        want = self.places.wanted(asked, count)
        allowed = self.places.allowed(want, shape.parts[0][1].gpus, avoid)
        switches = request.switches or 0
        plain = queue.Mode(
            tuple((nodes, self._piece(request, demand, allowed)) for nodes, demand in shape.parts),
            level=self._level(request, count),
            forced=self.places.named(want.held) if want.held and not want.only_listed else None,
            at_least=tuple((self.places.featured(feature), least) for feature, least in asked.variant.at_least),
            most=(0, switches) if self.levels and count > 1 and switches > 1 else None,
        )
        preferred = job.level_index(self.levels, request.topology.preferred, "preferred")
        if preferred is None or count == 1 or (plain.level is not None and plain.level <= preferred):
            return [plain]
        return [msgspec.structs.replace(plain, level=preferred, bonus=True), plain]

    def _level(self, request: cluster.JobRequest, count: int) -> int | None:
        """The level in one domain of which the nodes must lie; Slurm's tree runs no job across separate roots."""
        required = job.level_index(self.levels, request.topology.required, "required")
        if count == 1 or not self.levels:
            return None
        if request.switches == 1:
            return 0
        one_tree = self.site.snapshot.source.system == "slurm" and self.site.snapshot.topology.fabric.kind == "tree"
        if required is None and one_tree and len(np.unique(self.domain_of[-1])) > 1:
            return len(self.levels) - 1
        return required

    def _piece(self, request: cluster.JobRequest, demand: shapes.Demand, allowed: int) -> int:
        kind = (request.gpu_type or "").casefold()
        need = [demand.gpus, demand.cpus, demand.memory_mib or 0]
        if kind in self.mixed:
            if kind not in self.types:
                self.types.append(kind)
            need += [0] * self.types.index(kind) + [demand.gpus]
        piece = queue.Piece(tuple(need), allowed, request.exclusive, demand.memory_mib is None)
        return self.pieces.setdefault(piece, len(self.pieces))

    def _way(self, choice: Sequence[tuple[Spelled, queue.Mode]]) -> Way:
        """The modes of all members as one: their parts together, the narrowest level of any."""
        spans: list[tuple[int, int]] = []
        parts: list[tuple[int, int]] = []
        at_least: list[tuple[int, int]] = []
        for _, mode in choice:
            spans.append((len(parts), len(parts) + len(mode.parts)))
            parts += list(mode.parts)
            at_least += list(mode.at_least)
        first = choice[0][1]
        if len(choice) > 1:
            levels = [mode.level for _, mode in choice if mode.level is not None]
            forced = [self.places.sets[mode.forced] for _, mode in choice if mode.forced is not None]
            first = queue.Mode(
                tuple(parts),
                level=min(levels, default=None),
                forced=self.places.number(np.logical_or.reduce(forced)) if forced else None,
                at_least=tuple(at_least),
                most=next((mode.most for _, mode in choice if mode.most is not None), None),
            )
        return Way(
            self.modes.setdefault(first, len(self.modes)), tuple(spelled.shape for spelled, _ in choice), tuple(spans)
        )

    def problem(self, jobs: Sequence[queue.Waiting], free: capacity.Capacity) -> queue.Problem:
        """All that was gathered, as arrays."""
        nodes = queue.Nodes(
            room=room_of(free, self.types),
            memory=np.array([node.memory_mib for node in self.site.snapshot.nodes], dtype=np.int64),
            untouched=np.array([_untouched(node) for node in free.nodes], dtype=np.bool_),
            domain_of=self.domain_of,
        )
        width = len(nodes.room)
        pieces = [
            msgspec.structs.replace(piece, need=(*piece.need, *(0,) * (width - len(piece.need))))
            for piece in self.pieces
        ]
        return queue.Problem(nodes, tuple(self.places.sets), tuple(pieces), tuple(self.modes), tuple(jobs))


def _spelled(shape: shapes.Shape) -> list[Spelled]:
    """The ways to deal out a shape: one; for a total that fills nodes up to `MOST_WAYS`, the fewest nodes first."""
    if not shape.fill:
        parts = [(shape.count - shape.extra, shape.demand)]
        if shape.extra:
            parts.insert(0, (shape.extra, msgspec.structs.replace(shape.demand, gpus=shape.demand.gpus + 1)))
        return [Spelled(shape, tuple((count, demand) for count, demand in parts if count))]
    total = shape.fill // shape.demand.gpus
    found: list[Spelled] = []
    for nodes in range(shape.count, (shape.count if shape.exactly else shape.most) + 1):
        for units in itertools.islice(_dealt(total, nodes, len(shape.steps)), MOST_WAYS - len(found)):
            sizes = sorted(set(units), reverse=True)
            found.append(Spelled(shape, tuple((units.count(size), shape.steps[size - 1]) for size in sizes)))
        if len(found) >= MOST_WAYS:
            break
    return found


def _dealt(total: int, nodes: int, most: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as `nodes` numbers from 1 to `most`, in descending order, the largest first."""
    if nodes == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(most, total - nodes + 1), 0, -1):
        if first * nodes < total:
            return
        for rest in _dealt(total - first, nodes - 1, first):
            yield (first, *rest)


def build(site: job.Site, entries: Sequence[Entry], ask: Ask) -> Queue:
    """The problem of these entries, which stand in the order in which equal ones start; nodes in natural order.

    Entries whose request contradicts itself or names what is not there are told in `refused`.
    """
    builder = _Builder(site, ask)
    jobs: list[queue.Waiting] = []
    entry_of: list[int] = []
    ways: list[tuple[Way, ...]] = []
    refused: list[tuple[int, str]] = []
    for number, entry in enumerate(entries):
        try:
            found = builder.ways(entry)
        except errors.InputError as error:
            refused.append((number, error.message))
            ways.append(())
            continue
        ways.append(found)
        size = max(1, sum(shape.gpus for shape in found[0].shapes)) if found else 1
        waiting = queue.Waiting(tuple(way.mode for way in found), entry.weight * size, entry.tier)
        jobs += [waiting] * entry.tasks
        entry_of += [number] * entry.tasks
    problem = builder.problem(_told_apart(builder, jobs), site.free)
    return Queue(site, problem, tuple(entries), tuple(entry_of), tuple(ways), tuple(refused), tuple(builder.types))


def _told_apart(builder: _Builder, jobs: list[queue.Waiting]) -> list[queue.Waiting]:
    """Every job with a mode that cannot be counted together gets modes of its own, equal to the shared ones."""
    modes = list(builder.modes)
    used: set[int] = set()
    made = []
    for waiting in jobs:
        own = []
        for number in waiting.modes:
            if not modes[number].simple and number in used:
                builder.modes[msgspec.structs.replace(modes[number], copy=len(modes))] = len(modes)
                modes.append(msgspec.structs.replace(modes[number], copy=len(modes)))
                number = len(modes) - 1
            used.add(number)
            own.append(number)
        made.append(msgspec.structs.replace(waiting, modes=tuple(own)))
    return made


def emptied(free: capacity.Capacity) -> capacity.Capacity:
    """The same nodes with nothing in use."""
    healthy = free.classes.healthy[free.classes.of].tolist()
    return capacity.Capacity(
        tuple(
            capacity.FreeNode(one.node, mask, 0, one.node.cpus, one.node.memory_mib)
            for one, mask in zip(free.nodes, healthy, strict=True)
        )
    )


def room_of(free: capacity.Capacity, types: Sequence[str]) -> queue.Ints:
    """int [D, n]: GPUs, CPUs, memory, and GPUs of each named type."""
    rows = [
        [node.gpus for node in free.nodes],
        [max(0, node.cpus) for node in free.nodes],
        [max(0, node.memory_mib) for node in free.nodes],
    ]
    for kind in types:
        masks = [node.gpu_mask & capacity.type_mask(node.node, kind) for node in free.nodes]
        rows.append([max(0, m.bit_count() - n.unplaced) for m, n in zip(masks, free.nodes, strict=True)])
    return np.array(rows, dtype=np.int64).reshape(3 + len(types), len(free.nodes))


def _untouched(free: capacity.FreeNode) -> bool:
    node = free.node
    return free.cpus >= node.cpus and free.gpu_mask == capacity.healthy_mask(node) and not free.unplaced


def mixed_types(nodes: Sequence[cluster.NodeState]) -> frozenset[str]:
    """GPU types that share a node with others, in lower case."""
    slots = {node.gpus for node in nodes}
    kinds = [{(gpu.type or "").casefold() for gpu in gpus} for gpus in slots]
    return frozenset(kind for found in kinds if len(found) > 1 for kind in found)


def domains(site: job.Site) -> queue.Ints:
    """int [L, n]: the domain of each node; where none is told, the one that it has a level closer."""
    count = len(site.snapshot.nodes)
    nothing = np.zeros(count)
    forest = gang_problem.Forest(
        gang_problem.GangProblem(
            count=1,
            domain_of=site.domain_of,
            bandwidth=nothing,
            nic=nothing,
            damage=np.zeros(count, dtype=np.int64),
            forced=np.zeros(count, dtype=np.bool_),
        )
    )
    rows = forest.domain[:-1]
    return np.array(rows, dtype=np.int64).reshape(len(rows), count)


class Placed(msgspec.Struct, frozen=True):
    """One member of an entry that starts: where, in which shape, and what it takes of every node."""

    entry: int
    member: int
    shape: shapes.Shape
    placement: plan.Placement
    allocations: tuple[cluster.Allocation, ...]


def place(
    made: Queue, starts: Sequence[queue.Start], tables: Mapping[cluster.Workload, job.Site], free: capacity.Capacity
) -> tuple[Placed, ...]:
    """GPU sets for every job that starts, in the order of the jobs; `tables` has a site for each of their workloads.

    Nodes stand in rank order: domain by domain, so that consecutive ranks share the closest switch. Where nobody can
    say which GPUs of a node are free, none are named.
    """
    masks = [node.gpu_mask for node in free.nodes]
    wishes = [wish for number, start in enumerate(starts) for wish in _wishes(made, number, start)]
    sets: dict[tuple[int, int], tuple[int, ...] | None] = {}
    for gpus, number, node, member in sorted(wishes, key=lambda wish: (-wish[0], wish[1], wish[2])):
        request = made.entries[made.entry_of[starts[number].job]].members[member].request
        site = tables[request.workload]
        usable = masks[node] & capacity.type_mask(free.nodes[node].node, request.gpu_type)
        chosen = site.tables[site.table_of[node]].best(usable, gpus) if not free.nodes[node].unplaced else None
        sets[number, node] = chosen.order if chosen is not None else (() if not gpus else None)
        masks[node] &= ~(chosen.mask if chosen is not None else 0)
    found: list[Placed] = []
    for number, start in enumerate(starts):
        found += _placed(made, number, start, sets)
    return tuple(found)


def way_of(made: Queue, start: queue.Start) -> Way:
    """The way in which a job starts."""
    number = made.problem.jobs[start.job].modes.index(start.mode)
    return made.ways[made.entry_of[start.job]][number]


def _wishes(made: Queue, number: int, start: queue.Start) -> list[tuple[int, int, int, int]]:
    """(GPUs, start, node, member) of every node of a job."""
    mode = made.problem.modes[start.mode]
    return [
        (made.problem.pieces[mode.parts[part][1]].gpus, number, node, member)
        for member, (begin, end) in enumerate(way_of(made, start).spans)
        for part in range(begin, end)
        for node in start.nodes[part]
    ]


def _placed(
    made: Queue, number: int, start: queue.Start, sets: Mapping[tuple[int, int], tuple[int, ...] | None]
) -> list[Placed]:
    way, mode = way_of(made, start), made.problem.modes[start.mode]
    nodes, domain = made.site.snapshot.nodes, made.problem.nodes.domain_of
    found = []
    for member, ((begin, end), shape) in enumerate(zip(way.spans, way.shapes, strict=True)):
        piece = {node: mode.parts[part][1] for part in range(begin, end) for node in start.nodes[part]}
        order = sorted(piece, key=lambda node: (*domain[::-1, node].tolist(), node))
        allocations = []
        for node in order:
            needs = made.problem.needs(made.problem.pieces[piece[node]], np.array([node]))[:, 0].tolist()
            gpus, cpus, memory = needs[: queue.MEMORY + 1]
            cpus = nodes[node].cpus if made.problem.pieces[piece[node]].whole else cpus
            allocations.append(
                cluster.Allocation(
                    nodes[node].name, gpus=sets[number, node], gpu_count=gpus, cpus=cpus, memory_mib=memory
                )
            )
        placement = plan.Placement(tuple(plan.NodePlacement(a.node, a.gpus or ()) for a in allocations))
        found.append(Placed(made.entry_of[start.job], member, shape, placement, tuple(allocations)))
    return found


def overdrawn(free: capacity.Capacity, allocations: Sequence[cluster.Allocation]) -> str | None:
    """The first node that would have to give more than is free; None when all the allocations fit together.

    What a node lacks already counts only for those that take more of it.
    """
    taken: dict[str, int] = {}
    for allocation in allocations:
        mask = sum(1 << gpu for gpu in allocation.gpus or ())
        usable = free.nodes[free.positions[allocation.node]].gpu_mask
        if mask & ~usable or mask & taken.get(allocation.node, 0):
            return allocation.node
        taken[allocation.node] = taken.get(allocation.node, 0) | mask
    after = free.apply(allocations)
    for allocation in allocations:
        left = after.nodes[after.positions[allocation.node]]
        if (
            (allocation.gpu_count and left.gpu_mask.bit_count() < left.unplaced)
            or (allocation.cpus and left.cpus < 0)
            or (allocation.memory_mib and left.memory_mib < 0)
        ):
            return allocation.node
    return None
