"""A fabric as a text tree for terminals, with the free and used GPUs of every node. Plain text, no escape sequences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from placer.report import fabric_walk
from placer.topology import types as topo

WIDTH = 78
MOST_LINES = 60
"""A picture that would be longer is folded: nodes that are alike together, then domains alone, then it is cut."""

_WIDEST_BAR = 16
_LEGEND = "GPUs: # used  . free    nodes: * chosen"


def fabric(fabric: topo.Fabric, rows: fabric_walk.Rows, chosen: Collection[str] = ()) -> str:
    """Draw a fabric. `rows` tells (free GPUs, GPUs) of each node, `chosen` are the nodes of a placement.

    Lines have at most WIDTH columns; the last ends without a newline.
    """
    lines: list[str] = []
    for fold, with_leaves in ((False, True), (True, True), (True, False)):
        roots = fabric_walk.walk(fabric, rows, chosen, fold=fold)
        lines = [line for root in roots for line in _branch(root, "", "", with_leaves)]
        if len(lines) <= MOST_LINES:
            break
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"… and {len(lines) - MOST_LINES} lines more"]
    return "\n".join([*lines, _LEGEND] if rows else lines) or "no fabric is known"


def _branch(branch: fabric_walk.Branch, first: str, later: str, with_leaves: bool) -> Iterator[str]:
    """The lines of a domain: its own after `first`, all others after `later`."""
    facts = [f"{branch.nodes} node{'s' * (branch.nodes != 1)}"]
    if branch.free is not None:
        facts.append(f"{branch.free} of {branch.total} GPUs free")
    if branch.chosen:
        facts.append(f"{branch.chosen} chosen *")
    yield _cut(f"{first}{f'{branch.level_name} {branch.name}'.lstrip()}: {', '.join(facts)}")
    leaves = branch.leaves if with_leaves else ()
    if leaves:
        rail = later + ("│  " if branch.branches else "   ")
        yield from _leaf_lines(leaves, rail)
    for number, below in enumerate(branch.branches, start=1):
        last = number == len(branch.branches)
        yield from _branch(below, later + ("└─ " if last else "├─ "), later + ("   " if last else "│  "), with_leaves)


def _leaf_lines(leaves: Sequence[fabric_walk.Leaf], rail: str) -> Iterator[str]:
    width = min(max(len(leaf.label) for leaf in leaves), 36)
    for leaf in leaves:
        label = leaf.label if len(leaf.label) <= width else leaf.label[: width - 1] + "…"
        mark = "*" if leaf.chosen else " "
        yield _cut(f"{rail}{mark}{label:<{width}}  {_bar(leaf)}".rstrip())


def _bar(leaf: fabric_walk.Leaf) -> str:
    """`[###.....] 5/8 free`; of equal nodes the bar of one, and how many there are."""
    if leaf.free is None or leaf.total is None:
        return "GPUs unknown"
    free, total = leaf.free // leaf.count, leaf.total // leaf.count
    many = f" x {leaf.count}" if leaf.count > 1 else ""
    if total == 0:
        return f"no GPUs{many}"
    cells, used = fabric_walk.cells(free, total, _WIDEST_BAR)
    return f"[{'#' * used}{'.' * (cells - used)}] {free}/{total} free{many}"


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
