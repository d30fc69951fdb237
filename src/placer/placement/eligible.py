"""Which nodes can take their part of a job, and for every other node the first reason why not.

The reasons, in the order they are tested: `partition`, `partition limit` (its time or number of nodes), `nodelist`,
`excluded`, `features`, `gpu-type`, `node-shape` (could not even when empty), `partition down`, `down`, `drained`,
`reserved`, `in use` (an exclusive job wants it empty), `gpus`, `cpu`, `memory`.
"""

from __future__ import annotations

import msgspec
import numpy as np

from placer import errors, hostlist
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import features, shapes
from placer.placement import types as placement

_CONDITION = {
    cluster.NodeCondition.DOWN: "down",
    cluster.NodeCondition.DRAINED: "drained",
    cluster.NodeCondition.RESERVED: "reserved",
}


class Wanted(msgspec.Struct, frozen=True):
    """The parts of a request that choose nodes, resolved once: names looked up, expressions parsed."""

    partitions: frozenset[str] | None  # None = any
    beyond: frozenset[str]  # partitions whose limits the job exceeds
    closed: frozenset[str]  # partitions that start nothing
    nodelist: frozenset[str] | None
    exclude: frozenset[str]
    variant: features.Variant
    gpu_type: str | None
    exclusive: bool
    reservation: bool
    held: frozenset[str]  # nodes that the job must hold: the list, when it is not longer than the job
    only_listed: bool  # every node of the job must come from the list (the list is at least as long as the job)


class Eligible(msgspec.Struct, frozen=True):
    """Positions (into the snapshot's nodes) that fit, their usable free GPU masks, and the counted rest."""

    positions: tuple[int, ...]
    masks: tuple[int, ...]  # free GPUs of the wanted type
    fits: placement.Fits


def wanted(
    snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, variant: features.Variant, count: int
) -> Wanted:
    """Resolve a request against a snapshot. Raises RequestError for partitions or nodes that are not there."""
    names = frozenset(node.name for node in snapshot.nodes)
    partitions = _partitions(snapshot, request)
    named = _nodes(request.nodelist, names, "nodelist")
    excluded = _nodes(request.exclude, names, "exclude") or frozenset()
    return Wanted(
        partitions=partitions,
        beyond=frozenset(p.name for p in snapshot.partitions if _exceeds(request, count, p)),
        closed=frozenset(p.name for p in snapshot.partitions if not p.up),
        nodelist=named,
        exclude=excluded,
        variant=variant,
        gpu_type=request.gpu_type,
        exclusive=request.exclusive,
        reservation=request.reservation is not None,
        held=named if named is not None and len(named) <= count else frozenset(),
        only_listed=named is not None and len(named) >= count,
    )


def _exceeds(request: cluster.JobRequest, count: int, partition: cluster.Partition) -> bool:
    too_long = partition.max_time is not None and (request.time_limit or 0) > partition.max_time
    return too_long or (partition.max_nodes is not None and count > partition.max_nodes)


