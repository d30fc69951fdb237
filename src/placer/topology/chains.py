"""Chains of domains to the domains of a Fabric; what `switch_tree` and `node_paths` have in common.

A *chain* is what a group of nodes lies in: (level, key) from the closest domain to its root. A key is the identity of a
domain, which need not be the name it gets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from placer import errors, hostlist
from placer.topology import types as topo

Key = tuple[str, ...]
Chain = tuple[tuple[int, Key], ...]
"""Levels ascend and may have gaps."""

MAX_LEVELS = 32
"""A deeper tree is a mistake (real fabrics have two to five tiers) and would only eat memory."""


def domains(
    members: Sequence[tuple[Chain, Sequence[str]]], spell: Callable[[Key], str], lines: Mapping[Key, int | None]
) -> tuple[topo.Domain, ...]:
    """Every domain of every chain, by level and natural order of names.

    A gap in a chain is filled by repeating the domain below it. Names are `spell(key)`, made unique on each level.
    """
    full = [_without_gaps(chain) for chain, _ in members]
    parent_of: dict[tuple[int, Key], Key | None] = {}
    for chain in full:
        parents: list[Key | None] = [key for _, key in chain[1:]]
        parent_of.update(zip(chain, [*parents, None], strict=True))
    names = _unique_names(parent_of, spell)
    by_node = sorted(
        ((node, chain) for chain, (_, nodes) in zip(full, members, strict=True) for node in nodes),
        key=lambda pair: hostlist.natural_key(pair[0]),
    )
    nodes: dict[tuple[int, Key], list[str]] = {place: [] for place in parent_of}
    for node, chain in by_node:
        for place in chain:
            nodes[place].append(node)
    made = []
    for place, above in parent_of.items():
        level, key = place
        name = None if above is None else names[level + 1, above]
        made.append(topo.Domain(names[place], level, tuple(nodes[place]), name, lines.get(key)))
    return tuple(sorted(made, key=lambda domain: (domain.level, hostlist.natural_key(domain.name))))


def some(nodes: Sequence[str], limit: int = 120) -> str:
    """Node names for a message: folded, printable, cut."""
    return errors.printable(hostlist.fold(nodes), limit)


def _without_gaps(chain: Chain) -> Chain:
    filled: list[tuple[int, Key]] = []
    for level, key in chain:
        if filled:
            last, below = filled[-1]
            filled += [(between, below) for between in range(last + 1, level)]
        filled.append((level, key))
    return tuple(filled)


def _unique_names(places: Iterable[tuple[int, Key]], spell: Callable[[Key], str]) -> dict[tuple[int, Key], str]:
    """The short name where it is the only one of its level, else the path; a number where even paths are equal."""
    by_name: dict[tuple[int, str], list[Key]] = {}
    for level, key in places:
        by_name.setdefault((level, spell(key)), []).append(key)
    names = {(level, keys[0]): short for (level, short), keys in by_name.items() if len(keys) == 1}
    taken = {place for place, keys in by_name.items() if len(keys) == 1}
    for (level, short), keys in by_name.items():
        for key in sorted(keys) if len(keys) > 1 else ():
            path, number = "/".join(key[1::2]) or short, 1
            name = path
            while (level, name) in taken:
                number += 1
                name = f"{path}#{number}"
            taken.add((level, name))
            names[level, key] = name
    return names
