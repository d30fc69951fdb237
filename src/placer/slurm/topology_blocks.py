"""Blocks of Slurm's topology/block, from whatever file they were read, to a Fabric and back.

A block is so many nodes that share a fast network. Of `BlockSizes` B_0 < B_1 < … each B_k is a power of two times B_0:
B_k / B_0 consecutive blocks, in the order of the file, make an aggregated block (topology.conf(5) of 24.11).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import msgspec

from placer import errors, hostlist
from placer.topology import fabric as fabrics
from placer.topology import types as topo

UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
"""What a name in Slurm's topology files cannot hold."""


class Block(msgspec.Struct, frozen=True):
    """A block as a file writes it. `size` is what `scontrol` prints as its size."""

    name: str
    nodes: tuple[str, ...]
    size: int | None = None
    line: int = 1
    column: int = 1


class Plan(msgspec.Struct, frozen=True):
    """Blocks in the order to be written, and `BlockSizes`."""

    blocks: tuple[Block, ...]
    sizes: tuple[int, ...]


def wrong_size(sizes: Sequence[int]) -> str | None:
    """What is wrong with `BlockSizes`, in words; None when nothing is."""
    for below, size in itertools.pairwise(sizes):
        ratio, rest = divmod(size, sizes[0])
        if size <= below or rest or ratio & (ratio - 1):
            return f"block size {size} must be above {below} and a power of two times {sizes[0]}"
    return None


def aggregates(blocks: Sequence[Block], sizes: Sequence[int]) -> list[Block]:
    """The aggregated blocks of each size above the first; the last of a size may have fewer blocks."""
    found = []
    for size in sizes[1:]:
        many = size // sizes[0]
        for start in range(0, len(blocks), many):
            group = blocks[start : start + many]
            name = hostlist.fold(block.name for block in group)
            found.append(Block(name, tuple(node for block in group for node in block.nodes), size))
    return found


def fabric(
    blocks: Sequence[Block], sizes: Sequence[int], *, source: str, grouped: Sequence[Block] | None = None
) -> topo.Fabric:
    """Levels `block` and `aggregated<size>`; `grouped` are aggregates that were read instead of counted.

    A node of two blocks stays with the first, and that is said. Raises ParseError for a block that is defined twice.
    """
    lines: dict[str, int] = {}
    warnings = []
    domains: dict[str, dict[str, str]] = {}
    for block in blocks:
        if block.name in lines:
            message = f"block `{errors.printable(block.name)}` is defined twice, first in line {lines[block.name]}"
            raise errors.ParseError(message, source=source, line=block.line, column=block.column, excerpt=block.name)
        lines[block.name] = block.line
        repeated = [node for node in block.nodes if node in domains]
        domains.update({node: {"block": block.name} for node in block.nodes if node not in domains})
        if repeated:
            where = f"{source}:{block.line}: block `{block.name}`"
            warnings.append(f"{where} repeats nodes of other blocks, which keep them: {hostlist.fold(repeated)}")
    above = aggregates(blocks, sizes) if grouped is None else grouped
    for group in above:
        for node in group.nodes:
            if group.size is not None and node in domains:
                domains[node].setdefault(f"aggregated{group.size}", group.name)
    larger = sorted({group.size for group in above if group.size is not None})
    base = sizes[0] if sizes else next((block.size for block in blocks if block.size is not None), None)
    size_of = {"block": base, **{f"aggregated{size}": size for size in larger}}
    made = fabrics.from_node_domains(list(size_of), domains, source=source, kind="block")
    lined = tuple(
        msgspec.structs.replace(d, line=lines[d.name]) if d.level == 0 and d.name in lines else d for d in made.domains
    )
    shown = tuple(errors.printable(text, 300) for text in warnings)
    tiers = tuple(msgspec.structs.replace(level, size=size_of[level.name]) for level in made.levels)
    return msgspec.structs.replace(made, levels=tiers, domains=lined, warnings=(*shown, *made.warnings))


