"""hwloc's XML, formats 2 and 3, as `lstopo --of xml` writes it.

topology(version) > object(type, os_index, cpuset, nodeset), nested: Machine, Package, Group, caches, Core, PU; a
NUMANode hangs beside the objects that it serves, and its cpuset is theirs. Bridge > PCIDev > OSDev hang below the
object that they are near. `distances2` hold NVLink bandwidths. Formats as in hwloc's own documentation; format 3
numbers the kinds of OS devices anew, so kinds are told by name and PCI class.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import _hwloc_links, _pcie, _text, _xml

HINT: Final = "save it with `lstopo --of xml > node.xml` and give that file"

FORMATS: Final = ("2", "3")

_SKIPPED: Final = frozenset({"support", "page_type", "userdata", "cpukind", "memattr", "contentdata"})
_NUMBER = re.compile(r"\d{1,9}")
_GPU_DEVICE = re.compile(r"(?:nvml|rsmi)(\d{1,3})")
_DEVICE_NAME = re.compile(r"[!-~]{1,64}")
_PCI_TYPE = re.compile(r"([0-9a-fA-F]{4}) \[([0-9a-fA-F]{4}):[0-9a-fA-F]{4}\].*")
_VERBS: Final[dict[str, Callable[[int], bool]]] = {"2": lambda kind: kind == 3, "3": lambda kind: bool(kind & 32)}
"""Whether an OS device is InfiniBand or RoCE, by `osdev_type`: a number in format 2, a set of bits in format 3."""
_MAX_SETS: Final = 3000  # of CPUs and NUMA nodes that are looked into; a large machine has some hundred


class _Found(msgspec.Struct):
    """What the walk collects. Sets of CPUs and NUMA nodes are as hwloc tells them."""

    document: _xml.Document
    notes: _text.Notes
    version: str
    sets: dict[str, tuple[int, ...] | None] = msgspec.field(default_factory=dict)
    packages: dict[int, tuple[int, ...]] = msgspec.field(default_factory=dict)
    nodes: dict[int, topo.NumaNode] = msgspec.field(default_factory=dict)
    gpu_memory: dict[str, int] = msgspec.field(default_factory=dict)
    cores: list[tuple[int, ...]] = msgspec.field(default_factory=list)
    gpus: list[tuple[topo.Gpu, _pcie.Place]] = msgspec.field(default_factory=list)
    nics: dict[str, tuple[topo.Nic, _pcie.Place]] = msgspec.field(default_factory=dict)
    owner: dict[str, str] = msgspec.field(default_factory=dict)
    """GPU address, `package` or `switch` by the global number of an object, for the distances."""


class _Near(msgspec.Struct, frozen=True):
    """What an I/O object hangs on."""

    cpus: tuple[int, ...] | None = None
    numa: tuple[int, ...] | None = None
    host: str | None = None
    bridges: tuple[str, ...] = ()


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """One node's packages, NUMA nodes, cores, PCIe tree, GPUs, adapters and links. Raises ParseError.

    A device that hangs on the whole machine, while the machine has several NUMA nodes, is near none that is known; on
    a package of several, it is near one of these. GPUs are named by NVML's or ROCm's number; without these by the
    order of their addresses, and have no index.
    """
    document = _xml.parse(text, source=source, hint=HINT, skip=_SKIPPED)
    root = document.root
    version = root.attributes.get("version", "1")
    if root.tag != "topology":
        raise document.error("not hwloc's XML: the first element is not `topology`", root)
    if version.split(".")[0] not in FORMATS:
        raise document.error(f"format {version[:10]} of hwloc's XML is not read, only 2 and 3", root)
    found = _Found(document, _text.Notes(), version.split(".")[0])
    machine = root.find("object")
    if machine is None:
        raise document.error("no machine in it", root)
    _walk(found, machine, None, machine)
    if not found.nodes and not found.cores and not found.gpus and not found.nics:
        raise document.error("no NUMA node, core or device in it", machine)
    return _topology(found, source, name)


def _number(element: _xml.Element, key: str) -> int | None:
    told = element.attributes.get(key, "")
    return int(told) if _NUMBER.fullmatch(told) else None


def _mask(found: _Found, element: _xml.Element, key: str) -> tuple[int, ...] | None:
    words = element.attributes.get(key)
    if words is None:
        return None
    if words in found.sets:
        return found.sets[words]
    if len(found.sets) >= _MAX_SETS:
        raise found.document.error(f"more than {_MAX_SETS} different sets of CPUs or NUMA nodes", element)
    numbers = found.sets[words] = _text.mask(words)
    if numbers is None:
        line = None if found.notes.full else found.document.line(element)
        found.notes.add(f"{key} is no set that can be read (`{words[:20]}`): it stays unknown", line=line)
    return numbers


# --- the processors -------------------------------------------------------------------------------------------------


def _walk(found: _Found, element: _xml.Element, package: int | None, machine: _xml.Element) -> None:
    kind, number = element.attributes.get("type", ""), _number(element, "os_index")
    if kind == "Package":
        package = number
        found.owner[f"Package:{element.attributes.get('gp_index', '')}"] = "package"
        if number is not None and len(found.packages) < _text.MAX_DEVICES:
            found.packages.setdefault(number, _mask(found, element, "cpuset") or ())
    elif kind == "NUMANode":
        _numa_node(found, element, number, package)
    elif kind == "Core":
        threads = tuple(sorted(set(_threads(element)))) or _mask(found, element, "cpuset")
        if threads and len(found.cores) < _text.MAX_CPUS:
            found.cores.append(threads)
        return
    near = None
    for child in element.every("object"):
        if child.attributes.get("type") in ("Bridge", "PCIDev"):
            near = near or _near(found, element, machine)
            _io(found, child, near)
        else:
            _walk(found, child, package, machine)


def _threads(core: _xml.Element) -> list[int]:
    below = [core]
    found = []
    while below:
        element = below.pop()
        number = _number(element, "os_index") if element.attributes.get("type") == "PU" else None
        if number is not None and number < _text.MAX_CPUS:
            found.append(number)
        below += element.every("object")
    return found


def _numa_node(found: _Found, element: _xml.Element, number: int | None, package: int | None) -> None:
    if number is None or number in found.nodes or len(found.nodes) >= _text.MAX_DEVICES:
        found.notes.add("a NUMA node without a number, twice, or beyond all reason is left out")
        return
    memory = _mebibytes(element)
    cpus = _mask(found, element, "cpuset")
    if element.attributes.get("subtype") == "GPUMemory":
        cpus = ()  # hwloc gives it the CPUs nearby, but the kernel none
        address = _pcie.bus_id(_info(element, "PCIBusID"))
        if address is not None:
            found.gpu_memory[address] = number
    found.nodes[number] = topo.NumaNode(number, cpus, memory, package)


def _mebibytes(element: _xml.Element) -> int | None:
    told = element.attributes.get("local_memory", "")
    return int(told) >> 20 if re.fullmatch(r"\d{1,18}", told) else None


def _info(element: _xml.Element, name: str) -> str | None:
    infos = (info.attributes for info in element.every("info"))
    return next((info.get("value") for info in infos if info.get("name") == name), None)


def _near(found: _Found, element: _xml.Element, machine: _xml.Element) -> _Near:
    """The CPUs and NUMA nodes of the object that a device hangs on; of the whole machine only when it has one node."""
    numa = _mask(found, element, "nodeset")
    if not numa or (element is machine and len(numa) > 1):
        return _Near()
    return _Near(_mask(found, element, "cpuset"), numa)


# --- devices --------------------------------------------------------------------------------------------------------


def _io(found: _Found, element: _xml.Element, near: _Near) -> None:
    kind = element.attributes.get("type")
    if kind == "Bridge":
        address = _pcie.bus_id(element.attributes.get("pci_busid"))
        if address is None:
            near = msgspec.structs.replace(near, host=element.attributes.get("bridge_pci", "?")[:40])
        else:
            near = msgspec.structs.replace(near, bridges=(*near.bridges, address))
    elif kind == "PCIDev":
        _pci(found, element, near)
        return
    for child in element.every("object"):
        _io(found, child, near)


def _pci(found: _Found, element: _xml.Element, near: _Near) -> None:
    address = _pcie.bus_id(element.attributes.get("pci_busid"))
    kind = _PCI_TYPE.fullmatch(element.attributes.get("pci_type", ""))
    if address is None or kind is None:
        return
    pci_class, vendor = kind[1].lower(), kind[2].lower()
    named = [child for child in element.every("object") if _DEVICE_NAME.fullmatch(child.attributes.get("name", ""))]
    where = _pcie.place(near.bridges, host=near.host, numa=near.numa)
    global_number = element.attributes.get("gp_index", "")
    if _pcie.is_gpu(pci_class, vendor):
        for child in (element, *named):
            found.owner[f"{child.attributes.get('type')}:{child.attributes.get('gp_index', '')}"] = address
        _gpu(found, address, named, near, where)
    elif element.attributes.get("subtype") == "NVSwitch":
        found.owner[f"PCIDev:{global_number}"] = "switch"
    elif _pcie.is_nic(pci_class):
        _adapters(found, address, named, where)


def _gpu(found: _Found, address: str, named: list[_xml.Element], near: _Near, where: _pcie.Place) -> None:
    if len(found.gpus) >= _text.MAX_DEVICES:
        found.notes.add(f"more than {_text.MAX_DEVICES} GPUs: the rest is ignored")
        return
    index = None
    values: dict[str, str] = {}
    for device in named:
        match = _GPU_DEVICE.fullmatch(device.attributes["name"])
        index = int(match[1]) if match else index
        for info in device.every("info"):
            values.setdefault(info.attributes.get("name", ""), info.attributes.get("value", ""))
    uuid = values.get("NVIDIAUUID") or values.get("AMDUUID")
    model = values.get("GPUModel")
    memory = values.get("CUDAGlobalMemorySize") or values.get("OpenCLGlobalMemorySize") or ""
    gpu = topo.Gpu(
        id=address,
        index=index,
        bus_id=address,
        uuid=uuid if uuid and uuid.isprintable() else None,
        model=model if model and model.isprintable() else None,
        numa=near.numa,
        cpus=near.cpus,
        memory_mib=int(memory) >> 10 if re.fullmatch(r"\d{1,12}", memory) else None,
    )
    found.gpus.append((gpu, where))


def _adapters(found: _Found, address: str, named: list[_xml.Element], where: _pcie.Place) -> None:
    is_verbs = _VERBS[found.version]
    verbs = [device for device in named if is_verbs(_number(device, "osdev_type") or 0)]
    for name in (device.attributes["name"] for device in verbs or named):
        if len(found.nics) >= _text.MAX_DEVICES:
            found.notes.add(f"more than {_text.MAX_DEVICES} adapters: the rest is ignored")
            return
        nic = topo.Nic(name, name if verbs else None, address, where.numa, rdma=None if verbs else False)
        found.nics.setdefault(name, (nic, where))


def _topology(found: _Found, source: str, name: str) -> topo.NodeTopology:
    memory_only = set(found.gpu_memory.values())
    gpus = [(_placed(gpu, found.gpu_memory, memory_only), where) for gpu, where in _named(found)]
    places = {gpu.id: _without(where, memory_only) for gpu, where in gpus}
    nics = {n: (nic, where) for n, (nic, where) in found.nics.items() if n not in places}
    at = {gpu.bus_id: gpu for gpu, _ in gpus if gpu.bus_id}
    wires = _hwloc_links.read(found.document, found.owner, at, found.notes)
    places |= {n: _without(where, memory_only) for n, (_, where) in nics.items()}
    links = _pcie.links(places, wires.links)
    if not found.cores:
        found.notes.add("no core is told: which CPUs share one stays unknown")
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=tuple(msgspec.structs.replace(gpu, host_gbps=wires.host_gbps.get(gpu.id)) for gpu, _ in gpus),
        nics=tuple(msgspec.structs.replace(nic, numa=places[n].numa) for n, (nic, _) in nics.items()),
        links=links,
        numa_nodes=tuple(sorted((_packaged(node, found) for node in found.nodes.values()), key=lambda node: node.id)),
        switches=_pcie.switches(places),
        cores=tuple(sorted(set(found.cores))),
        partial=not found.cores or not found.nodes or len(links) < len(places) * (len(places) - 1) // 2,
        warnings=found.notes.texts(),
    )


def _packaged(node: topo.NumaNode, found: _Found) -> topo.NumaNode:
    """A node that does not hang below a package is in the one that holds all its CPUs."""
    if node.package is not None or not node.cpus:
        return node
    holders = [number for number, cpus in found.packages.items() if set(node.cpus) <= set(cpus)]
    return msgspec.structs.replace(node, package=holders[0]) if len(holders) == 1 else node


def _named(found: _Found) -> list[tuple[topo.Gpu, _pcie.Place]]:
    """GPUs as `GPU<number>`; by their addresses where a number is missing or stands twice."""
    told = [gpu.index for gpu, _ in found.gpus]
    proper = None not in told and len(set(told)) == len(told)
    order = sorted(found.gpus, key=lambda g: ((g[0].index or 0) if proper else 0, g[0].bus_id or ""))
    named = []
    for position, (gpu, where) in enumerate(order):
        index = gpu.index if proper else None
        named.append(
            (msgspec.structs.replace(gpu, id=f"GPU{position if index is None else index}", index=index), where)
        )
    return named


def _without(where: _pcie.Place, memory_only: set[int]) -> _pcie.Place:
    if where.numa is None or not memory_only & set(where.numa):
        return where
    return msgspec.structs.replace(where, numa=tuple(n for n in where.numa if n not in memory_only) or None)


def _placed(gpu: topo.Gpu, gpu_memory: dict[str, int], memory_only: set[int]) -> topo.Gpu:
    numa = tuple(n for n in gpu.numa or () if n not in memory_only) or None
    return msgspec.structs.replace(gpu, numa=numa, memory_numa=gpu_memory.get(gpu.bus_id or ""))
