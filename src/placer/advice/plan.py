"""A plan for the whole queue: which pending jobs start now and where, when the others could, and why.

Proven best by value (`placement.queue`), with the rule of thumb beside it. Nothing of a plan is carried out here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from placer import errors
from placer.advice import advise, queue_entries, queue_reasons, types
from placer.advice import queue_types as advice
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import gang_problem as problems
from placer.placement import job, queue, queue_jobs, queue_later
from placer.placement import queue_problem as arrays
from placer.placement import types as plan

NO_OPTIONS = advice.Options()


class _Solved(msgspec.Struct, frozen=True):
    """A problem with its answer, and the waiting job behind each of its entries."""

    made: queue_jobs.Queue
    answer: arrays.Answer
    behind: tuple[queue_entries.Waiting, ...]


def plan_queue(snapshot: cluster.ClusterSnapshot, options: advice.Options = NO_OPTIONS) -> advice.QueuePlan:
    """Decide about every pending job of a snapshot. The order of its nodes and jobs makes no difference."""
    deadline = problems.Deadline(options.limits)
    snapshot = queue_entries.ordered(snapshot)
    found = queue_entries.waiting(snapshot)
    behind = tuple(one for one in found if one.undecided is None)
    site = job.site(snapshot, oversubscription=options.oversubscription, nic_gbits=options.nic_gbits)
    entries = queue_entries.entries(found, tiers=options.tiers)
    solved = _solve(site, entries, behind, options.limits, deadline)
    if options.reserve:
        kept = _reserved(solved, snapshot, options, deadline)
        if kept != entries:
            solved = _solve(site, kept, behind, options.limits, deadline)
    placed = _placed(solved, options)
    later = _later(solved, snapshot, options.horizon, deadline)
    decisions = _decisions(solved, found, placed, later, snapshot)
    solve = msgspec.structs.replace(solved.answer.solve, seconds=deadline.seconds)
    return advice.QueuePlan(
        jobs=decisions,
        value=solved.answer.value,
        greedy_value=solved.answer.greedy_value,
        solve=solve,
        gpus_started=sum(a.gpu_count for one in placed for a in one.allocations),
        gpus_free=int(solved.made.problem.nodes.room[arrays.GPUS].sum()),
        notes=_notes(snapshot, late=deadline.passed),
    )


def _solve(
    site: job.Site,
    entries: Sequence[queue_jobs.Entry],
    behind: tuple[queue_entries.Waiting, ...],
    limits: plan.SolveLimits,
    deadline: problems.Deadline,
) -> _Solved:
    made = queue_jobs.build(site, entries, lambda request: advise.ask(site, request, limits))
    return _Solved(made, queue.solve(made.problem, deadline.rest), behind)


def _placed(solved: _Solved, options: advice.Options) -> tuple[queue_jobs.Placed, ...]:
    """Nodes and GPU sets of all that starts, checked: together they take no more than is free."""
    made = solved.made
    started = [made.entries[made.entry_of[start.job]] for start in solved.answer.starts]
    workloads = sorted({member.request.workload for entry in started for member in entry.members})
    sites = {
        workload: job.site(
            made.site.snapshot,
            workload=workload,
            oversubscription=options.oversubscription,
            nic_gbits=options.nic_gbits,
        )
        for workload in workloads
    }
    placed = queue_jobs.place(made, solved.answer.starts, sites, made.site.free)
    short = queue_jobs.overdrawn(made.site.free, [a for one in placed for a in one.allocations])
    if short is not None:
        raise errors.PlacerError(f"the plan takes more of node {short} than is free", hint="report this snapshot")
    return placed


def _later(
    solved: _Solved,
    snapshot: cluster.ClusterSnapshot,
    horizon: int,
    deadline: problems.Deadline,
    *,
    jobs: Sequence[int] | None = None,
    starts: Sequence[arrays.Start] | None = None,
) -> dict[int, queue_later.Expected]:
    """When what does not start now could start; nothing where the snapshot does not tell when it was taken."""
    taken = snapshot.source.taken
    if taken is None:
        return {}
    made = solved.made
    seconds = {
        number: limit
        for number, entry in enumerate(made.entry_of)
        if (limit := _limit(made.entries[entry], snapshot)) is not None
    }
    return queue_later.walk(
        made.problem,
        solved.answer.starts if starts is None else starts,
        [_running(one, taken, made) for one in snapshot.jobs if one.allocations and one.ends is not None],
        seconds,
        whole=queue_jobs.room_of(queue_jobs.emptied(made.site.free), made.types),
        horizon=horizon,
        jobs=jobs,
        late=lambda: deadline.passed,
    )


def _limit(entry: queue_jobs.Entry, snapshot: cluster.ClusterSnapshot) -> int | None:
    """How long an entry may run; None = for ever."""
    longest = 0
    usual = {partition.name: partition.default_time or partition.max_time for partition in snapshot.partitions}
    for member in entry.members:
        limit = member.time_limit or member.request.time_limit or usual.get(member.partition)
        if limit is None:
            return None
        longest = max(longest, limit)
    return longest


def _running(one: cluster.Job, taken: int, made: queue_jobs.Queue) -> queue_later.Running:
    """What a running job gives back when it ends."""
    where = made.site.free.positions
    held = [a for a in one.allocations if a.node in where]
    nodes = np.array([where[a.node] for a in held], dtype=np.int64)
    gives = [[a.gpu_count if a.gpus is None else len(a.gpus) for a in held]]
    gives += [[a.cpus for a in held], [a.memory_mib for a in held]]
    gives += [[_of_type(made, a, kind) for a in held] for kind in made.types]
    return queue_later.Running(max(1, (one.ends or 0) - taken), nodes, np.array(gives, dtype=np.int64))


def _of_type(made: queue_jobs.Queue, held: cluster.Allocation, kind: str) -> int:
    """GPUs of a type that are held; where the indices are not known all of them may be."""
    mask = capacity.type_mask(made.site.free.nodes[made.site.free.positions[held.node]].node, kind)
    return held.gpu_count if held.gpus is None else sum(mask >> gpu & 1 for gpu in held.gpus)


def _reserved(
    solved: _Solved, snapshot: cluster.ClusterSnapshot, options: advice.Options, deadline: problems.Deadline
) -> tuple[queue_jobs.Entry, ...]:
    """The entries, those of lower priority kept off the nodes where a waiting job of higher priority starts first.

    They may use them all the same when they end before.
    """
    made = solved.made
    begun = {start.job for start in solved.answer.starts}
    wait = sorted({made.entry_of[n] for n in range(len(made.problem.jobs)) if n not in begun})
    entries = list(made.entries)
    for number in sorted(wait, key=lambda n: -solved.behind[n].priority)[: options.reserve]:
        priority = solved.behind[number].priority
        ahead = [s for s in solved.answer.starts if solved.behind[made.entry_of[s.job]].priority >= priority]
        mine = next(n for n, entry in enumerate(made.entry_of) if entry == number and n not in begun)
        found = _later(solved, snapshot, options.horizon, deadline, jobs=[mine], starts=ahead).get(mine)
        if found is None:
            continue
        names = frozenset(made.site.snapshot.nodes[n].name for part in found.start.nodes for n in part)
        for other, entry in enumerate(entries):
            limit = _limit(entry, snapshot)
            if solved.behind[other].priority < priority and (limit is None or limit > found.after):
                entries[other] = msgspec.structs.replace(entry, avoid=entry.avoid | names)
    return tuple(entries)


def _decisions(
    solved: _Solved,
    found: Sequence[queue_entries.Waiting],
    placed: Sequence[queue_jobs.Placed],
    later: Mapping[int, queue_later.Expected],
    snapshot: cluster.ClusterSnapshot,
) -> tuple[advice.Decision, ...]:
    """One decision for each pending job, in the order of the queue."""
    made, number, decisions = solved.made, 0, []
    why = queue_reasons.Reasons(made, solved.answer)
    of_entry: dict[int, list[int]] = {}
    for task, entry in enumerate(made.entry_of):
        of_entry.setdefault(entry, []).append(task)
    begun = {start.job for start in solved.answer.starts}
    of_member: dict[tuple[int, int], list[queue_jobs.Placed]] = {}
    for part in placed:
        of_member.setdefault((part.entry, part.member), []).append(part)
    for one in found:
        if one.undecided is not None:
            decisions += [_told(one, member, one.undecided) for member in one.members]
            continue
        tasks = of_entry.get(number, [])
        count = sum(task in begun for task in tasks)
        waits = [task for task in tasks if task not in begun]
        expected = min((later[task].after for task in waits if task in later), default=None)
        for at, member in enumerate(one.members):
            mine = of_member.get((number, at), [])
            nodes = tuple(node for p in mine for node in p.placement.nodes)
            decisions.append(
                msgspec.structs.replace(
                    _told(one, member, why.of(number, count, one)),
                    gpus=why.gpus(number, at),
                    choice=advice.Choice.START if count else advice.Choice.WAIT,
                    placement=plan.Placement(nodes) if mine else None,
                    start=_start(snapshot, expected, bool(waits)),
                    tasks=count,
                )
            )
        number += 1
    return tuple(decisions)


def _told(one: queue_entries.Waiting, member: cluster.Job, reason: str) -> advice.Decision:
    return advice.Decision(
        id=member.id,
        alias=member.alias,
        name=member.name,
        priority=member.priority,
        choice=advice.Choice.WAIT,
        reason=reason,
        of=one.of,
    )


def _start(snapshot: cluster.ClusterSnapshot, after: int | None, waits: bool) -> types.Start | None:
    taken = snapshot.source.taken
    if not waits or taken is None or after is None:
        return None
    basis = "running jobs end at their time limits, then the queue by priority and size"
    return types.Start(taken + after, basis)


def _notes(snapshot: cluster.ClusterSnapshot, *, late: bool) -> tuple[str, ...]:
    notes = [*snapshot.assumptions, *(f"left out: {text}" for text in snapshot.left_out)]
    if snapshot.source.taken is None:
        notes.append("the snapshot does not tell when it was taken: no starts of waiting jobs")
    if late:
        notes.append("the time limit came first: a better plan may exist, and not all starts of waiting jobs are told")
    return tuple(notes)