def plan(made: topo.Fabric, *, level: int = 0, sizes: Sequence[int] | None = None) -> Plan:
    """The domains of one level as blocks; nodes that are in none of them are left out.

    Without `sizes`, B_0 is what the level says, else the size of its smallest domain, and a level above adds its size
    where all of its domains (but the last, which may have fewer) hold the same power of two of blocks. Raises
    InputError for sizes that Slurm would not take, and for a node name that it could not read.
    """
    if sizes is not None and (not sizes or min(sizes) < 1 or wrong_size(sizes)):
        said = wrong_size(sizes) if sizes and min(sizes) > 0 else "block sizes must be above zero"
        raise errors.InputError(
            said or "block sizes are wrong", hint="placer topo export --to slurm-block --block-sizes 8,16"
        )
    if not made.levels:
        return Plan((), ())
    ordered = _ordered(made, level)
    taken: set[str] = set()
    blocks = tuple(Block(_claim(domain.name, taken), domain.nodes) for domain in ordered)
    for block in blocks:
        check_nodes(block.nodes)
    return Plan(blocks, tuple(sizes) if sizes is not None else _sizes(made, level, ordered))


def check_nodes(nodes: Sequence[str]) -> None:
    """Raises InputError for a node name that Slurm could not read."""
    bad = next((node for node in nodes if UNSAFE.search(node) or not node), None)
    if bad is not None:
        raise errors.InputError(f"`{errors.printable(bad)}` cannot be a node name in Slurm's topology files")


def spell(text: str) -> str:
    """A name without what Slurm could not read."""
    return UNSAFE.sub("_", text)


def _claim(name: str, taken: set[str]) -> str:
    safe = spell(name) or "block"
    found, number = safe, 1
    while found in taken:
        number += 1
        found = f"{safe}-{number}"
    taken.add(found)
    return found


def _ordered(made: topo.Fabric, level: int) -> list[topo.Domain]:
    """Domains of a level so that those below one parent stand together, and what is incomplete comes last."""
    children = fabrics.children(made)
    holds: dict[tuple[int, str], int] = {}
    for domain in made.domains:
        below = children.get((domain.level, domain.name), ())
        holds[domain.level, domain.name] = (
            1 if domain.level <= level else sum(holds[child.level, child.name] for child in below)
        )

    def order(domain: topo.Domain) -> tuple[int, tuple[str, str]]:
        return -holds[domain.level, domain.name], hostlist.natural_key(domain.name)

    found: list[topo.Domain] = []
    stack = sorted((d for d in made.domains if d.parent is None and d.level >= level), key=order, reverse=True)
    while stack:
        domain = stack.pop()
        if domain.level == level:
            found.append(domain)
        else:
            stack += sorted(children.get((domain.level, domain.name), ()), key=order, reverse=True)
    return found


def _sizes(made: topo.Fabric, level: int, ordered: Sequence[topo.Domain]) -> tuple[int, ...]:
    counts = _counts(made, level, ordered)
    told = made.levels[level].size
    if told is None and made.kind == "block":
        told = next((s // max(c) for at, c in counts.items() if (s := made.levels[at].size) is not None), None)
    base = told or min(len(domain.nodes) for domain in ordered)
    sizes = [base]
    for at, held in counts.items():
        own = made.levels[at].size
        if own is not None and own > sizes[-1] and wrong_size([*sizes, own]) is None:
            sizes.append(own)
        elif own is None and len(set(held[:-1] or held)) == 1 and held[-1] <= held[0]:
            size = base * held[0]
            if size > sizes[-1] and wrong_size([*sizes, size]) is None:
                sizes.append(size)
    return tuple(sizes)


def _counts(made: topo.Fabric, level: int, ordered: Sequence[topo.Domain]) -> dict[int, list[int]]:
    """For each level above: how many blocks each of its domains holds, in the order of the blocks."""
    parent = {(d.level, d.name): d.parent for d in made.domains}
    found: dict[int, list[int]] = {}
    names: list[str | None] = [domain.name for domain in ordered]
    for at in range(level + 1, len(made.levels)):
        names = [parent.get((at - 1, name)) if name is not None else None for name in names]
        if None in names:
            break
        found[at] = [len(list(group)) for _, group in itertools.groupby(names)]
    return found
