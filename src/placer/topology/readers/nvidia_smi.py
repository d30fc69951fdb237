"""The matrix of `nvidia-smi topo -m` and `-mp`, as saved by people: cut, indented, coloured, re-spaced.

Columns are named by the header and nothing else. A row is found by its own name, and its diagonal `X` must stand in
its own column: a row that is shifted is dropped as a whole. With tabs a field's position is its column and an empty
field is an empty value; with blanks the words are counted. What is missing or unreadable stays unknown.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import _matrix, _text

HINT: Final = "save the matrix with `nvidia-smi topo -m > node.txt` and give that file"

_GPU = re.compile(r"GPU(0|[1-9]\d{0,4})")
_NIC = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_NIC_NAME = re.compile(r"\s*(NIC\d{1,5})\s*:\s*([!-~]{1,64})\s*")
_NVLINK = re.compile(r"NV([1-9]\d{0,2})")
# The words of the legend; SOC is what old drivers print for SYS.
_RELATIONS: Final = {
    kind.value: kind for kind in topo.LinkType if kind.value.isalnum() and kind.value not in ("NV", "XGMI")
} | {"SOC": topo.LinkType.SYS}
# The legend of `nvidia-smi topo -p2p`.
_PEER_WORDS: Final = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
_VALUE = re.compile(r"[\d,-]+|N/A")


class _Header(msgspec.Struct, frozen=True):
    """Names of the device columns, and which affinity columns follow: (kind, offset in the line)."""

    line: int
    devices: tuple[str, ...]
    labels: tuple[tuple[str, int], ...]


class _Row(msgspec.Struct, frozen=True):
    """One device's row: its cells by column, and the affinity values by kind."""

    line: int
    cells: dict[int, tuple[topo.LinkType, int]]
    values: dict[str, str]


