"""From a snapshot to the arrays of `defrag_problem`, and from an answer back to GPU sets, step by step.

Running jobs may go wherever their own request lets them, to GPUs of the type that they have. What a job costs:

    1  +  0.01 for each GPU  +  0.001, 0.002, 0.003 when it has run for 1, 4, 24 hours  +  100 if it is not preemptible

so that fewest jobs decide, then GPUs, then work lost; a job that may not be interrupted is moved only where nothing
else helps, and only when all may be moved.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from placer import errors
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import defrag_problem as defrag
from placer.placement import features, job, queue_jobs, shapes

JOB, GPU, PROTECTED = 1000, 10, 100_000
"""Thousandths of a move: one job, one GPU, a job that is not preemptible."""
AGES = (3600, 4 * 3600, 24 * 3600)
"""Seconds after which moving a job costs a thousandth more each."""


class Fleet(msgspec.Struct, frozen=True, eq=False):
    """A site with the running jobs that may move; `problem_of` asks about one shape of one request."""

    site: job.Site
    places: queue_jobs.Places
    jobs: tuple[cluster.Job, ...]
    residents: tuple[defrag.Resident, ...]
    room: defrag.Ints
    clear: defrag.Mask
    domain_of: defrag.Ints
    types: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]  # jobs that never move, and why

    def problem_of(self, asked: job.Question, within: int | None) -> defrag.Problem:
        """The arrays of one shape. Raises RequestError for one that lies unevenly on its nodes."""
        shape, request = asked.shape, asked.request
        if shape.fill or shape.extra or asked.variant.at_least:
            raise errors.RequestError(
                "only requests with as many GPUs on every node can be made room for",
                hint="ask with `--nodes` and `--gpus-per-node`",
            )
        want = self.places.wanted(asked, shape.count)
        allowed = self.places.allowed(want, shape.demand.gpus, frozenset())
        if want.held:
            members = self.places.sets[allowed] & self.places.sets[self.places.named(want.held)]
            allowed = self.places.number(members)
        demand = shape.demand
        typed = [demand.gpus if kind == (request.gpu_type or "").casefold() else 0 for kind in self.types]
        return defrag.Problem(
            room=self.room,
            memory=np.array([node.memory_mib for node in self.site.snapshot.nodes], dtype=np.int64),
            clear=self.clear,
            domain_of=self.domain_of,
            allowed=tuple(self.places.sets),
            jobs=self.residents,
            request=defrag.Request(
                count=shape.count,
                need=(demand.gpus, demand.cpus, demand.memory_mib or 0, *typed),
                allowed=allowed,
                level=within if shape.count > 1 else None,
                whole=request.exclusive,
                all_memory=demand.memory_mib is None,
            ),
        )


def fleet(site: job.Site, *, move_all: bool) -> Fleet:
    """Everything that does not depend on the request. Without `move_all` only preemptible jobs move."""
    places = queue_jobs.Places(site)
    types = tuple(sorted(queue_jobs.mixed_types(site.free.classes.nodes)))
    jobs: list[cluster.Job] = []
    residents: list[defrag.Resident] = []
    kept: list[tuple[str, str]] = []
    room = queue_jobs.room_of(site.free, types)
    whole = queue_jobs.room_of(queue_jobs.emptied(site.free), types)
    room[:, [at for at, node in enumerate(site.free.nodes) if _overbooked(node)]] = 0
    for one in site.snapshot.jobs:
        if not one.allocations:
            continue
        nodes = [site.free.positions[a.node] for a in one.allocations if a.node in site.free.positions]
        if one.request.exclusive:
            room[:, nodes] = 0  # what it does not use of its nodes is no room for others
        reason = _stays(site, one, move_all=move_all)
        if reason is None:
            try:
                residents.append(_resident(site, places, one, types, whole))
                jobs.append(one)
            except errors.InputError as error:
                reason = error.message
        if reason is not None:
            kept.append((one.id, reason))
    free = site.free.release(a for one in jobs for a in one.allocations)
    healthy = free.classes.healthy[free.classes.of]
    cpus = np.array([node.cpus for node in site.snapshot.nodes], dtype=np.int64)
    columns = free.columns
    clear = (columns.cpus >= cpus) & (columns.gpu_mask == healthy) & (columns.unplaced == 0)
    return Fleet(site, places, tuple(jobs), tuple(residents), room, clear, queue_jobs.domains(site), types, tuple(kept))


def _stays(site: job.Site, one: cluster.Job, *, move_all: bool) -> str | None:
    """Why a job never moves; None when it may."""
    if one.state is not cluster.JobState.RUNNING:
        return f"it is {one.state.value}"
    if not (one.preemptible or move_all):
        return "it is not preemptible"
    if any(a.gpus is None or a.node not in site.free.positions for a in one.allocations):
        return "what it holds is not known"
    if any(_overbooked(site.free.nodes[site.free.positions[a.node]]) for a in one.allocations):
        return "a node of it has given more than it has"
    nodes = [site.snapshot.nodes[site.free.positions[a.node]] for a in one.allocations]
    if any(node.condition is not cluster.NodeCondition.UP for node in nodes):
        return "a node of it takes no work"
    if any(len(_types(node, a)) > 1 for node, a in zip(nodes, one.allocations, strict=True)):
        return "it holds GPUs of several types"
    return None


def _overbooked(free: capacity.FreeNode) -> bool:
    """Whether what leaves a node need not be free then."""
    return free.cpus < 0 or free.memory_mib < 0 or free.gpu_mask.bit_count() < free.unplaced


def _types(node: cluster.NodeState, held: cluster.Allocation) -> set[str]:
    taken = set(held.gpus or ())
    return {(gpu.type or "").casefold() for gpu in node.gpus if gpu.index in taken}


def _resident(
    site: job.Site, places: queue_jobs.Places, one: cluster.Job, types: Sequence[str], whole: defrag.Ints
) -> defrag.Resident:
    nodes = tuple(site.free.positions[a.node] for a in one.allocations)
    kinds = sorted(
        kind for node, a in zip(nodes, one.allocations, strict=True) for kind in _types(site.snapshot.nodes[node], a)
    )
    partition = one.partition or one.request.partition
    request = msgspec.structs.replace(one.request, partition=partition, gpu_type=kinds[0] if kinds else None)
    variant = features.parse(request.constraint)[0]
    asked = job.Question(request, shapes.Shape(len(nodes), shapes.Demand(0, 1, 0, 1)), variant)
    want = places.wanted(asked, len(nodes))
    gpus = sum(len(a.gpus or ()) for a in one.allocations)
    needs = []
    for node, held in zip(nodes, one.allocations, strict=True):
        if one.request.exclusive:
            needs.append(tuple(whole[:, node].tolist()))
            continue
        typed = [len(held.gpus or ()) if kind in _types(site.snapshot.nodes[node], held) else 0 for kind in types]
        needs.append((len(held.gpus or ()), held.cpus, held.memory_mib, *typed))
    return defrag.Resident(nodes, tuple(needs), places.allowed(want, gpus, frozenset()), _cost(site, one, gpus))


def _cost(site: job.Site, one: cluster.Job, gpus: int) -> int:
    taken = site.snapshot.source.taken
    age = taken - one.started if taken is not None and one.started is not None else 0
    return JOB + GPU * gpus + sum(age >= seconds for seconds in AGES) + (0 if one.preemptible else PROTECTED)


class Moved(msgspec.Struct, frozen=True):
    """One piece of a job, from GPUs to GPUs (gres indices)."""

    step: int
    job: str
    source: str
    source_gpus: tuple[int, ...]
    target: str
    target_gpus: tuple[int, ...]


class Carried(msgspec.Struct, frozen=True):
    """All moves with their GPU sets, and the nodes of the request with the GPUs that it then gets."""

    moves: tuple[Moved, ...]
    targets: tuple[tuple[str, tuple[int, ...]], ...]


def carry_out(fleet: Fleet, asked: job.Question, answer: defrag.Answer) -> Carried:
    """Choose the GPUs of every move and replay it. Raises PlacerError when a step does not fit."""
    site = fleet.site
    free = site.free
    held = {(j, p): a for j, one in enumerate(fleet.jobs) for p, a in enumerate(one.allocations)}
    moved: list[Moved] = []
    for step in sorted({move.step for move in answer.moves}):
        moves = [move for move in answer.moves if move.step == step]
        free = free.release([held[move.job, move.piece] for move in moves])
        for move in moves:
            before = held[move.job, move.piece]
            kinds = _types(site.snapshot.nodes[move.source], before)
            gpus = _set(site, free, move.target, next(iter(kinds), None), len(before.gpus or ()))
            name = site.snapshot.nodes[move.target].name
            after = msgspec.structs.replace(before, node=name, gpus=gpus, cpu_ids=None)
            short = queue_jobs.overdrawn(free, [after])
            if short is not None:
                raise errors.PlacerError(f"step {step} takes more of node {short} than is free", hint=_REPORT)
            free = free.apply([after])
            held[move.job, move.piece] = after
            source = site.snapshot.nodes[move.source].name
            moved.append(Moved(step, fleet.jobs[move.job].id, source, before.gpus or (), name, gpus))
    targets = []
    for node in answer.targets:
        chosen = _set(site, free, node, asked.request.gpu_type, asked.shape.demand.gpus)
        targets.append((site.snapshot.nodes[node].name, chosen))
    return Carried(tuple(moved), tuple(targets))


_REPORT = "`placer snapshot take` keeps this cluster's state for a report"


def _set(site: job.Site, free: capacity.Capacity, node: int, gpu_type: str | None, gpus: int) -> tuple[int, ...]:
    """The best free GPUs of a node, ascending."""
    one = free.nodes[node]
    usable = one.gpu_mask & capacity.type_mask(one.node, gpu_type)
    chosen = site.tables[site.table_of[node]].best(usable, gpus)
    return tuple(sorted(chosen.order)) if chosen is not None else ()
