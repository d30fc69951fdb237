"""Slurm's `topology.yaml` (25.05 and later; where it is, `topology.conf` is ignored) to Fabrics and back.

    - topology: gpus
      cluster_default: true
      tree: {switches: [{switch: spine, children: leaf[1-2]}, {switch: leaf1, nodes: n[1-8]}, …]}
    - topology: racks
      block: {block_sizes: [18, 36], blocks: [{block: r1, nodes: m[1-18]}, …]}
    - topology: rest
      flat: true

Ring and torus3d are kept as they are written and written again; placer does not search in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec

from placer import errors, hostlist
from placer.slurm import topology_blocks
from placer.topology import fabric as fabrics
from placer.topology import switch_list
from placer.topology import types as topo
from placer.topology.fabrics import yaml_nodes

KINDS = ("tree", "block", "flat", "ring", "torus3d")
_HINT = "topology.yaml is a list of `topology: NAME` with tree, block, flat, ring or torus3d"


class Named(msgspec.Struct, frozen=True):
    """One topology of a file. `is_default` is its `cluster_default`."""

    name: str
    fabric: topo.Fabric
    is_default: bool = False
    line: int = 1


def read(text: str, *, source: str, name: str | None = None) -> topo.Fabric:
    """One fabric of a `topology.yaml`: the one called `name`, else the first with `cluster_default`, else the first.

    The others are named in `warnings`. Raises ParseError; RequestError for a name that is not there.
    """
    found = read_all(text, source=source)
    if name is not None:
        chosen = next((entry for entry in found if entry.name == name), None)
        if chosen is None:
            known = ", ".join(entry.name for entry in found)
            message = f"no topology `{errors.printable(name)}` in {errors.printable(source)}; there are {known}"
            raise errors.RequestError(message, hint=f"placer topo fabric --topology {found[0].name} {source}")
    else:
        chosen = next((entry for entry in found if entry.is_default), found[0])
    others = [entry.name for entry in found if entry is not chosen]
    if not others:
        return chosen.fabric
    said = errors.printable(f"{source}: topology `{chosen.name}` is read; others are {', '.join(others)}", 300)
    return msgspec.structs.replace(chosen.fabric, warnings=(said, *chosen.fabric.warnings))


def read_all(text: str, *, source: str) -> tuple[Named, ...]:
    """Every topology of a `topology.yaml`, in the order of the file. Raises ParseError."""
    documents = yaml_nodes.load(text, source=source)
    if not documents:
        raise errors.ParseError("the text is empty", source=source, hint=_HINT)
    reader = yaml_nodes.Reader(source)
    found: dict[str, Named] = {}
    for item in reader.items(documents[0], "topology.yaml"):
        entry = _topology(reader, reader.mapping(item, "a topology"))
        if entry.name in found:
            raise reader.error(item, f"topology `{errors.printable(entry.name)}` is defined twice")
        found[entry.name] = entry
    if not found:
        raise errors.ParseError("no topology in the list", source=source, hint=_HINT)
    return tuple(found.values())


def switches(text: str, *, source: str) -> tuple[topo.Switch, ...]:
    """The switches of the default tree as the file writes them, for checks. Raises ParseError."""
    documents = yaml_nodes.load(text, source=source)
    reader = yaml_nodes.Reader(source)
    trees = []
    for item in reader.items(documents[0], "topology.yaml") if documents else ():
        table = reader.mapping(item, "a topology")
        if "tree" in table.items:
            is_default = "cluster_default" in table.items and _truth(reader, table.items["cluster_default"])
            trees.append((is_default, table.items["tree"]))
    chosen = next((tree for is_default, tree in trees if is_default), trees[0][1] if trees else None)
    return () if chosen is None else tuple(_switches(reader, reader.mapping(chosen, "`tree`")))


def _topology(reader: yaml_nodes.Reader, table: yaml_nodes.Table) -> Named:
    if "topology" not in table.items:
        raise reader.error(table, "a topology needs `topology: NAME`")
    name = reader.text(table.items["topology"], "`topology`")
    kinds = [key for key in table.items if key in KINDS]
    unknown = next((key for key in table.items if key not in (*KINDS, "topology", "cluster_default")), None)
    if unknown is not None:
        raise reader.error(table.keys[unknown], f"`{errors.printable(unknown)}` has no place in a topology")
    if len(kinds) != 1:
        raise reader.error(table, f"a topology needs one of {', '.join(KINDS)}")
    body = table.items[kinds[0]]
    is_default = "cluster_default" in table.items and _truth(reader, table.items["cluster_default"])
    return Named(name, _READERS[kinds[0]](reader, body), is_default, table.line)


def _truth(reader: yaml_nodes.Reader, value: yaml_nodes.Value) -> bool:
    word = reader.text(value, "this").lower()
    if word not in ("true", "false", "yes", "no", "on", "off"):
        raise reader.error(value, "must be true or false")
    return word in ("true", "yes", "on")


def _tree(reader: yaml_nodes.Reader, body: yaml_nodes.Value) -> topo.Fabric:
    found = _switches(reader, reader.mapping(body, "`tree`"))
    return fabrics.from_switches(found, source=reader.source)


def _switches(reader: yaml_nodes.Reader, table: yaml_nodes.Table) -> list[topo.Switch]:
    found = []
    for item in reader.items(table.items.get("switches"), "`switches`"):
        entry = reader.mapping(item, "a switch")
        if "switch" not in entry.items:
            raise reader.error(entry, "a switch needs `switch: NAME`")
        name = reader.text(entry.items["switch"], "`switch`")
        nodes = reader.hosts(entry.items.get("nodes"), "`nodes`")
        found.append(topo.Switch(name, nodes, reader.hosts(entry.items.get("children"), "`children`"), line=entry.line))
    return found


def _block(reader: yaml_nodes.Reader, body: yaml_nodes.Value) -> topo.Fabric:
    table = reader.mapping(body, "`block`")
    sizes = [reader.number(item, "a block size") for item in _listed(reader, table.items.get("block_sizes"))]
    wrong = topology_blocks.wrong_size(sizes)
    if wrong is not None:
        raise reader.error(table.items["block_sizes"], wrong)
    blocks = []
    for item in reader.items(table.items.get("blocks"), "`blocks`"):
        entry = reader.mapping(item, "a block")
        if "block" not in entry.items:
            raise reader.error(entry, "a block needs `block: NAME`")
        name = reader.text(entry.items["block"], "`block`")
        nodes = reader.hosts(entry.items.get("nodes"), "`nodes`")
        blocks.append(topology_blocks.Block(name, nodes, line=entry.line, column=entry.column))
    return topology_blocks.fabric(blocks, sizes, source=reader.source)


def _listed(reader: yaml_nodes.Reader, value: yaml_nodes.Value | None) -> Sequence[yaml_nodes.Value]:
    """A list, or one value that stands for a list of one."""
    if isinstance(value, yaml_nodes.Word) and value.text:
        return (value,)
    return reader.items(value, "`block_sizes`")


def _flat(reader: yaml_nodes.Reader, body: yaml_nodes.Value) -> topo.Fabric:
    if not _truth(reader, body):
        raise reader.error(body, "`flat` must be true")
    return topo.Fabric(kind="flat")


def _kept(kind: str) -> Callable[[yaml_nodes.Reader, yaml_nodes.Value], topo.Fabric]:
    def keep(reader: yaml_nodes.Reader, body: yaml_nodes.Value) -> topo.Fabric:
        said = f"{reader.source}:{body.line}: {kind} is kept, but placement takes every node as equally far"
        kept = json.dumps(_plain(body), ensure_ascii=False)
        return topo.Fabric(kind=kind, kept=kept, warnings=(errors.printable(said, 300),))

    return keep


def _plain(value: yaml_nodes.Value) -> object:
    """Texts, lists and mappings. The depth is bounded by `yaml_nodes.MAX_DEPTH`."""
    if isinstance(value, yaml_nodes.Word):
        return value.text
    if isinstance(value, yaml_nodes.Items):
        return [_plain(item) for item in value.items]
    return {key: _plain(item) for key, item in value.items.items()}


_READERS: dict[str, Callable[[yaml_nodes.Reader, yaml_nodes.Value], topo.Fabric]] = {
    "tree": _tree,
    "block": _block,
    "flat": _flat,
    "ring": _kept("ring"),
    "torus3d": _kept("torus3d"),
}


# --- writing


def write(topologies: Sequence[Named]) -> str:
    """A `topology.yaml`. A fabric of kind `block` is written as blocks, one of no levels as flat, others as a tree.

    Raises InputError for names that Slurm could not read.
    """
    out = ["---"]
    for entry in topologies:
        name = _quoted(topology_blocks.spell(entry.name) or "default")
        out += [f"- topology: {name}", f"  cluster_default: {'true' if entry.is_default else 'false'}"]
        out += _body(entry.fabric)
    return "\n".join(out) + "\n"


def write_one(fabric: topo.Fabric, *, name: str = "default") -> str:
    """A `topology.yaml` of one topology, the cluster's default."""
    return write([Named(name, fabric, is_default=True)])


