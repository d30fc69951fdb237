"""Cluster models of NVIDIA's topograph: `switches` and `blocks` of nodes in one YAML file -> a fabric.

    switches:
      spine: {labels: {topology.kubernetes.io/zone: zone1}, switches: [leaf1]}
    blocks:
    - {switch: leaf1, nodes: ["n[01-18]"], annotations: {accelerator.topology.test/domain: nvl1}}

The accelerator domain and sub-domain of a block are levels of their own, where they nest.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from placer import errors
from placer.topology import fabric as fabrics
from placer.topology import nesting
from placer.topology import types as topo
from placer.topology.fabrics import yaml_nodes

_DOMAIN = "/domain"
_SUB_DOMAIN = "/sub-domain"
_HINT = "a model has `switches:` and `blocks:`, as in tests/models of topograph"


class _Model(msgspec.Struct, frozen=True):
    switches: tuple[topo.Switch, ...]
    accelerators: Mapping[str, Mapping[str, str]]  # level name -> node -> domain


def read(text: str, *, source: str) -> topo.Fabric:
    """The fabric of a cluster model: the switch tree, and NVLink domains where blocks name them. Raises ParseError."""
    model = _model(text, source)
    tree = fabrics.from_switches(model.switches, source=source)
    if not model.accelerators:
        return tree
    return _with_accelerators(tree, model.accelerators, source)


def switches(text: str, *, source: str) -> tuple[topo.Switch, ...]:
    """The switches as the model writes them, for checks. Raises ParseError."""
    return _model(text, source).switches


def _model(text: str, source: str) -> _Model:
    documents = yaml_nodes.load(text, source=source)
    if not documents:
        raise errors.ParseError("the text is empty", source=source, hint=_HINT)
    reader = yaml_nodes.Reader(source)
    top = reader.mapping(documents[0], "a cluster model")
    if not {"switches", "blocks"} & top.items.keys():
        raise errors.ParseError("no `switches:` or `blocks:`", source=source, line=top.line, hint=_HINT)
    found: dict[str, topo.Switch] = {}
    listed: dict[str, int] = {}
    accelerators: dict[str, dict[str, str]] = {}
    if "switches" in top.items:
        found.update(_switches(reader, top.items["switches"], listed))
    for block in reader.items(top.items.get("blocks"), "`blocks`"):
        _block(reader, reader.mapping(block, "a block"), found, accelerators)
    # a leaf without nodes is listed by its parent and stands nowhere else
    found |= {name: topo.Switch(name, line=line) for name, line in listed.items() if name not in found}
    return _Model(tuple(found.values()), accelerators)


def _switches(
    reader: yaml_nodes.Reader, value: yaml_nodes.Value, listed: dict[str, int]
) -> list[tuple[str, topo.Switch]]:
    """Name and switch of each entry; `listed` gets every child with the first line that names it."""
    if isinstance(value, yaml_nodes.Word) and value.text in ("", "~", "null"):
        return []
    table = reader.mapping(value, "`switches`")
    found = []
    for name, body in table.items.items():
        key = table.keys[name]
        reader.text(key, "the name of a switch")
        inner = reader.mapping(body, f"switch `{errors.printable(name)}`")
        children = reader.items(inner.items.get("switches"), "`switches`")
        below = tuple(reader.text(child, "the name of a switch") for child in children)
        for child, value in zip(below, children, strict=True):
            listed.setdefault(child, value.line)
        nodes = reader.hosts(inner.items.get("nodes"), "`nodes`")
        found.append((name, topo.Switch(name, nodes, below, line=key.line)))
    return found


def _block(
    reader: yaml_nodes.Reader,
    block: yaml_nodes.Table,
    found: dict[str, topo.Switch],
    accelerators: dict[str, dict[str, str]],
) -> None:
    """Adds the nodes of a block to its switch, and its accelerator domains."""
    if "switch" not in block.items:
        raise reader.error(block, "a block needs `switch`")
    name = reader.text(block.items["switch"], "`switch`")
    nodes = reader.hosts(block.items.get("nodes"), "`nodes`")
    before = found.get(name, topo.Switch(name, line=block.line))
    found[name] = msgspec.structs.replace(before, nodes=(*before.nodes, *nodes))
    if "annotations" not in block.items:
        return
    notes = reader.mapping(block.items["annotations"], "`annotations`")
    for key, value in notes.items.items():
        for end, level in ((_SUB_DOMAIN, "nvlink-sub-domain"), (_DOMAIN, "nvlink-domain")):
            if key.endswith(end):
                domain = reader.text(value, f"`{errors.printable(key)}`")
                accelerators.setdefault(level, {}).update(dict.fromkeys(nodes, domain))


def _with_accelerators(tree: topo.Fabric, accelerators: Mapping[str, Mapping[str, str]], source: str) -> topo.Fabric:
    """The tree with a level for each way in which accelerators group nodes; a way that is there already adds none."""
    names = [level.name for level in tree.levels]
    groups: list[nesting.Grouping] = [fabrics.domain_of_node(tree, at) for at in range(len(names))]
    warnings = list(tree.warnings)
    known: list[nesting.Grouping] = []
    for name in ("nvlink-domain", "nvlink-sub-domain"):
        of = accelerators.get(name)
        if of is None or any(nesting.same(of, other) for other in known):
            continue
        at = nesting.position(of, groups)
        if at is None:
            warnings.append(
                f"{errors.printable(source)}: {name} crosses the switches; each part below one counts alone"
            )
        groups.insert(at or 0, of)
        names.insert(at or 0, name)
        known.append(of)
    domains: dict[str, dict[str, str]] = {node: {} for node in fabrics.nodes_of(tree)}
    for name, of in zip(names, groups, strict=True):
        for node, domain in of.items():
            domains[node][name] = domain
    made = fabrics.from_node_domains(names, domains, source=source, kind=tree.kind)
    lines = {(tree.levels[d.level].name, d.name): d.line for d in tree.domains}
    lined = tuple(msgspec.structs.replace(d, line=lines.get((made.levels[d.level].name, d.name))) for d in made.domains)
    return msgspec.structs.replace(made, domains=lined, warnings=(*warnings, *made.warnings))
