"""Section 4 of the rules: which nodes a job gets."""

from __future__ import annotations

from collections.abc import Sequence

from placer.slurm_model import cores, flat, tree, types
from placer.slurm_model.release import R22, R26
from placer.slurm_model.search import Picked, Search
from placer.slurm_model.usable import Open


def choose(ask: types.Ask, usable: Sequence[Open], leaves: Sequence[frozenset[str]] | None) -> list[Picked] | None:
    """The nodes in the order in which they were taken, None where the job cannot start.

    `usable` in node order; `leaves`: node names below each leaf switch, None = no topology plugin.
    """
    if not usable or not {node.machine.name for node in usable}.issuperset(ask.required):
        return None
    picked = _choose(ask, usable, leaves)
    if picked and ask.release == R22 and 0 < ask.n < len(picked):
        return None
    return picked


def _choose(ask: types.Ask, usable: Sequence[Open], leaves: Sequence[frozenset[str]] | None) -> list[Picked] | None:
    if ask.release >= R26 and ask.one_node:
        return _first_node(ask, usable, first=True) or _first_node(ask, usable, first=False)
    found = _attempt(ask, usable, leaves, first=True)
    if found or not ask.wants_gpus:
        return found
    left = list(usable)
    while left and {node.machine.name for node in left}.issuperset(ask.required):
        found = _attempt(ask, left, leaves, first=False)
        if found:
            return found
        least = min(_size(ask, node) for node in left)
        left = [node for node in left if _size(ask, node) > least]
    return None


def _attempt(
    ask: types.Ask, usable: Sequence[Open], leaves: Sequence[frozenset[str]] | None, *, first: bool
) -> list[Picked] | None:
    search = Search(ask, usable, first)
    return flat.choose(search) if leaves is None else tree.choose(search, leaves)


def _size(ask: types.Ask, node: Open) -> int:
    """Free CPUs and GPUs as one number; where pass 2 fails, nodes with the least are left out."""
    cpus, gpus = node.open * ask.t(node.machine), sum(node.f) + node.any
    return cpus * gpus if ask.release >= R26 else cpus + gpus


def _first_node(ask: types.Ask, usable: Sequence[Open], *, first: bool) -> list[Picked] | None:
    """[26] the first node by weight and place that serves the job.

    GPUs counted on a node that does not serve it stay counted for the next ones, as in Slurm: `-N1 --gpus=8` on nodes
    of four GPUs takes the second node, falls short of GPUs, and waits for ever.
    """
    taken = 0
    for node in sorted(usable, key=lambda node: (node.machine.weight, node.index)):
        if ask.required and node.machine.name not in ask.required:
            continue
        offer = (
            cores.near_gpus(ask, node, first=first, taken=taken) if ask.wants_gpus else cores.without_gpus(ask, node)
        )
        if offer is None:
            continue
        gpus = max(0, min(offer.gpus, ask.P - taken)) if ask.P else offer.gpus
        taken += gpus
        if offer.cpus >= ask.min_cpus and taken >= ask.P:
            return [Picked(offer, min(offer.cpus, max(ask.min_cpus, ask.pn_min)), gpus)]
    return None
