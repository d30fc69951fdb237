"""`amd-smi topology`, as tables and with `--json` in both of its forms.

The tables name GPUs by PCI address, in the order of their numbers. Read are the link types and whether a link is
enabled; weights and hops are the kernel's cost figures, and the bandwidths the data sheet's. NUMA nodes are not told,
so a pair over PCIe stays of an unknown class.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import _matrix, _pcie, _text

HINT: Final = "save it with `amd-smi topology > node.txt` (or with `--json`) and give that file"

MAX_JSON: Final = 16 << 20
"""Characters; 64 GPUs take 2 MB."""

_TITLE = re.compile(r"([A-Z][A-Z -]{2,40}) TABLE:")
_TYPES: Final = "LINK TYPE"
_ACCESS: Final = "ACCESS"
_KINDS: Final = {"XGMI": topo.LinkType.XGMI, "PCIE": topo.LinkType.UNKNOWN}
_BYTE = re.compile(r"\(byte (\d{1,12})\)")

Cells = dict[tuple[int, int], str]


class _Told(msgspec.Struct):
    """What either form tells: addresses by position, and words by (row, column)."""

    addresses: list[str | None]
    indices: list[int]
    types: Cells = msgspec.field(default_factory=dict)
    access: Cells = msgspec.field(default_factory=dict)


def recognises(text: str) -> bool:
    """Whether the text looks like either form."""
    start = text[: 1 << 16]
    if _opens(start) >= 0:
        return '"link_type"' in start or '"link_accessibility"' in start or '"link_status"' in start
    return any(title in start for title in ("LINK TYPE TABLE:", "ACCESS TABLE:"))


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """GPUs named `GPU0` …, their addresses, xGMI links, and the pairs whose link is disabled. Raises ParseError."""
    notes = _text.Notes()
    opens = _opens(text)
    told = _json(text, opens, source, notes) if opens >= 0 else _tables(text, source, notes)
    names = [f"GPU{index}" for index in told.indices]
    cells = {pair: (_KINDS[word], 0) for pair, word in told.types.items() if pair[0] != pair[1] and word in _KINDS}
    for pair, word in told.types.items():
        if pair[0] != pair[1] and word not in _KINDS:
            notes.add(f"{names[pair[0]]} to {names[pair[1]]} is unreadable (`{word[:12]}`)")
    links = _matrix.links(names, cells, notes)
    untold = _matrix.note_missing(names, links, notes)
    if any(link.type is topo.LinkType.UNKNOWN for link in links):
        notes.add("amd-smi does not tell the NUMA nodes: pairs over PCIe stay of an unknown class")
    denied = sorted({(min(p), max(p)) for p, word in told.access.items() if p[0] != p[1] and word == "DISABLED"})
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=tuple(
            topo.Gpu(id=n, index=i, bus_id=a) for n, i, a in zip(names, told.indices, told.addresses, strict=True)
        ),
        links=links,
        partial=untold,
        warnings=notes.texts(),
        no_peer=tuple((names[i], names[j]) for i, j in denied),
    )


# --- tables ---------------------------------------------------------------------------------------------------------


def _tables(text: str, source: str, notes: _text.Notes) -> _Told:
    rows = _text.lines(text)
    sections = _sections(rows)
    header: tuple[str, ...] | None = None
    found: dict[str, Cells] = {}
    for title, lines in sections.items():
        number, words = lines[0]
        if header is None:
            if not all(map(_pcie.bus_id, words)) or len(words) > _text.MAX_DEVICES:
                raise _text.error("not a header of PCI addresses", rows, number, source=source, hint=HINT)
            header = tuple(words)
        elif header != tuple(words):
            raise _text.error("another table of other GPUs", rows, number, source=source, hint=HINT)
        found[title] = _cells(header, lines[1:], notes)
    if header is None:
        raise _text.not_a_topology(rows, "neither link types nor access between GPUs", source=source, hint=HINT)
    addresses = [_pcie.bus_id(word) for word in header]
    return _Told(addresses, list(range(len(header))), found.get(_TYPES, {}), found.get(_ACCESS, {}))


def _sections(rows: list[str]) -> dict[str, list[tuple[int, list[str]]]]:
    """Words of the lines below the titles that matter, up to the next title or blank line."""
    sections: dict[str, list[tuple[int, list[str]]]] = {}
    current: list[tuple[int, list[str]]] | None = None
    title = ""
    for number, line in enumerate(rows, 1):
        match = _TITLE.search(line) if len(line) < 400 else None
        if match:
            title, current = match[1], []
        elif not line.strip() or len(line) > _text.MAX_LINE:
            current = None
        elif current is not None and title in (_TYPES, _ACCESS) and len(current) <= _text.MAX_DEVICES:
            current.append((number, line.split()))
            sections.setdefault(title, current)
    return sections


def _cells(header: tuple[str, ...], lines: list[tuple[int, list[str]]], notes: _text.Notes) -> Cells:
    """Rows by their address, or in their order where GPUs share one (parts of a partitioned GPU)."""
    place = {address: position for position, address in enumerate(header)}
    cells: Cells = {}
    for order, (number, words) in enumerate(lines[: len(header)]):
        row = order if len(place) < len(header) else place.get(words[0], -1)
        if row < 0 or words[0] != header[row] or len(words) != len(header) + 1:
            notes.add(f"a row that does not fit its header (`{' '.join(words)[:30]}`): it stays unknown", line=number)
            continue
        cells.update({(row, column): word for column, word in enumerate(words[1:])})
    return cells


# --- JSON -----------------------------------------------------------------------------------------------------------


def _opens(text: str) -> int:
    """Where the JSON document begins; -1 when the text begins with something else."""
    start = text[:1000]
    at = len(start) - len(start.lstrip("\ufeff \t\r\n"))
    return at if start[at : at + 1] in ("[", "{") else -1


def _json(text: str, opens: int, source: str, notes: _text.Notes) -> _Told:
    if len(text) > MAX_JSON:
        raise errors.ParseError(f"larger than {MAX_JSON >> 20} MiB", source=source, hint=HINT)
    data = text[opens:].encode("utf-8", errors="replace")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _broken(data, error, text[:opens], source) from None
    listed = document
    if isinstance(document, dict):  # some releases wrap the list
        listed = next((value for value in document.values() if isinstance(value, list)), None)
    gpus = [gpu for gpu in listed if isinstance(gpu, dict)] if isinstance(listed, list) else []
    indices = [gpu.get("gpu") for gpu in gpus]
    known = [index for index in indices if isinstance(index, int) and 0 <= index < 1 << 16]
    if not gpus or len(known) < len(gpus) or len(set(known)) < len(known) or len(known) > _text.MAX_DEVICES:
        message = "no list of GPUs, each with its own number `gpu`"
        raise errors.ParseError(message, source=source, excerpt=text[opens : opens + 40], hint=HINT)
    addresses = [gpu.get("bdf") for gpu in gpus]
    told = _Told([_pcie.bus_id(a) if isinstance(a, str) else None for a in addresses], known)
    place = {index: position for position, index in enumerate(known)}
    for row, gpu in enumerate(gpus):
        links = gpu.get("links")
        if isinstance(links, list):
            _new_form(row, links, place, told)
        else:
            _old_form(row, gpu, place, told)
    if not told.types and not told.access:
        notes.add("neither link types nor access between GPUs are listed")
    return told


def _new_form(row: int, links: list[Any], place: Mapping[int, int], told: _Told) -> None:
    """`links: [{gpu, link_type, link_status, …}]`; they need not stand in the order of the GPUs."""
    for link in links:
        peer = link.get("gpu") if isinstance(link, dict) else None
        if isinstance(peer, int) and peer in place:
            for cells, key in ((told.types, "link_type"), (told.access, "link_status")):
                if isinstance(link.get(key), str):
                    cells[row, place[peer]] = link[key]


def _old_form(row: int, gpu: dict[str, Any], place: Mapping[int, int], told: _Told) -> None:
    """`link_type: {gpu_0: …}`, until ROCm 6.1."""
    for cells, key in ((told.types, "link_type"), (told.access, "link_accessibility")):
        words = gpu.get(key)
        for column, word in words.items() if isinstance(words, dict) else ():
            number = column.removeprefix("gpu_")
            if isinstance(word, str) and re.fullmatch(r"\d{1,5}", number) and int(number) in place:
                cells[row, place[int(number)]] = word


def _broken(data: bytes, error: Exception, before: str, source: str) -> errors.ParseError:
    byte = _BYTE.search(str(error))
    at = min(int(byte[1]), len(data)) if byte else 0
    start = data.rfind(b"\n", 0, at) + 1
    return errors.ParseError(
        "broken JSON" if isinstance(error, msgspec.DecodeError) else "JSON nested too deep",
        source=source,
        line=before.count("\n") + data.count(b"\n", 0, at) + 1,
        column=len(data[start:at].decode("utf-8", errors="replace")) + 1,
        excerpt=data[at : at + 40].decode("utf-8", errors="replace"),
        hint=HINT,
    )
