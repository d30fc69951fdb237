"""What belongs next to what in a picture of a node, for text and SVG alike. Decides no colour and no coordinate."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence

import msgspec

from placer import errors, ranges
from placer.placement import wiring
from placer.topology import links
from placer.topology import types as topo

_NEAR = (topo.LinkType.PIX, topo.LinkType.PXB)
_FAST = (topo.LinkType.NVLINK, topo.LinkType.XGMI)


class Row(msgspec.Struct, frozen=True):
    """Devices behind one PCIe switch, or (`switched` False) just side by side.

    `joined`: bridges, but no host bridge, lie between it and the row before.
    """

    gpus: tuple[int, ...] = ()  # gres indices
    nics: tuple[str, ...] = ()
    joined: bool = False
    switched: bool = False


class Box(msgspec.Struct, frozen=True):
    """GPUs and NICs of one locality: a NUMA node, or GPUs with equal CPUs, or those of unknown place."""

    title: str  # "NUMA 0"
    rows: tuple[Row, ...]
    detail: str = ""  # "CPUs 0-31", where the title does not say it


class Wire(msgspec.Struct, frozen=True):
    """All pairs of GPUs with one kind of direct link; gres indices, a < b."""

    label: str  # NV12, XGMI
    pairs: tuple[tuple[int, int], ...]


class Layout(msgspec.Struct, frozen=True):
    """A node, ready to draw. Text in it is printable."""

    kind: str  # what joins the GPUs, in words
    boxes: tuple[Box, ...]
    loose_nics: tuple[str, ...]  # near no GPU that we know of
    broken: tuple[int, ...]  # GPUs that the topology calls unhealthy
    switched: tuple[int, ...]  # GPUs on an NVSwitch
    switch_label: str  # NV12; empty without a switch
    wires: tuple[Wire, ...]  # direct links, most lanes first; none of those that go through the NVSwitch
    paths: tuple[tuple[str, str], ...]  # (scope, labels) of the PCIe paths: within a row, a box, across


def of(topology: topo.NodeTopology | None, gpu_count: int) -> Layout:
    """Lay out a node of `gpu_count` gres indices; those that the topology does not tell get a box of their own."""
    if topology is None or not topology.gpus:
        return Layout("wiring unknown", _unknown(range(gpu_count)), (), (), (), "", (), ())
    index = wiring.gres_indices(topology)
    by_id = {gpu.id: i for gpu, i in zip(topology.gpus, index, strict=True)}
    groups, loose = _groups(topology, by_id)
    boxes = [_box(gpus[0], _rows(topology, by_id, gpus, nics)) for gpus, nics in groups]
    lacking = [i for i in range(gpu_count) if i not in index]
    behind = links.behind_switch(topology)
    pairs = {(min(index[a], index[b]), max(index[a], index[b])): p for (a, b), p in links.gpu_pairs(topology).items()}
    switched = tuple(sorted(i for i, is_behind in zip(index, behind, strict=True) if is_behind))
    on_switch = [link for (a, b), link in pairs.items() if a in switched and b in switched]
    labels = sorted({link.label for link in on_switch if link.type in _FAST}, key=lambda text: (-len(text), text))
    return Layout(
        kind=_kind(topology),
        boxes=(*boxes, *_unknown(lacking)),
        loose_nics=tuple(map(nic_name, loose)),
        broken=tuple(sorted(by_id[gpu.id] for gpu in topology.gpus if gpu.healthy is False)),
        switched=switched,
        switch_label="/".join(labels),
        wires=_wires({pair: link for pair, link in pairs.items() if not {*pair} <= {*switched}}),
        paths=_paths(pairs, boxes),
    )


def nic_name(nic: topo.Nic) -> str:
    """What a picture calls a NIC."""
    return errors.printable(nic.name or nic.id, 24)


_KINDS = {
    links.Interconnect.NVSWITCH: "NVSwitch",
    links.Interconnect.NVLINK_MESH: "NVLink mesh",
    links.Interconnect.BRIDGES: "NVLink pairs",
    links.Interconnect.XGMI_MESH: "xGMI mesh",
    links.Interconnect.PCIE: "PCIe",
    links.Interconnect.UNKNOWN: "links unknown",
}


def _kind(topology: topo.NodeTopology) -> str:
    if len(topology.gpus) == 1:
        return "one GPU"
    return _KINDS[links.interconnect(topology)]


def _unknown(gpus: Sequence[int]) -> tuple[Box, ...]:
    rows = tuple(Row(tuple(gpus[at : at + 8])) for at in range(0, len(gpus), 8))
    return (Box("place unknown", rows),) if rows else ()


# --- boxes


_Group = tuple[list[topo.Gpu], list[topo.Nic]]


def _groups(topology: topo.NodeTopology, by_id: dict[str, int]) -> tuple[list[_Group], list[topo.Nic]]:
    """Boxes in the order of their first GPU, and the NICs that belong to none."""
    found: dict[Hashable, _Group] = {}
    for gpu in sorted(topology.gpus, key=lambda g: by_id[g.id]):
        found.setdefault(_place(gpu), ([], []))[0].append(gpu)
    of_gpu = {gpu.id: group for group in found.values() for gpu in group[0]}
    relation = {pair: link.type for link in topology.links for pair in ((link.a, link.b), (link.b, link.a))}
    loose = []
    for nic in topology.nics:
        near = _nearest(nic, topology.gpus, relation)
        by_numa = [g for place, g in found.items() if nic.numa is not None and place == ("numa", nic.numa)]
        homes = {id(of_gpu[gpu.id]): of_gpu[gpu.id] for gpu in near}
        home = next(iter(homes.values())) if len(homes) == 1 else next(iter(by_numa), None)
        if home is None:
            loose.append(nic)
        else:
            home[1].append(nic)
    return list(found.values()), loose


def _place(gpu: topo.Gpu) -> Hashable:
    if gpu.numa is not None:
        return "numa", gpu.numa
    return ("cpus", gpu.cpus) if gpu.cpus is not None else None


def _box(gpu: topo.Gpu, rows: tuple[Row, ...]) -> Box:
    """The box of all GPUs that have the place of this one."""
    cpus = f"CPUs {ranges.format(gpu.cpus)}" if gpu.cpus else ""
    if gpu.numa is None:
        return Box(cpus or "place unknown", rows)
    return Box(f"NUMA {'one of ' if len(gpu.numa) > 1 else ''}{ranges.format(gpu.numa)}", rows, cpus)


def _nearest(nic: topo.Nic, gpus: Iterable[topo.Gpu], relation: dict[tuple[str, str], topo.LinkType]) -> list[topo.Gpu]:
    """The GPUs closest to a NIC; none when even they are across sockets, or nothing is told."""
    told = [(topo.CLOSENESS[relation[nic.id, gpu.id]], gpu) for gpu in gpus if (nic.id, gpu.id) in relation]
    best = min((rank for rank, _ in told), default=topo.CLOSENESS[topo.LinkType.SYS])
    return [gpu for rank, gpu in told if rank == best] if best < topo.CLOSENESS[topo.LinkType.SYS] else []


# --- rows


def _rows(
    topology: topo.NodeTopology, by_id: dict[str, int], gpus: Sequence[topo.Gpu], nics: Sequence[topo.Nic]
) -> tuple[Row, ...]:
    """One row for each PCIe switch, rows over the same bridges together; then what hangs on none."""
    ids = [*(gpu.id for gpu in gpus), *(nic.id for nic in nics)]
    names = {nic.id: nic_name(nic) for nic in nics}
    blocks: list[list[Row]] = []
    alone: list[str] = []
    for outer in _components(topology, ids, _NEAR):
        if len(outer) == 1:
            alone += outer
            continue
        inner = _components(topology, outer, _NEAR[:1])
        if all(sum(i in by_id for i in part) <= 1 and not _mixed(part, by_id) for part in inner):
            inner = [outer]
        blocks.append([_row(part, by_id, names, joined=number > 0, switched=True) for number, part in enumerate(inner)])
    if alone:
        blocks.append([_row(alone, by_id, names)])
    blocks.sort(key=lambda rows: min((gpu for row in rows for gpu in row.gpus), default=len(topology.gpus)))
    return tuple(row for rows in blocks for row in rows)


def _mixed(part: Sequence[str], by_id: dict[str, int]) -> bool:
    """Whether a NIC sits right beside a GPU."""
    return 0 < sum(i in by_id for i in part) < len(part)


def _row(
    part: Sequence[str], by_id: dict[str, int], names: dict[str, str], *, joined: bool = False, switched: bool = False
) -> Row:
    gpus = tuple(sorted(by_id[i] for i in part if i in by_id))
    return Row(gpus, tuple(names[i] for i in part if i in names), joined, switched)


def _components(topology: topo.NodeTopology, ids: Sequence[str], kinds: Collection[topo.LinkType]) -> list[list[str]]:
    """`ids` in groups that links of these kinds hold together, in the order of `ids`."""
    group = {i: [i] for i in ids}
    for link in topology.links:
        if link.type in kinds and link.a in group and link.b in group and group[link.a] is not group[link.b]:
            small, large = sorted((group[link.a], group[link.b]), key=len)
            large += small
            for member in small:
                group[member] = large
    order = {i: at for at, i in enumerate(ids)}
    distinct = {id(members): sorted(members, key=order.__getitem__) for members in group.values()}
    return sorted(distinct.values(), key=lambda members: order[members[0]])


# --- wires


def _wires(pairs: dict[tuple[int, int], topo.Link]) -> tuple[Wire, ...]:
    by_label: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for pair, link in sorted(pairs.items()):
        if link.type in _FAST:
            by_label.setdefault((-link.lanes, link.label), []).append(pair)
    return tuple(Wire(label, tuple(found)) for (_, label), found in sorted(by_label.items()))


def _paths(pairs: dict[tuple[int, int], topo.Link], boxes: Sequence[Box]) -> tuple[tuple[str, str], ...]:
    """Which PCIe paths GPUs without a direct link take, by how far apart they are drawn."""
    box_of = {gpu: b for b, box in enumerate(boxes) for row in box.rows for gpu in row.gpus}
    row_of = {gpu: (b, r) for b, box in enumerate(boxes) for r, row in enumerate(box.rows) for gpu in row.gpus}
    scopes: dict[str, set[topo.LinkType]] = {"in a row": set(), "in a box": set(), "across": set()}
    for (a, b), link in pairs.items():
        if link.type not in _FAST:
            same_row, same_box = row_of[a] == row_of[b], box_of[a] == box_of[b]
            scopes["in a row" if same_row else "in a box" if same_box else "across"].add(link.type)
    return tuple(
        (scope, "/".join(kind.value for kind in sorted(kinds, key=topo.CLOSENESS.__getitem__)))
        for scope, kinds in scopes.items()
        if kinds
    )
