"""Drawings as SVG files: a node, a fabric. They stand alone: no script, no font, no reference to anything outside."""

from __future__ import annotations

from collections.abc import Collection

from placer.report import fabric_walk, node_layout, svg_fabric, svg_node
from placer.topology import types as topo


def node(
    topology: topo.NodeTopology, *, free: Collection[int] | None = None, chosen: Collection[int] | None = None
) -> str:
    """The inside of a node: GPUs, NUMA nodes, PCIe switches, NICs, and direct links by their width.

    `free` and `chosen` are gres indices; without `free` no GPU is called free or used.
    """
    return svg_node.draw(topology, node_layout.of(topology, len(topology.gpus)), free, chosen)


def fabric(fabric: topo.Fabric, rows: fabric_walk.Rows | None = None, chosen: Collection[str] = ()) -> str:
    """The domains of a fabric and the nodes in them; `rows` tells (free GPUs, GPUs) of each node.

    Without `rows` the nodes of a domain are folded into one row. So are nodes that are alike, where there are many.
    """
    roots = fabric_walk.walk(fabric, rows or {}, chosen, fold=rows is None)
    if svg_fabric.rows_of(roots) > svg_fabric.MOST_ROWS:
        roots = fabric_walk.walk(fabric, rows or {}, chosen, fold=True)
    levels = tuple(level.name for level in fabric.levels)
    return svg_fabric.draw(roots, levels, with_gpus=bool(rows))
