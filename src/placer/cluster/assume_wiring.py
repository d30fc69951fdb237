"""Wiring from the catalogue for nodes about which nothing better is known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placer import hostlist
from placer.cluster import types
from placer.topology import catalog
from placer.topology import catalog_build as build
from placer.topology import types as topo


def from_catalogue(snapshot: types.ClusterSnapshot) -> types.ClusterSnapshot:
    """The snapshot with the wiring of boards that the type and number of a node's GPUs leave no doubt about.

    Only nodes whose GPUs have one told type are looked at, and of those whose topology is known only such as know no
    link between two GPUs; what they do know stays. CPUs of a machine of the catalogue are left out where the node has
    another number of them. Each use is said in `assumptions`.
    """
    topology = snapshot.topology
    machines = list(topology.machines)
    known = {machine: number for number, machine in reversed(list(enumerate(machines)))}
    states = {node.name: node for node in snapshot.nodes}
    numbers = list(topology.machine_of)
    used: dict[str, list[str]] = {}
    unknown: list[str] = []
    for at, (name, number) in enumerate(zip(topology.nodes, numbers, strict=True)):
        state = states.get(name)
        if state is None or not state.gpus:
            continue
        if number < 0:
            unknown.append(name)
        made = _assumed(state, machines[number] if number >= 0 else None)
        if made is None:
            continue
        numbers[at] = known.setdefault(made, len(machines))
        if numbers[at] == len(machines):
            machines.append(made)
        used.setdefault(f"{made.machine}, {len(state.gpus)} x {state.gpus[0].type}", []).append(name)
    if not used:
        return snapshot
    found = {name for names in used.values() for name in names}
    left = [name for name in unknown if name not in found]
    said = [text for text in snapshot.assumptions if text != _unknown(unknown)]
    said += [_unknown(left)] if left and len(said) < len(snapshot.assumptions) else []
    said += [f"wiring of {hostlist.fold(names)} from the catalogue ({what})" for what, names in used.items()]
    kept = sorted({number for number in numbers if number >= 0})
    place = {number: position for position, number in enumerate(kept)}
    return msgspec.structs.replace(
        snapshot,
        topology=msgspec.structs.replace(
            topology,
            machines=tuple(machines[number] for number in kept),
            machine_of=tuple(place.get(number, -1) for number in numbers),
        ),
        assumptions=tuple(said),
    )


def said(snapshot: types.ClusterSnapshot) -> types.ClusterSnapshot:
    """The snapshot with a word in `assumptions` for every machine of the catalogue that its nodes are wired like.

    Where a node has another number of CPUs than the machine, the machine's CPU numbers are left out.
    """
    snapshot = _with_own_cpus(snapshot)
    topology = snapshot.topology
    used: dict[str, list[str]] = {}
    for name, number in zip(topology.nodes, topology.machine_of, strict=True):
        for text in topology.machines[number].assumed if number >= 0 else ():
            if text.startswith(build.ASSUMED):
                used.setdefault(text, []).append(name)
    added = [f"{hostlist.fold(names)}: {text}" for text, names in used.items()]
    new = [text for text in added if text not in snapshot.assumptions]
    return msgspec.structs.replace(snapshot, assumptions=(*snapshot.assumptions, *new)) if new else snapshot


def _with_own_cpus(snapshot: types.ClusterSnapshot) -> types.ClusterSnapshot:
    topology = snapshot.topology
    machines = list(topology.machines)
    known = {machine: number for number, machine in reversed(list(enumerate(machines)))}
    cpus = {node.name: node.cpus for node in snapshot.nodes}
    numbers = list(topology.machine_of)
    for at, (name, number) in enumerate(zip(topology.nodes, numbers, strict=True)):
        if number < 0 or not cpus.get(name) or not any(t.startswith(build.ASSUMED) for t in machines[number].assumed):
            continue
        made = _without_cpus_unless(machines[number], cpus[name])
        numbers[at] = known.setdefault(made, len(machines))
        if numbers[at] == len(machines):
            machines.append(made)
    kept = sorted({number for number in numbers if number >= 0})
    place = {number: position for position, number in enumerate(kept)}
    changed = msgspec.structs.replace(
        topology,
        machines=tuple(machines[number] for number in kept),
        machine_of=tuple(place.get(number, -1) for number in numbers),
    )
    return msgspec.structs.replace(snapshot, topology=changed)


def _unknown(nodes: Sequence[str]) -> str:
    """As the reader of a Slurm recording says it."""
    return f"wiring of {hostlist.fold(nodes)} is unknown: no GPU counts as near to another"


def _assumed(state: types.NodeState, current: topo.NodeTopology | None) -> topo.NodeTopology | None:
    kinds = {slot.type for slot in state.gpus}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is None:
        return None
    ids = {gpu.id for gpu in current.gpus} if current is not None else set()
    if current is not None and (
        len(ids) != len(state.gpus) or any(link.a in ids and link.b in ids for link in current.links)
    ):
        return None
    board = catalog.for_types(kind, len(state.gpus))
    if board is None:
        return None
    return _without_cpus_unless(board, state.cpus) if current is None else _joined(current, board)


def _without_cpus_unless(board: topo.NodeTopology, cpus: int) -> topo.NodeTopology:
    """The board as it is when it has so many CPUs; else without any CPU number."""
    if sum(len(node.cpus or ()) for node in board.numa_nodes) in (0, cpus):
        return board
    return msgspec.structs.replace(
        board,
        gpus=tuple(msgspec.structs.replace(gpu, cpus=None) for gpu in board.gpus),
        numa_nodes=tuple(msgspec.structs.replace(node, cpus=node.cpus and None) for node in board.numa_nodes),
        cores=(),
    )


def _joined(current: topo.NodeTopology, board: topo.NodeTopology) -> topo.NodeTopology:
    """What gres.conf knows of a node, and the board's links between GPUs, joined in the order of the index."""
    order = sorted(current.gpus, key=lambda gpu: (gpu.index is None, gpu.index or 0))
    name = {theirs.id: mine.id for theirs, mine in zip(board.gpus, order, strict=True)}
    links = tuple(
        msgspec.structs.replace(link, a=name[link.a], b=name[link.b])
        for link in board.links
        if link.a in name and link.b in name
    )
    return msgspec.structs.replace(
        current,
        gpus=tuple(
            msgspec.structs.replace(gpu, model=board.gpus[0].model if gpu.model is None else gpu.model)
            for gpu in current.gpus
        ),
        links=(*current.links, *links),
        machine=current.machine or board.machine,
        assumed=(*current.assumed, *board.assumed),
    )
