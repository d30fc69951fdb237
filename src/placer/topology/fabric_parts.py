"""Parts of a fabric: some of its nodes, some of its levels."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from placer.topology import fabric as fabrics
from placer.topology import labels, nesting
from placer.topology import types as topo


def restrict(fabric: topo.Fabric, nodes: Iterable[str]) -> topo.Fabric:
    """The fabric with these nodes alone; domains that hold none of them are left out, levels stay."""
    wanted = frozenset(nodes)
    kept = []
    for domain in fabric.domains:
        own = tuple(node for node in domain.nodes if node in wanted)
        if own:
            kept.append(msgspec.structs.replace(domain, nodes=own))
    return msgspec.structs.replace(fabric, domains=tuple(kept))


def without(fabric: topo.Fabric, levels: Collection[int]) -> topo.Fabric:
    """The fabric without some levels; what was below their domains hangs on the next level up that stays."""
    number = {at: new for new, at in enumerate(at for at in range(len(fabric.levels)) if at not in levels)}
    above = {(d.level, d.name): d.parent for d in fabric.domains}
    kept = []
    for domain in fabric.domains:
        if domain.level not in number:
            continue
        parent, at = domain.parent, domain.level + 1
        while parent is not None and at not in number:
            parent, at = above.get((at, parent)), at + 1
        kept.append(msgspec.structs.replace(domain, level=number[domain.level], parent=parent))
    tiers = tuple(level for at, level in enumerate(fabric.levels) if at in number)
    return msgspec.structs.replace(fabric, levels=tiers, domains=tuple(kept))


def network(fabric: topo.Fabric) -> topo.Fabric:
    """The fabric without the NVLink levels that put the same nodes together as another level does.

    A switch tree can do without them, and a switch that has a single one below would only add a hop.
    """
    groups = [fabrics.domain_of_node(fabric, at) for at in range(len(fabric.levels))]
    idle = {
        at
        for at, level in enumerate(fabric.levels)
        if labels.is_nvlink(level)
        and any(
            nesting.same(groups[at], groups[other])
            for other in range(len(groups))
            if other != at and not labels.is_nvlink(fabric.levels[other])
        )
    }
    return without(fabric, idle) if idle else fabric
