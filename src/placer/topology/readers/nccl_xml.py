"""The topology XML of NCCL: what `NCCL_TOPO_DUMP_FILE` writes, and what vendors ship for `NCCL_TOPO_FILE`.

system > cpu(numaid, affinity) > pci(busid, class, link_speed, link_width), nested > gpu(dev, sm) > nvlink(target,
count, tclass), c2c(bw, count); and pci or cpu > nic > net(name, speed in Mb/s). A bridge stands for a whole PCIe
switch, by its upstream port.
Vendors' files know only pci elements. Between them lies what people invent: it is noted, and what cannot be placed
stays unknown. NCCL joins the dumps of several hosts of one NVLink domain into one file; the first host is read.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from placer import hostlist
from placer.topology import types as topo
from placer.topology.readers import _nvlink, _pcie, _text, _xml

HINT: Final = "let NCCL write it with `NCCL_TOPO_DUMP_FILE=node.xml`, and give that file"

SWITCH_CLASS: Final = "0680"
CPU_CLASS: Final = "068001"
"""What NCCL writes for a POWER9 CPU's NVLink port; all else in 0680 is an NVSwitch."""

_MAX_CPUS = 1024  # cpu elements; a machine of 8 sockets with 8 NUMA nodes each has 64
_NAME = re.compile(r"[!-~]{1,64}")


class _Device(msgspec.Struct, frozen=True):
    """A GPU, where it sits, and its `gpu` element if it has one."""

    gpu: topo.Gpu
    place: _pcie.Place
    element: _xml.Element | None


class _Found(msgspec.Struct):
    """What a walk through the document collects."""

    document: _xml.Document
    notes: _text.Notes
    gpus: list[_Device] = msgspec.field(default_factory=list)
    addresses: set[str] = msgspec.field(default_factory=set)
    nics: dict[str, tuple[topo.Nic, _pcie.Place]] = msgspec.field(default_factory=dict)
    cpus: dict[int, tuple[int, ...] | None] = msgspec.field(default_factory=dict)

    def note(self, text: str, element: _xml.Element) -> None:
        self.notes.add(text, line=None if self.notes.full else self.document.line(element))


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """One node's GPUs, adapters, switches, NUMA nodes and links. Raises ParseError.

    GPUs are named by NCCL's `dev`; in a file without, by the order of their addresses, and have no index. Two devices
    below one CPU and no common switch are NODE: the file does not tell host bridges apart. `numaid="-1"` is unknown.
    """
    document = _xml.parse(text, source=source, hint=HINT)
    if document.root.tag == "graphs":
        raise document.error("this is NCCL's plan of rings and trees, not its topology", document.root)
    if document.root.tag != "system":
        raise document.error("not a topology file of NCCL: the first element is not `system`", document.root)
    found = _Found(document, _text.Notes())
    _walk(found)
    if not found.gpus and not found.nics and not found.cpus:
        raise document.error("no CPU, GPU or adapter in it", document.root)
    return _topology(found, source, name)


def _walk(found: _Found) -> None:
    hosts = [cpu.attributes.get("host_hash") for cpu in found.document.root.every("cpu")]
    if len(hosts) > _MAX_CPUS:
        raise found.document.error(f"more than {_MAX_CPUS} CPUs", found.document.root)
    for element in found.document.root.children:
        if element.tag != "cpu":
            found.note(
                f"`{element.tag}` outside of a CPU is nothing that NCCL writes: its place stays unknown", element
            )
            _devices(found, [element], _pcie.Place())
        elif element.attributes.get("host_hash") == hosts[0]:
            _cpu(found, element)
    if len(set(hosts)) > 1:
        found.notes.add(f"the file holds {len(set(hosts))} hosts of one NVLink domain: only the first is read")


def _cpu(found: _Found, cpu: _xml.Element) -> None:
    told = cpu.attributes.get("numaid", "")
    number = int(told) if re.fullmatch(r"\d{1,5}", told) else None
    if number is None and told not in ("-1", ""):
        found.note(f"NUMA node `{told[:20]}` is not a number: it stays unknown", cpu)
    near = _affinity(found, cpu)
    if number is not None and found.cpus.get(number) is None:
        found.cpus[number] = near
    _devices(found, cpu.children, _pcie.Place(numa=None if number is None else (number,)))


def _affinity(found: _Found, cpu: _xml.Element) -> tuple[int, ...] | None:
    """Comma-separated words of 32 bits, high word first."""
    words = cpu.attributes.get("affinity")
    if not words:
        return None
    near = _text.mask(words)
    if near is None:
        found.note(f"the CPUs `{words[:20]}` are not a mask in hexadecimal: they stay unknown", cpu)
    return near


