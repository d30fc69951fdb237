"""NUMA nodes, cores, GPUs and adapters of a Linux machine from the files below `/sys`.

Pure: the caller reads the files. Wanted are those that `PATTERNS` and `PCI_PATTERNS` name, as path (relative to the
root, `/` between) -> text. Formats: the kernel's Documentation/ABI, stable/sysfs-devices-node,
sysfs-devices-system-cpu, testing/sysfs-bus-pci, testing/sysfs-class-infiniband and testing/sysfs-class-net.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from placer.topology import types as topo
from placer.topology.readers import _pcie, _sysfs_pci, _text

HINT: Final = (
    "save it with `grep -H . /sys/devices/system/node/node*/{cpulist,meminfo}"
    " /sys/bus/pci/devices/*/{class,vendor,numa_node,secondary_bus_number} > node.txt`"
)

PATTERNS: Final[tuple[str, ...]] = (
    "devices/system/node/node[0-9]*/cpulist",
    "devices/system/node/node[0-9]*/meminfo",
    "devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list",
    "devices/system/cpu/cpu[0-9]*/topology/physical_package_id",
    "class/infiniband/*/device/numa_node",
)
"""Glob patterns of the files that `read` takes processors from."""

PCI_PATTERNS: Final[tuple[str, ...]] = (
    *_sysfs_pci.PATTERNS,
    "class/infiniband/*/device/uevent",
    "class/infiniband/*/ports/*/rate",
    "class/net/*/device/uevent",
    "class/net/*/device/numa_node",
    "class/net/*/speed",
)
"""And those that it takes GPUs, switches and adapters from."""

_NODE_FILE = re.compile(r"devices/system/node/node(\d{1,5})/(cpulist|meminfo)")
_CPU_FILE = re.compile(r"devices/system/cpu/cpu(\d{1,5})/topology/(thread_siblings_list|physical_package_id)")
_NIC_FILE = re.compile(
    r"class/(infiniband|net)/([!-.0-~]{1,64})/(device/numa_node|device/uevent|ports/\d{1,3}/rate|speed)"
)
_MEM_TOTAL = re.compile(r"MemTotal:\s*(\d{1,15}) kB")
_SLOT = re.compile(r"PCI_SLOT_NAME=(\S{7,16})")
_RATE = re.compile(r"(\d{1,6}(?:\.\d)?) Gb/sec")
# `grep` puts a colon between path and content, and PCI addresses have colons of their own.
_LISTED = re.compile(
    r"(?:[!-9;-~]{0,200}/)?"
    r"((?:devices/system|class/infiniband|class/net)/[!-9;-~]{1,200}|bus/pci/devices/[0-9A-Fa-f:.]{7,16}/\w{1,40}):(.*)"
)

_NOWHERE: Final = _pcie.Place()


def recognises(text: str) -> bool:
    """Whether the text lists sysfs files as `path:content`, the output of `grep`."""
    first = next((line for line in _text.lines(text[:10_000]) if line.strip()), "")
    return _LISTED.fullmatch(first) is not None


def read_listing(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The same as `read`, from lines `path:content`. Raises ParseError when none of them is of use."""
    files: dict[str, list[str]] = {}
    rows = _text.lines(text)
    for line in rows:
        match = _LISTED.fullmatch(line.strip()) if len(line) <= _text.MAX_LINE else None
        if match:
            files.setdefault(match[1], []).append(match[2])
    found = read({path: "\n".join(lines) for path, lines in files.items()}, source=source, name=name)
    if not (found.numa_nodes or found.cores or found.nics or found.gpus):
        message = "no NUMA node, core, GPU or adapter is listed"
        raise _text.not_a_topology(rows, message, source=source, hint=HINT)
    return found


def read(files: Mapping[str, str], *, source: str, name: str) -> topo.NodeTopology:
    """NUMA nodes (CPUs, memory, package), cores, GPUs, adapters and how they reach each other over PCIe.

    GPUs are display controllers of NVIDIA and AMD and AMD's accelerators, named in the order of their addresses and
    without an index, which only their driver knows. What is broken is noted and unknown; so is `numa_node` = -1.
    """
    notes = _text.Notes()
    packages, siblings = _cpu_files(files, notes)
    nodes = _numa_nodes(files, packages, notes)
    if not nodes:
        notes.add("sysfs lists no NUMA nodes")
    if not siblings:
        notes.add("sysfs tells no core siblings: which CPUs share a core stays unknown")
    tree = _sysfs_pci.read(files, notes)
    gpus = _sysfs_pci.gpus(tree, notes)
    places = {gpu.id: tree.places[gpu.bus_id] for gpu in gpus if gpu.bus_id}
    nics = _nics(files, tree, notes)
    places |= {nic.id: tree.places.get(nic.bus_id or "", _pcie.Place(nic.numa)) for nic in nics}
    links = _pcie.links(places) if gpus else ()
    untold = len(links) < len(places) * (len(places) - 1) // 2
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=gpus,
        nics=nics,
        links=links,
        numa_nodes=nodes,
        switches=_pcie.switches(places),
        cores=tuple(sorted(set(siblings.values()))),
        partial=not (nodes and siblings) or bool(gpus and untold),
        warnings=notes.texts(),
    )


