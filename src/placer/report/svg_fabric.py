"""A fabric as SVG: one column for each level, root at the left, nodes with their GPUs at the right."""

from __future__ import annotations

import msgspec

from placer.report import fabric_walk, svg_draw

MOST_ROWS = 400
"""A drawing with more rows folds nodes that are alike; with still more it is cut, and says so."""

_MARGIN, _HEAD, _ROW = 16.0, 70.0, 22.0
_DOMAIN, _LABEL, _CELL = 164.0, 150.0, 13.0
_MOST_CELLS = 16


class _Line(msgspec.Struct, frozen=True):
    """One row of the drawing, and the boxes of the domains that begin in it: (column, branch, rows)."""

    leaf: fabric_walk.Leaf | None
    begins: tuple[tuple[int, fabric_walk.Branch, int], ...]


def draw(roots: tuple[fabric_walk.Branch, ...], levels: tuple[str, ...], *, with_gpus: bool) -> str:
    """The drawing of what `fabric_walk.walk` found; `levels` closest first."""
    depth = max(len(levels), 1)
    lines = [line for root in roots for line in _lines(root, depth)]
    shown = lines[:MOST_ROWS]
    right = _MARGIN + depth * _DOMAIN
    most = max((line.leaf.total // line.leaf.count for line in shown if line.leaf and line.leaf.total), default=0)
    bar = min(most, _MOST_CELLS) * _CELL + 110 if with_gpus else 20
    body = _header(roots, levels, with_gpus=with_gpus)
    for number, line in enumerate(shown):
        y = _HEAD + number * _ROW
        for column, branch, rows in line.begins:
            rows = min(rows, len(shown) - number)
            body += _domain(branch, _MARGIN + column * _DOMAIN, y, rows)
        if line.leaf is not None:
            body += _leaf(line.leaf, right + 8, y)
    height = _HEAD + len(shown) * _ROW + 16
    if len(lines) > len(shown):
        body.append(svg_draw.text(_MARGIN, height + 4, f"… and {len(lines) - len(shown)} rows more", "soft"))
        height += 20
    return svg_draw.document(max(right + 8 + _LABEL + bar + _MARGIN, 760.0), height, "Network fabric", body)


def rows_of(roots: tuple[fabric_walk.Branch, ...]) -> int:
    """How many rows a drawing of these needs."""
    return sum(len(_lines(root, 1)) for root in roots)


def _header(roots: tuple[fabric_walk.Branch, ...], levels: tuple[str, ...], *, with_gpus: bool) -> list[str]:
    nodes = sum(root.nodes for root in roots)
    total = sum(root.total or 0 for root in roots)
    free = sum(root.free or 0 for root in roots)
    words = f"{nodes} nodes" + (f", {free} of {total} GPUs free" if with_gpus else "")
    out = [svg_draw.text(_MARGIN, 26, words, "title")]
    chosen = sum(root.chosen for root in roots)
    states = [("used", "used GPU"), ("free", "free GPU")] if with_gpus else []
    states += [("chosen", f"chosen node ({chosen})")] if chosen else []
    keys, _ = svg_draw.legend(_MARGIN + len(words) * 9.5 + 20, 26, states)
    for column, level in enumerate(reversed(levels)):
        out.append(svg_draw.text(_MARGIN + column * _DOMAIN + 6, _HEAD - 8, level, "soft", room=_DOMAIN - 12))
    return out + keys


def _lines(branch: fabric_walk.Branch, depth: int) -> list[_Line]:
    """Rows of a domain, its own box beginning in the first; a domain without anything below is one empty row."""
    lines = [_Line(leaf, ()) for leaf in branch.leaves]
    for below in branch.branches:
        lines += _lines(below, depth)
    lines = lines or [_Line(None, ())]
    own = (max(depth - 1 - branch.level, 0), branch, len(lines))
    lines[0] = _Line(lines[0].leaf, (own, *lines[0].begins))
    return lines


def _domain(branch: fabric_walk.Branch, x: float, y: float, rows: int) -> list[str]:
    height = rows * _ROW - 4
    facts = f"{branch.nodes} node{'s' * (branch.nodes != 1)}"
    if branch.free is not None:
        facts += f", {branch.free}/{branch.total} free"
    kind = "domain-chosen" if branch.chosen else "domain"
    out = [
        svg_draw.rect(
            x, y, _DOMAIN - 8, height, kind, title=f"{branch.level_name} {branch.name}: {facts}".lstrip(), round_=4
        )
    ]
    out.append(svg_draw.text(x + 7, y + 13, branch.name, room=_DOMAIN - 20))
    if height > 30:
        out.append(svg_draw.text(x + 7, y + 28, facts, "soft", room=_DOMAIN - 18))
    return out


def _leaf(leaf: fabric_walk.Leaf, x: float, y: float) -> list[str]:
    """A node: its name, marked when it is chosen, and a cell for each GPU (or a share of many)."""
    out: list[str] = []
    if leaf.chosen:
        out.append(svg_draw.rect(x, y, 16, _ROW - 6, "chosen"))
        out.append(svg_draw.text(x + 8, y + 12, "C", "mid on-chosen"))
    out.append(svg_draw.text(x + 22, y + 13, leaf.label, room=_LABEL - 26))
    if leaf.free is None or leaf.total is None:
        return out
    free, total = leaf.free // leaf.count, leaf.total // leaf.count
    many = f" x {leaf.count}" if leaf.count > 1 else ""
    cells, used = fabric_walk.cells(free, total, _MOST_CELLS)
    start = x + _LABEL
    for at in range(cells):
        kind = "used" if at < used else "free"
        out.append(svg_draw.rect(start + at * _CELL, y + 2, _CELL - 2, _ROW - 10, kind))
    words = f"{free}/{total} free{many}" if total else f"no GPUs{many}"
    out.append(svg_draw.text(start + cells * _CELL + 6, y + 13, words, "soft"))
    return out
