"""Slurm's switch trees and blocks: `topology.conf`, and what `scontrol show topology` prints, to a Fabric and back.

`scontrol show topology --json` prints the same text in 24.11, 25.11 and 26.05, so there is no JSON to read.

Both are lines of `Key=value`; `scontrol` adds `Level=`, the nodes of every switch above the leaves, and a line for each
aggregated block. `LinkSpeed=` has arbitrary units and no effect in Slurm (topology.conf(5)): it is checked, not used.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placer import errors, hostlist
from placer.slurm import _topology_lines as lines
from placer.slurm import topology_blocks
from placer.topology import fabric as fabrics
from placer.topology import switch_list
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
_CUT = "unset SLURM_TOPO_LEN; scontrol show topology"


def read(text: str, *, source: str) -> topo.Fabric:
    """The fabric of a `topology.conf` or of the output of `scontrol show topology`.

    Switches give the levels of `fabric.from_switches`. Blocks give `block`, and `aggregated<size>` for each further
    size of `BlockSizes=`: that many nodes together, from consecutive blocks in the order of the file, the last ones
    maybe fewer. Where a file has both, the switches count. No line at all, or Slurm's "No topology information
    available", is a Fabric without levels. Raises ParseError.
    """
    reader = _read(text, source)
    if reader.switches:
        made = fabrics.from_switches(reader.switches, source=source)
        ignored = (f"{source}: blocks are ignored, since there are switches",) if reader.blocks else ()
        return msgspec.structs.replace(made, warnings=(*made.warnings, *ignored))
    return _blocks(reader)


def switches(text: str, *, source: str) -> tuple[topo.Switch, ...]:
    """The switches as the text writes them, for checks. Raises ParseError."""
    return tuple(_read(text, source).switches)


def _read(text: str, source: str) -> _Reader:
    reader = _Reader(source)
    for line in lines.split(text):
        if line.text.strip().lower() != _NOTHING:
            reader.take(lines.fields(line, source))
    return reader


class _Reader:
    """What the lines so far define."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.switches: list[topo.Switch] = []
        self.blocks: list[topology_blocks.Block] = []
        self.aggregates: list[topology_blocks.Block] = []
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

    def block(self, by_key: dict[str, lines.Field], named: lines.Field) -> topology_blocks.Block:
        """The block or aggregated block that a line defines. Slurm names an aggregate by a list: `b[1-2]`."""
        name = self.name(named) if named.key == "blockname" else named.value
        line, column = named.place()
        size = self.number(by_key.get("blocksize"))
        return topology_blocks.Block(name, self.names(by_key.get("nodes")), size, line, column)

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
    sizes = _sizes(reader.sizes, reader.source) if reader.sizes is not None else []
    grouped = reader.aggregates or None
    return topology_blocks.fabric(reader.blocks, sizes, source=reader.source, grouped=grouped)


def _sizes(field: lines.Field, source: str) -> list[int]:
    words = field.value.split(",")
    if not all(word.isascii() and word.isdigit() and len(word) < 10 and int(word) for word in words):
        raise field.error("`blocksizes=` must be whole numbers with commas between, as in `8,16`", source)
    sizes = [int(word) for word in words]
    wrong = topology_blocks.wrong_size(sizes)
    if wrong is not None:
        raise field.error(wrong, source)
    return sizes


# --- writing


def write(fabric: topo.Fabric) -> str:
    """A `topology.conf` for Slurm's topology/tree, in the order of the fabric: leaves first, natural order of names.

    A domain that is repeated upwards is one switch. Slurm wants nodes on leaves alone: nodes right below a higher
    switch get a leaf of their own, `<switch>.nodes`. Names that Slurm could not read, or that two switches share, are
    changed (`b1/r1` -> `b1_r1`, `spine-a`). Raises InputError for a node name that Slurm could not read.
    """
    out = []
    for switch in switch_list.of(fabric, topology_blocks.spell):
        topology_blocks.check_nodes(switch.nodes)
        below = (
            f"Switches={hostlist.fold(switch.switches)}" if switch.switches else f"Nodes={hostlist.fold(switch.nodes)}"
        )
        out.append(f"SwitchName={switch.name} {below}\n")
    return "".join(out)


def write_blocks(fabric: topo.Fabric, *, level: int = 0, sizes: Sequence[int] | None = None) -> str:
    """A `topology.conf` for Slurm's topology/block: the domains of `level` as blocks; see `topology_blocks.plan`."""
    plan = topology_blocks.plan(fabric, level=level, sizes=sizes)
    out = [f"BlockName={block.name} Nodes={hostlist.fold(block.nodes)}\n" for block in plan.blocks]
    return "".join(out) + (f"BlockSizes={','.join(map(str, plan.sizes))}\n" if plan.sizes else "")
