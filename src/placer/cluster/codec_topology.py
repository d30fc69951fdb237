"""The document of one node's inside <-> `NodeTopology`, as `placer topo -o json` prints it and snapshots hold it.

Keys: `name source partial warnings`; `gpus [{id index bus_id uuid model numa cpus memory_numa memory_mib healthy
minor module sm pcie_gen pcie_gen_max pcie_width pcie_width_max host_gbps clique mig mig_devices}]`;
`nics [{id name bus_id numa speed_gbits rdma}]`; `links [{a b type bandwidth_gbps}]`, `type` as tools print it (NV12,
PIX, SOC = SYS); `numa_nodes [{id cpus memory_mib package}]`; `switches [{id devices parent numa}]`; `cores` (the
hardware threads of each core, `"0,64"`); `machine`, `assumed`, `no_peer` (pairs of GPU ids), `cpuset`, `tool`,
`origins {fact: source}`. CPU sets are in list syntax. Unknown is null or left out.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from placer import ranges
from placer.cluster import codec_errors, codec_wire
from placer.topology import types as topo

KIND = "NodeTopology"

_Rate = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
_NVLINK = re.compile(r"NV(\d{0,4})\Z", re.ASCII)


class _Gpu(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    index: codec_wire.Number | None = None
    bus_id: str | None = None
    uuid: str | None = None
    model: str | None = None
    numa: list[codec_wire.Number] | codec_wire.Number | None = None
    cpus: str | None = None
    memory_numa: codec_wire.Number | None = None
    memory_mib: codec_wire.Mib | None = None
    healthy: bool | None = None
    minor: codec_wire.Number | None = None
    module: codec_wire.Number | None = None
    sm: codec_wire.Number | None = None
    pcie_gen: codec_wire.Number | None = None
    pcie_gen_max: codec_wire.Number | None = None
    pcie_width: codec_wire.Number | None = None
    pcie_width_max: codec_wire.Number | None = None
    host_gbps: _Rate | None = None
    clique: str | None = None
    mig: str | None = None
    mig_devices: list[str] | None = None


_PLAIN = tuple(field for field in _Gpu.__struct_fields__ if field not in ("numa", "cpus", "mig_devices"))
"""Fields of a GPU that stand in the document as they are in `topo.Gpu`."""


class _Nic(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    name: str | None = None
    bus_id: str | None = None
    numa: list[codec_wire.Number] | codec_wire.Number | None = None
    speed_gbits: _Rate | None = None
    rdma: bool | None = None


class _Link(msgspec.Struct, forbid_unknown_fields=True):
    a: str
    b: str
    type: str
    bandwidth_gbps: _Rate | None = None


class _NumaNode(msgspec.Struct, forbid_unknown_fields=True):
    id: codec_wire.Number
    cpus: str | None = None
    memory_mib: codec_wire.Mib | None = None
    package: codec_wire.Number | None = None


class _Switch(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    devices: list[str] | None = None
    parent: str | None = None
    numa: list[codec_wire.Number] | codec_wire.Number | None = None


class _Node(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str | None = None  # noqa: N815 - the key's own spelling
    kind: str | None = None
    name: str = ""
    source: str | None = None
    partial: bool = False
    warnings: list[str] | None = None
    gpus: list[_Gpu] | None = None
    nics: list[_Nic] | None = None
    links: list[_Link] | None = None
    numa_nodes: list[_NumaNode] | None = None
    switches: list[_Switch] | None = None
    cores: list[str] | None = None
    machine: str | None = None
    assumed: list[str] | None = None
    no_peer: list[tuple[str, str]] | None = None
    cpuset: str | None = None
    tool: str | None = None
    origins: dict[str, str] | None = None


def decode(document: object, *, source: str, path: str = "") -> topo.NodeTopology:
    """One node's inside from plain builtins. `path` is where in `source` it stands. Raises DocumentError."""
    where = codec_errors.Where(source, path)
    wire = codec_errors.convert(document, _Node, where)
    if wire.apiVersion not in (None, codec_wire.API_VERSION):
        raise where.error("apiVersion", f"`{wire.apiVersion}` is not known; this is read: {codec_wire.API_VERSION}")
    if wire.kind not in (None, KIND):
        raise where.error("kind", f"is `{wire.kind}`, not {KIND}")
    return topo.NodeTopology(
        name=wire.name,
        source=source if wire.source is None else wire.source,
        gpus=tuple(_gpu(g, where.at(f"gpus[{i}]")) for i, g in enumerate(wire.gpus or ())),
        nics=tuple(topo.Nic(n.id, n.name, n.bus_id, _numa(n.numa), n.speed_gbits, n.rdma) for n in wire.nics or ()),
        links=tuple(_link(link, where.at(f"links[{i}]")) for i, link in enumerate(wire.links or ())),
        numa_nodes=tuple(_numa_node(n, where.at(f"numa_nodes[{i}]")) for i, n in enumerate(wire.numa_nodes or ())),
        switches=tuple(
            topo.PcieSwitch(s.id, tuple(s.devices or ()), s.parent, _numa(s.numa)) for s in wire.switches or ()
        ),
        cores=tuple(where.numbers(f"cores[{i}]", text) or () for i, text in enumerate(wire.cores or ())),
        machine=wire.machine,
        partial=wire.partial,
        warnings=tuple(wire.warnings or ()),
        assumed=tuple(wire.assumed or ()),
        no_peer=tuple(wire.no_peer or ()),
        cpuset=where.numbers("cpuset", wire.cpuset),
        tool=wire.tool or "",
        origins=tuple((wire.origins or {}).items()),
    )


