"""What Slurm gives to a job: the rules in their order."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from placer.slurm_model import gpus, nodes, tasks, types, usable
from placer.slurm_model.pools import Pools
from placer.slurm_model.release import R22
from placer.slurm_model.search import Picked
from placer.topology import fabric as fabrics
from placer.topology import types as topo


def predict(
    machines: Sequence[types.Machine], loads: Sequence[types.NodeLoad], fabric: topo.Fabric, ask: types.Ask
) -> types.Choice:
    """What a job gets now on these nodes, which are those of its partition in the order of slurm.conf.

    `loads[i]`: what is held on `machines[i]`. A fabric that names none of the nodes is no topology plugin. The job is
    alone: nobody waits before it. It never runs if it would not on the empty nodes either.
    """
    if ask.refused:
        return types.Choice(types.Verdict.NEVER, why=ask.refused)
    leaves = _leaves(machines, fabric)
    if _pick(machines, [types.NodeLoad()] * len(machines), leaves, ask) is None:
        return types.Choice(types.Verdict.NEVER, why="no set of these nodes, were they empty, holds the job")
    picked = _pick(machines, loads, leaves, ask)
    if picked is None:
        return types.Choice(types.Verdict.WAITS, why="no set of nodes holds the job now")
    return _fill(sorted(picked, key=lambda node: node.offer.node.index), ask)


def _pick(
    machines: Sequence[types.Machine],
    loads: Sequence[types.NodeLoad],
    leaves: Sequence[frozenset[str]] | None,
    ask: types.Ask,
) -> list[Picked] | None:
    return nodes.choose(ask, _open(machines, loads, ask), leaves)


def _open(machines: Sequence[types.Machine], loads: Sequence[types.NodeLoad], ask: types.Ask) -> list[usable.Open]:
    """The nodes that can be used; nodes that are alike are looked at once."""
    alike: dict[tuple[object, ...], usable.Open | None] = {}
    opened = []
    for index, (machine, load) in enumerate(zip(machines, loads, strict=True)):
        shape = (machine.sockets, machine.cores_per_socket, machine.threads, machine.memory_mib, machine.weight)
        key = (load, shape, machine.devices)
        if key not in alike:
            alike[key] = usable.open_node(ask, machine, load, index)
        found = alike[key]
        if found is not None:
            opened.append(dataclasses.replace(found, machine=machine, index=index, like=found.index))
    return opened


def _fill(picked: Sequence[Picked], ask: types.Ask) -> types.Choice:
    """Tasks, cores and GPUs on the nodes; each step may leave the job waiting although its nodes are found."""
    counts = tasks.spread(ask, picked)
    if counts is None:
        return types.Choice(types.Verdict.WAITS, why="the tasks do not all fit the CPUs counted for them")
    pools = []
    cpus = []
    for node, count in zip(picked, counts, strict=True):
        cores = tasks.cores_of(ask, node, count)
        if cores is None:
            held = ask.release == R22
            why = "cores and CPUs disagree: the job is held" if held else "the cores do not suffice"
            return types.Choice(types.Verdict.NEVER if held else types.Verdict.WAITS, why=why)
        pools.append(Pools(ask, node, cores, count))
        cpus.append(_cpu_ids(node.offer.node.machine, cores))
    chosen = gpus.choose(ask, pools) if ask.wants_gpus or ask.exclusive else [()] * len(pools)
    if chosen is None:
        return types.Choice(types.Verdict.WAITS, why="the GPUs near the cores do not suffice")
    grants = zip(pools, chosen, cpus, counts, strict=True)
    return types.Choice(types.Verdict.RUNNING, tuple(types.NodeGrant(p.machine.name, g, c, n) for p, g, c, n in grants))


def _cpu_ids(machine: types.Machine, cores: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """CPU ids of whole cores; those of a socket follow each other."""
    threads = range(machine.threads)
    return tuple(core * machine.threads + thread for of_socket in cores for core in of_socket for thread in threads)


def _leaves(machines: Sequence[types.Machine], fabric: topo.Fabric) -> list[frozenset[str]] | None:
    """Node names below each leaf switch, None where the fabric names none of the nodes."""
    leaves = [frozenset(domain.nodes) for domain in fabrics.domains_of(fabric, 0)]
    return leaves if any(machine.name in leaf for machine in machines for leaf in leaves) else None
