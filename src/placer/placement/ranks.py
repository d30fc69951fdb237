"""Ranks of a whole placement: each node's GPUs dealt to its ranks, with cores, memory nodes and NICs near them."""

from __future__ import annotations

import msgspec

from placer.cluster import types as cluster
from placer.placement import affinity, job, shapes
from placer.placement import types as plan
from placer.topology import types as topo


def bind(
    site: job.Site,
    placement: plan.Placement,
    shape: shapes.Shape,
    request: cluster.JobRequest,
    *,
    limits: plan.SolveLimits = plan.SolveLimits(),  # noqa: B008 - frozen value
) -> tuple[plan.Placement, tuple[str, ...]]:
    """The same placement with rank bindings, and what had to be assumed.

    Where the request names no tasks, one rank for each GPU is taken, as collective launchers start them.
    """
    position = site.free.positions
    held = _held(site.snapshot, frozenset(node.name for node in placement.nodes))
    known: dict[tuple[object, ...], affinity.AffinityResult] = {}  # nodes alike are bound alike
    told = request.ntasks is not None or request.ntasks_per_node is not None
    several = any(len(node.gpus) > 1 for node in placement.nodes)
    notes = ["one rank for each GPU, since the request names no tasks"] if several and not told else []
    nodes: list[plan.NodePlacement] = []
    first = 0
    for done, node in enumerate(placement.nodes):
        count = _ranks(node, shape, told, first, len(placement.nodes) - done - 1)
        where = position[node.name]
        machine = site.machine(where)
        cpus = _free_cpus(held[node.name], site.snapshot.nodes[where], machine)
        key = (site.table_of[where], node.gpus, count, cpus)
        if key not in known:
            known[key] = affinity.bind(
                machine,
                node.gpus,
                count,
                cpuset=cpus,
                cpus_per_rank=request.cpus_per_task,
                workload=request.workload,
                limits=limits,
            )
        result = known[key]
        notes += result.warnings
        if result.solve.termination is plan.Termination.LIMIT:
            notes.append("ranks are bound as well as was found before the time limit")
        nodes.append(msgspec.structs.replace(node, ranks=_numbered(result.ranks, first)))
        first += count
    return plan.Placement(tuple(nodes)), tuple(dict.fromkeys(notes))


def _ranks(node: plan.NodePlacement, shape: shapes.Shape, told: bool, first: int, nodes_after: int) -> int:
    """Ranks of a node; each node after it gets at least one."""
    if not told:
        return max(1, len(node.gpus))
    here = shape.steps[len(node.gpus) // shape.demand.gpus - 1].tasks if shape.fill else shape.demand.tasks
    return max(1, min(here, shape.ranks - first - nodes_after))


def _numbered(ranks: tuple[plan.RankBinding, ...], first: int) -> tuple[plan.RankBinding, ...]:
    """The ranks of a node whose first rank has this number."""
    return tuple(msgspec.structs.replace(rank, rank=first + rank.local_rank) for rank in ranks)


def _held(snapshot: cluster.ClusterSnapshot, names: frozenset[str]) -> dict[str, list[cluster.Allocation]]:
    """What jobs hold on these nodes."""
    held: dict[str, list[cluster.Allocation]] = {name: [] for name in names}
    for job_ in snapshot.jobs:
        for allocation in job_.allocations:
            if allocation.node in held:
                held[allocation.node].append(allocation)
    return held


def free_cpus(
    snapshot: cluster.ClusterSnapshot, node: cluster.NodeState, machine: topo.NodeTopology | None
) -> tuple[int, ...] | None:
    """OS CPU numbers of a node that no job holds; None when they cannot be told.

    Slurm's abstract id is core * threads + thread, cores counted socket by socket. The OS numbers of a core come from
    the node's topology, else from the usual Linux order (thread t of core c is c + t * cores).
    """
    return _free_cpus(_held(snapshot, frozenset((node.name,)))[node.name], node, machine)


def _free_cpus(
    held: list[cluster.Allocation], node: cluster.NodeState, machine: topo.NodeTopology | None
) -> tuple[int, ...] | None:
    cores, threads = (node.sockets or 0) * (node.cores_per_socket or 0), node.threads_per_core or 1
    if not cores or any(a.cpu_ids is None for a in held if a.cpus):
        return None
    table = machine.cores if machine is not None and len(machine.cores) == cores else ()
    used = set()
    for allocation in held:
        for abstract in allocation.cpu_ids or ():
            core, thread = divmod(abstract, threads)
            if table and core < cores and thread < len(table[core]):
                used.add(table[core][thread])
            else:
                used.add(core + thread * cores)
    return tuple(cpu for cpu in range(cores * threads) if cpu not in used)
