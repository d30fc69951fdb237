"""Fabrics as a table, one line a node: `host,level,level,…` below a header, levels closest first.

    host,rack,pod
    n1,r1,p1

A name that is used again under another parent is another domain, so racks may be numbered anew in every pod. Commas,
semicolons or tabs separate; values may stand in double quotes.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence

import msgspec

from placer import errors
from placer.topology import chains, nesting
from placer.topology import fabric as fabrics
from placer.topology import types as topo

HOST_COLUMNS = ("host", "hostname", "node", "nodename", "node_name", "name", "ip")
"""Headers that name the nodes, in small letters."""
MAX_ROWS = 1_000_000
_MAX_LINE = 1 << 16
_HINT = "placer topo fabric --columns host=ip,rack=PSW+ASW,pod=PSW FILE.csv"


class Columns(msgspec.Struct, frozen=True):
    """Which column names the node, and which columns together name its domain on each level, closest first."""

    host: str
    levels: tuple[tuple[str, tuple[str, ...]], ...]


def parse_columns(text: str) -> Columns:
    """`host=ip,rack=PSW+ASW,pod=PSW`: headers of the file behind each `=`, joined by `+`. Raises RequestError."""
    host, levels = None, []
    for part in text.split(","):
        name, sign, columns = part.partition("=")
        if not (name and sign and all(columns.split("+"))):
            raise errors.RequestError(f"columns are written NAME=HEADER, not `{errors.printable(part)}`", hint=_HINT)
        if name == "host":
            host = columns
        else:
            levels.append((name, tuple(columns.split("+"))))
    if host is None or not levels:
        raise errors.RequestError("columns need `host=` and at least one level", hint=_HINT)
    return Columns(host, tuple(levels))


def recognises(text: str) -> bool:
    """Whether the first line looks like the header of such a table."""
    first = next((line for line in text[:_MAX_LINE].split("\n") if line.strip()), "")
    cells = [cell.strip().strip('"').casefold() for cell in first.rstrip("\r").split(_delimiter(first))]
    return len(cells) > 1 and any(cell in HOST_COLUMNS for cell in cells) and len(set(cells)) == len(cells)


def read(text: str, *, source: str, columns: Columns | None = None) -> topo.Fabric:
    """The fabric of a table.

    Without `columns` the first header of HOST_COLUMNS names the nodes and all others are levels, closest first; when
    they nest only the other way round they are taken broadest first, and that is said. Empty cells are unknown. Raises
    ParseError.
    """
    rows = _rows(text, source)
    header_line, header = next(rows, (1, []))
    chosen = columns or _default(header, header_line, source)
    place = {name: at for at, name in enumerate(header)}
    needed = [chosen.host, *(name for _, names in chosen.levels for name in names)]
    missing = next((name for name in needed if name not in place), None)
    if missing is not None:
        message = f"there is no column `{errors.printable(missing)}`"
        raise _error(message, source, header_line, hint=_HINT, excerpt=",".join(header))
    domains: dict[str, dict[str, str]] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            message = f"{len(cells)} values under {len(header)} headers"
            raise _error(message, source, line, excerpt=",".join(cells))
        node = cells[place[chosen.host]]
        if not node or node in domains:
            message = f"node `{errors.printable(node)}` stands twice" if node else "a line without a node"
            raise _error(message, source, line, column=1 + sum(len(c) + 1 for c in cells[: place[chosen.host]]))
        values = ((name, [cells[place[part]] for part in parts]) for name, parts in chosen.levels)
        domains[node] = {name: "/".join(parts) for name, parts in values if all(parts)}
    return _fabric(domains, [name for name, _ in chosen.levels], source, turn=columns is None)


def write(fabric: topo.Fabric) -> str:
    """The table of a fabric; `read` gives the same domains. Aggregates of blocks have commas in their names: quoted."""
    names = [level.name for level in fabric.levels]
    own = [fabrics.domain_of_node(fabric, at) for at in range(len(names))]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["host", *names])
    table.writerows([node, *(of.get(node, "") for of in own)] for node in fabrics.nodes_of(fabric))
    return out.getvalue()


def _fabric(domains: dict[str, dict[str, str]], levels: list[str], source: str, *, turn: bool) -> topo.Fabric:
    turned = turn and _outwards(domains, levels) < 0
    made = fabrics.from_node_domains(levels[::-1] if turned else levels, domains, source=source)
    if not turned:
        return made
    said = f"{errors.printable(source)}: columns are taken broadest first: {' > '.join(levels)}"
    return msgspec.structs.replace(made, warnings=(errors.printable(said, 300), *made.warnings))


def _outwards(domains: dict[str, dict[str, str]], levels: Sequence[str]) -> int:
    """How many neighbouring columns nest closest first, less those that nest broadest first."""
    groups = [{node: own[name] for node, own in domains.items() if name in own} for name in levels]
    votes = 0
    for left, right in itertools.pairwise(groups):
        votes += (nesting.position(left, [right]) == 0) - (nesting.position(right, [left]) == 0)
    return votes


def _default(header: Sequence[str], line: int, source: str) -> Columns:
    host = next((name for name in header if name.casefold() in HOST_COLUMNS), None)
    levels = tuple((name, (name,)) for name in header if name != host)
    if host is None or not levels or len(levels) > chains.MAX_LEVELS:
        message = "expected a header like `host,rack,pod`, levels closest first"
        raise _error(message, source, line, hint=_HINT, excerpt=",".join(header))
    return Columns(host, levels)


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of each line; the first is the header."""
    delimiter = ","
    header: list[str] | None = None
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = line.rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        if len(line) > _MAX_LINE or number > MAX_ROWS:
            raise _error("the table is too large", source, number)
        if header is None:
            delimiter = _delimiter(line)
        cells = _cells(line, delimiter, source, number)
        if header is None:
            header = cells
            if len(set(cells)) != len(cells) or not all(cells):
                raise _error("every column needs a header of its own", source, number, hint=_HINT, excerpt=line[:40])
        yield number, cells


def _cells(line: str, delimiter: str, source: str, number: int) -> list[str]:
    try:
        cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, strict=True))]
    except (csv.Error, StopIteration) as error:
        raise _error(f"not a line of a table: {error}", source, number, excerpt=line[:40]) from None
    for at, cell in enumerate(cells):
        if not cell.isprintable():
            column = 1 + sum(len(c) + 1 for c in cells[:at])
            raise _error("a character that cannot be printed", source, number, column=column)
    return cells


def _error(
    message: str, source: str, line: int, *, column: int = 1, excerpt: str = "", hint: str | None = None
) -> errors.ParseError:
    return errors.ParseError(message, source=source, line=line, column=column, excerpt=excerpt[:40], hint=hint)
