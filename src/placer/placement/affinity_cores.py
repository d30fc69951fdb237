"""What a NodeTopology tells about CPUs: the threads of each core, their NUMA nodes, which are near a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec

from placer import ranges
from placer.topology import types as topo


class CoreMap(msgspec.Struct, frozen=True):
    """Physical cores as tuples of OS CPU numbers, by ascending first thread. `note`: what was inferred or unknown."""

    cores: tuple[tuple[int, ...], ...] = ()
    note: str | None = None


class NearCpus(msgspec.Struct, frozen=True):
    """CPUs near a device. Not `certain`: only some of them are, nobody can say which."""

    cpus: frozenset[int]
    certain: bool


def cores_of(machine: topo.NodeTopology, extra: Iterable[int] = ()) -> CoreMap:
    """The physical cores of a node; `extra` CPUs that the topology does not name are cores of their own.

    Where the topology lists no cores, SMT siblings are inferred from split ranges: `0-51,104-155` is 52 cores whose
    second threads are 104 higher, as Linux numbers them. Where that does not show, each CPU counts as a core.
    """
    extra = tuple(extra)
    if machine.cores:
        known = {cpu for core in machine.cores for cpu in core}
        return CoreMap(_ordered([*machine.cores, *((cpu,) for cpu in extra if cpu not in known)]))
    sets = sorted({told for told in _told_sets(machine) if told})
    every = sorted({cpu for told in sets for cpu in told} | set(extra))
    if not every:
        return CoreMap()
    offset = sibling_offset(sets)
    if offset is None:
        return CoreMap(
            tuple((cpu,) for cpu in every), "which CPUs are threads of one core is not known: each counts as a core"
        )
    present = set(every)
    cores = [(cpu, cpu + offset) if cpu + offset in present else (cpu,) for cpu in every if cpu - offset not in present]
    return CoreMap(
        _ordered(cores), f"SMT siblings inferred from the split CPU ranges {ranges.format(sets[0])}: {offset} apart"
    )


def sibling_offset(sets: Iterable[tuple[int, ...]]) -> int | None:
    """The distance between the threads of a core, if every CPU set is two equal halves with one and the same distance.

    The halves are apart by more than the steps inside them, and all first halves lie below the distance: Linux numbers
    the first threads of all cores before the second ones.
    """
    offsets, highest = set(), -1
    for cpus in sets:
        half = len(cpus) // 2
        first, second = cpus[:half], cpus[half:]
        if len(cpus) % 2 or not half or {b - a for a, b in zip(first, second, strict=True)} != {second[0] - first[0]}:
            return None
        step = max((b - a for a, b in itertools.pairwise(first)), default=1)
        if second[0] - first[-1] <= step:
            return None
        offsets.add(second[0] - first[0])
        highest = max(highest, first[-1])
    if len(offsets) != 1 or highest >= min(offsets):
        return None
    return offsets.pop()


def _told_sets(machine: topo.NodeTopology) -> list[tuple[int, ...]]:
    own = [tuple(sorted(node.cpus)) for node in machine.numa_nodes if node.cpus]
    return own or [tuple(sorted(gpu.cpus)) for gpu in machine.gpus if gpu.cpus]


def _ordered(cores: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(sorted((tuple(sorted(core)) for core in cores if core), key=lambda core: core[0]))


def numa_of_cpus(machine: topo.NodeTopology) -> dict[int, int]:
    """OS CPU -> NUMA node, from the node's own list; else from GPUs that name one NUMA node and their CPUs."""
    found = {cpu: node.id for node in machine.numa_nodes for cpu in node.cpus or ()}
    if not found:
        told = [gpu for gpu in machine.gpus if gpu.numa is not None and len(gpu.numa) == 1 and gpu.cpus]
        for gpu in sorted(told, key=lambda gpu: -len(gpu.cpus or ())):  # the narrowest set speaks last
            found.update(dict.fromkeys(gpu.cpus or (), (gpu.numa or (0,))[0]))
    return found


def package_of_numa(machine: topo.NodeTopology) -> dict[int, int]:
    """NUMA node -> socket, where told."""
    return {node.id: node.package for node in machine.numa_nodes if node.package is not None}


def near_cpus(machine: topo.NodeTopology, gpu: topo.Gpu) -> NearCpus | None:
    """CPUs near a GPU: those that it names, else those of its NUMA node; None = unknown, which is never near.

    NUMA nodes without CPUs say nothing about CPUs. Several NUMA nodes with CPUs mean one of these.
    """
    if gpu.cpus:
        return NearCpus(frozenset(gpu.cpus), certain=True)
    if not gpu.numa:
        return None
    by_numa: dict[int, set[int]] = {}
    for cpu, numa in numa_of_cpus(machine).items():
        by_numa.setdefault(numa, set()).add(cpu)
    with_cpus = [numa for numa in gpu.numa if by_numa.get(numa)]
    if not with_cpus:
        return None
    listed = {node.id for node in machine.numa_nodes if node.cpus is not None}
    certain = len(with_cpus) == 1 and all(numa in listed or numa in with_cpus for numa in gpu.numa)
    return NearCpus(frozenset(cpu for numa in with_cpus for cpu in by_numa[numa]), certain)


def gpu_at(machine: topo.NodeTopology, index: int) -> topo.Gpu | None:
    """The GPU with this gres index; where the source gives no indices, the one at that position."""
    found = next((gpu for gpu in machine.gpus if gpu.index == index), None)
    if found is None and index < len(machine.gpus) and machine.gpus[index].index is None:
        found = machine.gpus[index]
    return found
