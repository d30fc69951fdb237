"""What is free on every node, as masks and numbers.

Bit i of a GPU mask is gres index i. A node's free amounts are what it has, less what visible jobs hold, less what the
node itself reports in use beyond that (jobs that are hidden from us). `apply` and `release` return copies.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from placer import ranges
from placer.cluster import types


class FreeNode(msgspec.Struct, frozen=True):
    """What one node has left.

    `gpu_mask` holds the indices that are surely free. Where a job's indices are not known, `unplaced` of the GPUs in
    the mask are taken all the same, nobody can say which.
    """

    node: types.NodeState
    gpu_mask: int
    unplaced: int
    cpus: int
    memory_mib: int

    @property
    def gpus(self) -> int:
        """Number of free GPUs."""
        return max(0, self.gpu_mask.bit_count() - self.unplaced)


class Capacity(msgspec.Struct, frozen=True):
    """Free amounts of every node of a snapshot, in the snapshot's node order."""

    nodes: tuple[FreeNode, ...]

    def apply(self, allocations: Iterable[types.Allocation]) -> Capacity:
        """A copy in which the allocations are taken too. Nodes that are not there are passed over."""
        return self._changed(allocations, taking=True)

    def release(self, allocations: Iterable[types.Allocation]) -> Capacity:
        """A copy in which the allocations are given back; the inverse of `apply`."""
        return self._changed(allocations, taking=False)

    def _changed(self, allocations: Iterable[types.Allocation], *, taking: bool) -> Capacity:
        by_node: dict[str, list[types.Allocation]] = {}
        for allocation in allocations:
            by_node.setdefault(allocation.node, []).append(allocation)
        return Capacity(
            tuple(
                _change(free, by_node[free.node.name], taking) if free.node.name in by_node else free
                for free in self.nodes
            )
        )


def _change(free: FreeNode, allocations: list[types.Allocation], taking: bool) -> FreeNode:
    sign = 1 if taking else -1
    mask, unplaced, cpus, memory = free.gpu_mask, free.unplaced, free.cpus, free.memory_mib
    for allocation in allocations:
        if allocation.gpus is None:
            unplaced += sign * allocation.gpu_count
        else:
            held = ranges.to_mask(allocation.gpus)
            mask = mask & ~held if taking else mask | held
        cpus -= sign * allocation.cpus
        memory -= sign * allocation.memory_mib
    return FreeNode(free.node, mask & healthy_mask(free.node), max(0, unplaced), cpus, memory)


def healthy_mask(node: types.NodeState) -> int:
    """The GPUs of a node that work."""
    return ranges.to_mask([gpu.index for gpu in node.gpus if gpu.healthy])


def type_mask(node: types.NodeState, gpu_type: str | None) -> int:
    """The GPUs of a node that are of a type; all for None. Slurm compares type names without regard to case."""
    if gpu_type is None:
        return ranges.to_mask([gpu.index for gpu in node.gpus])
    wanted = gpu_type.casefold()
    return ranges.to_mask([gpu.index for gpu in node.gpus if (gpu.type or "").casefold() == wanted])


def of(snapshot: types.ClusterSnapshot) -> Capacity:
    """The free amounts of a snapshot. Running, suspended and completing jobs hold what they were given."""
    held: dict[str, list[types.Allocation]] = {}
    for job in snapshot.jobs:
        for allocation in job.allocations:
            held.setdefault(allocation.node, []).append(allocation)
    return Capacity(tuple(_free(node, held.get(node.name, [])) for node in snapshot.nodes))


def _free(node: types.NodeState, held: list[types.Allocation]) -> FreeNode:
    used = ranges.to_mask(node.gpus_used)
    visible_without_index = 0
    for allocation in held:
        if allocation.gpus is None:
            visible_without_index += allocation.gpu_count
        else:
            used |= ranges.to_mask(allocation.gpus)
    # What the node reports beyond all known indices is taken as well, on unknown GPUs.
    unplaced = max(visible_without_index, node.gpus_used_count - used.bit_count(), 0)
    if node.gpus_used and node.gpus_used_count <= used.bit_count():
        unplaced = 0  # the node itself tells every index in use
    return FreeNode(
        node=node,
        gpu_mask=healthy_mask(node) & ~used,
        unplaced=unplaced,
        cpus=node.cpus - max(node.cpus_used, sum(a.cpus for a in held)),
        memory_mib=node.memory_mib - max(node.memory_used_mib, sum(a.memory_mib for a in held)),
    )
