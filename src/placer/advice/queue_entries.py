"""Which pending jobs a plan decides about: arrays task by task, heterogeneous jobs as one, the others with a reason."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from placer import errors, hostlist, ranges
from placer.cluster import types as cluster
from placer.placement import queue_jobs

MOST_TASKS = 1000
"""Tasks of one array that a plan looks at."""

_ARRAY = re.compile(r"(\d+)_\[([^%\]]*)(?:%(\d+))?\]")
_TASK = re.compile(r"(\d+)_\d+")
_COMPONENT = re.compile(r"(\d+)\+\d+")
_HELD_BACK = (
    "Account", "Assoc", "BadConstraints", "BeginTime", "BurstBuffer", "Cleaning", "DeadLine", "Dependency",
    "FrontEndDown", "Invalid", "JobArrayTaskLimit", "JobHeld", "Licenses", "MaxMem", "NotSchedulable", "Power", "QOS",
    "Reservation", "SchedulingGated", "launch failed", "user env",
)  # fmt: skip
"""Beginnings of the scheduler's reasons that no placement changes (squeue's manual, JOB REASON CODES)."""


class Waiting(msgspec.Struct, frozen=True):
    """A pending job or the components of one, in the order of its start. `undecided` says why it is left alone."""

    members: tuple[cluster.Job, ...]
    tasks: int = 1
    of: int = 1
    undecided: str | None = None

    @property
    def priority(self) -> int:
        """That of the first component."""
        return self.members[0].priority


def ordered(snapshot: cluster.ClusterSnapshot) -> cluster.ClusterSnapshot:
    """The same with nodes and jobs in natural order of their names, so that any order gives the same plan."""
    nodes = sorted(snapshot.nodes, key=lambda node: hostlist.natural_key(node.name))
    jobs = sorted(snapshot.jobs, key=lambda job: hostlist.natural_key(job.id))
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes), jobs=tuple(jobs))


def waiting(snapshot: cluster.ClusterSnapshot) -> tuple[Waiting, ...]:
    """Everything that waits: by priority, then by time of submission, then by id."""
    pending = [job for job in snapshot.jobs if job.state in {cluster.JobState.PENDING, cluster.JobState.HELD}]
    together: dict[str, list[cluster.Job]] = {}
    for job in pending:
        found = _COMPONENT.fullmatch(job.alias or "")
        together.setdefault(f"{found.group(1)}+" if found else job.id, []).append(job)
    running = _running_tasks(snapshot.jobs)
    made = [_waiting(tuple(members), running) for members in together.values()]
    return tuple(sorted(made, key=lambda one: (-one.priority, one.members[0].submitted or 0, _key(one))))


def _key(one: Waiting) -> tuple[str, str]:
    return hostlist.natural_key(one.members[0].id)


def _waiting(members: tuple[cluster.Job, ...], running: dict[str, int]) -> Waiting:
    why = next((text for job in members if (text := _why_not(job)) is not None), None)
    found = _ARRAY.fullmatch(members[0].alias or "")
    if found is None or len(members) > 1:
        return Waiting(members, undecided=why)
    array, text, most = found.groups()
    count = _tasks(text)
    room = count if most is None else max(0, int(most) - running.get(array, 0))
    if why is None and room == 0:
        why = f"as many tasks of the array run as it allows ({most})"
    return Waiting(members, min(count, room, MOST_TASKS), count, why)


def _why_not(job: cluster.Job) -> str | None:
    reason = job.reason or ""
    if job.state is cluster.JobState.HELD:
        return f"held ({reason or 'no reason told'})"
    if job.dependency is not None:
        return f"waits for other jobs ({job.dependency})"
    if reason.startswith("BeginTime"):
        return "its begin time has not come"
    if reason.startswith(_HELD_BACK):
        return f"the scheduler holds it back ({reason})"
    return None


def _tasks(text: str) -> int:
    """Tasks of an array's index list; a part that is cut off or has a step counts as what can be read of it."""
    count = 0
    for part in text.split(","):
        span, _, step = part.partition(":")
        try:
            count += -(-len(ranges.parse(span)) // max(1, int(step or 1)))
        except (errors.ParseError, ValueError):
            continue
    return max(1, count)


def _running_tasks(jobs: Sequence[cluster.Job]) -> dict[str, int]:
    """Tasks of each array that hold something."""
    count: dict[str, int] = {}
    for job in jobs:
        found = _TASK.fullmatch(job.alias or "")
        if found is not None and job.allocations:
            count[found.group(1)] = count.get(found.group(1), 0) + 1
    return count


def entries(found: Sequence[Waiting], *, tiers: bool) -> tuple[queue_jobs.Entry, ...]:
    """Those that a plan decides about, with what they are worth."""
    decided = [one for one in found if one.undecided is None]
    highest = max((one.priority for one in decided), default=1)
    order = sorted({one.priority for one in decided}, reverse=True)
    rank = {priority: number for number, priority in enumerate(order)}
    return tuple(
        queue_jobs.Entry(one.members, 1.0, rank[one.priority], one.tasks)
        if tiers
        else queue_jobs.Entry(one.members, max(one.priority, 1) / max(highest, 1), 0, one.tasks)
        for one in decided
    )
