"""The PCI devices below `/sys/bus/pci/devices` and the tree that their bus numbers make.

A device on bus b of domain d hangs below the bridge of d whose secondary bus is b; a bus without a bridge hangs on a
host bridge of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import _pcie, _text

FILES: Final = (
    "class",
    "vendor",
    "numa_node",
    "local_cpulist",
    "secondary_bus_number",
    "current_link_speed",
    "max_link_speed",
    "current_link_width",
    "max_link_width",
)
PATTERNS: Final[tuple[str, ...]] = tuple(f"bus/pci/devices/*/{file}" for file in FILES)

MAX_PCI: Final = 8192
"""PCI devices of one machine; with virtual functions some thousand have been seen."""
_DEEPEST: Final = 32
_PATH = re.compile(r"bus/pci/devices/([0-9A-Fa-f:.]{7,16})/(\w{1,40})")


class Tree(msgspec.Struct, frozen=True):
    """Devices that are told: their files and their places, by address."""

    files: dict[str, dict[str, str]]
    places: dict[str, _pcie.Place]


def read(files: Mapping[str, str], notes: _text.Notes) -> Tree:
    """Every PCI device that the files tell of."""
    devices: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        match = _PATH.fullmatch(path)
        address = _pcie.bus_id(match[1]) if match else None
        if match is None or address is None or match[2] not in FILES:
            continue
        if address not in devices and len(devices) >= MAX_PCI:
            notes.add(f"more than {MAX_PCI} PCI devices: the rest is ignored")
            continue
        devices.setdefault(address, {})[match[2]] = text[: _text.MAX_LINE].strip()
    below = {}
    for address, told in devices.items():
        bus = told.get("secondary_bus_number", "")
        if _pcie.is_bridge(_class(told)) and re.fullmatch(r"\d{1,3}", bus):
            below[address[:4], int(bus)] = address
    return Tree(devices, {address: _place(address, told, below) for address, told in devices.items()})


def gpus(tree: Tree, notes: _text.Notes) -> tuple[topo.Gpu, ...]:
    """The GPUs in the order of their addresses."""
    found = [a for a, told in tree.files.items() if _pcie.is_gpu(_class(told), _hex(told.get("vendor", "")))]
    if len(found) > _text.MAX_DEVICES:
        notes.add(f"more than {_text.MAX_DEVICES} GPUs: the rest is ignored")
    made = tuple(_gpu(i, a, tree) for i, a in enumerate(sorted(found)[: _text.MAX_DEVICES]))
    for gpu in made:
        if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
            notes.add(f"{gpu.id}: its PCIe link runs with {gpu.pcie_width} of {gpu.pcie_width_max} lanes")
    return made


def _gpu(position: int, address: str, tree: Tree) -> topo.Gpu:
    told, numa = tree.files[address], tree.places[address].numa
    return topo.Gpu(
        id=f"GPU{position}",
        bus_id=address,
        numa=numa,
        # Without a NUMA node the kernel lists every CPU, which tells nothing.
        cpus=_text.number_list(told.get("local_cpulist", "")) if numa else None,
        pcie_gen=_pcie.generation(told.get("current_link_speed")),
        pcie_gen_max=_pcie.generation(told.get("max_link_speed")),
        pcie_width=_pcie.width(told.get("current_link_width")),
        pcie_width_max=_pcie.width(told.get("max_link_width")),
    )


def _place(address: str, told: Mapping[str, str], below: Mapping[tuple[str, int], str]) -> _pcie.Place:
    numa = _text.number_list(told.get("numa_node", ""))
    bridges: list[str] = []
    bus = address[:7]
    while len(bridges) < _DEEPEST:
        bridge = below.get((bus[:4], int(bus[5:7], 16)))
        if bridge is None or bridge in bridges:
            break
        bridges.append(bridge)
        bus = bridge[:7]
    return _pcie.place(bridges[::-1], host=bus, numa=numa)


def _class(told: Mapping[str, str]) -> str:
    return _hex(told.get("class", ""))


def _hex(text: str) -> str:
    return text.lower().removeprefix("0x")
