"""Several texts about one node, put together as long as they agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from placer import errors
from placer.topology import types as topo

T = TypeVar("T")


def merge(parts: Sequence[topo.NodeTopology], *, name: str) -> topo.NodeTopology:
    """One topology of all that the parts tell; the first part's order of devices holds.

    Every part that lists GPUs must list the same ones. A value that one part leaves unknown is taken from another; NUMA
    lists ("one of these") are intersected, and nodes without CPUs are dropped from them once the NUMA nodes are known.
    Where one part tells NVLink and another the PCIe path below it (`topo -m` and `topo -mp`), the NVLink is kept.
    Raises InputError that names both sources where two parts contradict each other.
    """
    merged = parts[0]
    for part in parts[1:]:
        merged = _pair(merged, part)
    return msgspec.structs.replace(
        merged, name=name, gpus=tuple(_drop_cpuless(g, merged.numa_nodes) for g in merged.gpus)
    )


def _pair(a: topo.NodeTopology, b: topo.NodeTopology) -> topo.NodeTopology:
    if a.gpus and b.gpus and {g.id for g in a.gpus} != {g.id for g in b.gpus}:
        raise _contradiction(a, b, f"{len(a.gpus)} and {len(b.gpus)} GPUs, or other names for them")
    other = {gpu.id: gpu for gpu in b.gpus}
    gpus = tuple(_gpu(gpu, other[gpu.id], a, b) if gpu.id in other else gpu for gpu in a.gpus) or b.gpus
    nics = _nics(a, b)
    links = _links(a, b)
    devices = len(gpus) + len(nics)
    untold = len(links) < devices * (devices - 1) // 2
    return topo.NodeTopology(
        name=a.name,
        source=f"{a.source}, {b.source}",
        gpus=gpus,
        nics=nics,
        links=links,
        numa_nodes=_either(a.numa_nodes, b.numa_nodes, a, b, "NUMA nodes"),
        switches=_either(a.switches, b.switches, a, b, "switches"),
        cores=_either(a.cores, b.cores, a, b, "cores"),
        machine=_same(a.machine, b.machine, a, b, "machine"),
        partial=untold or (a.partial and b.partial),
        warnings=tuple(dict.fromkeys((*a.warnings, *b.warnings))),
        assumed=tuple(dict.fromkeys((*a.assumed, *b.assumed))),
    )


def _contradiction(a: topo.NodeTopology, b: topo.NodeTopology, what: str) -> errors.InputError:
    sources = f"{errors.printable(a.source)} and {errors.printable(b.source)}"
    return errors.InputError(
        f"{sources} contradict each other: {errors.printable(what)}",
        hint=f"give the sources of one node only: `placer topo {errors.printable(b.source)}` shows the second alone",
    )


def _same(x: T | None, y: T | None, a: topo.NodeTopology, b: topo.NodeTopology, what: str) -> T | None:
    if x is not None and y is not None and x != y:
        raise _contradiction(a, b, what)
    return y if x is None else x


def _either(x: tuple[T, ...], y: tuple[T, ...], a: topo.NodeTopology, b: topo.NodeTopology, what: str) -> tuple[T, ...]:
    return _same(x or None, y or None, a, b, what) or ()


def _gpu(x: topo.Gpu, y: topo.Gpu, a: topo.NodeTopology, b: topo.NodeTopology) -> topo.Gpu:
    numa = x.numa or y.numa
    if x.numa and y.numa:
        numa = tuple(sorted(set(x.numa) & set(y.numa)))
        if not numa:
            raise _contradiction(a, b, f"the NUMA node of {x.id}")
    return topo.Gpu(
        id=x.id,
        index=_same(x.index, y.index, a, b, f"the index of {x.id}"),
        bus_id=_same(x.bus_id, y.bus_id, a, b, f"the bus address of {x.id}"),
        uuid=_same(x.uuid, y.uuid, a, b, f"the UUID of {x.id}"),
        model=_same(x.model, y.model, a, b, f"the model of {x.id}"),
        numa=numa,
        cpus=_same(x.cpus, y.cpus, a, b, f"the CPUs near {x.id}"),
        memory_numa=_same(x.memory_numa, y.memory_numa, a, b, f"the memory node of {x.id}"),
        memory_mib=_same(x.memory_mib, y.memory_mib, a, b, f"the memory of {x.id}"),
        healthy=_same(x.healthy, y.healthy, a, b, f"the health of {x.id}"),
    )


def _drop_cpuless(gpu: topo.Gpu, nodes: tuple[topo.NumaNode, ...]) -> topo.Gpu:
    """A node that is known to have no CPUs is the memory of some GPU, not a place near one."""
    bare = {node.id for node in nodes if node.cpus == ()}
    left = tuple(n for n in gpu.numa or () if n not in bare)
    return msgspec.structs.replace(gpu, numa=left) if left and left != gpu.numa else gpu


def _nics(a: topo.NodeTopology, b: topo.NodeTopology) -> tuple[topo.Nic, ...]:
    """Adapters joined by name (`mlx5_0`); one that has no name in either part is joined by its id."""
    other = {nic.name or nic.id: nic for nic in b.nics}
    joined = []
    for nic in a.nics:
        twin = other.pop(nic.name or nic.id, None)
        joined.append(nic if twin is None else _nic(nic, twin))
    named = {nic.id for nic in joined}
    return (*joined, *(nic for nic in other.values() if nic.id not in named))


def _nic(x: topo.Nic, y: topo.Nic) -> topo.Nic:
    return topo.Nic(
        id=x.id,
        name=x.name or y.name,
        bus_id=x.bus_id or y.bus_id,
        numa=x.numa or y.numa,
        speed_gbits=x.speed_gbits or y.speed_gbits,
    )


def _links(a: topo.NodeTopology, b: topo.NodeTopology) -> tuple[topo.Link, ...]:
    """Links of both parts, with the device names of `a`."""
    names = {nic.name: nic.id for nic in a.nics if nic.name}
    alias = {nic.id: names.get(nic.name or nic.id, nic.id) for nic in b.nics}
    found = {frozenset((link.a, link.b)): link for link in a.links}
    for theirs in b.links:
        link = msgspec.structs.replace(theirs, a=alias.get(theirs.a, theirs.a), b=alias.get(theirs.b, theirs.b))
        pair = frozenset((link.a, link.b))
        mine = found.get(pair)
        found[pair] = link if mine is None else _link(mine, link, a, b)
    return tuple(found.values())


def _link(x: topo.Link, y: topo.Link, a: topo.NodeTopology, b: topo.NodeTopology) -> topo.Link:
    direct = (topo.LinkType.NVLINK, topo.LinkType.XGMI)
    if (x.type, x.lanes) == (y.type, y.lanes):
        return x if x.bandwidth_gbps is not None else y
    if (x.type in direct) != (y.type in direct):
        return x if x.type in direct else y
    raise _contradiction(a, b, f"{x.a} to {x.b} is {x.label} and {y.label}")
