"""A node as NCCL's topology XML, for `NCCL_TOPO_FILE`; `nccl_xml.read` reads it back.

The file holds GPUs with their NVLinks, named adapters, switches and NUMA nodes with their CPUs. It cannot hold models,
memory, health, cores, nor whether two devices share a host bridge (PHB comes back as NODE). Where the node tells no
switches, they are made up from its PIX and PXB pairs under addresses `ffff:ff:…`, as vendors' files do. Architecture
and vendor of the CPUs are left out: NCCL fills them in on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from xml.sax import saxutils

import msgspec

from placer import errors
from placer.topology import links as link_classes
from placer.topology import types as topo
from placer.topology.readers import _pcie

NVSWITCH: Final = "fffffff:ff:ff.0"
"""The target that NCCL writes for all NVSwitches together where they are no devices of the machine."""

_NAME: Final = re.compile(r"[!-~]{1,64}")
_GTS: Final = {number: rate for rate, number in _pcie.GENERATIONS.items()}
_UNKNOWN_NUMA: Final = -1


class _Pci(msgspec.Struct):
    """A switch and what is below it."""

    address: str
    inside: list[str] = msgspec.field(default_factory=list)  # ids of devices and switches


def write(node: topo.NodeTopology) -> str:
    """The document. Raises RequestError for a GPU without a PCI address: the file is all addresses."""
    for gpu in node.gpus:
        if _pcie.bus_id(gpu.bus_id) is None:
            raise errors.RequestError(
                f"the PCI address of {errors.printable(gpu.id)} is not known, and NCCL's file is made of addresses",
                hint="nvidia-smi -q -x > node.xml, and give that file along with the others",
            )
    lines = ['<system version="1">']
    above = _switch_of(node)
    cpus = {numa.id: numa.cpus for numa in node.numa_nodes}
    devices = {**{gpu.id: gpu.numa for gpu in node.gpus}, **{nic.id: nic.numa for nic in _wanted(node)}}
    used = {number for numa in devices.values() for number in _under(numa)}
    for number in sorted(used | cpus.keys(), key=lambda n: (n == _UNKNOWN_NUMA, n)):
        below = [id_ for id_, numa in devices.items() if number in _under(numa)]
        lines += _cpu(node, number, cpus.get(number), below, above)
    return "\n".join((*lines, "</system>", ""))


def _wanted(node: topo.NodeTopology) -> list[topo.Nic]:
    return [
        nic
        for nic in node.nics
        if nic.rdma is not False and (_NAME.fullmatch(nic.name or "") or _pcie.bus_id(nic.bus_id))
    ]


def _under(numa: tuple[int, ...] | None) -> tuple[int, ...]:
    """The CPUs that a device is written below: an adapter that is near one of two stands below both."""
    return numa or (_UNKNOWN_NUMA,)


# --- switches -------------------------------------------------------------------------------------------------------


def _switch_of(node: topo.NodeTopology) -> dict[str, tuple[str, ...]]:
    """The addresses of the switches above each device, outermost first."""
    if not node.switches:
        return _made_up(node)
    parent = {switch.id: switch.parent for switch in node.switches}
    address = {switch.id: _pcie.bus_id(switch.id) or _made_up_address(i) for i, switch in enumerate(node.switches, 1)}
    found = {}
    for switch in node.switches:
        chain: list[str] = []
        at: str | None = switch.id
        while at in parent and at not in chain:
            chain.append(at)
            at = parent[at]
        found.update(dict.fromkeys(switch.devices, tuple(address[id_] for id_ in reversed(chain))))
    return found


def _made_up(node: topo.NodeTopology) -> dict[str, tuple[str, ...]]:
    """An inner switch for each group of PIX pairs, an outer one for each group of PXB pairs of these."""
    inner = _groups(node, (topo.LinkType.PIX,))
    outer = _groups(node, (topo.LinkType.PIX, topo.LinkType.PXB))
    found: dict[str, tuple[str, ...]] = {}
    addresses: dict[tuple[str, str], str] = {}
    for id_ in inner.keys() | outer.keys():
        whole, part = outer.get(id_), inner.get(id_)
        chain = []
        if whole is not None and {inner.get(other) for other, group in outer.items() if group == whole} != {part}:
            chain.append(("outer", whole))
        if part is not None:
            chain.append(("inner", part))
        found[id_] = tuple(f"{kind} {group}" for kind, group in chain)
        addresses.update(dict.fromkeys(chain, ""))
    called = {f"{kind} {group}": _made_up_address(i) for i, (kind, group) in enumerate(sorted(addresses), 1)}
    return {id_: tuple(called[name] for name in chain) for id_, chain in found.items()}


def _groups(node: topo.NodeTopology, kinds: Iterable[topo.LinkType]) -> dict[str, str]:
    """The first device of the group that each device belongs to; groups are the parts that links of `kinds` join."""
    group: dict[str, str] = {}
    for link in node.links:
        if link.type in kinds:
            low, high = group.setdefault(link.a, link.a), group.setdefault(link.b, link.b)
            if low != high:
                group = {id_: low if first == high else first for id_, first in group.items()}
    return group


def _made_up_address(number: int) -> str:
    return f"ffff:ff:{number // 8 % 32:02x}.{number % 8}"


# --- elements -------------------------------------------------------------------------------------------------------


def _cpu(
    node: topo.NodeTopology,
    number: int,
    cpus: tuple[int, ...] | None,
    below: list[str],
    above: Mapping[str, tuple[str, ...]],
) -> list[str]:
    affinity = "" if cpus is None else f' affinity="{_mask(cpus)}"'
    root: dict[str, _Pci] = {"": _Pci("")}
    for id_ in below:
        at = ""
        for switch in above.get(id_, ()):
            if switch not in root:
                root[switch] = _Pci(switch)
                root[at].inside.append(switch)
            at = switch
        root[at].inside.append(id_)
    inside = _inside(node, root, "", 2)
    return [f'  <cpu numaid="{number}"{affinity}>', *inside, "  </cpu>"]


def _inside(node: topo.NodeTopology, tree: Mapping[str, _Pci], at: str, depth: int) -> list[str]:
    pad = "  " * depth
    gpus = {gpu.id: gpu for gpu in node.gpus}
    nics = {nic.id: nic for nic in node.nics}
    lines = []
    for id_ in tree[at].inside:
        if id_ in gpus:
            lines += [pad + line for line in _gpu(node, gpus[id_])]
        elif id_ in nics:
            lines += [pad + line for line in _nic(nics[id_])]
        else:
            opened = f'{pad}<pci busid="{id_}" class="0x060400" link_speed="" link_width="0">'
            lines += [opened, *_inside(node, tree, id_, depth + 1), f"{pad}</pci>"]
    return lines


def _gpu(node: topo.NodeTopology, gpu: topo.Gpu) -> list[str]:
    position = node.gpus.index(gpu)
    sm = gpu.sm or link_classes.sm_of(gpu.model)
    told = "" if sm is None else f' sm="{sm}"'
    rate = _GTS.get(gpu.pcie_gen_max or 0)
    speed = f"{float(rate)} GT/s PCIe" if rate else ""
    pci = f'<pci busid="{_pcie.bus_id(gpu.bus_id)}" class="0x030200" link_speed="{speed}"'
    index = position if gpu.index is None else gpu.index
    width = f'link_width="{gpu.pcie_width_max or 0}"'
    links = [f"    {line}" for line in _links(node, gpu, position)]
    if gpu.index is None and not told and not links:  # as vendors write it: NCCL finds out the rest
        return [f"{pci} {width}/>"]
    return [f"{pci} {width}>", f'  <gpu dev="{index}"{told}>', *links, "  </gpu>", "</pci>"]


def _links(node: topo.NodeTopology, gpu: topo.Gpu, position: int) -> list[str]:
    address = {other.id: _pcie.bus_id(other.bus_id) for other in node.gpus}
    mine = [link for link in node.links if gpu.id in (link.a, link.b)]
    peers = [(link, address.get(link.b if link.a == gpu.id else link.a)) for link in mine]
    lines = []
    if link_classes.behind_switch(node)[position]:
        lanes = max(link.lanes for link in mine if link.type is topo.LinkType.NVLINK)
        lines.append(f'<nvlink target="{NVSWITCH}" count="{lanes}" tclass="0x068000"/>')
    else:
        nvlinks = [(link.lanes, to) for link, to in peers if to and link.type is topo.LinkType.NVLINK and link.lanes]
        lines += [f'<nvlink target="{to}" count="{lanes}" tclass="0x030200"/>' for lanes, to in nvlinks]
    xgmi = [to for link, to in peers if to and link.type is topo.LinkType.XGMI]
    lines += [f'<xgmi target="{to}" count="1" tclass="0x038000"/>' for to in xgmi]
    if gpu.host_gbps:
        lines.append(f'<c2c bw="{round(gpu.host_gbps * 1000)}" count="1"/>')
    return lines


def _nic(nic: topo.Nic) -> list[str]:
    address = _pcie.bus_id(nic.bus_id)
    speed = "" if nic.speed_gbits is None else f' speed="{round(nic.speed_gbits * 1000)}"'
    net = f"<net name={saxutils.quoteattr(nic.name)}{speed}/>" if nic.name and _NAME.fullmatch(nic.name) else None
    if address is None:
        return [f"<nic>{net}</nic>"]
    pci = f'<pci busid="{address}" class="0x020700" link_speed="" link_width="0"'
    return [f"{pci}/>"] if net is None else [f"{pci}>", f"  <nic>{net}</nic>", "</pci>"]


def _mask(cpus: tuple[int, ...]) -> str:
    """Words of 32 bits in hexadecimal, high word first."""
    bits = sum(1 << cpu for cpu in set(cpus))
    words = max(1, -(-bits.bit_length() // 32))
    digits = f"{bits:0{8 * words}x}"
    return ",".join(digits[i : i + 8] for i in range(0, len(digits), 8))
