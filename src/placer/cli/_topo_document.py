"""Topologies as documents of interface `placer/v1` and as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from placer import hostlist, ranges
from placer.cluster import codec_topology
from placer.topology import fabric as fabrics
from placer.topology import links
from placer.topology import types as topo

Bandwidth = Callable[[topo.Link], float | None]
"""GB/s one way of a link, None = unknown."""


def bandwidth_of(topology: topo.NodeTopology) -> Bandwidth:
    """How fast each link of this node is, by what is known of its GPUs and its machine."""
    models = {gpu.id: gpu.model for gpu in topology.gpus}
    host = links.host_of(topology)

    def bandwidth(link: topo.Link) -> float | None:
        model = models.get(link.a) or models.get(link.b) or topology.machine
        return links.bandwidth_gbps(link, model=model, host=host)

    return bandwidth


def node(topology: topo.NodeTopology, bandwidth: Bandwidth) -> dict[str, Any]:
    """The body of kind `NodeTopology`, as a snapshot document holds it, with the bandwidth of every link."""
    links = tuple(msgspec.structs.replace(link, bandwidth_gbps=bandwidth(link)) for link in topology.links)
    return codec_topology.encode(msgspec.structs.replace(topology, links=links))


def fabric(found: topo.Fabric, source: str, checks: list[str]) -> dict[str, Any]:
    """The body of kind `Fabric`: levels closest first, every domain with its nodes, and what looks wrong."""
    return {
        "source": source,
        "type": found.kind,
        "warnings": [*found.warnings, *checks],
        "levels": [
            {"name": v.name, "label": v.label, "oversubscription": v.oversubscription, "size": v.size}
            for v in found.levels
        ],
        "kept": found.kept,
        "domains": [
            {
                "name": d.name,
                "level": found.levels[d.level].name,
                "parent": d.parent,
                "nodes": hostlist.fold(d.nodes),
                "line": d.line,
            }
            for d in found.domains
        ],
    }


def fabric_checks(found: topo.Fabric, nodes: tuple[str, ...]) -> list[str]:
    """What a person should look at: islands, lonely domains, and nodes (of the cluster) that are in no domain."""
    checks = []
    roots = fabrics.roots(found)
    if len(roots) > 1 and found.kind == "tree":
        names = ", ".join(domain.name for domain in roots[:6]) + (", …" if len(roots) > 6 else "")
        checks.append(f"{len(roots)} islands without a connection that is known: {names}")
    missing = set(nodes) - set(fabrics.nodes_of(found))
    if missing and found.levels:
        checks.append(f"{len(missing)} of {len(nodes)} nodes are in no domain: {hostlist.fold(missing)}")
    return checks


def summary(topology: topo.NodeTopology) -> str:
    """One line: `gpu01: 8 GPUs, 10 adapters, 2 NUMA nodes`."""
    counts = [_count(len(topology.gpus), "GPU")]
    if topology.nics:
        counts.append(_count(len(topology.nics), "adapter"))
    if topology.numa_nodes:
        counts.append(_count(len(topology.numa_nodes), "NUMA node"))
    return f"{topology.name}: {', '.join(counts)}" + (" (partial)" if topology.partial else "")


def gpu_rows(topology: topo.NodeTopology) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the GPU table: links to each GPU, nearest adapters, NUMA node, CPUs; `?` is unknown."""
    relation = {frozenset((link.a, link.b)): link for link in topology.links}
    names = [gpu.id for gpu in topology.gpus]
    columns = ["gpu", *names, *(["near adapters"] if topology.nics else []), "numa", "cpus"]
    rows = []
    for gpu in topology.gpus:
        cells = ["-" if gpu.id == other else _label(relation.get(frozenset((gpu.id, other)))) for other in names]
        near = [_near(gpu, topology.nics, relation)] if topology.nics else []
        rows.append([gpu.id, *cells, *near, _numa(gpu.numa), _cpus(gpu.cpus) or "?"])
    return columns, rows


def nic_rows(topology: topo.NodeTopology) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the adapters: name, PCI address, NUMA node, speed; `?` is unknown."""
    rows = [
        [
            nic.id,
            nic.name or "?",
            nic.bus_id or "?",
            _numa(nic.numa),
            f"{nic.speed_gbits:g}" if nic.speed_gbits else "?",
        ]
        for nic in topology.nics
    ]
    return ["adapter", "name", "pci address", "numa", "gbit/s"], rows


def switch_rows(topology: topo.NodeTopology) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the PCIe switches: what lies below each, its parent, NUMA node."""
    rows = [[s.id, " ".join(s.devices) or "-", s.parent or "-", _numa(s.numa)] for s in topology.switches]
    return ["pcie switch", "devices", "below", "numa"], rows


def link_rows(topology: topo.NodeTopology, bandwidth: Bandwidth) -> tuple[list[str], list[list[str]]]:
    """Columns and one row for each kind of link: its label, how many pairs, GB/s one way where that is known."""
    by_label: dict[str, list[topo.Link]] = {}
    for link in sorted(topology.links, key=lambda link: (topo.CLOSENESS[link.type], -link.lanes)):
        by_label.setdefault(link.label, []).append(link)
    speeds = {label: sorted({s for link in found if (s := bandwidth(link))}) for label, found in by_label.items()}
    if not any(speeds.values()):
        return ["link", "pairs"], [[label, str(len(found))] for label, found in by_label.items()]
    rows = []
    for label, found in by_label.items():
        span = [f"{speed:g}" for speed in dict.fromkeys((*speeds[label][:1], *speeds[label][-1:]))]
        rows.append([label, str(len(found)), " to ".join(span) or "?"])
    return ["link", "pairs", "GB/s one way"], rows


def numa_rows(topology: topo.NodeTopology) -> list[list[str]]:
    """One row for each NUMA node: number, CPUs, memory in MiB, GPUs on it (`GPU0?`: perhaps)."""
    return [
        [
            str(n.id),
            "?" if n.cpus is None else ranges.format(n.cpus) or "none",
            "?" if n.memory_mib is None else str(n.memory_mib),
            ", ".join(g.id + "?" * (len(g.numa or ()) > 1) for g in topology.gpus if n.id in (g.numa or ())) or "-",
        ]
        for n in topology.numa_nodes
    ]


def _cpus(numbers: tuple[int, ...] | None) -> str | None:
    return None if numbers is None else ranges.format(numbers)


def _numa(numbers: tuple[int, ...] | None) -> str:
    if numbers is None:
        return "?"
    return str(numbers[0]) if len(numbers) == 1 else f"one of {ranges.format(numbers)}"


def _label(link: topo.Link | None) -> str:
    return "?" if link is None else link.label


def _near(gpu: topo.Gpu, nics: tuple[topo.Nic, ...], relation: dict[frozenset[str], topo.Link]) -> str:
    """Adapters of the closest class that this GPU has to any adapter; a SYS one is not near."""
    links = {nic: relation.get(frozenset((gpu.id, nic.id))) for nic in nics}
    known = {nic: topo.CLOSENESS[link.type] for nic, link in links.items() if link is not None}
    best = min(known.values(), default=None)
    if best is None:
        return "?"
    if best >= topo.CLOSENESS[topo.LinkType.SYS]:
        return "none"
    return ", ".join(nic.name or nic.id for nic, rank in known.items() if rank == best)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
