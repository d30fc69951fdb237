"""What Slurm itself will give to a job, and whether that splits what could stay together.

The rules are `slurm_model`'s; a release that was not recorded is predicted by the recorded one before it. The job is
taken to be the next in line. GPUs are near the socket that their NUMA node lies on, since the snapshot does not tell
`Cores=` of gres.conf otherwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import msgspec

from placer import hostlist, ranges
from placer.cluster import types as cluster
from placer.placement import features
from placer.slurm_model import ask, predict, release
from placer.slurm_model import types as model
from placer.topology import types as topo

MOST_SETS = 20_000
"""GPU sets of one node that are compared; nodes with more are only asked how many sockets a set needs."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a release gives. `outcome` None = not predicted, `why` says for want of what."""

    release: str  # of the cluster
    recorded: bool  # whether its own choices were recorded, or those of the one before it
    outcome: model.Verdict | None
    why: str = ""
    nodes: tuple[model.NodeGrant, ...] = ()
    splits: tuple[str, ...] = ()  # in words: GPU sets that are needlessly far apart
    avoid: str | None = None  # options that avoid the splits, by the same rules


class _World(msgspec.Struct, frozen=True):
    """The nodes that may serve the job."""

    machines: tuple[model.Machine, ...]
    loads: tuple[model.NodeLoad, ...]
    fabric: topo.Fabric
    memory_mib: int  # of a job that names none


def given(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, *, tasks_said: bool | None = None) -> Given:
    """Predict what the snapshot's Slurm gives to a request, with its splits and the option that avoids them.

    `tasks_said`: whether -n was given (see `ask.build`). Raises ParseError for a node list or a feature expression
    that cannot be read.
    """
    version = snapshot.source.version
    world = _world(snapshot, request)
    if isinstance(world, str):
        return Given(release=version, recorded=release.is_recorded(version), outcome=None, why=world)
    which = release.of(version)
    choice = _choose(world, request, which, tasks_said)
    splits = _splits(world, request, choice)
    avoid = next(_better(world, request, which, tasks_said, choice, len(splits)), None) if splits else None
    return Given(
        release=version,
        recorded=release.is_recorded(version),
        outcome=choice.verdict,
        why=choice.why,
        nodes=choice.nodes,
        splits=splits,
        avoid=avoid,
    )


def _choose(
    world: _World, request: cluster.JobRequest, which: release.Release, tasks_said: bool | None
) -> model.Choice:
    asked = ask.build(request, which, default_memory_mib=world.memory_mib, tasks_said=tasks_said)
    return predict.predict(world.machines, world.loads, world.fabric, asked)


# --- the snapshot as the model takes it