def _cpu_files(files: Mapping[str, str], notes: _text.Notes) -> tuple[dict[int, int], dict[int, tuple[int, ...]]]:
    """Package and core siblings by CPU number."""
    packages: dict[int, int] = {}
    siblings: dict[int, tuple[int, ...]] = {}
    for path, text in files.items():
        match = _CPU_FILE.fullmatch(path)
        if match is None or int(match[1]) >= _text.MAX_CPUS:
            continue
        cpu, word = int(match[1]), text.strip()
        numbers = _text.number_list(word)
        if match[2] == "physical_package_id":
            if numbers is not None and len(numbers) == 1:
                packages[cpu] = numbers[0]
        elif numbers is None or cpu not in numbers or len(numbers) > 16:
            notes.add(f"core siblings of cpu{cpu} are unreadable (`{word[:20]}`)")
        else:
            siblings[cpu] = numbers
    return packages, siblings


def _numa_nodes(files: Mapping[str, str], packages: Mapping[int, int], notes: _text.Notes) -> tuple[topo.NumaNode, ...]:
    cpus: dict[int, tuple[int, ...] | None] = {}
    memory: dict[int, int] = {}
    for path, text in files.items():
        match = _NODE_FILE.fullmatch(path)
        if match is None:
            continue
        node = int(match[1])
        if match[2] == "meminfo":
            total = _MEM_TOTAL.search(text[: _text.MAX_LINE])
            if total:
                memory[node] = int(total[1]) // 1024
            continue
        word = text.strip()
        cpus[node] = () if not word else _text.number_list(word)
        if cpus[node] is None:
            notes.add(f"CPU list of node{node} is unreadable (`{word[:20]}`)")
    return tuple(
        topo.NumaNode(
            id=node, cpus=cpus.get(node), memory_mib=memory.get(node), package=_package(cpus.get(node), packages)
        )
        for node in sorted(cpus.keys() | memory.keys())
    )


def _package(cpus: tuple[int, ...] | None, packages: Mapping[int, int]) -> int | None:
    found = {packages[cpu] for cpu in cpus or () if cpu in packages}
    return found.pop() if len(found) == 1 else None


def _nics(files: Mapping[str, str], tree: _sysfs_pci.Tree, notes: _text.Notes) -> tuple[topo.Nic, ...]:
    """InfiniBand and RoCE adapters by name, then real Ethernet devices that belong to none of these."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for path, text in sorted(files.items()):
        match = _NIC_FILE.fullmatch(path)
        if match:
            found.setdefault((match[1], match[2]), {})[match[3].split("/")[-1]] = text[: _text.MAX_LINE]
    nics: list[topo.Nic] = []
    taken: set[str] = set()
    for (kind, name), told in found.items():  # `infiniband` sorts before `net`
        slot = _SLOT.search(told.get("uevent", ""))
        address = _pcie.bus_id(slot[1]) if slot else None
        if kind == "net" and (address in taken or "uevent" not in told):
            continue
        if len(nics) >= _text.MAX_DEVICES:
            notes.add(f"more than {_text.MAX_DEVICES} adapters: the rest is ignored")
            break
        taken |= {address} if address else set()
        numa = _text.number_list(told.get("numa_node", "").strip()) or tree.places.get(address or "", _NOWHERE).numa
        verbs = kind == "infiniband"
        nics.append(topo.Nic(name, name if verbs else None, address, numa, _gbits(told), None if verbs else False))
    return tuple(nics)


def _gbits(told: Mapping[str, str]) -> float | None:
    """`400 Gb/sec (4X NDR)` of a port, or Mb/s of an Ethernet device, which is -1 when its cable is out."""
    rate, speed = _RATE.match(told.get("rate", "")), told.get("speed", "").strip()
    if rate:
        return float(rate[1]) or None
    return int(speed) / 1000 if re.fullmatch(r"[1-9]\d{0,7}", speed) else None