def _body(fabric: topo.Fabric) -> list[str]:
    if fabric.kept is not None:
        return [f"  {fabric.kind}:", *_nested(json.loads(fabric.kept), "    ")]
    if not fabric.levels:
        return ["  flat: true"]
    if fabric.kind == "block":
        plan = topology_blocks.plan(fabric)
        sizes = [f"    - {size}" for size in plan.sizes]
        blocks = [_entry("block", block.name, "nodes", block.nodes) for block in plan.blocks]
        return ["  block:", "    block_sizes:", *sizes, "    blocks:", *(line for pair in blocks for line in pair)]
    found = switch_list.of(fabric, topology_blocks.spell)
    for switch in found:
        topology_blocks.check_nodes(switch.nodes)
    entries = [_entry("switch", s.name, "children" if s.switches else "nodes", s.switches or s.nodes) for s in found]
    return ["  tree:", "    switches:", *(line for pair in entries for line in pair)]


def _entry(key: str, name: str, inner: str, names: Sequence[str]) -> tuple[str, str]:
    return f"    - {key}: {_quoted(name)}", f"      {inner}: {_quoted(hostlist.fold(names))}"


def _nested(value: object, indent: str) -> list[str]:
    """Kept values as YAML in flow style inside block style; every text in quotes but numbers."""
    if isinstance(value, dict):
        return [f"{indent}{_quoted(key)}: {_flow(inner)}" for key, inner in value.items()] or [f"{indent}{{}}"]
    return [f"{indent}{_flow(value)}"]


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(inner) for inner in value) + "]"
    text = str(value)
    return text if text.isascii() and text.isdigit() and not text.startswith("0") else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
