"""What a sandbox emulates: nodes with their GPUs, partitions and switches, as Slurm's configuration will tell them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from placer import errors, hostlist
from placer.cluster import types as cluster
from placer.placement import affinity_cores
from placer.sandbox import machines
from placer.topology import types as topo

MAX_NODES: Final = 128
"""One slurmd runs for each node and takes about 10 MB."""
_NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}\Z")


class EmulatedGpu(msgspec.Struct, frozen=True):
    """One GPU, in the order of gres indices. `cores` are Slurm's core numbers of the node; None = no `Cores=`."""

    type: str | None = None
    cores: tuple[int, ...] | None = None
    links: tuple[int, ...] | None = None  # NVLinks to each GPU of the node, -1 to itself; None = no `Links=`


class EmulatedNode(msgspec.Struct, frozen=True):
    """One node. Its hardware is what is written here, whatever this machine has (`config_overrides`)."""

    name: str
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    gpus: tuple[EmulatedGpu, ...] = ()
    features: tuple[str, ...] = ()
    topology_text: str | None = None  # what `nvidia-smi topo -m` would print there


class EmulatedCluster(msgspec.Struct, frozen=True):
    """A whole cluster. `switches` lists leaves before what stands above them; empty = no topology plugin."""

    nodes: tuple[EmulatedNode, ...]
    partitions: tuple[cluster.Partition, ...]
    switches: tuple[topo.Switch, ...] = ()
    left_out: tuple[str, ...] = ()


def default_cluster() -> EmulatedCluster:
    """4 nodes of 8 A100 on two leaf switches, 2 nodes of 4 V100 on a third, one spine; two partitions."""
    gpu, old = hostlist.expand("gpu[01-04]"), hostlist.expand("old[1-2]")
    nodes = [_default_node(name, 1_000_000, machines.A100, ("a100", "ib")) for name in gpu]
    nodes += [_default_node(name, 256_000, machines.V100, ("v100",)) for name in old]
    return EmulatedCluster(
        nodes=tuple(nodes),
        partitions=(
            cluster.Partition(name="gpu", nodes=gpu, default=True, max_time=7 * 86400, default_time=3600),
            cluster.Partition(name="old", nodes=old, max_time=86400, default_time=3600),
        ),
        switches=(
            topo.Switch("leaf1", nodes=gpu[:2]),
            topo.Switch("leaf2", nodes=gpu[2:]),
            topo.Switch("leaf3", nodes=old),
            topo.Switch("spine", switches=("leaf1", "leaf2", "leaf3")),
        ),
    )


def _default_node(name: str, memory_mib: int, machine: topo.NodeTopology, features: tuple[str, ...]) -> EmulatedNode:
    state = cluster.NodeState(
        name=name,
        gpus=tuple(cluster.GpuSlot(i, type=gpu.model) for i, gpu in enumerate(machine.gpus)),
        cpus=sum(len(core) for core in machine.cores),
        memory_mib=memory_mib,
        features=features,
    )
    return _node(state, machine)


def from_snapshot(snapshot: cluster.ClusterSnapshot) -> EmulatedCluster:
    """The nodes, partitions and switches of a snapshot, all nodes up and idle. Raises SandboxError when Slurm could not
    take them: no nodes, too many, or names that its files cannot hold."""
    if not 1 <= len(snapshot.nodes) <= MAX_NODES:
        raise errors.SandboxError(
            f"a sandbox emulates 1 to {MAX_NODES} nodes; the document has {len(snapshot.nodes)}",
            hint="keep the nodes of one or two switches in it",
        )
    wiring = dict(zip(snapshot.topology.nodes, snapshot.topology.machine_of, strict=True))
    nodes = []
    for node in snapshot.nodes:
        number = wiring.get(node.name, -1)
        nodes.append(_node(node, snapshot.topology.machines[number] if number >= 0 else None))
    left_out = [f"{len(snapshot.jobs)} jobs of the document are not started"] if snapshot.jobs else []
    unready = [node.name for node in snapshot.nodes if node.condition is not cluster.NodeCondition.UP]
    if unready:
        left_out.append(f"{hostlist.fold(unready)}: up here, whatever the document says")
    return EmulatedCluster(
        nodes=tuple(nodes),
        partitions=_partitions(snapshot),
        switches=_switches(snapshot.topology.fabric),
        left_out=tuple(left_out),
    )


def _node(node: cluster.NodeState, machine: topo.NodeTopology | None) -> EmulatedNode:
    if not _NODE_NAME.match(node.name):
        raise errors.SandboxError(f"`{errors.printable(node.name)}` cannot be the name of a Slurm node")
    cpus = max(1, node.cpus)
    threads = node.threads_per_core or (_threads(machine) if machine is not None else 1)
    if cpus % threads:
        threads = 1
    cores = cpus // threads
    sockets = node.sockets or (2 if cores % 2 == 0 and node.gpus else 1)
    if cores % sockets:
        sockets = 1
    return EmulatedNode(
        name=node.name,
        sockets=sockets,
        cores_per_socket=cores // sockets,
        threads_per_core=threads,
        memory_mib=max(1024, node.memory_mib),
        gpus=_gpus(node, machine, cores),
        features=tuple(word for word in node.features if _WORD.match(word)),
        topology_text=machines.topology_text(machine) if machine is not None else None,
    )