def listed(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> int:
    """How many nodes the request names that it must hold. Raises RequestError for nodes that are not there."""
    return len(_nodes(request.nodelist, frozenset(node.name for node in snapshot.nodes), "nodelist") or ())


def partitions(request: cluster.JobRequest) -> tuple[str | None, ...]:
    """The partitions that are asked for, each once, in the order written; (None,) where none is named."""
    names = (name.strip() for name in (request.partition or "").split(","))
    return tuple(dict.fromkeys(name for name in names if name)) or (request.partition,)


def _partitions(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> frozenset[str] | None:
    known = {partition.name: partition for partition in snapshot.partitions}
    if request.partition is None:
        default = [name for name, partition in known.items() if partition.default]
        return frozenset(default) if default else None
    asked = frozenset(name.strip() for name in request.partition.split(",") if name.strip())
    everywhere = known.keys() | {name for node in snapshot.nodes for name in node.partitions}
    if asked and not everywhere:
        raise errors.RequestError(
            f"the job asks for partition `{errors.printable(request.partition)}`, but this cluster has none",
            hint="`placer snapshot show` says what was read; `--snapshot` gives another cluster",
        )
    for name in sorted(asked - everywhere):
        shown = ", ".join(sorted(everywhere))
        raise errors.RequestError(
            f"there is no partition `{errors.printable(name)}`; there are: {shown}", hint="`sinfo -s` lists them"
        )
    return asked


def _nodes(text: str | None, known: frozenset[str], what: str) -> frozenset[str] | None:
    if not text:
        return None
    asked = frozenset(hostlist.expand(text, source=f"--{what}"))
    for name in sorted(asked - known, key=hostlist.natural_key):
        raise errors.RequestError(
            f"`{what}` names node `{errors.printable(name)}`, which is not in the cluster",
            hint="`sinfo -N` lists the nodes",
        )
    return asked


def check(free: capacity.Capacity, want: Wanted, demand: shapes.Demand, *, empty: bool = False) -> Eligible:
    """Test every node. With `empty` nodes count as up and unused: what could ever fit."""
    positions: list[int] = []
    masks: list[int] = []
    excluded: dict[str, int] = {}
    types: dict[tuple[cluster.GpuSlot, ...], int] = {}
    for position, node in enumerate(free.nodes):
        slots = node.node.gpus
        of_type = types.get(slots)
        if of_type is None:
            of_type = types[slots] = capacity.type_mask(node.node, want.gpu_type) & capacity.healthy_mask(node.node)
        reason = never(node.node, want, demand, of_type) or (None if empty else not_now(node, want, demand, of_type))
        if reason is None:
            positions.append(position)
            masks.append(of_type if empty else node.gpu_mask & of_type)
        else:
            excluded[reason] = excluded.get(reason, 0) + 1
    counted = tuple(sorted(excluded.items(), key=lambda item: (-item[1], item[0])))
    return Eligible(tuple(positions), tuple(masks), placement.Fits(len(positions), len(free.nodes), counted))


def never(node: cluster.NodeState, want: Wanted, demand: shapes.Demand, of_type: int) -> str | None:
    """Why a node could not take its part even if it were empty and up; None when it could."""
    if want.partitions is not None and not want.partitions.intersection(node.partitions):
        return "partition"
    if want.beyond and not _any_of(want, node, without=want.beyond):
        return "partition limit"
    if want.only_listed and want.nodelist is not None and node.name not in want.nodelist:
        return "nodelist"
    if node.name in want.exclude:
        return "excluded"
    if not want.variant.every(frozenset(node.features)):
        return "features"
    if demand.gpus and not of_type:
        return "gpu-type" if want.gpu_type is not None and node.gpus else "node-shape"
    too_small = (
        of_type.bit_count() < demand.gpus or node.cpus < demand.cpus or node.memory_mib < (demand.memory_mib or 0)
    )
    return "node-shape" if too_small else None


def not_now(free: capacity.FreeNode, want: Wanted, demand: shapes.Demand, of_type: int) -> str | None:
    """Why a node that could take its part cannot do so now; None when it can."""
    node = free.node
    if want.closed and not _any_of(want, node, without=want.beyond | want.closed):
        return "partition down"
    if node.condition in _CONDITION and not (node.condition is cluster.NodeCondition.RESERVED and want.reservation):
        return _CONDITION[node.condition]
    untouched = free.cpus >= node.cpus and free.gpu_mask == capacity.healthy_mask(node) and not free.unplaced
    if want.exclusive and not untouched:
        return "in use"
    if (free.gpu_mask & of_type).bit_count() - free.unplaced < demand.gpus:
        return "gpus"
    if free.cpus < demand.cpus or free.cpus <= 0:
        return "cpu"
    memory = demand.memory_mib if demand.memory_mib is not None else node.memory_mib
    return "memory" if free.memory_mib < memory else None


def _any_of(want: Wanted, node: cluster.NodeState, *, without: frozenset[str]) -> bool:
    """Whether the job may come to the node through a partition that is not among `without`."""
    if not node.partitions:
        return True
    through = want.partitions if want.partitions is not None else frozenset(node.partitions)
    return not through.isdisjoint(set(node.partitions) - without)


def lacking(free: capacity.Capacity, want: Wanted, positions: tuple[int, ...]) -> bool:
    """Whether a node that the job must hold is not among `positions`."""
    return not want.held <= {free.nodes[p].node.name for p in positions}


def forced(free: capacity.Capacity, want: Wanted, positions: tuple[int, ...]) -> np.ndarray:
    """bool [n] over `positions`: nodes that the job must hold."""
    return np.array([free.nodes[p].node.name in want.held for p in positions], dtype=bool)
