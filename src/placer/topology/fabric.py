"""Fabrics: built from switches or from the domains that each node names, and looked up.

Nothing here knows a file format or a label dialect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from placer import errors, hostlist
from placer.topology import chains, node_paths, switch_tree
from placer.topology import types as topo

_TREE_LEVELS = ("leaf", "spine", "core")


def from_switches(switches: Sequence[topo.Switch], *, source: str, kind: str = "tree") -> topo.Fabric:
    """The tree of a topology file. Levels are counted from the nodes: `leaf`, `spine`, `core`, `level3` …

    A switch stands one level above its highest child. Nodes that a switch above the leaves lists are those of its
    children when they are below one, else they hang on it directly (said in `warnings`). A node on two branches stays
    with the first, a switch with two parents below the lower of them or the first, and a switch with nothing below is
    left out (all said). Raises ParseError for a name that is defined twice, an unknown child, a cycle, and more than
    `chains.MAX_LEVELS` levels.
    """
    warnings: list[str] = []
    members = switch_tree.read(switches, source, warnings)
    depth = max((chain[-1][0] + 1 for chain, _ in members), default=0)
    return topo.Fabric(
        levels=tuple(topo.Level(tree_level_name(tier)) for tier in range(depth)),
        domains=chains.domains(members, lambda key: key[0], {(switch.name,): switch.line for switch in switches}),
        kind=kind if depth else "none",
        warnings=tuple(warnings),
    )


def tree_level_name(tier: int) -> str:
    """What a tier of a switch tree is called: 0 `leaf`, 1 `spine`, 2 `core`, then `level3` …"""
    return _TREE_LEVELS[tier] if tier < len(_TREE_LEVELS) else f"level{tier}"


def from_node_domains(
    levels: Sequence[str], domains: Mapping[str, Mapping[str, str]], *, source: str, kind: str = "labels"
) -> topo.Fabric:
    """The fabric that nodes tell about themselves: node name -> {level: domain}; `levels` closest first.

    A name that occurs under different parents is as many domains, each then named by its whole path (`b1/rack1`).
    A node that lacks a level takes it from the domain that it shares with others when that is unambiguous; else its
    place on that level stays unknown. All of these are said in `warnings`. Levels that no node has are left out.
    Raises ParseError for a level that is not in `levels`, one that is there twice, and more than `chains.MAX_LEVELS`.
    """
    warnings: list[str] = []
    used = node_paths.used_levels(levels, domains, source)
    members = node_paths.read(used, domains, source, warnings)
    return topo.Fabric(
        levels=tuple(topo.Level(name) for name in used),
        domains=chains.domains(members, node_paths.name_of, {}),
        kind=kind if used else "none",
        warnings=tuple(warnings),
    )


def domains_of(fabric: topo.Fabric, level: int) -> tuple[topo.Domain, ...]:
    """The domains of one level, in natural order of their names."""
    return tuple(domain for domain in fabric.domains if domain.level == level)


def domain_of_node(fabric: topo.Fabric, level: int) -> dict[str, str]:
    """Node name -> name of its domain on `level`; nodes without one are absent."""
    return {node: domain.name for domain in domains_of(fabric, level) for node in domain.nodes}


def level_index(fabric: topo.Fabric, name: str) -> int:
    """The position of a level by its name, or by the label key that it came from. Raises RequestError."""
    for position, level in enumerate(fabric.levels):
        if name in (level.name, level.label):
            return position
    known = ", ".join(level.name for level in fabric.levels)
    message = f"the levels are {known}" if known else "no fabric is known"
    raise errors.RequestError(f"no level `{errors.printable(name)}`: {message}", hint="placer topo fabric")


def descendants(fabric: topo.Fabric, level: int, name: str) -> tuple[topo.Domain, ...]:
    """All domains below the domain `name` of `level`, highest first; empty when there is no such domain."""
    found: list[topo.Domain] = []
    above = {name}
    for tier in range(level - 1, -1, -1):
        below = [domain for domain in domains_of(fabric, tier) if domain.parent in above]
        found += below
        above = {domain.name for domain in below}
    return tuple(found)


def children(fabric: topo.Fabric) -> dict[tuple[int, str], tuple[topo.Domain, ...]]:
    """(level, name) of a domain -> the domains right below it; domains with none are absent."""
    found: dict[tuple[int, str], list[topo.Domain]] = {}
    for domain in fabric.domains:
        if domain.parent is not None:
            found.setdefault((domain.level + 1, domain.parent), []).append(domain)
    return {place: tuple(below) for place, below in found.items()}


def direct_nodes(domain: topo.Domain, below: Sequence[topo.Domain]) -> tuple[str, ...]:
    """The nodes of a domain that are in none of the domains `below` it."""
    covered = {node for child in below for node in child.nodes}
    return tuple(node for node in domain.nodes if node not in covered)


def roots(fabric: topo.Fabric) -> tuple[topo.Domain, ...]:
    """Domains with nothing above them, highest level first; more than one is more than one island."""
    tops = [domain for domain in fabric.domains if domain.parent is None]
    return tuple(sorted(tops, key=lambda domain: -domain.level))


def nodes_of(fabric: topo.Fabric) -> tuple[str, ...]:
    """Every node that lies in some domain, in natural order."""
    return hostlist.sort(node for root in roots(fabric) for node in root.nodes)
