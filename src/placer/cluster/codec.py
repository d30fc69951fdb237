"""The snapshot document `placer/v1` `ClusterSnapshot` (plain builtins) <-> `ClusterSnapshot`.

Beyond the keys that a person writes (`source levels nodes jobs`, and of those the usual ones) the document knows

- `topologies {key: NodeTopology}`: each wiring once; a node refers to it by `topology: key`. A NodeTopology may also
  stand in the node itself. Its keys: `codec_topology`.
- `fabric {kind levels domains warnings}`: what `levels` and the nodes' `domains` cannot say; see `codec_fabric`.
- `partitions [{name nodes default up max_nodes max_time default_time default_memory_per_node default_memory_per_cpu
  default_cpus_per_gpu spreads}]`; without the key, those that nodes name.
- `settings {name: value}`, `assumptions [text]`, `left_out [text]`.
- nodes: `state_text sockets cores_per_socket threads_per_core weight gpus_used gpus_used_count cpus_used memory_used`.
- jobs: `account started ends dependency`; their requests: `nodes_max gpus_per_task gpus_per_socket whole_memory
  reservation switches threads_per_core`; their allocations: `cpu_ids`.

Null and absence mean the same, but for a request's `partition` and `time_limit`: absent, they are the job's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from placer import errors, hostlist, units
from placer.cluster import codec_errors, codec_fabric, codec_jobs, codec_nodes, codec_topology, codec_wire, types
from placer.topology import types as topo

KIND = "ClusterSnapshot"

ReadTopology = Callable[[str], topo.NodeTopology]
"""Reads the file that `topology_file` names."""
FindMachine = Callable[[str, int], topo.NodeTopology | None]
"""The wiring of a machine of the catalogue, by its name and number of GPUs."""


class _Source(msgspec.Struct, forbid_unknown_fields=True):
    system: str = "manual"
    version: str = ""
    taken: str | None = None


class _Snapshot(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    apiVersion: str  # noqa: N815 - the key's own spelling
    kind: str
    source: _Source | None = None
    levels: list[str] | None = None
    fabric: codec_fabric.FabricWire | None = None
    topologies: dict[str, object] | None = None
    nodes: list[codec_nodes.NodeWire]
    jobs: list[codec_jobs.JobWire] | None = None
    partitions: list[codec_nodes.PartitionWire] | None = None
    settings: dict[str, str] | None = None
    assumptions: list[str] | None = None
    left_out: list[str] | None = None


def decode(
    document: object,
    *,
    source: str,
    read_topology: ReadTopology | None = None,
    find_machine: FindMachine | None = None,
) -> types.ClusterSnapshot:
    """The snapshot that a document says. `source` is what errors call it.

    Nodes and jobs come in natural order. A machine that `find_machine` does not know, and a `topology_file` without
    `read_topology`, leave the node's topology unknown and add to `assumptions`. Raises DocumentError with the path to
    what is wrong; what the two functions raise passes through.
    """
    where = codec_errors.Where(source)
    _check_header(document, where)
    wire = codec_errors.convert(document, _Snapshot, where)
    assumptions = list(wire.assumptions or ())
    left_out = list(wire.left_out or ())
    listed = codec_nodes.names(wire.nodes, where)
    wirings = _Wirings(wire.topologies or {}, where, read_topology, find_machine)
    nodes: list[types.NodeState] = []
    machine_of: dict[str, int] = {}
    for position, (entry, names) in enumerate(zip(wire.nodes, listed, strict=True)):
        here = where.at(f"nodes[{position}]")
        slots = codec_nodes.gpu_slots(entry, here)
        number = wirings.of(entry, names, slots, here, assumptions)
        if slots is None:
            slots = _slots_of(wirings.machines[number]) if number >= 0 else ()
        nodes += codec_nodes.decode(entry, names, slots, here)
        machine_of.update(dict.fromkeys(names, number))
    nodes.sort(key=lambda node: hostlist.natural_key(node.name))
    own = _own_domains(wire, listed, where)
    gpus = _indices(nodes)
    jobs = codec_jobs.decode(wire.jobs or (), gpus, where, left_out)
    return types.ClusterSnapshot(
        source=_source(wire.source or _Source(), where.at("source")),
        topology=topo.ClusterTopology(
            nodes=tuple(node.name for node in nodes),
            machines=tuple(wirings.machines),
            machine_of=tuple(machine_of[node.name] for node in nodes),
            fabric=codec_fabric.decode(
                wire.levels, own, wire.fabric, where, [(node.name, dict(node.labels)) for node in nodes]
            ),
        ),
        nodes=tuple(nodes),
        jobs=tuple(sorted(jobs, key=lambda job: hostlist.natural_key(job.id))),
        partitions=codec_nodes.decode_partitions(wire.partitions, nodes, where),
        settings=tuple((wire.settings or {}).items()),
        assumptions=tuple(dict.fromkeys(assumptions)),
        left_out=tuple(dict.fromkeys(left_out)),
    )


def encode(snapshot: types.ClusterSnapshot) -> dict[str, object]:
    """The document of a snapshot; `decode` reads it back equal.

    Equal, that is, but for what the document cannot say: the topology of nodes that are not in `snapshot.nodes`, the
    order of nodes and jobs, repeated keys of `labels` and `settings`, the order within a CPU set, and `gpu_count`
    beside known indices.
    """
    topology = snapshot.topology
    keys = _keys(topology.machines)
    key_of = {n: keys[m] for n, m in zip(topology.nodes, topology.machine_of, strict=False) if 0 <= m < len(keys)}
    levels, own, fabric = codec_fabric.encode(topology.fabric, [node.name for node in snapshot.nodes])
    entries = [codec_nodes.encode(node, key_of.get(node.name), own[node.name]) for node in snapshot.nodes]
    taken = snapshot.source.taken
    document: dict[str, object] = {
        "apiVersion": codec_wire.API_VERSION,
        "kind": KIND,
        "source": {
            "system": snapshot.source.system,
            "version": snapshot.source.version,
            "taken": None if taken is None else units.format_moment(taken),
        },
        "levels": levels,
        "fabric": fabric,
        "topologies": dict(zip(keys, map(codec_topology.encode, topology.machines), strict=True)),
        "nodes": codec_nodes.merge(entries),
        "jobs": [codec_jobs.encode(job) for job in snapshot.jobs],
        "partitions": [codec_nodes.encode_partition(partition) for partition in snapshot.partitions],
        "settings": dict(snapshot.settings),
        "assumptions": list(snapshot.assumptions),
        "left_out": list(snapshot.left_out),
    }
    if fabric is None:
        del document["fabric"]
    return document


def _check_header(document: object, where: codec_errors.Where) -> None:
    if not isinstance(document, dict):
        raise where.error("", "must be a mapping with `apiVersion`, `kind` and `nodes`")
    version = document.get("apiVersion")
    if version != codec_wire.API_VERSION:
        said = "is missing" if version is None else f"`{errors.printable(str(version)[:60])}` is not known"
        raise where.error("apiVersion", f"{said}; this placer reads: {codec_wire.API_VERSION}")
    if document.get("kind") != KIND:
        said = errors.printable(str(document.get("kind"))[:60])
        raise where.error("kind", f"must be `{KIND}`, not `{said}`")


def _source(wire: _Source, where: codec_errors.Where) -> types.Source:
    return types.Source(wire.system, wire.version, where.moment("taken", wire.taken))


class _Wirings:
    """The distinct node topologies of a document, in the order of `topologies`, then of first use."""

    def __init__(
        self,
        named: Mapping[str, object],
        where: codec_errors.Where,
        read_topology: ReadTopology | None,
        find_machine: FindMachine | None,
    ) -> None:
        self._read = read_topology
        self._find = find_machine
        self._files: dict[str, topo.NodeTopology] = {}
        self.machines = [
            codec_topology.decode(document, source=where.source, path=where.at("topologies").at(key).path)
            for key, document in named.items()
        ]
        self._named = {key: number for number, key in enumerate(named)}
        self._known = {machine: number for number, machine in reversed(list(enumerate(self.machines)))}

    def of(
        self,
        entry: codec_nodes.NodeWire,
        names: Sequence[str],
        slots: Sequence[types.GpuSlot] | None,
        where: codec_errors.Where,
        assumptions: list[str],
    ) -> int:
        """Which of `machines` an entry is wired like; -1 = unknown. `topology` precedes its file, that `machine`."""
        if isinstance(entry.topology, str):
            if entry.topology not in self._named:
                near = codec_errors.nearest(entry.topology, self._named)
                raise where.error("topology", f"`{entry.topology}` is not under `topologies`{near}")
            return self._named[entry.topology]
        if entry.topology is not None:
            found = codec_topology.decode(entry.topology, source=where.source, path=where.at("topology").path)
            return self._number(found)
        shown = errors.printable(hostlist.fold(names), 80)
        if entry.topology_file is not None:
            if self._read is not None:
                return self._number(self._file(entry.topology_file, self._read))
            assumptions.append(f"{shown}: topology unknown, its file {entry.topology_file} was not read")
        elif entry.machine is not None:
            machine = self._find(entry.machine, len(slots or ())) if self._find is not None else None
            if machine is not None:
                return self._number(machine)
            assumptions.append(f"{shown}: topology unknown, machine {entry.machine} is not known")
        return -1

    def _file(self, name: str, read: ReadTopology) -> topo.NodeTopology:
        if name not in self._files:
            self._files[name] = read(name)
        return self._files[name]

    def _number(self, machine: topo.NodeTopology) -> int:
        number = self._known.setdefault(machine, len(self.machines))
        if number == len(self.machines):
            self.machines.append(machine)
        return number


def _slots_of(machine: topo.NodeTopology) -> tuple[types.GpuSlot, ...]:
    """The GPUs of a node whose entry tells none, as its topology lists them."""
    return tuple(
        types.GpuSlot(index, None, gpu.uuid, gpu.bus_id, gpu.healthy is not False)
        for index, gpu in enumerate(machine.gpus[: codec_wire.MAX_GPUS])
    )


def _own_domains(
    wire: _Snapshot, listed: Sequence[Sequence[str]], where: codec_errors.Where
) -> dict[str, Mapping[str, str]]:
    """Node -> {level: domain} as the nodes tell; levels are checked here, where the path is known."""
    fabric = wire.fabric
    levels = wire.levels if wire.levels is not None else [lv.name for lv in (fabric.levels or ())] if fabric else []
    own: dict[str, Mapping[str, str]] = {}
    for position, (entry, names) in enumerate(zip(wire.nodes, listed, strict=True)):
        domains = entry.domains or {}
        for level in domains:
            if level not in levels:
                step = f"nodes[{position}].domains.{level}"
                raise where.error(step, f"`{level}` is not in `levels`{codec_errors.nearest(level, levels)}")
        own.update(dict.fromkeys(names, domains))
    return own


def _indices(nodes: Sequence[types.NodeState]) -> dict[str, frozenset[int]]:
    """Node -> its GPU indices. Equal nodes share one set."""
    made: dict[int, frozenset[int]] = {}
    for node in nodes:
        if id(node.gpus) not in made:
            made[id(node.gpus)] = frozenset(slot.index for slot in node.gpus)
    return {node.name: made[id(node.gpus)] for node in nodes}


def _keys(machines: Sequence[topo.NodeTopology]) -> list[str]:
    """A distinct key for each machine: what it is called, with a number where that is taken."""
    keys: dict[str, None] = {}
    for machine in machines:
        base = key = machine.machine or machine.name or "machine"
        number = 1
        while key in keys:
            number += 1
            key = f"{base}#{number}"
        keys[key] = None
    return list(keys)
