"""Several sources about one node, put together; each fact keeps its source, and contradictions are said.

Devices are joined by identity (`merge_join`); whom to believe is in `merge_trust`, facts in `merge_facts`, links in
`merge_links`. The order in which parts are given is of no account, and a part given twice counts once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import merge_facts, merge_join, merge_links, merge_trust

_DEVICE_FACT: Final = re.compile(r"(gpus|nics|numa_nodes)\[([^\]]*)\]\.(\w+)|(links)\[([^\]]*)\]")


def merge(parts: Sequence[topo.NodeTopology], *, name: str) -> topo.NodeTopology:
    """One topology of all that the parts tell, of one part or more.

    A value that one part leaves unknown is taken from another. Where two differ, the more trusted one is taken and
    `warnings` name both sources; `origins` tell where each fact came from. NUMA lists ("one of these") are cut down to
    what all sources allow, without nodes that are memory only. Raises InputError when the parts cannot be about one
    node: no GPU that has an address in common has the same UUID, or none tells an address and they count other GPUs.
    """
    distinct = list(dict.fromkeys(parts))
    if len(distinct) == 1:
        return msgspec.structs.replace(distinct[0], name=name, gpus=_without_memory_nodes(distinct[0]))
    ordered = merge_trust.in_order(distinct, merge_trust.WIRING)
    by_place = merge_trust.in_order(distinct, merge_trust.PLACES)
    joined = merge_facts.Parts(tuple(ordered), tuple(by_place.index(part) for part in ordered))
    findings = merge_trust.Findings()
    devices = merge_join.join(ordered, findings)
    numa_nodes = merge_facts.numa_nodes(joined, findings)
    nodes = {node.id: node for node in numa_nodes}
    memory = {gpu.memory_numa for part in ordered for gpu in part.gpus if gpu.memory_numa is not None}
    # A GPU's own memory has no CPUs, also where no source lists the NUMA nodes.
    known = {number: topo.NumaNode(number, ()) for number in memory} | nodes
    gpus, cpuset = [], {cpu for part in ordered for cpu in part.cpuset or ()}
    for device, group in devices.gpus:
        gpu, inside = merge_facts.gpu(device, group, joined, known, findings)
        gpus.append(gpu)
        cpuset |= set(inside)
    nics = tuple(merge_facts.nic(device, group, joined, known, findings) for device, group in devices.nics)
    order = {device: at for at, (device, _) in enumerate((*devices.gpus, *devices.nics))}
    links = merge_links.links(joined, devices.names, order, findings)
    machine = merge_trust.pick(
        [merge_trust.Told(part.machine, part.source) for part in ordered],
        "the machine",
        "the node",
        findings,
        same=lambda x, y: x == y,
    )
    cores = merge_facts.cores(joined, findings)
    switches = merge_facts.switches(joined, devices.names, findings)
    return topo.NodeTopology(
        name=name,
        source=", ".join(dict.fromkeys(source for part in ordered for source in part.source.split(", "))),
        gpus=tuple(gpus),
        nics=nics,
        links=links,
        numa_nodes=numa_nodes,
        switches=switches,
        cores=cores,
        machine=str(machine.value) if machine is not None else None,
        partial=_untold(gpus, nics, links) or all(part.partial for part in ordered),
        warnings=tuple(dict.fromkeys((*(text for part in ordered for text in part.warnings), *findings.texts()))),
        assumed=tuple(dict.fromkeys((*(text for part in ordered for text in part.assumed), *devices.assumed))),
        no_peer=merge_links.no_peer(joined, devices.names, order),
        cpuset=tuple(sorted(cpuset)) or None,
        tool=merge_trust.tool(ordered[0]),
        origins=_short(findings.origins),
    )


def _untold(gpus: Sequence[topo.Gpu], nics: Sequence[topo.Nic], links: Sequence[topo.Link]) -> bool:
    """Whether a pair that matters is not told: two GPUs, or a GPU and an adapter that collectives can use."""
    told = {frozenset((link.a, link.b)) for link in links}
    names = [gpu.id for gpu in gpus]
    useful = [nic.id for nic in nics if nic.rdma is not False]
    wanted = [frozenset((a, b)) for i, a in enumerate(names) for b in (*names[i + 1 :], *useful)]
    return any(pair not in told for pair in wanted)


def _without_memory_nodes(part: topo.NodeTopology) -> tuple[topo.Gpu, ...]:
    bare = {node.id for node in part.numa_nodes if node.cpus == ()}
    bare |= {gpu.memory_numa for gpu in part.gpus if gpu.memory_numa is not None}
    found = []
    for gpu in part.gpus:
        left = tuple(number for number in gpu.numa or () if number not in bare)
        found.append(msgspec.structs.replace(gpu, numa=left) if left and left != gpu.numa else gpu)
    return tuple(found)


def _short(origins: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """`gpus[GPU0].numa`, `gpus[GPU1].numa` … from one source become `gpus.numa`; all links from one become `links`."""
    groups: dict[str, dict[str, str]] = {}
    for path, source in origins.items():
        match = _DEVICE_FACT.fullmatch(path)
        key = path if match is None else f"{match[1]}.{match[3]}" if match[1] else "links"
        groups.setdefault(key, {})[path] = source
    found: list[tuple[str, str]] = []
    for key, paths in sorted(groups.items()):
        sources = set(paths.values())
        found += [(key, sources.pop())] if len(sources) == 1 else sorted(paths.items())
    return tuple(found)
