"""A snapshot for people: what is free where, and what waits."""

from __future__ import annotations

from placer import errors, ranges, units
from placer.cli import _render
from placer.cluster import capacity
from placer.cluster import types as cluster


def text(snapshot: cluster.ClusterSnapshot) -> str:
    """Nodes with their free amounts, then pending jobs."""
    parts = [_head(snapshot), _nodes(snapshot)]
    waiting = [j for j in snapshot.jobs if j.state in (cluster.JobState.PENDING, cluster.JobState.HELD)]
    if waiting:
        parts.append(_waiting(waiting))
    return "\n\n".join(parts)


def _head(snapshot: cluster.ClusterSnapshot) -> str:
    source = snapshot.source
    taken = f", taken {units.format_moment(source.taken)}" if source.taken is not None else ""
    free = capacity.of(snapshot)
    gpus = sum(len(n.gpus) for n in snapshot.nodes)
    idle = sum(f.gpus for f in free.nodes if f.node.condition is cluster.NodeCondition.UP)
    running = sum(bool(job.allocations) for job in snapshot.jobs)
    runs = "1 job runs" if running == 1 else f"{running} jobs run"
    counts = f"{len(snapshot.nodes)} nodes, {idle} of {gpus} GPUs free, {runs}"
    return f"{errors.printable(source.system)} {errors.printable(source.version)}{taken}: {counts}"


def _nodes(snapshot: cluster.ClusterSnapshot) -> str:
    member = {(d.level, n): d.name for d in snapshot.topology.fabric.domains for n in d.nodes}
    levels = snapshot.topology.fabric.levels
    rows = []
    for free in capacity.of(snapshot).nodes:
        node = free.node
        kinds = sorted({gpu.type or "gpu" for gpu in node.gpus})
        idle = ranges.format(ranges.from_mask(free.gpu_mask)) or "-"
        rows.append(
            (
                errors.printable(node.name),
                node.condition.value,
                f"{free.gpus}/{len(node.gpus)} {errors.printable('+'.join(kinds))}" if node.gpus else "-",
                f"{idle} less {free.unplaced}" if free.unplaced else idle,
                f"{free.cpus}/{node.cpus}",
                f"{units.format_memory(max(free.memory_mib, 0))}/{units.format_memory(node.memory_mib)}",
                *(errors.printable(member.get((i, node.name), "-")) for i in range(len(levels))),
            )
        )
    columns = ("node", "state", "gpus free", "which", "cpus free", "memory free", *(level.name for level in levels))
    return _render.plain_table(columns, rows)


def _waiting(jobs: list[cluster.Job]) -> str:
    rows = []
    for job in jobs:
        request = job.request
        per_node = request.gpus_per_node
        gpus = f"{per_node} a node" if per_node is not None else str(request.gpus) if request.gpus is not None else "-"
        if request.gpus_per_task is not None and per_node is None and request.gpus is None:
            gpus = f"{request.gpus_per_task} a task"
        rows.append(
            (
                errors.printable(job.id),
                errors.printable(job.name, 24),
                job.state.value,
                str(request.nodes or "-"),
                gpus,
                errors.printable(request.gpu_type or "-"),
                errors.printable(job.partition),
                errors.printable(job.reason or "-"),
            )
        )
    return _render.plain_table(("job", "name", "state", "nodes", "gpus", "type", "partition", "reason"), rows)
