"""What the catalogue's machines are made of: CPUs in the order that Linux numbers them, GPUs, adapters, relations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from placer.topology import types as topo

ASSUMED: Final = "wiring from the catalogue: "
"""How `assumed` of every machine begins."""


class Machine(msgspec.Struct, frozen=True):
    """One machine type. `aliases` are product names and instance types as `catalog.normal` writes them."""

    name: str
    build: Callable[[], topo.NodeTopology]
    aliases: tuple[str, ...] = ()


class Cpus(msgspec.Struct, frozen=True):
    """The NUMA nodes and cores of a machine."""

    nodes: tuple[topo.NumaNode, ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()


Place = tuple[int, int]
"""Where a device sits: NUMA node (or socket), and the number of the PCIe switch below it, unique on the machine."""


def cpus(packages: int, nodes_per_package: int, cores_per_node: int, threads: int = 2) -> Cpus:
    """CPUs as Linux numbers them on these machines: first one thread of every core, node by node, then the others.

    With N cores in all, core c has the CPUs c, c + N, …; node n the cores n k .. (n + 1) k - 1 for k cores a node.
    """
    total = packages * nodes_per_package * cores_per_node
    cores = tuple(tuple(c + t * total for t in range(threads)) for c in range(total))
    nodes = tuple(
        topo.NumaNode(
            id=n,
            cpus=tuple(sorted(cpu for c in range(n * cores_per_node, (n + 1) * cores_per_node) for cpu in cores[c])),
            package=n // nodes_per_package,
        )
        for n in range(packages * nodes_per_package)
    )
    return Cpus(nodes, cores)


def gpus(model: str, numa: Sequence[int | None], on: Cpus = Cpus()) -> tuple[topo.Gpu, ...]:  # noqa: B008 - frozen
    """GPU0, GPU1, … with the NUMA node of each, None where that is not published."""
    near = {node.id: node.cpus for node in on.nodes}
    return tuple(
        topo.Gpu(
            id=f"GPU{i}",
            index=i,
            model=model,
            numa=None if n is None else (n,),
            cpus=None if n is None else near.get(n),
        )
        for i, n in enumerate(numa)
    )


def nics(
    speeds: Sequence[float | None], *, names: str | None = None, numa: Sequence[int | None] = ()
) -> tuple[topo.Nic, ...]:
    """NIC0, NIC1, … with their speeds in Gb/s; `names` is the prefix of their verbs names, which count from 0."""
    places = [*numa, *[None] * (len(speeds) - len(numa))]
    return tuple(
        topo.Nic(
            id=f"NIC{i}",
            name=None if names is None else f"{names}{i}",
            numa=None if n is None else (n,),
            speed_gbits=speed,
        )
        for i, (speed, n) in enumerate(zip(speeds, places, strict=True))
    )


def all_to_all(gpus: Sequence[topo.Gpu], kind: topo.LinkType, lanes: int = 0) -> tuple[topo.Link, ...]:
    """Every pair of GPUs by one kind of link: behind an NVSwitch, or a full mesh."""
    return tuple(topo.Link(a.id, b.id, kind, lanes) for a, b in itertools.combinations(gpus, 2))


def pairs(table: Mapping[tuple[int, int], int], kind: topo.LinkType) -> tuple[topo.Link, ...]:
    """Links between GPUs by number: (i, j) with i < j -> lanes."""
    return tuple(topo.Link(f"GPU{i}", f"GPU{j}", kind, lanes) for (i, j), lanes in sorted(table.items()))


def placed(
    places: Mapping[str, Place],
    known: Sequence[topo.Link] = (),
    *,
    near: topo.LinkType = topo.LinkType.PXB,
    within: topo.LinkType = topo.LinkType.NODE,
    own: Mapping[int, topo.LinkType] | None = None,
) -> tuple[topo.Link, ...]:
    """Relations by place of all pairs that `known` leaves out, `known` first.

    Same switch: `near`, or `own[switch]`; same NUMA node: `within`; else SYS.
    """
    told = {frozenset((link.a, link.b)) for link in known}
    found = list(known)
    for a, b in itertools.combinations(places, 2):
        if frozenset((a, b)) in told:
            continue
        (node_a, switch_a), (node_b, switch_b) = places[a], places[b]
        if node_a != node_b:
            kind = topo.LinkType.SYS
        else:
            kind = (own or {}).get(switch_a, near) if switch_a == switch_b else within
        found.append(topo.Link(a, b, kind))
    return tuple(found)


def machine(
    name: str,
    source: str,
    gpus: tuple[topo.Gpu, ...],
    *,
    links: tuple[topo.Link, ...] = (),
    nics: tuple[topo.Nic, ...] = (),
    on: Cpus = Cpus(),  # noqa: B008 - frozen
) -> topo.NodeTopology:
    """The topology, marked as assumed; `partial` when a pair of its devices is not told."""
    devices = len(gpus) + len(nics)
    return topo.NodeTopology(
        name=name,
        source=f"catalogue: {source}",
        gpus=gpus,
        nics=nics,
        links=links,
        numa_nodes=on.nodes,
        cores=on.cores,
        machine=name,
        partial=len(links) < devices * (devices - 1) // 2,
        assumed=(f"{ASSUMED}{name} ({source})",),
    )
