"""What Slurm gives to a job: the rules in their order."""

from __future__ import annotations

from collections.abc import Sequence

from placer.slurm_model import gpus, nodes, tasks, types, usable
from placer.slurm_model.release import R22, R24, R26
from placer.topology import fabric as fabrics
from placer.topology import types as topo


def predict(machines: Sequence[types.Machine], loads: Sequence[types.NodeLoad], fabric: topo.Fabric, ask: types.Ask) -> types.Choice:
    if ask.impossible:
        return types.Choice(types.Verdict.NEVER, why=ask.impossible)
    leaves = _leaves(machines, fabric)
    if not _pick(machines, [types.NodeLoad()] * len(machines), leaves, ask):
        return types.Choice(types.Verdict.NEVER)
    picked = _pick(machines, loads, leaves, ask)
    if picked is None:
        return types.Choice(types.Verdict.WAITS)
    picked.sort(key=lambda p: p.offer.node.index)
    spread = tasks.spread(ask, picked, ask.P or len(picked) * ask.per_node or sum(ask.per_sock * min(ask.s, sum(f > 0 for f in p.offer.node.f) or 1) for p in picked) or sum(p.gpus for p in picked))
    if spread is None:
        return types.Choice(types.Verdict.WAITS, why="tasks")
    cores = []
    for p, count in zip(picked, spread):
        found = tasks.cores_of(ask, p, count)
        if found is None:
            return types.Choice(types.Verdict.NEVER if ask.release == R22 else types.Verdict.WAITS, why="cores")
        cores.append(found)
    chosen = gpus.choose(ask, [gpus.Node(ask, p, c, k) for p, c, k in zip(picked, cores, spread)])
    if chosen is None:
        return types.Choice(types.Verdict.WAITS, why="gpus")
    grants = []
    for p, c, k, g in zip(picked, cores, spread, chosen):
        m = p.offer.node.machine
        ids = tuple(core * m.threads + thread for core in sorted(sum(c, [])) for thread in range(m.threads))
        grants.append(types.NodeGrant(m.name, tuple(g), ids, k))
    return types.Choice(types.Verdict.RUNNING, tuple(grants))


def _pick(machines: Sequence[types.Machine], loads: Sequence[types.NodeLoad], leaves: list[frozenset[str]] | None, ask: types.Ask) -> list[nodes.Picked] | None:
    opened = [o for i, (m, l) in enumerate(zip(machines, loads)) if (o := usable.node(ask, m, l, i)) is not None]
    picked = nodes.choose(ask, opened, leaves)
    if picked and ask.release == R22 and 0 < ask.n < len(picked):
        return None
    return picked


def _leaves(machines: Sequence[types.Machine], fabric: topo.Fabric) -> list[frozenset[str]] | None:
    leaves = [frozenset(d.nodes) for d in fabrics.domains_of(fabric, 0)]
    named = frozenset().union(*leaves) if leaves else frozenset()
    return leaves if any(m.name in named for m in machines) else None
