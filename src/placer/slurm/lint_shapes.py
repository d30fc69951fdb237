"""The kinds of nodes of a cluster, for the rules that compare a job with what nodes have."""

from __future__ import annotations

from placer.cluster import types as cluster
from placer.slurm import lint_types as types


def of(snapshot: cluster.ClusterSnapshot) -> tuple[types.NodeShape, ...]:
    """One shape for each kind of GPU node, named after its first node, in the order of the snapshot."""
    kinds: dict[tuple[object, ...], types.NodeShape] = {}
    for node in snapshot.nodes:
        if not node.gpus:
            continue
        kind = node.gpus[0].type
        key = (len(node.gpus), kind, node.cpus, node.memory_mib, node.partitions)
        kinds.setdefault(
            key, types.NodeShape(node.name, len(node.gpus), node.cpus, node.memory_mib, kind, node.partitions)
        )
    return tuple(kinds.values())
