"""The `nodes` and `partitions` of a snapshot document <-> `NodeState` and `Partition`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from placer import errors, hostlist, units
from placer.cluster import codec_errors, codec_wire, types

MAX_NODES = 100_000
"""More nodes than any cluster has; a larger list is a mistake and would only eat memory."""


class GpuWire(msgspec.Struct, forbid_unknown_fields=True):
    """One GPU of a node."""

    index: codec_wire.Index
    type: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    healthy: bool = True


class GpusWire(msgspec.Struct, forbid_unknown_fields=True):
    """Equal GPUs, indices 0 to `count` - 1."""

    count: codec_wire.GpuCount
    type: str | None = None


class NodeWire(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One entry of `nodes`; `name` in list syntax makes equal nodes."""

    name: str
    gpus: list[GpuWire] | GpusWire | codec_wire.GpuCount | None = None
    machine: str | None = None
    topology: dict[str, object] | str | None = None
    topology_file: str | None = None
    cpus: codec_wire.Count = 0
    memory: codec_wire.Memory = 0
    domains: dict[str, str] | None = None
    state: types.NodeCondition = types.NodeCondition.UP
    state_text: str = ""
    partitions: list[str] | None = None
    features: list[str] | None = None
    labels: dict[str, str] | None = None
    sockets: codec_wire.Count | None = None
    cores_per_socket: codec_wire.Count | None = None
    threads_per_core: codec_wire.Count | None = None
    weight: codec_wire.Whole = 1
    gpus_used: list[codec_wire.Index] | None = None
    gpus_used_count: codec_wire.GpuCount | None = None
    cpus_used: codec_wire.Count = 0
    memory_used: codec_wire.Memory = 0


