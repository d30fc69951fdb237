"""A fabric as the nested domains that pictures show, with the free GPUs of each. Shared by text and SVG."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from placer import errors, hostlist
from placer.topology import fabric as fabrics
from placer.topology import types as topo

Rows = Mapping[str, tuple[int, int]]
"""Node -> (free GPUs, GPUs)."""


class Leaf(msgspec.Struct, frozen=True):
    """One node, or several alike that are shown as one. Names are printable."""

    label: str
    count: int = 1
    free: int | None = None  # of all of them together; None = unknown
    total: int | None = None
    chosen: int = 0  # how many of them


class Branch(msgspec.Struct, frozen=True):
    """A domain: the nodes right below it, then the domains. `level` is its level, a repeated domain's the lowest."""

    name: str
    level_name: str  # "" where it is no domain of the fabric
    level: int
    nodes: int
    free: int | None
    total: int | None
    chosen: int
    leaves: tuple[Leaf, ...] = ()
    branches: tuple[Branch, ...] = ()


def walk(fabric: topo.Fabric, rows: Rows, chosen: Collection[str], *, fold: bool = False) -> tuple[Branch, ...]:
    """The roots, highest first; nodes of `rows` that are in no domain come last under a root of their own.

    With `fold`, nodes that are alike in free GPUs, GPUs and being chosen are one Leaf.
    """
    wanted = frozenset(chosen)
    children = fabrics.children(fabric)
    # parents stand behind their children in a fabric, so that the branches below are always made already
    made: dict[tuple[int, str], Branch] = {}
    for domain in fabric.domains:
        place = (domain.level, domain.name)
        below = children.get(place, ())
        if len(below) == 1 and below[0].name == domain.name and below[0].nodes == domain.nodes:
            made[place] = made[below[0].level, domain.name]
            continue
        title = (errors.printable(domain.name, 60), errors.printable(fabric.levels[domain.level].name, 30))
        direct = fabrics.direct_nodes(domain, below)
        branches = tuple(made[child.level, child.name] for child in below)
        made[place] = _branch(
            title, domain.level, domain.nodes, _leaves(direct, rows, wanted, fold), branches, rows, wanted
        )
    found = [made[root.level, root.name] for root in fabrics.roots(fabric)]
    inside = {node for root in fabrics.roots(fabric) for node in root.nodes}
    outside = hostlist.sort(node for node in rows if node not in inside)
    if outside:
        title = ("in no domain" if fabric.domains else "no fabric known"), ""
        found.append(_branch(title, 0, outside, _leaves(outside, rows, wanted, fold), (), rows, wanted))
    return tuple(found)


def cells(free: int, total: int, most: int) -> tuple[int, int]:
    """How many cells a bar for `total` GPUs has, `most` at most, and how many of them are used.

    The share is rounded, but never so far that some free or some used GPUs would not show.
    """
    count = min(total, most)
    if count == 0:
        return 0, 0
    return count, max(min(round((total - free) * count / total), count - (free > 0)), int(free < total))


def _branch(
    title: tuple[str, str],
    level: int,
    nodes: Sequence[str],
    leaves: tuple[Leaf, ...],
    branches: tuple[Branch, ...],
    rows: Rows,
    chosen: frozenset[str],
) -> Branch:
    known = [rows[node] for node in nodes if node in rows]
    return Branch(
        name=title[0],
        level_name=title[1],
        level=level,
        nodes=len(nodes),
        free=sum(free for free, _ in known) if known else None,
        total=sum(total for _, total in known) if known else None,
        chosen=sum(node in chosen for node in nodes),
        leaves=leaves,
        branches=branches,
    )


def _leaves(nodes: Sequence[str], rows: Rows, chosen: frozenset[str], fold: bool) -> tuple[Leaf, ...]:
    groups: dict[object, list[str]] = {}
    for node in nodes:
        groups.setdefault((rows.get(node), node in chosen) if fold else node, []).append(node)
    return tuple(_leaf(group, rows, chosen) for group in groups.values())


def _leaf(group: Sequence[str], rows: Rows, chosen: frozenset[str]) -> Leaf:
    known = rows.get(group[0])
    count = len(group)
    return Leaf(
        label=errors.printable(hostlist.fold(group) if count > 1 else group[0], 60),
        count=count,
        free=None if known is None else known[0] * count,
        total=None if known is None else known[1] * count,
        chosen=count if group[0] in chosen else 0,
    )
