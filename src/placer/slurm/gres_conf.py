"""`gres.conf`: which GPUs a node has, in index order, near which cores, and how many NVLinks join them.

It becomes a NodeTopology when nothing better is known. Slurm counts cores logically, socket by socket; which OS CPU
numbers and NUMA nodes they are is not in the file, so the usual Linux order is assumed and said.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from placer import errors, hostlist, ranges
from placer.slurm import gres
from placer.topology import types as topo


class Device(msgspec.Struct, frozen=True):
    """One gres device of a node; its place in the tuple is its index."""

    type: str | None
    cores: tuple[int, ...] | None = None  # Slurm's logical core numbers
    links: tuple[int, ...] | None = None  # NVLinks to the device of each index, -1 = itself


class Line(msgspec.Struct, frozen=True):
    """One `Name=gpu` line. `nodes` None = every node."""

    nodes: frozenset[str] | None
    devices: tuple[Device, ...]


class GresConf(msgspec.Struct, frozen=True):
    """The GPU lines of a gres.conf, in order; `notes` says what the file leaves open."""

    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()

    def devices(self, node: str) -> tuple[Device, ...]:
        """The GPUs of a node, in index order."""
        return tuple(
            device for line in self.lines if line.nodes is None or node in line.nodes for device in line.devices
        )


class Shape(msgspec.Struct, frozen=True):
    """What slurm.conf says of a node's processors."""

    sockets: int
    cores_per_socket: int
    threads_per_core: int


def read(text: str, *, source: str) -> GresConf:
    """The GPU lines of a gres.conf. Raises ParseError."""
    lines: list[Line] = []
    notes: list[str] = []
    for number, content in _logical_lines(text):
        words = content.split()
        if words[0].casefold() == "include":
            notes.append(f"{source}:{number}: included files are not read")
            continue
        fields = _fields(words, number, source)
        if fields.get("autodetect", "off").casefold() not in {"off", ""}:
            notes.append(f"{source}:{number}: AutoDetect={fields['autodetect']}: what slurmd finds is not in the file")
        if fields.get("name", "").casefold() == "gpu":
            lines.append(_line(fields, number, source))
    return GresConf(tuple(lines), tuple(notes))


def topology(name: str, devices: tuple[Device, ...], shape: Shape | None, *, source: str) -> topo.NodeTopology:
    """The inside of a node as far as gres.conf and the socket counts of slurm.conf tell it.

    With S sockets of C cores of T threads, logical core c is on socket c // C, and its threads are the OS CPUs
    c + t * S * C for t < T (the order in which Linux usually numbers them).
    """
    assumed = []
    if any(device.cores for device in devices):
        assumed.append("NUMA nodes are the sockets that Cores= in gres.conf lies on")
        if shape is not None:
            assumed.append("OS CPU numbers are core + thread x cores of the node, Linux's usual order")
    links, warnings = _links(devices)
    if links:
        assumed.append("NVLinks are as Links= in gres.conf says")
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=tuple(_gpu(index, device, shape) for index, device in enumerate(devices)),
        links=links,
        numa_nodes=_numa_nodes(shape),
        cores=_cores(shape),
        partial=True,
        warnings=warnings,
        assumed=tuple(assumed),
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number and content of each line, comments gone, lines that end in a backslash joined."""
    held, first = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].rstrip()
        first = first or number
        if content.endswith("\\"):
            held += content[:-1] + " "
            continue
        content = (held + content).strip()
        if content:
            yield first, content
        held, first = "", 0
    if held.strip():
        yield first, held.strip()


def _fields(words: list[str], number: int, source: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise errors.ParseError("not `Key=Value`", source=source, line=number, excerpt=word)
        fields[key.casefold()] = value.strip('"')
    return fields


def _line(fields: dict[str, str], number: int, source: str) -> Line:
    try:
        nodes = frozenset(hostlist.expand(fields["nodename"])) if "nodename" in fields else None
        cores_text = fields.get("cores", fields.get("cpus"))
        device = Device(
            fields.get("type") or None,
            ranges.parse(cores_text) if cores_text else None,
            _link_counts(fields["links"]) if fields.get("links") else None,
        )
        return Line(nodes, (device,) * _count(fields))
    except errors.ParseError as error:
        raise errors.ParseError(
            "a value of this line cannot be read", source=source, line=number, excerpt=error.excerpt
        ) from None


def _count(fields: dict[str, str]) -> int:
    if fields.get("multiplefiles"):
        return 1
    if fields.get("file"):
        return len(hostlist.expand(fields["file"], limit=gres.MAX_COUNT))
    count = gres.parse(f"gpu:{fields.get('count') or '1'}")[0].count
    if count > gres.MAX_COUNT:
        raise errors.ParseError("too many devices", source="Count", excerpt=fields["count"])
    return count


def _link_counts(text: str) -> tuple[int, ...]:
    pieces = [piece.strip() for piece in text.split(",")]
    for piece in pieces:
        if not (piece.removeprefix("-").isdigit() and piece.isascii() and len(piece) < 5):
            raise errors.ParseError("not a list of link counts", source="Links", excerpt=text)
    return tuple(int(piece) for piece in pieces)


def _gpu(index: int, device: Device, shape: Shape | None) -> topo.Gpu:
    numa = cpus = None
    if device.cores and shape is not None:
        total = shape.sockets * shape.cores_per_socket
        cores = [core for core in device.cores if core < total]
        numa = tuple(sorted({core // shape.cores_per_socket for core in cores})) or None
        cpus = tuple(sorted(core + thread * total for core in cores for thread in range(shape.threads_per_core)))
    return topo.Gpu(id=f"GPU{index}", index=index, model=device.type, numa=numa, cpus=cpus or None)


def _links(devices: tuple[Device, ...]) -> tuple[tuple[topo.Link, ...], tuple[str, ...]]:
    links, warnings = [], []
    for a, first in enumerate(devices):
        for b in range(a + 1, len(devices)):
            there, back = _lanes(first, b), _lanes(devices[b], a)
            if there != back and there is not None and back is not None:
                warnings.append(f"Links= disagree between GPU{a} ({there}) and GPU{b} ({back}); the lesser is taken")
            known = [lanes for lanes in (there, back) if lanes is not None]
            if known and min(known) > 0:
                links.append(topo.Link(f"GPU{a}", f"GPU{b}", topo.LinkType.NVLINK, lanes=min(known)))
    return tuple(links), tuple(warnings)


def _lanes(device: Device, other: int) -> int | None:
    if device.links is None or other >= len(device.links):
        return None
    return max(0, device.links[other])


def _cores(shape: Shape | None) -> tuple[tuple[int, ...], ...]:
    if shape is None:
        return ()
    total = shape.sockets * shape.cores_per_socket
    return tuple(tuple(core + thread * total for thread in range(shape.threads_per_core)) for core in range(total))


def _numa_nodes(shape: Shape | None) -> tuple[topo.NumaNode, ...]:
    if shape is None:
        return ()
    cores = _cores(shape)
    per = shape.cores_per_socket
    return tuple(
        topo.NumaNode(
            id=socket,
            cpus=tuple(sorted(cpu for core in cores[socket * per : (socket + 1) * per] for cpu in core)),
            package=socket,
        )
        for socket in range(shape.sockets)
    )
