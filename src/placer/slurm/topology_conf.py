"""Slurm's switch trees and blocks: `topology.conf`, and what `scontrol show topology` prints, to a Fabric and back.

Both are lines of `Key=value`; `scontrol` adds `Level=`, the nodes of every switch above the leaves, and a line for each
aggregated block. `LinkSpeed=` has arbitrary units and no effect in Slurm (topology.conf(5)): it is checked, not used.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import msgspec

from placer import errors, hostlist
from placer.slurm import _topology_lines as lines
from placer.topology import fabric as fabrics
from placer.topology import types as topo

MAX_NAMES = 1_000_000
"""Most node and switch names of one text, each counted as often as it is written; more is refused."""

_KEYS = {
    "switchname": {"switchname", "level", "linkspeed", "nodes", "switches"},
    "blockname": {"blockname", "blockindex", "nodes", "blocksize"},
    "aggregatedblock": {"aggregatedblock", "blockindex", "nodes", "blocksize"},
    "blocksizes": {"blocksizes"},
}
"""The key that says what a line defines, and the keys that the line may have."""

_NOTHING = "no topology information available"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_CUT = "unset SLURM_TOPO_LEN; scontrol show topology"


class _Block(msgspec.Struct, frozen=True):
    name: str
    nodes: tuple[str, ...]
    size: int | None
    field: lines.Field


def read(text: str, *, source: str) -> topo.Fabric:
    """The fabric of a `topology.conf` or of the output of `scontrol show topology`.

    Switches give the levels of `fabric.from_switches`. Blocks give `block`, and `aggregated<size>` for each further
    size of `BlockSizes=`: that many nodes together, from consecutive blocks in the order of the file, the last ones
    maybe fewer. Where a file has both, the switches count. No line at all, or Slurm's "No topology information
    available", is a Fabric without levels. Raises ParseError.
    """
    reader = _Reader(source)
    for line in lines.split(text):
        if line.text.strip().lower() != _NOTHING:
            reader.take(lines.fields(line, source))
    if reader.switches:
        made = fabrics.from_switches(reader.switches, source=source)
        ignored = (f"{source}: blocks are ignored, since there are switches",) if reader.blocks else ()
        return msgspec.structs.replace(made, warnings=(*made.warnings, *ignored))
    return _blocks(reader)


class _Reader:
    """What the lines so far define."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.switches: list[topo.Switch] = []
        self.blocks: list[_Block] = []
        self.aggregates: list[_Block] = []
        self.sizes: lines.Field | None = None
        self.names_left = MAX_NAMES

    def take(self, fields: list[lines.Field]) -> None:
        """Adds what one line defines."""
        by_key: dict[str, lines.Field] = {}
        kind = next((field.key for field in fields if field.key in _KEYS), "")
        for field in fields:
            if field.key not in _KEYS.get(kind, ()):
                known = "SwitchName=, Switches=, Nodes=, LinkSpeed=, BlockName=, BlockSizes="
                raise field.error(f"`{field.key}=` has no place here; known are {known}", self.source)
            if by_key.setdefault(field.key, field) is not field:
                raise field.error(f"`{field.key}=` is twice in a line", self.source)
        if kind == "switchname":
            self.switches.append(self.switch(by_key))
        elif kind == "blockname":
            self.blocks.append(self.block(by_key, by_key[kind]))
        elif kind == "aggregatedblock":
            self.aggregates.append(self.block(by_key, by_key[kind]))
        elif kind == "blocksizes":
            self.sizes = by_key[kind]

    def switch(self, by_key: dict[str, lines.Field]) -> topo.Switch:
        """The switch that a line defines."""
        return topo.Switch(
            name=self.name(by_key["switchname"]),
            nodes=self.names(by_key.get("nodes")),
            switches=self.names(by_key.get("switches")),
            link_speed=self.number(by_key.get("linkspeed")),
            level=self.number(by_key.get("level")),
            line=by_key["switchname"].place()[0],
        )

    def block(self, by_key: dict[str, lines.Field], named: lines.Field) -> _Block:
        """The block or aggregated block that a line defines. Slurm names an aggregate by a list: `b[1-2]`."""
        name = self.name(named) if named.key == "blockname" else named.value
        return _Block(name, self.names(by_key.get("nodes")), self.number(by_key.get("blocksize")), named)

    def name(self, field: lines.Field) -> str:
        """A name that stands alone."""
        if not field.value or not field.value.isprintable() or any(c in field.value for c in "[],"):
            raise field.error(f"`{field.key}=` needs one name", self.source)
        return field.value

    def number(self, field: lines.Field | None) -> int | None:
        """A whole number that a line may lack."""
        if field is None:
            return None
        if not (field.value.isascii() and field.value.isdigit() and len(field.value) < 10):
            raise field.error(f"`{field.key}=` must be a whole number", self.source)
        return int(field.value)

    def names(self, field: lines.Field | None) -> tuple[str, ...]:
        """A node list that a line may lack."""
        if field is None:
            return ()
        try:
            names = hostlist.expand(field.value, source=self.source, limit=min(self.names_left, 200_000))
        except errors.ParseError as error:
            said = error.message.removeprefix(f"{errors.printable(self.source)}:{error.line}:{error.column}: ")
            hint = _CUT if "not closed" in said else None
            raise field.error(said, self.source, at=error.column - 1, excerpt="", hint=hint) from None
        self.names_left -= len(names)
        return names