def _world(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> _World | str:
    """The nodes of the job's partition, or in words what the snapshot does not tell."""
    partition = _partition(snapshot, request)
    excluded = frozenset(hostlist.expand(request.exclude)) if request.exclude else frozenset()
    variants = features.parse(request.constraint)
    if request.reservation or len(variants) > 1 or variants[0].at_least:
        return "reservations, and constraints with counts or alternatives, are not predicted"
    if request.memory_per_cpu_mib or request.memory_per_gpu_mib:
        return "memory per CPU or GPU is not predicted"
    wiring = dict(zip(snapshot.topology.nodes, snapshot.topology.machine_of, strict=True))
    whole_memory = request.whole_memory or _takes_all_memory(request, partition)
    held: dict[str, list[cluster.Allocation]] = {}
    for allocation in (allocation for job in snapshot.jobs for allocation in job.allocations):
        held.setdefault(allocation.node, []).append(allocation)
    machines: list[model.Machine] = []
    loads: list[model.NodeLoad] = []
    for node in snapshot.nodes:
        inside = partition is None or partition.name in node.partitions
        if not inside or node.condition is not cluster.NodeCondition.UP or node.name in excluded:
            continue
        if not variants[0].every(frozenset(node.features)) or (whole_memory and node.memory_used_mib):
            continue
        load = _load(node, held.get(node.name, ()))
        if node.sockets is None or node.cores_per_socket is None or load is None:
            return f"which cores of {node.name} are in use is not known"
        place = wiring.get(node.name, -1)
        machines.append(_machine(node, snapshot.topology.machines[place] if place >= 0 else None))
        loads.append(load)
    default = (partition.default_memory_per_node_mib if partition is not None else None) or 0
    return _World(tuple(machines), tuple(loads), snapshot.topology.fabric, 0 if whole_memory else default)


def _partition(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> cluster.Partition | None:
    """The first partition that is asked for, else the default one."""
    name = (request.partition or "").partition(",")[0].strip()
    named = (p for p in snapshot.partitions if (p.name == name if name else p.default))
    return next(named, None)


def _takes_all_memory(request: cluster.JobRequest, partition: cluster.Partition | None) -> bool:
    return partition is not None and partition.default_whole_memory and request.memory_per_node_mib is None


def _load(node: cluster.NodeState, held: Sequence[cluster.Allocation]) -> model.NodeLoad | None:
    """What is held on a node; None where not every core in use has a number."""
    threads = node.threads_per_core or 1
    if any((a.cpus and a.cpu_ids is None) or a.gpus is None for a in held):
        return None
    cores = frozenset(cpu // threads for a in held for cpu in a.cpu_ids or ())
    if len(cores) * threads < node.cpus_used:
        return None
    broken = {gpu.index for gpu in node.gpus if not gpu.healthy}
    gpus = broken.union(node.gpus_used, *(a.gpus or () for a in held))
    return model.NodeLoad(frozenset(gpus), cores, max(node.memory_used_mib, sum(a.memory_mib for a in held)))


def _machine(node: cluster.NodeState, wiring: topo.NodeTopology | None) -> model.Machine:
    near = {gpu.index: _socket(gpu, wiring, node.sockets or 1) for gpu in wiring.gpus} if wiring is not None else {}
    lanes = _lanes(wiring, len(node.gpus)) if wiring is not None else {}
    return model.Machine(
        name=node.name,
        sockets=node.sockets or 1,
        cores_per_socket=node.cores_per_socket or 1,
        threads=node.threads_per_core or 1,
        memory_mib=node.memory_mib,
        devices=tuple(model.Device(gpu.type, near.get(gpu.index), lanes.get(gpu.index, ())) for gpu in node.gpus),
        weight=node.weight,
    )


def _socket(gpu: topo.Gpu, wiring: topo.NodeTopology, sockets: int) -> int | None:
    """The socket that a GPU's NUMA node is, or lies in; None where neither is told."""
    nodes = sorted((numa for numa in wiring.numa_nodes if numa.cpus != ()), key=lambda numa: numa.id)
    if gpu.numa is None or len(gpu.numa) != 1:
        return None
    place = next((i for i, numa in enumerate(nodes) if numa.id == gpu.numa[0]), None)
    if place is None or len(nodes) == sockets:
        return place
    packages = sorted({numa.package for numa in nodes if numa.package is not None})
    package = nodes[place].package
    return packages.index(package) if package is not None and len(packages) == sockets else None


def _lanes(wiring: topo.NodeTopology, count: int) -> dict[int, tuple[int, ...]]:
    """Links of each GPU to every other, by index; empty where the topology tells no NVLink."""
    index = {gpu.id: gpu.index for gpu in wiring.gpus if gpu.index is not None and gpu.index < count}
    table = {i: [0] * count for i in index.values()}
    for link in wiring.links:
        a, b = index.get(link.a), index.get(link.b)
        if link.type is topo.LinkType.NVLINK and a is not None and b is not None:
            table[a][b] = table[b][a] = max(1, link.lanes)
    return {i: tuple(row) for i, row in table.items()} if any(map(any, table.values())) else {}


# --- splits


def _splits(world: _World, request: cluster.JobRequest, choice: model.Choice) -> tuple[str, ...]:
    """GPU sets for which a closer one of the same size is free on the same node, in words."""
    if request.exclusive:
        return ()
    loads = {machine.name: (machine, load) for machine, load in zip(world.machines, world.loads, strict=True)}
    found = []
    for grant in choice.nodes:
        machine, load = loads[grant.node]
        better = _closer(machine, load, grant.gpus, request.gpu_type)
        if better is not None:
            mine, other = _spread(machine, grant.gpus), _spread(machine, better)
            found.append(
                f"{grant.node}: GPUs {ranges.format(grant.gpus)} ({_words(mine)}) "
                f"although {ranges.format(better)} ({_words(other)}) are free"
            )
    return tuple(found)


def _closer(
    machine: model.Machine, load: model.NodeLoad, gpus: Sequence[int], gpu_type: str | None
) -> tuple[int, ...] | None:
    kinds = {machine.devices[gpu].type for gpu in gpus} if gpu_type is not None else None
    free = [i for i, d in enumerate(machine.devices) if i not in load.gpus and (kinds is None or d.type in kinds)]
    if len(gpus) < 2 or math.comb(len(free), len(gpus)) > MOST_SETS:
        return None
    best = min(itertools.combinations(free, len(gpus)), key=lambda s: _spread(machine, s))
    return best if _spread(machine, best) < _spread(machine, gpus) else None


def _spread(machine: model.Machine, gpus: Sequence[int]) -> tuple[int, int]:
    """Sockets that a set lies on, and minus its links; less is closer. GPUs of no known socket lie on none."""
    sockets = {machine.devices[gpu].socket for gpu in gpus} - {None}
    links = sum(machine.devices[a].links[b] for a, b in itertools.combinations(gpus, 2) if machine.devices[a].links)
    return len(sockets), -links


def _words(spread: tuple[int, int]) -> str:
    sockets, links = spread[0], -spread[1]
    return f"{sockets} socket{'' if sockets == 1 else 's'}, {links} NVLink{'' if links == 1 else 's'}"


def _better(
    world: _World,
    request: cluster.JobRequest,
    which: release.Release,
    tasks_said: bool | None,
    choice: model.Choice,
    splits: int,
) -> Iterator[str]:
    """Options that give as many GPUs on as many nodes, with fewer splits."""
    for text, other in _variants(request):
        found = _choose(world, other, which, tasks_said)
        same = sorted(len(g.gpus) for g in found.nodes) == sorted(len(g.gpus) for g in choice.nodes)
        if found.verdict is model.Verdict.RUNNING and same and len(_splits(world, other, found)) < splits:
            yield text


def _variants(request: cluster.JobRequest) -> Iterator[tuple[str, cluster.JobRequest]]:
    replace = msgspec.structs.replace
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    one = request.nodes == 1 and request.nodes_max is None
    if one and request.gpus_per_node and not request.gpus:
        text = f"--gpus={kind}{request.gpus_per_node} instead of GPUs per node"
        yield text, replace(request, gpus=request.gpus_per_node, gpus_per_node=None)
    if one and request.gpus and not request.ntasks_per_gpu:
        text = f"--gpus-per-node={kind}{request.gpus} instead of --gpus"
        yield text, replace(request, gpus_per_node=request.gpus, gpus=None)
    if not request.enforce_binding:
        yield "--gres-flags=enforce-binding", replace(request, enforce_binding=True)
    if not request.cpus_per_gpu and request.cpus_per_task is None and not request.ntasks_per_gpu:
        yield "--cpus-per-gpu=1", replace(request, cpus_per_gpu=1)
