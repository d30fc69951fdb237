"""`rocm-smi --showtopo` and its parts (`--showtopotype`, `--showtoponuma`), in the label styles of its releases.

The log is a run of sections under titles between `=` signs. Of the matrices only the link types are read: weights and
hops are KFD's own cost figures, and no bandwidth follows from them.
"""

from __future__ import annotations

import re
from typing import Final

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import _matrix, _text

HINT: Final = "save it with `rocm-smi --showtopo > node.txt` and give that file"

_TITLE = re.compile(r"={3,}\s*([^=]{3,80}?)\s*={3,}")
_GPU = re.compile(r"GPU(0|[1-9]\d{0,4})")
_NUMA = re.compile(
    r"\s*GPU\[?(\d{1,5})\]?\s*:\s*(?:\(Topology\)\s*)?Numa (Node|Affinity):\s*(-?\d{1,5})\s*", re.IGNORECASE
)
_LINK_TYPES: Final = "link type between two gpus"


def recognises(text: str) -> bool:
    """Whether the text looks like rocm-smi's topology log, whole or one of its sections."""
    lowered = text[: 1 << 20].lower()
    return "rocm system management interface" in lowered or _LINK_TYPES in lowered or "(topology) numa" in lowered


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The topology that the text tells. GPUs are named `GPU0` in every style. Raises ParseError.

    A pair that goes over PCIe is NODE when both GPUs are on one NUMA node and SYS when they are on two, which `assumed`
    says; without NUMA nodes it stays of an unknown class.
    """
    rows = _text.lines(text)
    notes = _text.Notes()
    numa = _numa_nodes(rows, notes)
    devices, words = _link_types(rows, source, notes)
    names = devices or tuple(f"GPU{i}" for i in sorted(numa))
    if not names:
        message = "no topology of AMD GPUs: neither link types nor NUMA nodes are listed"
        raise _text.not_a_topology(rows, message, source=source, hint=HINT)
    gpus = tuple(topo.Gpu(id=n, index=int(n[3:]), numa=numa.get(int(n[3:]))) for n in names)
    cells = {pair: (_relation(word, gpus[pair[0]], gpus[pair[1]]), 0) for pair, word in words.items()}
    links = _matrix.links(names, cells, notes)
    untold = _matrix.note_missing(names, links, notes)
    if not numa:
        notes.add("no NUMA nodes are listed: they stay unknown")
    over_pcie = any(word == "PCIE" for word in words.values())
    rule = "pairs over PCIe count as NODE within a NUMA node and as SYS between two: rocm-smi does not tell more"
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=gpus,
        links=links,
        partial=untold,
        warnings=notes.texts(),
        assumed=(rule,) if over_pcie else (),
    )


def _numa_nodes(rows: list[str], notes: _text.Notes) -> dict[int, tuple[int, ...]]:
    """NUMA nodes of each GPU: its node and its affinity, which agree on most machines; -1 tells nothing."""
    told: dict[int, set[int]] = {}
    for number, line in enumerate(rows, 1):
        match = _NUMA.fullmatch(line) if len(line) < 200 else None
        if match is None or int(match[3]) < 0:
            continue
        if len(told) >= _text.MAX_DEVICES:
            notes.add(f"more than {_text.MAX_DEVICES} GPUs: the rest is ignored", line=number)
            break
        nodes = told.setdefault(int(match[1]), set())
        if nodes and int(match[3]) not in nodes:
            notes.add(f"GPU{match[1]}: node and affinity differ, so it is on one of several", line=number)
        nodes.add(int(match[3]))
    return {gpu: tuple(sorted(nodes)) for gpu, nodes in told.items()}


def _link_types(rows: list[str], source: str, notes: _text.Notes) -> tuple[tuple[str, ...], dict[tuple[int, int], str]]:
    """Header names and the words of the link-type matrix by (row, column), without the diagonal."""
    devices: tuple[str, ...] = ()
    words: dict[tuple[int, int], str] = {}
    inside = False
    for number, line in enumerate(rows, 1):
        title = _TITLE.fullmatch(line.strip()) if len(line) < 400 else None
        if title is not None:
            inside = title[1].lower() == _LINK_TYPES
            continue
        if not inside or len(line) > _text.MAX_LINE or not line.strip():
            continue
        cells = line.split()
        if not devices:
            devices = _columns(cells, number, source)
        elif cells[0] in devices:
            row = devices.index(cells[0])
            if len(cells) - 1 != len(devices):
                notes.add(
                    f"the row of {cells[0]} has {len(cells) - 1} of {len(devices)} cells: it stays unknown", line=number
                )
                continue
            for column, word in enumerate(cells[1:]):
                if column != row and word in ("XGMI", "PCIE"):
                    words[row, column] = word
                elif column != row:
                    notes.add(f"{cells[0]} to {devices[column]} is unreadable (`{word[:12]}`)", line=number)
    return devices, words


def _columns(cells: list[str], number: int, source: str) -> tuple[str, ...]:
    names = tuple(cells)
    proper = len(set(names)) == len(names) <= _text.MAX_DEVICES
    if not proper or not all(_GPU.fullmatch(name) for name in names):
        what = "not a header of GPU columns like `GPU0 GPU1`"
        raise errors.ParseError(what, source=source, line=number, excerpt=" ".join(cells[:8]), hint=HINT)
    return names


def _relation(word: str, a: topo.Gpu, b: topo.Gpu) -> topo.LinkType:
    if word == "XGMI":
        return topo.LinkType.XGMI
    if a.numa is None or b.numa is None or len(a.numa) > 1 or len(b.numa) > 1:
        return topo.LinkType.UNKNOWN
    return topo.LinkType.NODE if a.numa == b.numa else topo.LinkType.SYS