class PartitionWire(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One entry of `partitions`; without `nodes` those that name it are meant."""

    name: str
    nodes: str | None = None
    default: bool = False
    up: bool = True
    max_nodes: codec_wire.Count | None = None
    max_time: codec_wire.Seconds | None = None
    default_time: codec_wire.Seconds | None = None
    default_memory_per_node: codec_wire.Memory | None = None
    default_memory_per_cpu: codec_wire.Memory | None = None
    default_cpus_per_gpu: codec_wire.Count | None = None
    spreads: bool = False


def names(wires: Sequence[NodeWire], where: codec_errors.Where) -> list[tuple[str, ...]]:
    """The node names of each entry. Raises DocumentError for bad syntax, a name that stands twice, too many."""
    seen: dict[str, int] = {}
    found = []
    for position, wire in enumerate(wires):
        step = f"nodes[{position}].name"
        try:
            listed = hostlist.expand(wire.name, source="name", limit=MAX_NODES - len(seen))
        except errors.ParseError as error:
            raise where.error(step, codec_errors.message_of(error)) from None
        if not listed:
            raise where.error(step, "names no node")
        for name in listed:
            if name in seen:
                raise where.error(step, f"node `{name}` stands in nodes[{seen[name]}] already")
            seen[name] = position
        found.append(listed)
    return found


def decode(
    wire: NodeWire, listed: Sequence[str], slots: tuple[types.GpuSlot, ...], where: codec_errors.Where
) -> list[types.NodeState]:
    """The nodes of one entry; equal in all but their name. `slots` is what `gpu_slots` made of it."""
    first = types.NodeState(
        name=listed[0],
        gpus=slots,
        cpus=wire.cpus,
        memory_mib=where.memory("memory", wire.memory),
        condition=wire.state,
        condition_text=wire.state_text,
        partitions=tuple(wire.partitions or ()),
        features=tuple(wire.features or ()),
        labels=tuple((wire.labels or {}).items()),
        sockets=wire.sockets,
        cores_per_socket=wire.cores_per_socket,
        threads_per_core=wire.threads_per_core,
        weight=wire.weight,
        gpus_used=tuple(wire.gpus_used or ()),
        gpus_used_count=len(wire.gpus_used or ()) if wire.gpus_used_count is None else wire.gpus_used_count,
        cpus_used=wire.cpus_used,
        memory_used_mib=where.memory("memory_used", wire.memory_used),
    )
    known = {slot.index for slot in slots}
    for index in first.gpus_used:
        if index not in known:
            raise where.error("gpus_used", f"there is no GPU {index} on the node")
    return [first, *(msgspec.structs.replace(first, name=name) for name in listed[1:])]


def gpu_slots(wire: NodeWire, where: codec_errors.Where) -> tuple[types.GpuSlot, ...] | None:
    """The GPUs that an entry lists, by index; None when it says nothing of them. Raises DocumentError."""
    if wire.gpus is None:
        return None
    if isinstance(wire.gpus, int):
        return tuple(types.GpuSlot(index) for index in range(wire.gpus))
    if isinstance(wire.gpus, GpusWire):
        return tuple(types.GpuSlot(index, wire.gpus.type) for index in range(wire.gpus.count))
    slots: dict[int, types.GpuSlot] = {}
    for position, gpu in enumerate(wire.gpus):
        if gpu.index in slots:
            raise where.error(f"gpus[{position}].index", f"{gpu.index} stands twice")
        slots[gpu.index] = types.GpuSlot(gpu.index, gpu.type, gpu.uuid, gpu.bus_id, gpu.healthy)
    return tuple(slots[index] for index in sorted(slots))


def encode(node: types.NodeState, topology: str | None, domains: Mapping[str, str]) -> dict[str, object]:
    """One entry, of one node. `topology` is its key under `topologies`. Rarer keys stand only where they tell."""
    entry: dict[str, object] = {
        "name": node.name,
        "gpus": _gpus(node.gpus),
        "cpus": node.cpus,
        "memory": units.format_memory(node.memory_mib),
        "domains": dict(domains),
        "state": node.condition.value,
        "partitions": list(node.partitions),
        "features": list(node.features),
        "labels": dict(node.labels),
    }
    told = {
        "topology": topology,
        "state_text": node.condition_text or None,
        "sockets": node.sockets,
        "cores_per_socket": node.cores_per_socket,
        "threads_per_core": node.threads_per_core,
        "weight": node.weight if node.weight != 1 else None,
        "gpus_used": list(node.gpus_used) or None,
        "gpus_used_count": node.gpus_used_count if node.gpus_used_count != len(node.gpus_used) else None,
        "cpus_used": node.cpus_used or None,
        "memory_used": units.format_memory(node.memory_used_mib) if node.memory_used_mib else None,
    }
    entry.update((key, value) for key, value in told.items() if value is not None)
    return entry


def merge(entries: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Neighbours that are equal but for their name become one entry with a list of names."""
    merged: list[dict[str, object]] = []
    group: list[str] = []
    for entry in entries:
        name = str(entry["name"])
        if group and {**entry, "name": None} == {**merged[-1], "name": None}:
            group.append(name)
        else:
            _name(merged, group)
            merged.append(dict(entry))
            group = [name]
    _name(merged, group)
    return merged


def _name(merged: list[dict[str, object]], group: list[str]) -> None:
    if group:
        merged[-1]["name"] = hostlist.fold(group)


def _gpus(slots: Sequence[types.GpuSlot]) -> object:
    kind = slots[0].type if slots else None
    if all(slot == types.GpuSlot(index, kind) for index, slot in enumerate(slots)):
        return {"count": len(slots), "type": kind}
    return [{"index": s.index, "type": s.type, "uuid": s.uuid, "bus_id": s.bus_id, "healthy": s.healthy} for s in slots]


def decode_partitions(
    wires: Sequence[PartitionWire] | None, nodes: Sequence[types.NodeState], where: codec_errors.Where
) -> tuple[types.Partition, ...]:
    """The partitions of a document; without the key those that nodes name. Raises DocumentError."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        for name in node.partitions:
            members.setdefault(name, []).append(node.name)
    if wires is None:
        return tuple(types.Partition(name=name, nodes=tuple(members[name])) for name in hostlist.sort(members))
    seen: dict[str, types.Partition] = {}
    for position, wire in enumerate(wires):
        here = where.at(f"partitions[{position}]")
        if wire.name in seen:
            raise here.error("name", f"partition `{wire.name}` stands twice")
        seen[wire.name] = _partition(wire, members.get(wire.name, []), here)
    return tuple(seen.values())


def _partition(wire: PartitionWire, members: Sequence[str], where: codec_errors.Where) -> types.Partition:
    return types.Partition(
        name=wire.name,
        nodes=tuple(members) if wire.nodes is None else where.nodes("nodes", wire.nodes),
        default=wire.default,
        up=wire.up,
        max_nodes=wire.max_nodes,
        max_time=where.duration("max_time", wire.max_time),
        default_time=where.duration("default_time", wire.default_time),
        default_memory_per_node_mib=_optional(where, "default_memory_per_node", wire.default_memory_per_node),
        default_memory_per_cpu_mib=_optional(where, "default_memory_per_cpu", wire.default_memory_per_cpu),
        default_cpus_per_gpu=wire.default_cpus_per_gpu,
        spreads=wire.spreads,
    )


def _optional(where: codec_errors.Where, step: str, value: int | str | None) -> int | None:
    return None if value is None else where.memory(step, value)


def encode_partition(partition: types.Partition) -> dict[str, object]:
    """One entry of `partitions`; nodes in list syntax, in natural order."""
    return codec_wire.plain(
        PartitionWire(
            name=partition.name,
            nodes=hostlist.fold(partition.nodes),
            default=partition.default,
            up=partition.up,
            max_nodes=partition.max_nodes,
            max_time=partition.max_time,
            default_time=partition.default_time,
            default_memory_per_node=partition.default_memory_per_node_mib,
            default_memory_per_cpu=partition.default_memory_per_cpu_mib,
            default_cpus_per_gpu=partition.default_cpus_per_gpu,
            spreads=partition.spreads,
        )
    )
