"""Kubernetes objects as YAML or JSON -> a fabric: Nodes with labels, Kueue's and KAI's Topology, Volcano's HyperNodes.

Of a text with HyperNodes they are the tree. Else the Nodes' labels count: those that a Topology names, or every dialect
of `labels`. A Topology without Nodes gives levels and no domains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from placer import errors, hostlist
from placer.topology import fabric as fabrics
from placer.topology import labels as labelled
from placer.topology import types as topo
from placer.topology.fabrics import yaml_nodes

KINDS = frozenset({"Node", "NodeList", "List", "Topology", "TopologyList", "HyperNode", "HyperNodeList"})
_JSON_AT = re.compile(r"(.*?)(?: \(byte (\d+)\))?(?: - at `.*`)?\Z", re.DOTALL)
_HINT = "kubectl get nodes -o json"


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _Selector(msgspec.Struct, frozen=True):
    exact: str | None = None
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct, frozen=True):
    """What is read of an object, and its line."""

    kind: str
    name: str
    line: int | None = None
    labels: Mapping[str, str] = {}
    levels: tuple[str, ...] = ()  # of a Topology, broadest first
    tier: int = 0
    tier_name: str | None = None
    members: tuple[tuple[str, _Selector], ...] = ()  # (Node or HyperNode, which)


def recognises(text: str) -> bool:
    """Whether a text looks like Kubernetes objects of these kinds."""
    head = text[:4000]
    kind = re.search(r'^\s*[{,]?\s*-?\s*"?kind"?\s*:\s*"?([A-Za-z]+)', head, re.MULTILINE)
    kinds = re.findall(r'"?kind"?\s*:\s*"?([A-Za-z]+)', head)
    return kind is not None and bool(KINDS & set(kinds)) and "apiVersion" in head and "placer/v1" not in head


def read(texts: Sequence[tuple[str, str]], *, keys: Sequence[str] | None = None) -> topo.Fabric:
    """The fabric of one or several texts, each with the source it came from. `keys`: labels to read, closest first.

    Raises ParseError.
    """
    objects = [entry for text, source in texts for entry in _objects(text, source)]
    source = ", ".join(source for _, source in texts)
    hyper = [entry for entry in objects if entry.kind == "HyperNode"]
    nodes = {entry.name: entry.labels for entry in objects if entry.kind == "Node"}
    if hyper:
        return _tree(hyper, nodes, source)
    topologies = [entry for entry in objects if entry.kind == "Topology"]
    if keys is None and topologies:
        keys = [key for key in reversed(topologies[0].levels) if key != labelled.HOSTNAME]
    if not nodes and keys:
        tiers = tuple(topo.Level(key.rpartition("/")[2] or key, key) for key in keys)
        said = errors.printable(f"{source}: levels alone; give the nodes too: `kubectl get nodes -o yaml`", 300)
        return topo.Fabric(levels=tiers, kind="labels", warnings=(said,))
    made = labelled.fabric_of(nodes.items(), keys, source=source)
    others = [entry.name for entry in topologies[1:]]
    said = errors.printable(f"{source}: only the first Topology counts, not {', '.join(others)}", 300)
    return msgspec.structs.replace(made, warnings=((said,) if others else ()) + made.warnings)


def switches(text: str, *, source: str) -> tuple[topo.Switch, ...]:
    """HyperNodes as switches, for checks; none where a text has no HyperNode. Raises ParseError."""
    objects = _objects(text, source)
    nodes = {entry.name: entry.labels for entry in objects if entry.kind == "Node"}
    return tuple(_switch(entry, nodes, []) for entry in objects if entry.kind == "HyperNode")


def _tree(hyper: Sequence[_Object], nodes: Mapping[str, Mapping[str, str]], source: str) -> topo.Fabric:
    warnings: list[str] = []
    made = fabrics.from_switches([_switch(entry, nodes, warnings) for entry in hyper], source=source)
    names = {entry.name: entry.tier_name for entry in hyper}
    tiers = []
    for at, level in enumerate(made.levels):
        told = {names.get(domain.name) for domain in fabrics.domains_of(made, at)} - {None}
        name = told.pop() if len(told) == 1 else None
        tiers.append(msgspec.structs.replace(level, name=name) if name else level)
    if len({tier.name for tier in tiers}) < len(tiers):
        tiers = list(made.levels)
    shown = tuple(errors.printable(f"{source}: {text}", 300) for text in warnings)
    return msgspec.structs.replace(made, levels=tuple(tiers), warnings=(*shown, *made.warnings))


def _switch(entry: _Object, nodes: Mapping[str, Mapping[str, str]], warnings: list[str]) -> topo.Switch:
    below: dict[str, None] = {}
    inner: dict[str, None] = {}
    for kind, selector in entry.members:
        if selector.exact is not None:
            (below if kind == "Node" else inner)[selector.exact] = None
        elif selector.labels is not None and kind == "Node":
            wanted = selector.labels.items()
            below |= {name: None for name, own in nodes.items() if wanted <= own.items()}
        else:
            warnings.append(f"HyperNode `{entry.name}` selects members by a pattern, which is not read")
    return topo.Switch(entry.name, hostlist.sort(below), tuple(inner), line=entry.line)


# --- objects


def _objects(text: str, source: str) -> list[_Object]:
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        found = list(_from_json(text, source))
    else:
        reader = yaml_nodes.Reader(source)
        found = [e for doc in yaml_nodes.load(text, source=source) for e in _from_yaml(doc, reader)]
    known = [entry for entry in found if entry.kind in KINDS and entry.name]
    if not known:
        raise errors.ParseError("no Node, Topology or HyperNode", source=source, hint=_HINT)
    return known


class _JsonObject(msgspec.Struct, frozen=True):
    kind: str = ""
    metadata: _Meta | None = None
    spec: msgspec.Raw | None = None
    items: list[msgspec.Raw] | None = None


def _from_json(text: str, source: str) -> Iterator[_Object]:
    """Lists of nodes are large: only what is needed of them is decoded. Other kinds go the way of YAML."""
    try:
        top = msgspec.json.decode(text, type=_JsonObject)
        items = [top] if top.items is None else [msgspec.json.decode(raw, type=_JsonObject) for raw in top.items]
        for item in items:
            kind = item.kind or top.kind.removesuffix("List")
            meta = item.metadata or _Meta()
            if kind == "Node":
                yield _Object("Node", _clean(meta.name, source), labels=meta.labels or {})
            elif kind in KINDS and item.spec is not None:
                body = {"kind": kind, "metadata": {"name": meta.name}, "spec": json.loads(bytes(item.spec))}
                plain = yaml_nodes.load(json.dumps(body), source=source)
                yield from _from_yaml(plain[0], yaml_nodes.Reader(source))
    except (RecursionError, UnicodeError):
        raise errors.ParseError("broken JSON: nested too deep or no Unicode", source=source, hint=_HINT) from None
    except msgspec.DecodeError as error:
        match = _JSON_AT.match(str(error))
        at = int(match[2]) if match and match[2] else 0
        before = text.encode(errors="replace")[:at]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        reason = errors.printable(match[1] if match else str(error))
        raise errors.ParseError(f"broken JSON: {reason}", source=source, line=line, column=column) from None


def _clean(name: str, source: str) -> str:
    if not name.isprintable():
        raise errors.ParseError("a node's name that cannot be printed", source=source, excerpt=name)
    return name


def _from_yaml(value: yaml_nodes.Value, reader: yaml_nodes.Reader) -> Iterator[_Object]:
    stack = [value]
    while stack:
        table = reader.mapping(stack.pop(), "an object")
        kind = reader.text(table.items["kind"], "`kind`") if "kind" in table.items else ""
        if kind.endswith("List") and kind in KINDS:
            stack += reversed(reader.items(table.items.get("items"), "`items`"))
        elif kind in KINDS:
            yield _object(kind, table, reader)


def _object(kind: str, table: yaml_nodes.Table, reader: yaml_nodes.Reader) -> _Object:
    meta = _table(table, "metadata", reader)
    if meta is None or "name" not in meta.items:
        raise reader.error(table, f"{kind} without `metadata.name`")
    name = reader.text(meta.items["name"], "`name`")
    if kind == "Node":
        return _Object(kind, name, table.line, labels=_labels(_table(meta, "labels", reader), reader))
    spec = _table(table, "spec", reader)
    if spec is None:
        raise reader.error(table, f"{kind} without `spec`")
    if kind == "Topology":
        levels = [reader.mapping(level, "a level") for level in reader.items(spec.items.get("levels"), "`levels`")]
        keys = [reader.text(level.items["nodeLabel"], "`nodeLabel`") for level in levels if "nodeLabel" in level.items]
        if len(set(keys)) != len(keys):
            raise reader.error(spec.items["levels"], "a label is named twice")
        return _Object(kind, name, table.line, levels=tuple(keys))
    tier = reader.number(spec.items["tier"], "`tier`") if "tier" in spec.items else 1
    tier_name = reader.text(spec.items["tierName"], "`tierName`") if "tierName" in spec.items else None
    members = tuple(_member(member, reader) for member in reader.items(spec.items.get("members"), "`members`"))
    return _Object(kind, name, table.line, tier=tier, tier_name=tier_name, members=members)


def _member(value: yaml_nodes.Value, reader: yaml_nodes.Reader) -> tuple[str, _Selector]:
    table = reader.mapping(value, "a member")
    kind = reader.text(table.items["type"], "`type`") if "type" in table.items else "Node"
    if kind not in ("Node", "HyperNode"):
        raise reader.error(table.items["type"], "`type` must be Node or HyperNode")
    selector = _table(table, "selector", reader)
    exact = _table(selector, "exactMatch", reader) if selector else None
    match = _table(selector, "labelMatch", reader) if selector else None
    if exact is not None and "name" in exact.items:
        return kind, _Selector(exact=reader.text(exact.items["name"], "`name`"))
    if match is not None:
        return kind, _Selector(labels=_labels(_table(match, "matchLabels", reader), reader))
    return kind, _Selector()


def _labels(table: yaml_nodes.Table | None, reader: yaml_nodes.Reader) -> dict[str, str]:
    found = {}
    for key, value in table.items.items() if table else ():
        if not isinstance(value, yaml_nodes.Word):
            raise reader.error(value, "a label's value must be text")
        found[key] = value.text
    return found


def _table(above: yaml_nodes.Table, key: str, reader: yaml_nodes.Reader) -> yaml_nodes.Table | None:
    value = above.items.get(key)
    if value is None or (isinstance(value, yaml_nodes.Word) and value.text in ("", "~", "null")):
        return None
    return reader.mapping(value, f"`{key}`")
