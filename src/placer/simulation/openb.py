"""The public GPU cluster trace "openb" as its two CSV files have it: a cluster's nodes, and pods that ask for GPUs.

Nodes: columns `sn,cpu_milli,memory_mib,gpu,model`. Pods: `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, where the
list has it, `gpu_spec` (models with `|` between them; empty = any). Other columns are not read.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from placer import errors

T = TypeVar("T")

MAX_ROWS: Final = 2_000_000
MAX_AMOUNT: Final = 10**9
"""Largest CPU (thousandths) or memory (MiB) of one node or pod."""

MAX_GPUS: Final = 64
"""Largest number of GPUs of one node or pod."""

WHOLE: Final = 1000
"""Thousandths of a GPU."""

_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


class Node(msgspec.Struct, frozen=True):
    """A node: CPU in thousandths, memory in MiB, how many GPUs of which model ("" = not told)."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_count: int
    model: str


class Pod(msgspec.Struct, frozen=True):
    """A pod: `gpu_milli` thousandths on each of `gpu_count` GPUs; both 0 = no GPU. `models` () = any."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    gpu_count: int
    models: tuple[str, ...] = ()

    @property
    def demand_milli(self) -> int:
        """Thousandths of GPUs in all."""
        return self.gpu_milli * self.gpu_count


def parse_nodes(text: str, *, source: str) -> tuple[Node, ...]:
    """The nodes of a cluster. Raises ParseError, also for a cluster without a GPU and for a name that comes twice."""

    def node(row: _Row) -> Node:
        return Node(
            row.text("sn"),
            row.number("cpu_milli", MAX_AMOUNT),
            row.number("memory_mib", MAX_AMOUNT),
            row.number("gpu", MAX_GPUS),
            row.text("model"),
        )

    nodes = _parse(text, source, _NODE_COLUMNS, node, lambda item: item.name)
    if not any(n.gpu_count for n in nodes):
        raise errors.ParseError("no node with a GPU", source=source, hint=_hint(_NODE_COLUMNS))
    return nodes


def parse_pods(text: str, *, source: str) -> tuple[Pod, ...]:
    """The pods in the order of the file. Raises ParseError, also for a list in which no pod wants a GPU."""
    pods = _parse(text, source, _POD_COLUMNS, _pod, lambda item: item.name)
    if not any(p.demand_milli for p in pods):
        raise errors.ParseError("no pod that wants a GPU", source=source, hint=_hint(_POD_COLUMNS))
    return pods


def _pod(row: _Row) -> Pod:
    count = row.number("num_gpu", MAX_GPUS)
    milli = row.number("gpu_milli", WHOLE) if count else 0
    if count and not milli:
        raise row.error("gpu_milli", "a pod with GPUs wants at least 1 thousandth of each")
    spec = row.text("gpu_spec")
    models = tuple(dict.fromkeys(name for name in spec.split("|") if name))
    return Pod(
        row.text("name"),
        row.number("cpu_milli", MAX_AMOUNT),
        row.number("memory_mib", MAX_AMOUNT),
        milli,
        count,
        models,
    )


class _Row:
    """One line of a table, by column name."""

    def __init__(self, cells: Sequence[str], places: dict[str, int], source: str, line: int) -> None:
        self.cells, self.places, self.source, self.line = cells, places, source, line

    def text(self, column: str) -> str:
        """A cell without blanks around it; "" for a column that the table does not have."""
        place = self.places.get(column)
        return self.cells[place].strip() if place is not None else ""

    def number(self, column: str, most: int) -> int:
        """A whole number from 0 to `most`; `8.0` is 8."""
        cell = self.text(column)
        whole = cell.removesuffix(".0")
        if not (whole.isascii() and whole.isdigit() and len(whole) <= 12) or int(whole) > most:
            raise self.error(column, f"column {column} wants a whole number from 0 to {most}")
        return int(whole)

    def error(self, column: str, what: str) -> errors.ParseError:
        """A fault of this row; its column counts cells, as a table's reader would."""
        place = self.places.get(column, 0)
        return errors.ParseError(
            what, source=self.source, line=self.line, column=place + 1, excerpt=self.cells[place] if self.cells else ""
        )


def _parse(
    text: str, source: str, wanted: tuple[str, ...], make: Callable[[_Row], T], name: Callable[[T], str]
) -> tuple[T, ...]:
    lines = _lines(text, source)
    line, header = next(lines, (1, []))
    places = {cell.strip().lstrip("\ufeff"): i for i, cell in enumerate(header)}
    missing = [column for column in wanted if column not in places]
    if missing:
        raise errors.ParseError(
            f"no column {missing[0]}", source=source, line=line, excerpt=",".join(header), hint=_hint(wanted)
        )
    found: list[T] = []
    names: set[str] = set()
    for line, cells in lines:
        if not cells:
            continue
        if len(cells) != len(header):
            raise errors.ParseError(
                f"{len(cells)} cells under {len(header)} columns", source=source, line=line, excerpt=",".join(cells)
            )
        if len(found) >= MAX_ROWS:
            raise errors.ParseError(f"more than {MAX_ROWS} rows", source=source, line=line)
        row = _Row(cells, places, source, line)
        found.append(make(row))
        if not name(found[-1]):
            raise row.error(wanted[0], "no name")
        if name(found[-1]) in names:
            raise row.error(wanted[0], "this name comes twice")
        names.add(name(found[-1]))
    return tuple(found)


def _lines(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """(line, cells); what the csv module refuses becomes a ParseError."""
    reader = csv.reader(text.splitlines(), strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise errors.ParseError(f"no CSV: {error}", source=source, line=max(1, reader.line_num)) from None
        yield reader.line_num, cells


def _hint(columns: tuple[str, ...]) -> str:
    return "the first line names the columns: " + ",".join(columns)