# --- blocks


def _blocks(reader: _Reader) -> topo.Fabric:
    """Blocks as what each node says of itself: its block, and each aggregate that the block is in."""
    by_name: dict[str, _Block] = {}
    warnings = []
    domains: dict[str, dict[str, str]] = {}
    for block in reader.blocks:
        if block.name in by_name:
            raise block.field.error(f"block `{block.name}` is defined twice", reader.source)
        by_name[block.name] = block
        repeated = [node for node in block.nodes if node in domains]
        domains.update({node: {"block": block.name} for node in block.nodes if node not in domains})
        if repeated:
            where = f"{reader.source}:{block.field.place()[0]}: block `{block.name}`"
            warnings.append(f"{where} repeats nodes of other blocks, which keep them: {hostlist.fold(repeated)}")
    aggregates = reader.aggregates or _aggregates(reader)
    sizes = sorted({block.size for block in aggregates if block.size is not None})
    for aggregate in aggregates:
        for node in aggregate.nodes:
            if aggregate.size is not None and node in domains:
                domains[node].setdefault(f"aggregated{aggregate.size}", aggregate.name)
    levels = ["block", *(f"aggregated{size}" for size in sizes)]
    made = fabrics.from_node_domains(levels, domains, source=reader.source, kind="block")
    lined = [
        msgspec.structs.replace(d, line=by_name[d.name].field.place()[0]) if d.level == 0 and d.name in by_name else d
        for d in made.domains
    ]
    shown = (errors.printable(text, 300) for text in warnings)
    return msgspec.structs.replace(made, domains=tuple(lined), warnings=(*shown, *made.warnings))


def _aggregates(reader: _Reader) -> list[_Block]:
    """`BlockSizes=8,16,32`: two and four consecutive blocks make an aggregate of 16 and of 32 nodes."""
    if reader.sizes is None:
        return []
    base, *larger = _sizes(reader.sizes, reader.source)
    found = []
    for size in larger:
        many = size // base
        for start in range(0, len(reader.blocks), many):
            group = reader.blocks[start : start + many]
            name = hostlist.fold(block.name for block in group)
            found.append(_Block(name, tuple(node for block in group for node in block.nodes), size, reader.sizes))
    return found


def _sizes(field: lines.Field, source: str) -> list[int]:
    """Ascending; each a power of two times the first, as topology.conf(5) of 24.11 wants."""
    words = field.value.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 10 and int(word) for word in words):
        raise field.error("`blocksizes=` must be whole numbers with commas between, as in `8,16`", source)
    sizes = [int(word) for word in words]
    for below, size in itertools.pairwise(sizes):
        ratio, rest = divmod(size, sizes[0])
        if size <= below or rest or ratio & (ratio - 1):
            raise field.error(f"block size {size} must be above {below} and a power of two times {sizes[0]}", source)
    return sizes


# --- writing


def write(fabric: topo.Fabric) -> str:
    """A `topology.conf` for Slurm's topology/tree, in the order of the fabric: leaves first, natural order of names.

    A domain that is repeated upwards is one switch. Slurm wants nodes on leaves alone: nodes right below a higher
    switch get a leaf of their own, `<switch>.nodes`. Names that Slurm could not read, or that two switches share, are
    changed (`b1/r1` -> `b1_r1`, `spine-a`). Raises InputError for a node name that Slurm could not read.
    """
    children = fabrics.children(fabric)
    names: dict[tuple[int, str], str] = {}
    taken: set[str] = set()
    out = []
    for domain in fabric.domains:
        below = children.get((domain.level, domain.name), ())
        if [child.name for child in below] == [domain.name] and below[0].nodes == domain.nodes:
            names[domain.level, domain.name] = names[below[0].level, domain.name]
            continue
        name = _claim(domain.name, fabric.levels[domain.level].name, taken)
        names[domain.level, domain.name] = name
        inner = [names[child.level, child.name] for child in below]
        direct = fabrics.direct_nodes(domain, below)
        if inner and direct:
            inner.append(_claim(f"{name}.nodes", "leaf", taken))
            out.append(f"SwitchName={inner[-1]} Nodes={_fold_nodes(direct)}")
        out.append(
            f"SwitchName={name} " + (f"Switches={hostlist.fold(inner)}" if inner else f"Nodes={_fold_nodes(direct)}")
        )
    return "".join(f"{line}\n" for line in out)


def _claim(name: str, level: str, taken: set[str]) -> str:
    """A switch name that Slurm can read and nobody has yet."""
    safe = _UNSAFE.sub("_", name) or level
    candidates = (safe, f"{_UNSAFE.sub('_', level)}-{safe}")
    found = next((c for c in candidates if c not in taken), None)
    number = 2
    while found is None:
        numbered = f"{candidates[1]}-{number}"
        found, number = (None if numbered in taken else numbered), number + 1
    taken.add(found)
    return found


def _fold_nodes(nodes: Sequence[str]) -> str:
    bad = next((node for node in nodes if _UNSAFE.search(node) or not node), None)
    if bad is not None:
        raise errors.InputError(f"`{errors.printable(bad)}` cannot be a node name in topology.conf")
    return hostlist.fold(nodes)