def read_matrix(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The topology that the text tells, linear in its length.

    `source` is what messages call the text, `name` the node. The result is `partial` when a GPU has no row or a pair
    of devices is not told. `numa` of a GPU with several numbers means one of them; `memory_numa` is the NUMA node that
    is the GPU's own memory. Raises ParseError when no row of a matrix can be read.
    """
    rows = _text.lines(text)
    header = _find_header(rows, source)
    if header is None:
        message = "no topology matrix: no line names GPU columns like `GPU0 GPU1`"
        raise _text.not_a_topology(rows, message, source=source, hint=HINT)
    notes = _text.Notes()
    found, end = _read_rows(rows, header, source, notes)
    if not any(row.cells or len(header.devices) == 1 for row in found.values()):
        what = f"{len(header.devices)} GPU and adapter columns, but no row that can be read"
        raise _error(what, rows, header.line, source)
    cells = {(i, j): cell for i, row in found.items() for j, cell in row.cells.items()}
    links = _matrix.links(header.devices, cells, notes)
    missing = [d for i, d in enumerate(header.devices) if _GPU.fullmatch(d) and i not in found]
    if missing:
        notes.add(f"no row for {_some(missing)}: what only it would tell stays unknown")
    untold = _matrix.note_missing(header.devices, links, notes)
    names = _nic_names(rows[end:])
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=tuple(_gpu(d, found.get(i), notes) for i, d in enumerate(header.devices) if _GPU.fullmatch(d)),
        nics=tuple(_nic(d, names) for d in header.devices if not _GPU.fullmatch(d)),
        links=links,
        partial=bool(missing) or untold,
        warnings=notes.texts(),
    )


def _error(message: str, rows: list[str], line: int, source: str) -> errors.ParseError:
    return _text.error(message, rows, line, source=source, hint=HINT)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


# --- header ---------------------------------------------------------------------------------------------------------


def _find_header(rows: list[str], source: str) -> _Header | None:
    for number, line in enumerate(rows, 1):
        if "GPU" in line and (header := _header(line, number)) is not None:
            if len(header.devices) > _text.MAX_DEVICES:
                what = f"more than {_text.MAX_DEVICES} device columns"
                raise _error(what, rows, number, source)
            repeated = _repeated(header.devices)
            if repeated is not None:
                raise _error(f"column {repeated} stands twice in the header", rows, number, source)
            return header
    return None


def _header(line: str, number: int) -> _Header | None:
    """The header that `line` is, or None: device names only, then known headings, and at least one GPU."""
    words = [(m[0], m.start()) for m in re.finditer(r"\S+", line[: 8 * _text.MAX_LINE])]
    devices = []
    for word, _ in words:
        if word in ("CPU", "NUMA", "GPU"):
            break
        devices.append(word)
    labels = _labels(words[len(devices) :])
    if not any(_GPU.fullmatch(d) for d in devices):
        return None
    if not all(_is_device(d, strict=not labels) for d in devices):
        return None
    return _Header(number, tuple(devices), labels)


def _is_device(word: str, *, strict: bool) -> bool:
    """A column name. Without affinity headings beside it (`strict`) an adapter's name must hold a digit, as all do."""
    if _GPU.fullmatch(word):
        return True
    if _NIC.fullmatch(word) is None or _cell(word) is not None or word in _PEER_WORDS:
        return False
    return not strict or any(c.isdigit() for c in word)


def _labels(words: list[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Affinity headings in order: `CPU Affinity`, `NUMA Affinity`, `GPU NUMA ID`; they may be cut."""
    found = []
    before, start = "", 0
    for word, offset in words:
        if word == "CPU":
            found.append(("cpus", offset))
        elif word == "NUMA":
            found.append(("memory", start) if before == "GPU" else ("numa", offset))
        before, start = word, offset
    return tuple(found)


def _repeated(names: tuple[str, ...]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


# --- rows -----------------------------------------------------------------------------------------------------------


def _read_rows(rows: list[str], header: _Header, source: str, notes: _text.Notes) -> tuple[dict[int, _Row], int]:
    """Rows by column position, up to the legend or a second matrix; and where that is."""
    position = {name: i for i, name in enumerate(header.devices)}
    found: dict[int, _Row] = {}
    for at in range(header.line, len(rows)):
        line, number = rows[at], at + 1
        first = line[: _text.MAX_LINE].split(None, 1)[:1]
        if not first:
            continue
        word = first[0]
        if word.lower().startswith("legend") or (word == "NIC" and "Legend" in line[:40]) or _header(line, number):
            return found, at
        if len(found) == len(position):
            return found, at
        if word not in position:
            notes.add(f"not a row of the matrix: `{line[:40].strip()}`", line=number)
        elif position[word] in found:
            notes.add(f"a second row for {word} is ignored", line=number)
        elif len(line) > _text.MAX_LINE:
            notes.add(f"the row of {word} is longer than any matrix: it stays unknown", line=number)
        elif _is_peer_table(line):
            what = "this is a table of peer access (`nvidia-smi topo -p2p`), not the matrix of connections"
            raise _error(what, rows, number, source)
        else:
            row = _row(line, number, position[word], header, last=at == len(rows) - 1, notes=notes)
            if row is not None:
                found[position[word]] = row
    return found, len(rows)


def _is_peer_table(line: str) -> bool:
    words = line.split()[1:]
    return any(w in _PEER_WORDS for w in words) and all(w in _PEER_WORDS or w == "X" for w in words)


def _row(line: str, number: int, own: int, header: _Header, *, last: bool, notes: _text.Notes) -> _Row | None:
    """One row, or None when it cannot be lined up with the header. `last`: the text ends inside this line."""
    name, width = header.devices[own], len(header.devices)
    fields = _tab_fields(line)
    words = fields or [(m[0], m.start()) for m in re.finditer(r"\S+", line)][1:]
    cells, rest = [w for w, _ in words[:width]], words[width:]
    if not _lines_up(cells, rest, own, tabs=fields is not None):
        notes.add(f"the row of {name} does not fit the header: it stays unknown", line=number)
        return None
    if len(cells) < width:
        # The text was cut inside this row, and NV1 may be what is left of NV12.
        notes.add(f"the row of {name} ends after {len(cells)} of {width} cells", line=number)
        cells = cells[:-1]
    known = {}
    for column, word in enumerate(cells):
        if column == own:
            continue
        cell = _cell(word)
        if cell is not None:
            known[column] = cell
        elif word:
            notes.add(
                f"{name} to {header.devices[column]} is unreadable (`{word[:12]}`): it stays unknown", line=number
            )
    values = _values(rest, header, tabs=fields is not None)
    cut = last and len(values) < len(header.labels)
    if cut and values:
        values.popitem()
    return _Row(number, known, values)


def _tab_fields(line: str) -> list[tuple[str, int]] | None:
    """Fields after the row's name when tabs alone separate them; None when blanks do, or both."""
    if "\t" not in line:
        return None
    fields = [field.strip() for field in line.lstrip().split("\t")]
    return None if any(" " in field for field in fields) else [(field, -1) for field in fields[1:]]


def _lines_up(cells: list[str], rest: list[tuple[str, int]], own: int, *, tabs: bool) -> bool:
    """Whether cells are under their columns: `X` where it belongs, no cell beyond the last column, none swallowed."""
    if any((word == "X") != (column == own) for column, word in enumerate(cells)):
        return False
    if any(word == "X" or _cell(word) is not None for word, _ in rest):
        return False
    return tabs or not any(_VALUE.fullmatch(word) for word in cells)


def _cell(word: str) -> tuple[topo.LinkType, int] | None:
    bonded = _NVLINK.fullmatch(word)
    if bonded:
        return topo.LinkType.NVLINK, int(bonded[1])
    kind = _RELATIONS.get(word)
    return (kind, 0) if kind is not None else None


def _values(rest: list[tuple[str, int]], header: _Header, *, tabs: bool) -> dict[str, str]:
    """Affinity values by heading.

    nvidia-smi writes two tabs before the value of `GPU NUMA ID`, so that it is the first one from the third field on.
    Between blanks, fewer words than headings are only believed where a word starts exactly below its heading.
    """
    kinds = [kind for kind, _ in header.labels]
    words = [word for word, _ in rest]
    if tabs:
        tail = next((word for word in words[2:] if word), "")
        return {kind: word for kind, word in zip(kinds, [*words[:2], tail], strict=False) if word}
    if len(words) >= len(kinds):
        return dict(zip(kinds, words, strict=False))
    starts = {offset: kind for kind, offset in header.labels}
    return {starts[offset]: word for word, offset in rest if offset in starts}


# --- devices --------------------------------------------------------------------------------------------------------


def _gpu(name: str, row: _Row | None, notes: _text.Notes) -> topo.Gpu:
    def numbers(kind: str) -> tuple[int, ...] | None:
        word = row.values.get(kind, "") if row else ""
        found = _text.number_list(word)
        if row and word and found is None and word not in ("N/A", "-1"):
            notes.add(f"{kind} of {name} is not a list of numbers (`{word[:20]}`): it stays unknown", line=row.line)
        return found

    memory = numbers("memory")
    return topo.Gpu(
        id=name,
        index=int(name.removeprefix("GPU")),
        numa=numbers("numa"),
        cpus=numbers("cpus"),
        memory_numa=memory[0] if memory and len(memory) == 1 else None,
    )


def _nic(name: str, names: dict[str, str]) -> topo.Nic:
    numbered = name.startswith("NIC") and name[3:].isdigit()
    return topo.Nic(id=name, name=names.get(name) if numbered else name)


def _nic_names(rows: list[str]) -> dict[str, str]:
    """`NIC0: mlx5_0` lines of the legend."""
    names: dict[str, str] = {}
    for line in rows:
        match = _NIC_NAME.fullmatch(line) if len(line) < 200 else None
        if match:
            names.setdefault(match[1], match[2])
    return names
