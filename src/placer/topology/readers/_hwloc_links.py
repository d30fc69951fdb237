"""Links between GPUs from the bandwidth matrices in hwloc's XML: `NVLinkBandwidth` and `XGMIBandwidth`.

A matrix lists objects by their global number, `OSDev:802` where their types differ and `802` where they are equal, and
values row by row in MB/s, each the sum over all links of the pair. One NVLink is 20000 (P100), 50000 (Blackwell) or
25000 (all between) there, so lanes = value / that. hwloc gives the data sheet's speed, of which collectives reach
less: the bandwidth is left to what the lanes are worth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from placer.topology import links as link_classes
from placer.topology import types as topo
from placer.topology.readers import _nvlink, _text, _xml

MAX_OBJECTS: Final = 1024
LINK_MBPS: Final = {60: 20_000, 100: 50_000}
USUAL_MBPS: Final = 25_000

_WORD = re.compile(r"\d{1,18}")


class Wires(msgspec.Struct, frozen=True):
    """Direct links by pair of GPU ids, and GB/s one way between a GPU and its CPU."""

    links: dict[tuple[str, str], topo.Link]
    host_gbps: dict[str, float]


class _Matrix(msgspec.Struct, frozen=True):
    objects: list[str]
    values: list[int]


def read(document: _xml.Document, owner: Mapping[str, str], gpus: Mapping[str, topo.Gpu], notes: _text.Notes) -> Wires:
    """All direct links. `owner` tells the GPU's address, `package` or `switch` by object, `gpus` GPUs by address."""
    ids = [gpu.id for gpu in gpus.values()]
    wires: dict[tuple[str, str], topo.Link] = {}
    host: dict[str, float] = {}
    for element in document.root.children:
        name = element.attributes.get("name")
        if element.tag not in ("distances2", "distances2hetero") or name not in ("NVLinkBandwidth", "XGMIBandwidth"):
            continue
        matrix = _matrix(element)
        if matrix is None:
            notes.add(f"the matrix {name} does not hold what it announces: it is left out", line=document.line(element))
            continue
        kind = topo.LinkType.NVLINK if name == "NVLinkBandwidth" else topo.LinkType.XGMI
        for pair, link in _links(matrix, owner, gpus, ids, kind, host, notes).items():
            wires.setdefault(pair, link)
    return Wires(wires, host)


def _matrix(element: _xml.Element) -> _Matrix | None:
    told = element.attributes.get("nbobjs", "")
    count = int(told) if re.fullmatch(r"\d{1,4}", told) else 0
    prefix = "" if element.tag == "distances2hetero" else f"{element.attributes.get('type', '')}:"
    objects = [prefix + word for part in element.every("indexes") for word in part.text.split()]
    words = [word for part in element.every("u64values") for word in part.text.split()]
    if not 0 < count <= MAX_OBJECTS or len(objects) != count or len(words) != count * count:
        return None
    return _Matrix(objects, [int(word) for word in words]) if all(map(_WORD.fullmatch, words)) else None


def _links(
    matrix: _Matrix,
    owner: Mapping[str, str],
    gpus: Mapping[str, topo.Gpu],
    ids: list[str],
    kind: topo.LinkType,
    host: dict[str, float],
    notes: _text.Notes,
) -> dict[tuple[str, str], topo.Link]:
    to_switch: dict[str, int] = {}
    to_peer: dict[tuple[str, str], int] = {}
    count = len(matrix.objects)
    owners = [owner.get(name, "") for name in matrix.objects]
    for i, mine in enumerate(owners):
        gpu = gpus.get(mine)
        if gpu is None:
            continue
        for j, theirs in enumerate(owners):
            value = matrix.values[i * count + j]
            peer = gpus.get(theirs)
            if i == j or not value or peer is gpu:
                continue
            if theirs == "package":
                host[gpu.id] = host.get(gpu.id, 0.0) + value / 1000
            elif theirs == "switch":
                to_switch[gpu.id] = to_switch.get(gpu.id, 0) + _lanes(value, gpu.model)
            elif peer is not None:
                to_peer[gpu.id, peer.id] = _lanes(value, gpu.model)
    return _nvlink.direct(ids, to_switch, to_peer, notes, kind)


def _lanes(mbps: int, model: str | None) -> int:
    sm = link_classes.sm_of(model)
    one = USUAL_MBPS if sm is None else LINK_MBPS.get(min(sm, 100), USUAL_MBPS)
    return min(max(1, round(mbps / one)), 999)
