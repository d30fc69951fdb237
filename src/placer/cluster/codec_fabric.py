"""`levels`, the nodes' `domains` and the `fabric` section of a snapshot document <-> `topology.types.Fabric`.

`levels` and `domains` say all that a person needs to write; where a document has none of the three, the nodes' `labels`
tell the fabric. `fabric` adds what they cannot say: `kind`; `levels [{name label oversubscription size}]`; `warnings`;
`kept`, the JSON of a ring or torus; and `domains [{name level parent nodes line}]` where the domains cannot be
made again from those of the nodes (a switch of nodes that are not listed, an uneven tree, line numbers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from placer import errors, hostlist
from placer.cluster import codec_errors, codec_wire
from placer.topology import chains, labels
from placer.topology import fabric as fabrics
from placer.topology import types as topo

_Ratio = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class LevelWire(msgspec.Struct, forbid_unknown_fields=True):
    """One tier, with the node label that it came from."""

    name: str
    label: str | None = None
    oversubscription: _Ratio | None = None
    size: codec_wire.Count | None = None


class DomainWire(msgspec.Struct, forbid_unknown_fields=True):
    """One switch, block or rack; `level` by name, `nodes` in list syntax."""

    name: str
    level: str
    nodes: str = ""
    parent: str | None = None
    line: codec_wire.Count | None = None


class FabricWire(msgspec.Struct, forbid_unknown_fields=True):
    """The `fabric` section."""

    kind: str | None = None
    levels: list[LevelWire] | None = None
    domains: list[DomainWire] | None = None
    warnings: list[str] | None = None
    kept: str | None = None


def decode(
    levels: Sequence[str] | None,
    own: Mapping[str, Mapping[str, str]],
    wire: FabricWire | None,
    where: codec_errors.Where,
    labelled: labels.Nodes = (),
) -> topo.Fabric:
    """The fabric of a document. `own` are the domains that each node names: node -> {level: domain}.

    `labelled` are the labels of each node, read where the document says nothing else of a fabric. Raises DocumentError
    when `levels` and `fabric` contradict each other, or a node its domain in `fabric.domains`.
    """
    if wire is None and levels is None and not any(own.values()):
        return _of_labels(labelled, where)
    if wire is not None and wire.domains is not None:
        return _explicit(wire, wire.domains, levels, own, where.at("fabric"))
    names = [level.name for level in wire.levels or ()] if wire is not None and levels is None else list(levels or ())
    try:
        made = fabrics.from_node_domains(names, own, source=where.source)
    except errors.ParseError as error:
        raise where.error("levels", codec_errors.message_of(error)) from None
    if wire is None:
        return made
    tiers = made.levels if wire.levels is None else _levels(wire, where.at("fabric"))
    if [tier.name for tier in tiers] != [tier.name for tier in made.levels]:
        raise where.at("fabric").error("levels", "names other levels than `levels` at the top")
    return msgspec.structs.replace(
        made,
        levels=tiers,
        kind=made.kind if wire.kind is None else wire.kind,
        warnings=made.warnings if wire.warnings is None else tuple(wire.warnings),
        kept=wire.kept,
    )


def _of_labels(labelled: labels.Nodes, where: codec_errors.Where) -> topo.Fabric:
    try:
        return labels.fabric_of(labelled, source=where.source)
    except errors.ParseError as error:
        raise where.error("nodes", codec_errors.message_of(error)) from None


def encode(
    fabric: topo.Fabric, nodes: Sequence[str]
) -> tuple[list[str], dict[str, dict[str, str]], dict[str, object] | None]:
    """`levels`, node -> its `domains`, and the `fabric` section (None where the first two say it all)."""
    names = [level.name for level in fabric.levels]
    own: dict[str, dict[str, str]] = {node: {} for node in nodes}
    for domain in fabric.domains:
        for node in domain.nodes:
            if node in own:
                own[node][names[domain.level]] = domain.name
    again = _again(names, own)
    if again == fabric:
        return names, own, None
    section: dict[str, object] = {
        "kind": fabric.kind,
        "levels": [
            codec_wire.plain(LevelWire(lv.name, lv.label, lv.oversubscription, lv.size)) for lv in fabric.levels
        ],
        "warnings": list(fabric.warnings),
    }
    if fabric.kept is not None:
        section["kept"] = fabric.kept
    if again is None or again.domains != fabric.domains or len(again.levels) != len(fabric.levels):
        section["domains"] = [
            codec_wire.plain(DomainWire(d.name, names[d.level], hostlist.fold(d.nodes), d.parent, d.line))
            for d in fabric.domains
        ]
    return names, own, section


def _again(levels: Sequence[str], own: Mapping[str, Mapping[str, str]]) -> topo.Fabric | None:
    try:
        return fabrics.from_node_domains(levels, own, source="snapshot")
    except errors.ParseError:
        return None


def _explicit(
    wire: FabricWire,
    domains: Sequence[DomainWire],
    levels: Sequence[str] | None,
    own: Mapping[str, Mapping[str, str]],
    where: codec_errors.Where,
) -> topo.Fabric:
    tiers = _levels(wire, where) if wire.levels is not None else tuple(topo.Level(name) for name in levels or ())
    if levels is not None and list(levels) != [tier.name for tier in tiers]:
        raise where.error("levels", "names other levels than `levels` at the top")
    index = {tier.name: position for position, tier in enumerate(tiers)}
    made = tuple(_domain(domain, index, where.at(f"domains[{i}]")) for i, domain in enumerate(domains))
    told = {(node, tiers[d.level].name): d.name for d in made for node in d.nodes}
    for node, named in own.items():
        for level, name in named.items():
            if told.get((node, level)) != name:
                raise where.error(
                    "domains", f"does not put node `{node}` into {level} `{name}`, as the node itself says"
                )
    _check_tree(made, where)
    return topo.Fabric(tiers, made, wire.kind or "labels", tuple(wire.warnings or ()), wire.kept)


def _check_tree(domains: Sequence[topo.Domain], where: codec_errors.Where) -> None:
    members: dict[tuple[int, str], frozenset[str]] = {}
    placed: dict[tuple[int, str], str] = {}
    for position, domain in enumerate(domains):
        if (domain.level, domain.name) in members:
            raise where.error(f"domains[{position}].name", f"`{domain.name}` stands twice on its level")
        members[domain.level, domain.name] = frozenset(domain.nodes)
        for node in domain.nodes:
            first = placed.setdefault((domain.level, node), domain.name)
            if first != domain.name:
                raise where.error(f"domains[{position}].nodes", f"node `{node}` is in `{first}` already")
    for position, domain in enumerate(domains):
        if domain.parent is None:
            continue
        above = members.get((domain.level + 1, domain.parent))
        if above is None:
            raise where.error(f"domains[{position}].parent", f"there is no `{domain.parent}` one level up")
        if not above.issuperset(domain.nodes):
            raise where.error(f"domains[{position}].parent", f"`{domain.parent}` lacks nodes of `{domain.name}`")


def _levels(wire: FabricWire, where: codec_errors.Where) -> tuple[topo.Level, ...]:
    tiers = tuple(
        topo.Level(level.name, level.label, level.oversubscription, level.size) for level in wire.levels or ()
    )
    if len({tier.name for tier in tiers}) != len(tiers) or len(tiers) > chains.MAX_LEVELS:
        raise where.error("levels", f"must be distinct and at most {chains.MAX_LEVELS}")
    return tiers


def _domain(wire: DomainWire, index: Mapping[str, int], where: codec_errors.Where) -> topo.Domain:
    if wire.level not in index:
        raise where.error("level", f"there is no level `{wire.level}`{codec_errors.nearest(wire.level, index)}")
    return topo.Domain(wire.name, index[wire.level], where.nodes("nodes", wire.nodes), wire.parent, wire.line)
