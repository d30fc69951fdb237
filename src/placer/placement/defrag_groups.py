"""Nodes that are alike for a defragmentation, and what can be done with a node of each (symbols of `defrag_problem`).

Kinds q are pieces of one-piece jobs with equal needs and places. Sets σ are nodes that the same `allowed` hold. With
sizes s (GPUs of the kinds that a σ may receive), a node whose free resources are room holds of the size s

    slots_s(room) = min( floor(room_GPUs / s),  min_d floor(room_d / ρ_sd) ),
    ρ_sd = min { need_qd / floor(s_q / s) : kinds q with s_q >= s },

pieces counted as s_q / s; no set of pieces takes more slots than the nodes of σ have. The reverse holds, too, where
sizes form a chain of divisors and GPUs are all that runs out (see `queue_classes`): then a relaxation by slots is
exact. Where it is not, the answer is checked on the nodes, and a model of single nodes decides (`defrag_nodes`).

An option of a node is a set of its jobs that leave it, and whether it becomes a target. Two nodes are alike when they
have the same σ, the same room as far as it matters, and the same kinds at the same costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np

from placer.placement import defrag_problem as defrag
from placer.placement import queue_classes

Ints = defrag.Ints
Mask = defrag.Mask

MOST_OPTIONS = 256
"""Options of one group; above, those that take most jobs away are left out, and nothing is proven."""


class Kind(msgspec.Struct, frozen=True):
    """Pieces of one-piece jobs that nothing tells apart but their costs."""

    need: tuple[int, ...]
    allowed: int


class Option(msgspec.Struct, frozen=True):
    """`leave` counts the pieces that leave by kind; the cheapest ones go. `gangs` are jobs of several pieces that do.

    `slots` is the change of the node's slots by size of its σ, `room` that of its other resources.
    """

    leave: tuple[tuple[int, int], ...]
    gangs: tuple[int, ...]
    target: bool
    cost: int
    slots: tuple[int, ...]
    room: tuple[int, ...]


class Group(msgspec.Struct, frozen=True, eq=False):
    """Nodes that are alike, ascending, with their options."""

    nodes: Ints
    sigma: int
    options: tuple[Option, ...]


class Pool(msgspec.Struct, frozen=True, eq=False):
    """One σ: which kinds it may receive, its sizes ascending, and the slots and room of all its nodes as they are."""

    kinds: tuple[int, ...]
    sizes: tuple[int, ...]
    slots: tuple[int, ...]
    room: tuple[int, ...]


class Groups(msgspec.Struct, frozen=True, eq=False):
    """The whole question in groups. `complete`: no option was left out."""

    kinds: tuple[Kind, ...]
    pools: tuple[Pool, ...]
    groups: tuple[Group, ...]
    sigma: Ints  # of each node
    first: tuple[int, ...]  # the first node of each σ
    complete: bool


class Table:
    """What does not depend on where the targets may lie."""

    def __init__(self, problem: defrag.Problem) -> None:
        self.problem = problem
        known: dict[tuple[tuple[int, ...], int], int] = {}
        self.kind_of = [  # per job, -1 = of several pieces
            known.setdefault((job.needs[0], job.allowed), len(known)) if len(job.nodes) == 1 else -1
            for job in problem.jobs
        ]
        self.kinds = [Kind(*key) for key in known]
        pieces = problem.pieces
        self.held = np.zeros(problem.count, dtype=np.int64)  # GPUs of one-piece jobs
        np.add.at(self.held, pieces.node, pieces.need[defrag.GPUS])
        self._begin = np.searchsorted(pieces.node, np.arange(problem.count + 1)).tolist()
        self._jobs: list[int] = pieces.job.tolist()
        self.sigma = queue_classes.labels(np.array(problem.allowed))
        self.sets = int(self.sigma.max()) + 1 if problem.count else 0
        self.first = [int(np.flatnonzero(self.sigma == s)[0]) for s in range(self.sets)]
        self.receives = [
            [q for q, kind in enumerate(self.kinds) if problem.allowed[kind.allowed][node]] for node in self.first
        ]
        self.gangs = [j for j, q in enumerate(self.kind_of) if q < 0]
        self.gang_pieces: dict[int, int] = {}
        for j in self.gangs:
            for node in problem.jobs[j].nodes:
                self.gang_pieces[node] = self.gang_pieces.get(node, 0) + 1

    def residents(self, node: int) -> dict[int, tuple[int, ...]]:
        """The one-piece jobs of a node by kind, the cheapest first."""
        found: dict[int, list[int]] = {}
        for j in self._jobs[self._begin[node] : self._begin[node + 1]]:
            found.setdefault(self.kind_of[j], []).append(j)
        return {q: tuple(jobs) for q, jobs in sorted(found.items())}


class Reach(msgspec.Struct, frozen=True, eq=False):
    """What an option may cost so that the whole plan can be as cheap as wanted; None = anything.

    `least` and `cheapest` int [n] as in `defrag_bounds`: nodes that cost more are passed over. `nodes` is how many
    nodes a plan touches at most. A job of several pieces counts on each of its nodes for its share of them.
    """

    target: int | None
    other: int | None
    nodes: int | None
    least: Ints
    cheapest: Ints

    def passes(self, cost: int, *, target: bool) -> bool:
        """Whether an option of this cost is of use."""
        most = self.target if target else self.other
        return most is None or cost <= most


class Builder:
    """Groups for one set of allowed targets."""

    def __init__(
        self, table: Table, targets: Mask, reach: Reach, gangs: Iterable[int], late: Callable[[], bool]
    ) -> None:
        """`targets` bool [n] may become targets; `gangs` may move; when it is `late` the rest is left out."""
        self.table, self.problem, self.targets, self.reach = table, table.problem, targets, reach
        self.late = late
        self.gangs: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        for j in gangs:
            job = self.problem.jobs[j]
            for node, need in zip(job.nodes, job.needs, strict=True):
                self.gangs.setdefault(node, []).append((j, need))
        self.complete = True

    def build(self) -> Groups:
        """All groups that can do something, and the pools of all nodes."""
        pools, groups = [], []
        for sigma in range(self.table.sets):
            nodes = np.flatnonzero(self.table.sigma == sigma)
            alike = _Sigma(self, sigma, nodes)
            pools.append(alike.pool())
            groups += alike.groups()
        found = self._cheapest(sorted(groups, key=lambda group: int(group.nodes[0])))
        return Groups(
            tuple(self.table.kinds),
            tuple(pools),
            found,
            self.table.sigma,
            tuple(self.table.first),
            self.complete,
        )

    def _cheapest(self, groups: list[Group]) -> tuple[Group, ...]:
        """Of options with the same effect only those of as many nodes as a plan can touch, the cheapest ones.

        A plan that uses another node leaves one of these untouched, which could take its place.
        """
        if self.reach.nodes is None:
            return tuple(groups)
        users: dict[_Effect, list[tuple[int, int]]] = {}
        for number, group in enumerate(groups):
            for o in group.options:
                users.setdefault(_effect(group, o), []).append((o.cost, number))
        kept: list[set[_Effect]] = [set() for _ in groups]
        for effect, places in users.items():
            nodes = 0
            for _, number in sorted(places):
                if nodes >= self.reach.nodes:
                    break
                kept[number].add(effect)
                nodes += len(groups[number].nodes)
        found = []
        for group, effects in zip(groups, kept, strict=True):
            options = tuple(o for o in group.options if _effect(group, o) in effects)
            if options:
                found.append(msgspec.structs.replace(group, options=options))
        return tuple(found)


class _Sigma:
    """The nodes that the same sets hold."""

    def __init__(self, builder: Builder, sigma: int, nodes: Ints) -> None:
        self.builder, self.sigma, self.nodes = builder, sigma, nodes
        self.problem, self.table = builder.problem, builder.table
        self.received = self.table.receives[sigma]
        needs = [self.table.kinds[q].need for q in self.received]
        for j in sorted({j for parts in builder.gangs.values() for j, _ in parts}):
            job = self.problem.jobs[j]
            if self.problem.allowed[job.allowed][nodes[0]] or set(job.nodes) & set(nodes.tolist()):
                needs += list(job.needs)
        self.needs = list(dict.fromkeys(needs))
        self.sizes = sorted({need[defrag.GPUS] for need in self.needs} - {0})
        self.room = self.problem.room[:, nodes]
        self.proportional = [self._proportional(d) for d in range(len(self.room))]
        self.ratios = [self._ratios(s) for s in self.sizes]
        self.plain = self._plain()

    def pool(self) -> Pool:
        """The slots and room of all nodes, nothing done."""
        slots = [int(value) for value in self._slots(self.room).sum(axis=1)]
        return Pool(tuple(self.received), tuple(self.sizes), tuple(slots), tuple(self.room.sum(axis=1).tolist()))

    def groups(self) -> list[Group]:
        """Nodes alike, with options."""
        alike: dict[tuple[object, ...], list[int]] = {}
        cost = self.problem.jobs
        reach = self.builder.reach
        least, cheapest = reach.least[self.nodes], reach.cheapest[self.nodes]
        target = (self.builder.targets[self.nodes] & (least <= _limit(reach.target))).tolist()
        useful = (cheapest <= _limit(reach.other)).tolist()
        rooms = np.where(self.plain, -1, self.room).T.tolist()
        gpus = self._usable().tolist()
        for at, node in enumerate(self.nodes.tolist()):
            gangs = node if node in self.builder.gangs else -1
            if gangs < 0 and not (useful[at] or target[at]):
                continue
            kinds = self.table.residents(node)
            costs = tuple((q, tuple(cost[j].cost for j in jobs)) for q, jobs in kinds.items())
            memory = int(self.problem.memory[node]) if self.problem.request.all_memory else -1
            key = (target[at], gpus[at], tuple(rooms[at]), memory, costs, gangs, self._clear(node))
            alike.setdefault(key, []).append(at)
        found = []
        for places in alike.values():
            if self.builder.late():
                self.builder.complete = False
                break
            options = self._options(places[0])
            if options:
                found.append(Group(self.nodes[places], self.sigma, options))
        return found

    def _clear(self, node: int) -> bool:
        """Whether the node can be emptied by those that may move here."""
        pieces = len(self.builder.gangs.get(node, ()))
        return bool(self.problem.clear[node]) and self.table.gang_pieces.get(node, 0) == pieces

    def _proportional(self, d: int) -> bool:
        """Whether all pieces and the request need resource d in the same proportion to GPUs."""
        needs = [*self.needs, self.problem.request.need]
        first = needs[0]
        return all(need[defrag.GPUS] for need in needs) and all(
            need[d] * first[defrag.GPUS] == first[d] * need[defrag.GPUS] for need in needs
        )

    def _usable(self) -> Ints:
        gpus: Ints = self.room[defrag.GPUS].copy()
        first = self.problem.request.need
        for d in range(1, len(self.room)):
            if first[d] and self.proportional[d]:
                np.minimum(gpus, self.room[d] * first[defrag.GPUS] // first[d], out=gpus)
        return gpus

    def _plain(self) -> Mask:
        """bool [n]: where GPUs are all that runs out, whoever leaves."""
        plain = np.ones(len(self.nodes), dtype=np.bool_)
        request = self.problem.request
        held = self.table.held.copy()
        for node, parts in self.builder.gangs.items():
            held[node] += sum(need[defrag.GPUS] for _, need in parts)
        most_gpus = self.room[defrag.GPUS] + held[self.nodes]
        for d in range(1, len(self.room)):
            if d == defrag.MEMORY and request.all_memory:
                return np.zeros(len(self.nodes), dtype=np.bool_)
            if self.proportional[d]:
                continue
            if any(need[d] and not need[defrag.GPUS] for need in self.needs):
                return np.zeros(len(self.nodes), dtype=np.bool_)
            most = [0] * (int(most_gpus.max()) + 1)
            sized = {(need[defrag.GPUS], need[d]) for need in self.needs if need[defrag.GPUS]}
            for f in range(1, len(most)):
                most[f] = max([most[f - 1], *(need + most[f - size] for size, need in sized if size <= f)])
            plain &= self.room[d] >= np.array(most, dtype=np.int64)[most_gpus] + request.need[d]
        return plain

    def _ratios(self, s: int) -> list[tuple[int, int, int]]:
        """(d, need, slots): ρ_sd of every resource but GPUs, as a fraction; those that are 0 are left out."""
        found = []
        for d in range(1, len(self.room)):
            parts = [(need[d], need[defrag.GPUS] // s) for need in self.needs if need[defrag.GPUS] >= s]
            need, times = min(parts, key=lambda part: part[0] / part[1])
            if need:
                found.append((d, need, times))
        return found

    def _slots(self, room: Ints) -> Ints:
        """int [sizes, …] for room [D, …]."""
        found = []
        for s, ratios in zip(self.sizes, self.ratios, strict=True):
            held = room[defrag.GPUS] // s
            for d, need, times in ratios:
                held = np.minimum(held, room[d] * times // need)
            found.append(np.maximum(held, 0))
        return np.array(found, dtype=np.int64).reshape(len(found), *room.shape[1:])

    def _options(self, at: int) -> tuple[Option, ...]:
        """What can be done with a node; every option takes something away or makes it a target."""
        node = int(self.nodes[at])
        kinds = list(self.table.residents(node).items())
        gangs = self.builder.gangs.get(node, [])
        base = self.room[:, at]
        before = self._slots(base)
        wanted = np.array(self.problem.wanted(node), dtype=np.int64)
        found: list[Option] = []
        costs = [[self.problem.jobs[j].cost for j in own] for _, own in kinds]
        costs += [[share(self.problem.jobs[j])] for j, _ in gangs]
        reach = self.builder.reach
        limit = None if reach.target is None or reach.other is None else max(reach.target, reach.other)
        for count in _choices(costs, limit):
            leave = tuple((q, n) for (q, _), n in zip(kinds, count, strict=False) if n)
            moved = tuple(j for (j, _), n in zip(gangs, count[len(kinds) :], strict=True) if n)
            cost = sum(sum(own[:n]) for own, n in zip(costs[: len(kinds)], count, strict=False))
            in_all = cost + sum(share(self.problem.jobs[j]) for j in moved)
            room = base.copy()
            for q, n in leave:
                room = room + n * np.array(self.table.kinds[q].need, dtype=np.int64)
            for (_, need), n in zip(gangs, count[len(kinds) :], strict=True):
                room = room + n * np.array(need, dtype=np.int64)
            empty = self._clear(node) and sum(count) == sum(len(own) for _, own in kinds) + len(gangs)
            if (leave or moved) and reach.passes(in_all, target=False):
                found.append(self._option(leave, moved, cost, before, base, room, target=False))
            whole = self.problem.request.whole
            fits = self.builder.targets[node] and (room >= wanted).all() and (empty or not whole)
            if fits and reach.passes(in_all, target=True):
                rest = np.zeros_like(room) if whole else room - wanted
                found.append(self._option(leave, moved, cost, before, base, rest, target=True))
            if len(found) > 4 * MOST_OPTIONS:
                self.builder.complete = False
                break
        return self._useful(found)

    def _option(
        self,
        leave: tuple[tuple[int, int], ...],
        moved: tuple[int, ...],
        cost: int,
        before: Ints,
        base: Ints,
        room: Ints,
        *,
        target: bool,
    ) -> Option:
        slots = tuple((self._slots(room) - before).tolist())
        return Option(leave, moved, target, cost, slots, tuple((room - base).tolist()))

    def _useful(self, found: list[Option]) -> tuple[Option, ...]:
        """Without options that another makes needless. Only where all nodes have one σ and only GPUs run out.

        There an option gains, for each size, the slots it opens less those that its pieces need elsewhere; one that
        gains no more than another, cheaper one of the same sort is needless.
        """
        if self.table.sets > 1 or not self.plain.all() or self.builder.gangs or not self._chain():
            return tuple(found)
        kept: list[tuple[Option, list[int]]] = []
        for option in sorted(found, key=lambda option: (option.cost, len(option.leave))):
            gain = [
                slots - sum(n * (self.table.kinds[q].need[defrag.GPUS] // s) for q, n in option.leave)
                for s, slots in zip(self.sizes, option.slots, strict=True)
            ]
            if not option.target and all(value <= 0 for value in gain):
                continue
            better = (g for o, g in kept if o.target == option.target)
            if not any(all(a >= b for a, b in zip(other, gain, strict=True)) for other in better):
                kept.append((option, gain))
        return tuple(option for option, _ in kept)

    def _chain(self) -> bool:
        return all(b % a == 0 for a, b in zip(self.sizes, self.sizes[1:], strict=False))


_Effect = tuple[int, tuple[tuple[int, int], ...], tuple[int, ...], bool, tuple[int, ...], tuple[int, ...]]


def _effect(group: Group, option: Option) -> _Effect:
    """What the model sees of an option but its cost."""
    return group.sigma, option.leave, option.gangs, option.target, option.slots, option.room


def share(job: defrag.Resident) -> int:
    """What a job costs on each of its nodes, rounded down, so that no number of them costs more than the job."""
    return job.cost // len(job.nodes)


def _limit(most: int | None) -> int:
    return int(np.iinfo(np.int64).max) // 8 if most is None else most


def _choices(costs: list[list[int]], limit: int | None) -> Iterator[tuple[int, ...]]:
    """How many of each list to take, the first ones, so that their costs stay within the limit."""
    if not costs:
        yield ()
        return
    spent = 0
    for count in range(len(costs[0]) + 1):
        if count:
            spent += costs[0][count - 1]
        if limit is not None and spent > limit:
            return
        for rest in _choices(costs[1:], None if limit is None else limit - spent):
            yield (count, *rest)
