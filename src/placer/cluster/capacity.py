"""What is free on every node, as masks and numbers.

Bit i of a GPU mask is gres index i. A node's free amounts are what it has, less what visible jobs hold, less what the
node itself reports in use beyond that (jobs that are hidden from us). `apply` and `release` return copies.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from placer import ranges
from placer.cluster import types

Ints = npt.NDArray[np.int64]

_LARGEST = (1 << 63) - 1
MASK_GPUS = 63
"""Masks are int64 in the searches; GPUs of a node beyond so many are left alone. The largest known nodes have 32."""


class FreeNode(msgspec.Struct, frozen=True, gc=False):  # in no reference cycle; there are very many
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


class Columns(msgspec.Struct, frozen=True, eq=False):
    """The free amounts of n nodes as arrays int64 [n], for questions that are asked of all nodes at once."""

    gpu_mask: Ints
    unplaced: Ints
    cpus: Ints
    memory_mib: Ints


class Classes(msgspec.Struct, frozen=True, eq=False):
    """Nodes that differ in their name, their use and their topology only form a class.

    `of` int64 [n] is each node's class, a position in `nodes`, which holds the first node of each class; `healthy`
    int64 [classes] its working GPUs.
    """

    of: Ints
    nodes: tuple[types.NodeState, ...]
    healthy: Ints


class Capacity(msgspec.Struct, frozen=True, dict=True):
    """Free amounts of every node of a snapshot, in the snapshot's node order."""

    nodes: tuple[FreeNode, ...]

    @functools.cached_property
    def columns(self) -> Columns:
        """The same amounts as arrays."""
        return Columns(*_amounts(self.nodes))

    @functools.cached_property
    def classes(self) -> Classes:
        """What does not change with use; copies share it."""
        return _classes([free.node for free in self.nodes])

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Node name -> position; of equal names the last. Copies share it."""
        return {free.node.name: position for position, free in enumerate(self.nodes)}

    def apply(self, allocations: Iterable[types.Allocation]) -> Capacity:
        """A copy in which the allocations are taken too. Nodes that are not there are passed over."""
        return self._changed(allocations, taking=True)

    def release(self, allocations: Iterable[types.Allocation]) -> Capacity:
        """A copy in which the allocations are given back; the inverse of `apply`."""
        return self._changed(allocations, taking=False)

    def _changed(self, allocations: Iterable[types.Allocation], *, taking: bool) -> Capacity:
        nodes = list(self.nodes)
        by_node: dict[int, list[types.Allocation]] = {}
        for allocation in allocations:
            position = self.positions.get(allocation.node)
            if position is not None:
                by_node.setdefault(position, []).append(allocation)
        classes = self.classes
        where = np.array(list(by_node), dtype=np.int64)
        healthy = classes.healthy[classes.of[where]].tolist()
        for (position, held), mask in zip(by_node.items(), healthy, strict=True):
            nodes[position] = _change(nodes[position], held, taking, mask)
        columns = [column.copy() for column in msgspec.structs.astuple(self.columns)]
        for column, amounts in zip(columns, _amounts([nodes[position] for position in by_node]), strict=True):
            column[where] = amounts
        copy = Capacity(tuple(nodes))
        vars(copy).update(classes=classes, positions=self.positions, columns=Columns(*columns))
        return copy


def _amounts(nodes: Sequence[FreeNode]) -> list[Ints]:
    """The columns of some nodes."""
    rows = [(free.gpu_mask, free.unplaced, free.cpus, free.memory_mib) for free in nodes]
    try:
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
    except OverflowError:  # absurd sums of what jobs hold
        bounded = [[max(-_LARGEST, min(_LARGEST, amount)) for amount in row] for row in rows]
        table = np.array(bounded, dtype=np.int64)
    return [np.ascontiguousarray(table[:, column]) for column in range(4)]


def _classes(nodes: Sequence[types.NodeState]) -> Classes:
    alike: dict[Hashable, int] = {}
    same = _Same()
    firsts: list[types.NodeState] = []
    of: list[int] = []
    for node in nodes:
        key = (
            same.number(node.gpus),
            same.number(node.partitions),
            same.number(node.features),
            node.cpus,
            node.memory_mib,
            node.condition,
        )
        number = alike.setdefault(key, len(firsts))
        if number == len(firsts):
            firsts.append(node)
        of.append(number)
    healthy = np.array([healthy_mask(node) for node in firsts], dtype=np.int64)
    return Classes(np.array(of, dtype=np.int64), tuple(firsts), healthy)


class _Same:
    """Numbers for equal values; an object that was seen before is not hashed again."""

    def __init__(self) -> None:
        self._by_object: dict[int, int] = {}
        self._by_value: dict[Hashable, int] = {}

    def number(self, value: Hashable) -> int:
        """Equal values get the same number. The caller keeps every value alive meanwhile."""
        known = self._by_object.get(id(value))
        if known is None:
            known = self._by_object[id(value)] = self._by_value.setdefault(value, len(self._by_value))
        return known


def _change(free: FreeNode, allocations: list[types.Allocation], taking: bool, healthy: int) -> FreeNode:
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
    return FreeNode(free.node, mask & healthy, max(0, unplaced), cpus, memory)


def healthy_mask(node: types.NodeState) -> int:
    """The GPUs of a node that work; at most the first `MASK_GPUS`."""
    return ranges.to_mask([gpu.index for gpu in node.gpus if gpu.healthy and gpu.index < MASK_GPUS])


def type_mask(node: types.NodeState, gpu_type: str | None) -> int:
    """The GPUs of a node that are of a type; all for None. Slurm compares type names without regard to case."""
    inside = [gpu for gpu in node.gpus if gpu.index < MASK_GPUS]
    if gpu_type is None:
        return ranges.to_mask([gpu.index for gpu in inside])
    wanted = gpu_type.casefold()
    return ranges.to_mask([gpu.index for gpu in inside if (gpu.type or "").casefold() == wanted])


def of(snapshot: types.ClusterSnapshot) -> Capacity:
    """The free amounts of a snapshot. Running, suspended and completing jobs hold what they were given."""
    held: dict[str, list[types.Allocation]] = {}
    for job in snapshot.jobs:
        for allocation in job.allocations:
            held.setdefault(allocation.node, []).append(allocation)
    classes = _classes(snapshot.nodes)
    healthy = classes.healthy[classes.of].tolist()
    free = Capacity(
        tuple(_free(node, held.get(node.name, ()), mask) for node, mask in zip(snapshot.nodes, healthy, strict=True))
    )
    vars(free).update(classes=classes)
    return free


def _free(node: types.NodeState, held: Sequence[types.Allocation], healthy: int) -> FreeNode:
    used = ranges.to_mask(node.gpus_used)
    visible_without_index = cpus = memory = 0
    for allocation in held:
        cpus += allocation.cpus
        memory += allocation.memory_mib
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
        gpu_mask=healthy & ~used,
        unplaced=unplaced,
        cpus=node.cpus - max(node.cpus_used, cpus),
        memory_mib=node.memory_mib - max(node.memory_used_mib, memory),
    )