def _devices(found: _Found, elements: list[_xml.Element], where: _pcie.Place) -> None:
    for element in elements:
        if element.tag == "pci":
            _pci(found, element, where)
        elif element.tag == "gpu":
            found.note(
                "a GPU without a PCI device around it is nothing that NCCL writes: its place is unknown", element
            )
            inside = element.find("pci")
            address = _pcie.bus_id(inside.attributes.get("busid")) if inside else None
            _gpu(found, element, address, {}, msgspec.structs.replace(where, switches=()))
        elif element.tag == "nic":
            for net in element.every("net"):
                _net(found, net, None, where)
        elif element.tag == "net":
            found.note("an adapter without a `nic` around it is nothing that NCCL writes", element)
            _net(found, element, None, where)
        elif element.tag not in ("nvlink", "c2c", "xgmi", "pcilink"):
            found.note(f"`{element.tag[:20]}` is not known here", element)


def _pci(found: _Found, pci: _xml.Element, where: _pcie.Place) -> None:
    address = _pcie.bus_id(pci.attributes.get("busid"))
    if address is None:
        found.note(f"`{pci.attributes.get('busid', '')[:20]}` is not a PCI address", pci)
    pci_class = pci.attributes.get("class", "").lower().removeprefix("0x")
    inside = [child for child in pci.children if child.tag in ("gpu", "nic")]
    for element in inside:
        if element.tag == "gpu":
            _gpu(found, element, address, pci.attributes, where)
        else:
            for net in element.every("net"):
                _net(found, net, address, where)
    below = [child for child in pci.children if child.tag not in ("gpu", "nic")]
    if below:
        deeper = where if address is None else msgspec.structs.replace(where, switches=(*where.switches, address))
        _devices(found, below, deeper)
    elif not inside and address is not None:
        if pci_class.startswith(("0300", "0302", "1200")):
            _gpu(found, None, address, pci.attributes, where)
        elif _pcie.is_nic(pci_class):
            _add_nic(found, topo.Nic(id=address, bus_id=address, numa=where.numa), where, pci)


def _gpu(found: _Found, gpu: _xml.Element | None, address: str | None, pci: dict[str, str], where: _pcie.Place) -> None:
    told = gpu.attributes if gpu is not None else {}
    if len(found.gpus) >= _text.MAX_DEVICES:
        found.notes.add(f"more than {_text.MAX_DEVICES} GPUs: the rest is ignored")
        return
    if address in found.addresses:
        found.notes.add(f"a second GPU at {address}: one is kept")
        return
    if address is not None:
        found.addresses.add(address)
    dev, sm = told.get("dev", ""), told.get("sm", "")
    near = found.cpus.get(where.numa[0]) if where.numa else None
    made = topo.Gpu(
        id=address or "",
        index=int(dev) if re.fullmatch(r"\d{1,3}", dev) else None,
        bus_id=address,
        numa=where.numa,
        cpus=near,
        sm=int(sm) if re.fullmatch(r"[1-9]\d{1,2}", sm) else None,
        pcie_gen_max=_pcie.generation(pci.get("link_speed")),
        pcie_width_max=_pcie.width(pci.get("link_width")),
        host_gbps=_c2c(gpu) if gpu is not None else None,
    )
    found.gpus.append(_Device(made, where, gpu))


def _c2c(gpu: _xml.Element) -> float | None:
    """`bw` is MB/s of one of `count` links."""
    total = 0.0
    for link in gpu.every("c2c"):
        bandwidth, count = link.attributes.get("bw", ""), link.attributes.get("count", "1")
        if re.fullmatch(r"\d{1,7}", bandwidth) and re.fullmatch(r"\d{1,3}", count):
            total += int(bandwidth) * int(count) / 1000
    return total or None


def _net(found: _Found, net: _xml.Element, address: str | None, where: _pcie.Place) -> None:
    name, speed = net.attributes.get("name", ""), net.attributes.get("speed", "")
    if not _NAME.fullmatch(name):
        found.note("an adapter without a name that can be read", net)
        return
    gbits = int(speed) / 1000 if re.fullmatch(r"[1-9]\d{0,7}", speed) else None
    _add_nic(found, topo.Nic(name, name, address, where.numa, gbits), where, net)