def encode(topology: topo.NodeTopology) -> dict[str, object]:
    """The document of a node's inside, without `apiVersion` and `kind`; `decode` reads it back equal.

    Every key is always there, null where unknown. CPU sets are written ascending.
    """
    return {
        "name": topology.name,
        "source": topology.source,
        "partial": topology.partial,
        "warnings": list(topology.warnings),
        "machine": topology.machine,
        "gpus": [codec_wire.plain(_gpu_wire(gpu)) for gpu in topology.gpus],
        "nics": [
            codec_wire.plain(_Nic(n.id, n.name, n.bus_id, _numa_wire(n.numa), n.speed_gbits, n.rdma))
            for n in topology.nics
        ],
        "links": [codec_wire.plain(_Link(link.a, link.b, link.label, link.bandwidth_gbps)) for link in topology.links],
        "numa_nodes": [
            codec_wire.plain(_NumaNode(n.id, _cpus_wire(n.cpus), n.memory_mib, n.package)) for n in topology.numa_nodes
        ],
        "switches": [
            codec_wire.plain(_Switch(s.id, list(s.devices), s.parent, _numa_wire(s.numa))) for s in topology.switches
        ],
        "cores": [ranges.format(core) for core in topology.cores],
        "assumed": list(topology.assumed),
        "no_peer": [list(pair) for pair in topology.no_peer],
        "cpuset": _cpus_wire(topology.cpuset),
        "tool": topology.tool or None,
        "origins": dict(topology.origins),
    }


def _gpu(wire: _Gpu, where: codec_errors.Where) -> topo.Gpu:
    plain = {field: getattr(wire, field) for field in _PLAIN}
    return topo.Gpu(
        **plain, numa=_numa(wire.numa), cpus=where.numbers("cpus", wire.cpus), mig_devices=tuple(wire.mig_devices or ())
    )


def _gpu_wire(gpu: topo.Gpu) -> _Gpu:
    plain = {field: getattr(gpu, field) for field in _PLAIN}
    return _Gpu(**plain, numa=_numa_wire(gpu.numa), cpus=_cpus_wire(gpu.cpus), mig_devices=list(gpu.mig_devices))


def _link(wire: _Link, where: codec_errors.Where) -> topo.Link:
    nvlink = _NVLINK.match(wire.type)
    if nvlink:
        return topo.Link(wire.a, wire.b, topo.LinkType.NVLINK, int(nvlink[1] or 0), wire.bandwidth_gbps)
    word = "SYS" if wire.type == "SOC" else wire.type
    known = [kind.value for kind in topo.LinkType]
    if word not in known:
        raise where.error("type", f"unknown link type `{word}`{codec_errors.nearest(word, known)}")
    return topo.Link(wire.a, wire.b, topo.LinkType(word), 0, wire.bandwidth_gbps)


def _numa_node(wire: _NumaNode, where: codec_errors.Where) -> topo.NumaNode:
    return topo.NumaNode(wire.id, where.numbers("cpus", wire.cpus), wire.memory_mib, wire.package)


def _numa(wire: list[int] | int | None) -> tuple[int, ...] | None:
    if wire is None:
        return None
    return (wire,) if isinstance(wire, int) else tuple(wire)


def _numa_wire(numa: tuple[int, ...] | None) -> list[int] | None:
    return None if numa is None else list(numa)


def _cpus_wire(cpus: tuple[int, ...] | None) -> str | None:
    return None if cpus is None else ranges.format(cpus)