def _threads(machine: topo.NodeTopology) -> int:
    return max((len(core) for core in affinity_cores.cores_of(machine).cores), default=1)


def _gpus(node: cluster.NodeState, machine: topo.NodeTopology | None, cores: int) -> tuple[EmulatedGpu, ...]:
    by_index = {gpu.index if gpu.index is not None else i: gpu for i, gpu in enumerate(machine.gpus if machine else ())}
    links = _links(machine, by_index, len(node.gpus)) if machine is not None else None
    numbers = _core_numbers(machine, cores) if machine is not None else {}
    made = []
    for slot in sorted(node.gpus, key=lambda slot: slot.index):
        gpu = by_index.get(slot.index)
        near = affinity_cores.near_cpus(machine, gpu) if machine is not None and gpu is not None else None
        sure = near.cpus if near is not None and near.certain else frozenset()
        own = tuple(sorted({numbers[cpu] for cpu in sure if cpu in numbers}))
        kind = slot.type.lower() if slot.type else None
        made.append(
            EmulatedGpu(
                type=kind if kind and _WORD.match(kind) else None,
                cores=own or None,
                links=links[slot.index] if links is not None and slot.index < len(links) else None,
            )
        )
    return tuple(made)


def _core_numbers(machine: topo.NodeTopology, cores: int) -> dict[int, int]:
    """OS CPU -> Slurm's core number (socket by socket), as far as the topology and the node's size agree.

    All cores known: by ascending first thread, as sockets are numbered on usual machines. Only those near GPUs known,
    their threads as far apart as the node has cores: Linux's usual numbering, thread t of core c is c + t * cores.
    """
    known = affinity_cores.cores_of(machine).cores
    if len(known) == cores:
        return {cpu: i for i, core in enumerate(known) for cpu in core}
    usual = all(len(core) > 1 and all(cpu == core[0] + t * cores for t, cpu in enumerate(core)) for core in known)
    return {cpu: cpu % cores for core in known for cpu in core} if usual else {}


def _links(machine: topo.NodeTopology, by_index: dict[int, topo.Gpu], count: int) -> tuple[tuple[int, ...], ...] | None:
    """NVLinks between GPUs as gres.conf counts them; None where no pair differs from another."""
    place = {gpu.id: index for index, gpu in by_index.items() if index < count}
    table = [[-1 if i == j else 0 for j in range(count)] for i in range(count)]
    for link in machine.links:
        i, j = place.get(link.a), place.get(link.b)
        if i is not None and j is not None and i != j and link.type in (topo.LinkType.NVLINK, topo.LinkType.XGMI):
            table[i][j] = table[j][i] = max(1, link.lanes)
    # Where every pair is alike the counts would tell Slurm nothing.
    return tuple(tuple(row) for row in table) if len({n for row in table for n in row if n >= 0}) > 1 else None


def _partitions(snapshot: cluster.ClusterSnapshot) -> tuple[cluster.Partition, ...]:
    """The snapshot's own, else those that its nodes name, else one with all nodes. The first is the default."""
    names = [node.name for node in snapshot.nodes]
    found = [p for p in snapshot.partitions if _WORD.match(p.name) and set(p.nodes) & set(names)]
    if not found:
        by_name: dict[str, list[str]] = {}
        for node in snapshot.nodes:
            for name in node.partitions:
                if _WORD.match(name):
                    by_name.setdefault(name, []).append(node.name)
        found = [cluster.Partition(name=name, nodes=tuple(nodes)) for name, nodes in by_name.items()]
    if not found:
        found = [cluster.Partition(name="all", nodes=tuple(names))]
    if not any(p.default for p in found):
        found[0] = msgspec.structs.replace(found[0], default=True)
    return tuple(msgspec.structs.replace(p, nodes=tuple(n for n in p.nodes if n in set(names))) for p in found)


def _switches(fabric: topo.Fabric) -> tuple[topo.Switch, ...]:
    """The fabric as a switch tree; a domain that is only repeated upwards under its own name is one switch."""
    made: dict[str, topo.Switch] = {}
    for domain in sorted(fabric.domains, key=lambda domain: domain.level):
        name = _switch_name(domain.name)
        if name in made:
            continue
        below = sorted(
            {_switch_name(d.name) for d in fabric.domains if d.parent == domain.name and d.level == domain.level - 1}
        )
        children = tuple(hostlist.sort(child for child in below if child != name))
        made[name] = topo.Switch(name, switches=children) if children else topo.Switch(name, nodes=domain.nodes)
    return tuple(made.values())


def _switch_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:60]


def describe(nodes: Sequence[EmulatedNode]) -> str:
    """`gpu[01-04] with 8 GPUs, old[1-2] with 4`: what is emulated, in words."""
    groups: dict[int, list[str]] = {}
    for node in nodes:
        groups.setdefault(len(node.gpus), []).append(node.name)
    return ", ".join(f"{hostlist.fold(names)} with {count} GPUs" for count, names in groups.items())