def _add_nic(found: _Found, nic: topo.Nic, where: _pcie.Place, element: _xml.Element) -> None:
    """An adapter that stands below two CPUs is near one of them, we cannot say which."""
    known = found.nics.get(nic.id)
    if known is None and len(found.nics) < _text.MAX_DEVICES:
        found.nics[nic.id] = nic, where
    elif known is None:
        found.note("too many adapters: the rest is ignored", element)
    elif known[0].numa != nic.numa:
        both = None if known[0].numa is None or nic.numa is None else tuple(sorted({*known[0].numa, *nic.numa}))
        found.nics[nic.id] = msgspec.structs.replace(known[0], numa=both), _pcie.Place(numa=both)


def _topology(found: _Found, source: str, name: str) -> topo.NodeTopology:
    devices = _named(found)
    places = {device.gpu.id: device.place for device in devices}
    nics = [(nic, where) for nic, where in _named_nics(found) if nic.id not in places]
    direct = _nvlinks(found, devices)
    places |= {nic.id: where for nic, where in nics}
    links = _pcie.links(places, direct)
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=tuple(device.gpu for device in devices),
        nics=tuple(nic for nic, _ in nics),
        links=links,
        numa_nodes=tuple(topo.NumaNode(id=n, cpus=found.cpus[n]) for n in sorted(found.cpus)),
        switches=_pcie.switches(places),
        partial=len(links) < len(places) * (len(places) - 1) // 2,
        warnings=found.notes.texts(),
    )


def _named(found: _Found) -> list[_Device]:
    """GPUs by `dev`, or by address where that is not told of each or stands twice."""
    told = [device.gpu.index for device in found.gpus]
    proper = None not in told and len(set(told)) == len(told)
    if not proper and any(index is not None for index in told):
        found.notes.add("`dev` of the GPUs is missing or stands twice: they are named in the order of their addresses")

    def order(device: _Device) -> tuple[int, str]:
        return (device.gpu.index or 0) if proper else 0, device.gpu.bus_id or ""

    named = []
    for position, device in enumerate(sorted(found.gpus, key=order)):
        index = device.gpu.index if proper else None
        gpu = msgspec.structs.replace(device.gpu, id=f"GPU{position if index is None else index}", index=index)
        named.append(msgspec.structs.replace(device, gpu=gpu))
    return named


def _named_nics(found: _Found) -> list[tuple[topo.Nic, _pcie.Place]]:
    """Adapters in natural order of their names, then those without one by their addresses, as `NIC0` …"""
    named = sorted((n for n in found.nics.values() if n[0].name), key=lambda n: hostlist.natural_key(n[0].id))
    unnamed = sorted((n for n in found.nics.values() if not n[0].name), key=lambda n: n[0].id)
    names = {nic.id for nic, _ in named}
    called = [(msgspec.structs.replace(nic, id=f"NIC{i}"), where) for i, (nic, where) in enumerate(unnamed)]
    return [*named, *((nic, where) for nic, where in called if nic.id not in names)]


def _nvlinks(found: _Found, devices: list[_Device]) -> dict[tuple[str, str], topo.Link]:
    at = {device.gpu.bus_id: device.gpu.id for device in devices if device.gpu.bus_id}
    ids = [device.gpu.id for device in devices]
    to_switch, to_peer = _ports(found, devices, at, "nvlink")
    _, xgmi = _ports(found, devices, at, "xgmi")  # RCCL's word
    direct = _nvlink.direct(ids, to_switch, to_peer, found.notes)
    return _nvlink.direct(ids, {}, xgmi, found.notes, topo.LinkType.XGMI) | direct


def _ports(
    found: _Found, devices: list[_Device], at: dict[str, str], tag: str
) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """Ports of each GPU towards switches, and towards each other GPU."""
    to_switch: dict[str, int] = {}
    to_peer: dict[tuple[str, str], int] = {}
    for device in devices:
        gpu = device.gpu.id
        for link in device.element.every(tag) if device.element is not None else ():
            count = link.attributes.get("count", "")
            kind = link.attributes.get("tclass", "").lower().removeprefix("0x")
            target = _pcie.bus_id(link.attributes.get("target"))
            lanes = int(count) if re.fullmatch(r"[1-9]\d{0,2}", count) else 0
            if target is None or not lanes or "bw" in link.attributes:
                found.note(f"an `{tag}` as NCCL does not write it", link)
            if not lanes or target is None:
                continue
            if kind.startswith(CPU_CLASS):
                found.notes.add(f"{gpu} has NVLinks to its CPU, whose speed the file does not tell")
            elif kind.startswith(SWITCH_CLASS):
                to_switch[gpu] = to_switch.get(gpu, 0) + lanes
            elif at.get(target, gpu) != gpu:
                pair = gpu, at[target]
                to_peer[pair] = to_peer.get(pair, 0) + lanes
            else:
                found.note(f"{gpu} has a link to {target}, which is no other GPU of this file", link)
    return to_switch, to_peer
