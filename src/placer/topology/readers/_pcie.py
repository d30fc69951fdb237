"""From where devices sit in a PCI tree to how they reach each other, in the words of `nvidia-smi topo`.

For two devices with places p and q:
    PIX   p and q have the same innermost switch, or no switch and the same root port
    PXB   they share an outer switch
    PHB   they share the host bridge
    NODE  no shared bridge is known, and both are near the same one NUMA node
    SYS   each is near one NUMA node, and the two differ
    else the pair is not told: an unknown place is never near.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer.topology import types as topo

BUS_ID: Final = re.compile(r"(?:0{0,4}|[fF]{0,4})([0-9A-Fa-f]{4}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
"""A PCI address whose domain is four digits, or longer by zeros or, where NCCL means no real device, by `f`."""

GENERATIONS: Final = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
"""PCIe generation by the transfer rate in GT/s that the kernel prints (PCI Express Base Specification)."""

_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?")

NVIDIA: Final = "10de"
AMD: Final = "1002"
_DISPLAY: Final = "03"
_ACCELERATOR: Final = "1200"
_BRIDGE: Final = "0604"
_NETWORK: Final = ("0200", "0207")


class Place(msgspec.Struct, frozen=True):
    """Where a device sits; None and () = not known."""

    numa: tuple[int, ...] | None = None
    host: str | None = None
    """The host bridge."""
    port: str | None = None
    """The root port below it."""
    switches: tuple[str, ...] = ()
    """PCIe switches by the address of their upstream port, outermost first."""


def bus_id(text: str | None) -> str | None:
    """`00000000:3B:00.0` -> `0000:3b:00.0`, the one form in which addresses are compared; None for other text."""
    match = BUS_ID.fullmatch(text or "")
    return f"{match[1]}:{match[2]}:{match[3]}.{match[4]}".lower() if match else None


def generation(speed: str | None) -> int | None:
    """`16.0 GT/s PCIe` -> 4."""
    match = _SPEED.fullmatch((speed or "").strip())
    return GENERATIONS.get(match[1].removesuffix(".0")) if match else None


def width(text: str | None) -> int | None:
    """Lanes: `16`, `x16` or `16x`; 0, which the kernel writes for no link, and more than 32 are None."""
    digits = (text or "").strip().strip("x")
    return int(digits) if re.fullmatch(r"[1-9]\d?", digits) and int(digits) <= 32 else None


def is_gpu(pci_class: str, vendor: str) -> bool:
    """Class as four hex digits or more: a display controller of NVIDIA or AMD, or AMD's processing accelerators."""
    if vendor == AMD and pci_class.startswith(_ACCELERATOR):
        return True
    return vendor in (NVIDIA, AMD) and pci_class.startswith(_DISPLAY)


def is_bridge(pci_class: str) -> bool:
    """A PCI-to-PCI bridge."""
    return pci_class.startswith(_BRIDGE)


def is_nic(pci_class: str) -> bool:
    """An Ethernet or InfiniBand controller."""
    return pci_class.startswith(_NETWORK)


def place(bridges: Sequence[str], *, host: str | None, numa: tuple[int, ...] | None) -> Place:
    """The place of a device below these PCI-to-PCI bridges, outermost first.

    Root port, upstream port of a switch, downstream port, upstream port of the next …: every second bridge is a
    switch, when another bridge follows it.
    """
    return Place(numa, host, bridges[0] if bridges else None, tuple(bridges[1:-1:2]))


def relation(a: Place, b: Place) -> topo.LinkType | None:
    """How two devices reach each other over PCIe; None = not known."""
    if a.switches and b.switches and a.switches[0] == b.switches[0]:
        return topo.LinkType.PIX if a.switches == b.switches else topo.LinkType.PXB
    if a.port is not None and a.port == b.port:
        return topo.LinkType.PXB if a.switches or b.switches else topo.LinkType.PIX
    if a.host is not None and a.host == b.host:
        return topo.LinkType.PHB
    if a.numa is None or b.numa is None or len(a.numa) != 1 or len(b.numa) != 1:
        return None
    return topo.LinkType.NODE if a.numa == b.numa else topo.LinkType.SYS


def links(
    places: Mapping[str, Place], direct: Mapping[tuple[str, str], topo.Link] | None = None
) -> tuple[topo.Link, ...]:
    """Every pair that is known, in the order of `places`; `direct` links (NVLink, xGMI) come before the PCIe path."""
    names = list(places)
    found = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            link = direct.get((a, b)) if direct else None
            kind = None if link else relation(places[a], places[b])
            if link is not None:
                found.append(link)
            elif kind is not None:
                found.append(topo.Link(a, b, kind))
    return tuple(found)


def switches(places: Mapping[str, Place]) -> tuple[topo.PcieSwitch, ...]:
    """The switches above the devices, outer before inner, each with the devices directly behind it."""
    parent: dict[str, str | None] = {}
    behind: dict[str, list[str]] = {}
    numa: dict[str, tuple[int, ...] | None] = {}
    for name, where in places.items():
        for outer, inner in zip((None, *where.switches), where.switches, strict=False):
            parent.setdefault(inner, outer)
            numa.setdefault(inner, where.numa)
            behind.setdefault(inner, [])
        if where.switches:
            behind[where.switches[-1]].append(name)
    return tuple(topo.PcieSwitch(id=s, devices=tuple(behind[s]), parent=parent[s], numa=numa[s]) for s in parent)
