"""How NVIDIA's best-effort allocator scores a pair of GPUs, and which links of a node it can see.

The score of a pair is that of its PCIe relation, plus 100 for each NVLink that leads straight from one GPU to the
other (go-gpuallocator, `gpuallocator/besteffort_policy.go` at 876e7b7):

    BOARD 60   PIX 50   PXB 40   PHB 30   NODE 20   SYS 10   unknown 0   + 100 x lanes, 1 to 18

An NVLink that ends at an NVSwitch is not seen at all (`internal/links/device.go`): on such machines the PCIe relations
alone decide. Nothing else counts: no NUMA memory, no CPUs, no NICs.
"""

from __future__ import annotations

import msgspec

from placer.placement import wiring
from placer.topology import links
from placer.topology import types as topo

PCIE_SCORE = {"BOARD": 60, "PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10}
"""By the word of the `nvidia-smi topo` legend; BOARD is two GPUs on one card, which that legend does not have."""

NVLINK_SCORE = 100
"""For each bonded link."""

MOST_LANES = 18
"""A pair with more bonded links than the allocator knows scores nothing for them."""

Scores = tuple[tuple[int, ...], ...]
"""Symmetric pair scores by GPU number, 0 on the diagonal."""


class View(msgspec.Struct, frozen=True):
    """What the allocator sees of a node. `gpus[p]` is the gres index of row and column p of `scores`."""

    gpus: tuple[int, ...]
    scores: Scores
    assumed: tuple[str, ...] = ()


def pair_score(relation: str | None, lanes: int) -> int:
    """Score of one pair; a relation that the allocator does not know, or None, counts 0."""
    seen = lanes if 0 < lanes <= MOST_LANES else 0
    return PCIE_SCORE.get(relation or "", 0) + NVLINK_SCORE * seen


def of_node(node: topo.NodeTopology) -> View:
    """The scores on a node.

    A matrix that prints NVLink hides the PCIe relation of that pair, and the allocator adds both. Then the node's PCIe
    switches tell it, else the NUMA nodes do; what had to be taken so is said in `assumed`.
    """
    n = len(node.gpus)
    pairs = links.gpu_pairs(node)
    switched = links.behind_switch(node)
    rows = [[0] * n for _ in range(n)]
    hidden = 0
    for i in range(n):
        for j in range(i + 1, n):
            link = pairs.get((i, j))
            relation: str | None = link.type.value if link is not None and link.type in PCIE_SCORE else None
            if relation is None:
                relation, sure = _relation(node, i, j)
                hidden += not sure
            direct = link is not None and link.type is topo.LinkType.NVLINK and not (switched[i] or switched[j])
            rows[i][j] = rows[j][i] = pair_score(relation, link.lanes if link is not None and direct else 0)
    assumed = (f"PCIe relation of {hidden} GPU pairs is not printed: taken from their NUMA nodes",) if hidden else ()
    return View(wiring.gres_indices(node), tuple(map(tuple, rows)), assumed)


def _relation(node: topo.NodeTopology, i: int, j: int) -> tuple[str | None, bool]:
    """PCIe relation of two GPUs without a printed one, and whether it is sure."""
    above = [_switches_above(node, node.gpus[k].id) for k in (i, j)]
    shared = [switch for switch in above[0] if switch in above[1]]
    if shared:
        return ("PIX" if above[0][0] == above[1][0] else "PXB"), True
    a, b = node.gpus[i].numa, node.gpus[j].numa
    if a is None or b is None or len(a) != 1 or len(b) != 1:
        return None, False
    return ("NODE", False) if a == b else ("SYS", True)


def _switches_above(node: topo.NodeTopology, gpu: str) -> list[str]:
    """The PCIe switches over a GPU, nearest first."""
    parent = {switch.id: switch.parent for switch in node.switches}
    at = next((switch.id for switch in node.switches if gpu in switch.devices), None)
    found: list[str] = []
    while at is not None and at not in found:
        found.append(at)
        at = parent.get(at)
    return found
