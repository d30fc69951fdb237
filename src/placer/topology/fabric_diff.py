"""What changed between two states of a fabric: nodes that came, went or moved, domains that were renamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from placer import errors, hostlist
from placer.topology import chains
from placer.topology import fabric as fabrics
from placer.topology import types as topo
from placer.topology.node_diff import Change, Direction

_MOST_MOVES = 200
"""Moves of one level that are told one by one; the rest is counted."""


def diff(before: topo.Fabric, after: topo.Fabric) -> tuple[Change, ...]:
    """Every change from `before` to `after`. Levels are compared in order from the nodes, whatever they are called.

    A node that is in another domain moved; a domain that holds the same nodes under another name was renamed.
    """
    found = [*_levels(before, after), *_members(before, after)]
    for level in range(min(len(before.levels), len(after.levels))):
        found += _moves(before, after, level)
    return tuple(found)


def _change(direction: Direction, what: str, before: str, after: str) -> Change:
    return Change(direction, *(errors.printable(text, 160) for text in (what, before, after)))


def _levels(before: topo.Fabric, after: topo.Fabric) -> Iterator[Change]:
    old, new = ([level.name for level in fabric.levels] for fabric in (before, after))
    if old != new:
        yield _change(Direction.OTHER, "levels", " < ".join(old) or "none", " < ".join(new) or "none")
    for was, now in zip(before.levels, after.levels, strict=False):
        a, b = was.oversubscription, now.oversubscription
        if a is not None and b is not None and a != b:
            yield _change(
                Direction.WORSE if b > a else Direction.BETTER, f"{was.name}: oversubscription", f"{a:g}", f"{b:g}"
            )


def _members(before: topo.Fabric, after: topo.Fabric) -> Iterator[Change]:
    old, new = set(fabrics.nodes_of(before)), set(fabrics.nodes_of(after))
    if old - new:
        yield _change(Direction.WORSE, f"{len(old - new)} nodes", hostlist.fold(old - new), "gone")
    if new - old:
        yield _change(Direction.BETTER, f"{len(new - old)} nodes", "not there", hostlist.fold(new - old))


def _moves(before: topo.Fabric, after: topo.Fabric, level: int) -> Iterator[Change]:
    old, new = fabrics.domain_of_node(before, level), fabrics.domain_of_node(after, level)
    name = after.levels[level].name
    renamed = _renamed(old, new)
    for was, now in renamed.items():
        if was != now:
            yield _change(Direction.OTHER, f"{name} renamed", was, now)
    moves: dict[tuple[str, str], list[str]] = {}
    for node in hostlist.sort(old.keys() & new.keys()):
        if renamed.get(old[node], old[node]) != new[node]:
            moves.setdefault((old[node], new[node]), []).append(node)
    for at, ((was, now), nodes) in enumerate(moves.items()):
        if at == _MOST_MOVES:
            yield _change(Direction.OTHER, f"{name}: {len(moves) - at} more moves", "", "")
            return
        yield _change(Direction.OTHER, f"{name} of {chains.some(nodes)}", was, now)


def _renamed(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Old name -> new name of domains whose nodes, as far as both fabrics have them, stayed together alone."""
    both = old.keys() & new.keys()
    ahead: dict[str, set[str]] = {}
    back: dict[str, set[str]] = {}
    for node in both:
        ahead.setdefault(old[node], set()).add(new[node])
        back.setdefault(new[node], set()).add(old[node])
    return {
        was: now
        for was, targets in sorted(ahead.items())
        if len(targets) == 1 and len(back[now := next(iter(targets))]) == 1
    }
