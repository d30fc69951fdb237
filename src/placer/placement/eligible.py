"""Which nodes can take their part of a job, and for every other node the first reason why not.

The reasons, in the order they are tested: `partition`, `partition limit` (its time or number of nodes), `nodelist`,
`excluded`, `features`, `gpu-type`, `node-shape` (could not even when empty), `partition down`, `down`, `drained`,
`reserved`, `in use` (an exclusive job wants it empty), `gpus`, `cpu`, `memory`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from placer import errors, hostlist
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import features, leftover, shapes
from placer.placement import types as placement

Mask = npt.NDArray[np.bool_]

_FITS = ""
_REASONS = (
    "partition",
    "partition limit",
    "nodelist",
    "excluded",
    "features",
    "gpu-type",
    "node-shape",
    "partition down",
    "down",
    "drained",
    "reserved",
    "in use",
    "gpus",
    "cpu",
    "memory",
    _FITS,
)
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
    partitions = _partitions(snapshot, request)
    named = _nodes(request.nodelist, snapshot, "nodelist")
    excluded = _nodes(request.exclude, snapshot, "exclude") or frozenset()
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
    return len(_nodes(request.nodelist, snapshot, "nodelist") or ())


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
    if asked <= known.keys():
        return asked
    everywhere = known.keys() | {name for node in snapshot.nodes for name in node.partitions}
    if not everywhere:
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


def _nodes(text: str | None, snapshot: cluster.ClusterSnapshot, what: str) -> frozenset[str] | None:
    if not text:
        return None
    asked = frozenset(hostlist.expand(text, source=f"--{what}"))
    known = frozenset(node.name for node in snapshot.nodes)
    for name in sorted(asked - known, key=hostlist.natural_key):
        raise errors.RequestError(
            f"`{what}` names node `{errors.printable(name)}`, which is not in the cluster",
            hint="`sinfo -N` lists the nodes",
        )
    return asked


def check(free: capacity.Capacity, want: Wanted, demand: shapes.Demand, *, empty: bool = False) -> Eligible:
    """Test every node. With `empty` nodes count as up and unused: what could ever fit.

    Reasons are tested for all nodes at once: what is the same for a whole class of nodes once for the class, names
    and free amounts as arrays. A node's reason is the first of `_REASONS` that applies to it.
    """
    classes = free.classes
    of_type = (
        np.array([capacity.type_mask(node, want.gpu_type) for node in classes.nodes], dtype=np.int64) & classes.healthy
    )
    told = [_of_class(node, want, demand, int(mask)) for node, mask in zip(classes.nodes, of_type, strict=True)]
    if not empty:
        told = [reason or _closed(node, want) for node, reason in zip(classes.nodes, told, strict=True)]
    reasons = np.array([_REASONS.index(reason or _FITS) for reason in told], dtype=np.int64)[classes.of]
    masks = of_type[classes.of]
    tests = _names(free, want)
    if not empty:
        masks = masks & free.columns.gpu_mask
        tests += _amounts(free, want, demand, masks)
    for reason, fails in tests:
        reasons[fails] = np.minimum(reasons[fails], _REASONS.index(reason))
    positions = np.flatnonzero(reasons == len(_REASONS) - 1)
    counts = zip(_REASONS[:-1], np.bincount(reasons, minlength=len(_REASONS)).tolist(), strict=False)
    counted = tuple(sorted(((name, n) for name, n in counts if n), key=lambda item: (-item[1], item[0])))
    fits = placement.Fits(len(positions), len(free.nodes), counted)
    return Eligible(tuple(positions.tolist()), tuple(masks[positions].tolist()), fits)


def _of_class(node: cluster.NodeState, want: Wanted, demand: shapes.Demand, of_type: int) -> str | None:
    """Why no node like this one could take its part even if it were empty and up; None when it could."""
    if want.partitions is not None and not want.partitions.intersection(node.partitions):
        return "partition"
    if want.beyond and not _any_of(want, node, without=want.beyond):
        return "partition limit"
    if not want.variant.every(frozenset(node.features)):
        return "features"
    if demand.gpus and not of_type:
        return "gpu-type" if want.gpu_type is not None and node.gpus else "node-shape"
    # An amount of 0 was not told: it limits nothing.
    too_small = (
        of_type.bit_count() < demand.gpus
        or 0 < node.cpus < demand.cpus
        or 0 < node.memory_mib < (demand.memory_mib or 0)
    )
    return "node-shape" if too_small else None


def _closed(node: cluster.NodeState, want: Wanted) -> str | None:
    """Why no node like this one takes work now, whatever is free."""
    if want.closed and not _any_of(want, node, without=want.beyond | want.closed):
        return "partition down"
    if node.condition is cluster.NodeCondition.RESERVED and want.reservation:
        return None
    return _CONDITION.get(node.condition)


def _names(free: capacity.Capacity, want: Wanted) -> list[tuple[str, Mask]]:
    """Reasons that lie in a node's name, and which nodes they keep out."""
    found = []
    if want.only_listed and want.nodelist is not None:
        found.append(("nodelist", ~_among(free, want.nodelist)))
    if want.exclude:
        found.append(("excluded", _among(free, want.exclude)))
    return found


def _among(free: capacity.Capacity, names: frozenset[str]) -> Mask:
    inside = np.zeros(len(free.nodes), dtype=np.bool_)
    inside[[free.positions[name] for name in names if name in free.positions]] = True
    return inside


def _amounts(
    free: capacity.Capacity, want: Wanted, demand: shapes.Demand, masks: npt.NDArray[np.int64]
) -> list[tuple[str, Mask]]:
    """Reasons that lie in what is free now, and which nodes they keep out. `masks` holds free GPUs of the type."""
    columns, classes = free.columns, free.classes
    cpus = np.array([node.cpus for node in classes.nodes], dtype=np.int64)[classes.of]
    memory = np.array([node.memory_mib for node in classes.nodes], dtype=np.int64)[classes.of]
    wanted_memory = memory if demand.memory_mib is None else demand.memory_mib
    found = [
        ("gpus", leftover.popcount(masks) - columns.unplaced < demand.gpus),
        ("cpu", (cpus > 0) & ((columns.cpus < demand.cpus) | (columns.cpus <= 0))),
        ("memory", (memory > 0) & (columns.memory_mib < wanted_memory)),
    ]
    if want.exclusive:
        whole = (columns.gpu_mask == classes.healthy[classes.of]) & (columns.unplaced == 0)
        found.append(("in use", ~(whole & (columns.cpus >= cpus))))
    return found


def _any_of(want: Wanted, node: cluster.NodeState, *, without: frozenset[str]) -> bool:
    """Whether the job may come to the node through a partition that is not among `without`."""
    if not node.partitions:
        return True
    through = want.partitions if want.partitions is not None else frozenset(node.partitions)
    return not through.isdisjoint(set(node.partitions) - without)


def lacking(free: capacity.Capacity, want: Wanted, positions: Sequence[int]) -> bool:
    """Whether a node that the job must hold is not among `positions`."""
    return bool(want.held) and not want.held <= {free.nodes[p].node.name for p in positions}


def forced(free: capacity.Capacity, want: Wanted, positions: Sequence[int] | npt.NDArray[np.int64]) -> Mask:
    """bool [n] over `positions`: nodes that the job must hold."""
    return _among(free, want.held)[np.asarray(positions, dtype=np.int64)]
