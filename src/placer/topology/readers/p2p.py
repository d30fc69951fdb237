"""`nvidia-smi topo -p2p r|w|n|a|p`: which GPUs may reach each other's memory.

The table looks like that of `topo -m`, with a state in each cell. It does not say which capability it tells, unless
the command stands above it: tables of reads and writes (`r`, `w`, and any without a command) decide about peer access.
Those of NVLink, atomics and PCIe alone (`n`, `a`, `p`) do not: a pair may be denied there and still have a peer path.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from placer.topology import types as topo
from placer.topology.readers import _text

HINT: Final = "save it with `nvidia-smi topo -p2p r > p2p.txt` and give that file along with the output of `topo -m`"

_GPU = re.compile(r"GPU(0|[1-9]\d{0,4})")
_STATES: Final = frozenset({"X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+([rwnap])\b")


class _Table(msgspec.Struct):
    """One table: where it stands, its columns, and the state of (row, column)."""

    line: int
    devices: tuple[str, ...]
    decides: bool
    states: dict[tuple[int, int], str] = msgspec.field(default_factory=dict)


def recognises(text: str) -> bool:
    """Whether the text is such a table: its states stand in a row of a GPU."""
    for line in _text.lines(text[: 1 << 16]):
        words = line[: _text.MAX_LINE].split()
        if len(words) > 1 and _GPU.fullmatch(words[0]) and set(words[1:]) <= _STATES and set(words[1:]) != {"X"}:
            return True
    return "Chipset not supported" in text[: 1 << 16]


def read(text: str, *, source: str, name: str) -> topo.NodeTopology:
    """The GPUs, and in `no_peer` the pairs that some table denies; nothing else of their wiring (`partial`).

    A pair is denied when a state that tells about it, in either direction, is neither OK nor unknown. Several tables in
    one text must be of the same GPUs. Raises ParseError.
    """
    rows = _text.lines(text)
    notes = _text.Notes()
    tables = _tables(rows, source, notes)
    if not tables:
        message = "no table of peer access: no line names GPU columns like `GPU0 GPU1`"
        raise _text.not_a_topology(rows, message, source=source, hint=HINT)
    devices = tables[0].devices
    for table in tables:
        if table.devices != devices:
            raise _text.error("another table of other GPUs", rows, table.line, source=source, hint=HINT)
        if not table.decides:
            notes.add("a table of NVLink, atomics or PCIe states: it tells nothing about peer access", line=table.line)
    if not any(table.states for table in tables):
        raise _text.error("no row of the table can be read", rows, tables[0].line, source=source, hint=HINT)
    denied = _denied(tables, notes)
    return topo.NodeTopology(
        name=name,
        source=source,
        gpus=tuple(topo.Gpu(id=d, index=int(d[3:])) for d in devices),
        partial=True,
        warnings=notes.texts(),
        no_peer=denied,
    )


def _denied(tables: list[_Table], notes: _text.Notes) -> tuple[tuple[str, str], ...]:
    found: dict[tuple[int, int], None] = {}
    for table in tables:
        for (row, column), state in sorted(table.states.items()):
            if table.decides and row != column and state not in ("OK", "U", "X"):
                found[min(row, column), max(row, column)] = None
            elif state == "U" and row != column:
                notes.add(f"{table.devices[row]} to {table.devices[column]} is in an unknown state", line=table.line)
    devices = tables[0].devices
    return tuple((devices[i], devices[j]) for i, j in sorted(found))


def _tables(rows: list[str], source: str, notes: _text.Notes) -> list[_Table]:
    tables: list[_Table] = []
    capability = ""
    for number, line in enumerate(rows, 1):
        if len(line) > _text.MAX_LINE or "GPU" not in line:
            command = _COMMAND.search(line[:400])
            capability = command[1] if command else capability
            continue
        words = line.split()
        if all(map(_GPU.fullmatch, words)) and len(words) > 1:
            if len(words) > _text.MAX_DEVICES or len(set(words)) < len(words):
                what = f"a GPU stands twice in the header, or more than {_text.MAX_DEVICES} do"
                raise _text.error(what, rows, number, source=source, hint=HINT)
            tables.append(_Table(number, tuple(words), capability not in ("n", "a", "p")))
            capability = ""
        elif tables and words[0] in tables[-1].devices:
            _row(tables[-1], words, number, notes)
        if len(tables) > 16:
            raise _text.error("more than 16 tables", rows, number, source=source, hint=HINT)
    return tables


def _row(table: _Table, words: list[str], number: int, notes: _text.Notes) -> None:
    """A row counts when all its cells are there and its X stands in its own column."""
    row, states = table.devices.index(words[0]), words[1:]
    if len(states) != len(table.devices) or states[row] != "X" or not set(states) <= _STATES:
        notes.add(f"the row of {words[0]} cannot be read: its pairs are taken from the others'", line=number)
        return
    table.states.update({(row, column): state for column, state in enumerate(states)})
