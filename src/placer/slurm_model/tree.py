"""Section 4 of the rules, topology/tree: nodes by weight, then by leaf switch."""

from __future__ import annotations

from collections.abc import Sequence

from placer.slurm_model.release import R24
from placer.slurm_model.search import Picked, Search, suffice, weight
from placer.slurm_model.usable import Open


def choose(search: Search, leaves: Sequence[frozenset[str]]) -> list[Picked] | None:
    """The nodes, None where they do not suffice. `leaves`: node names below each leaf switch, in its order."""
    if not search.take_required():
        return None
    if not search.done:
        earlier, last = _groups(search)
        for node in earlier:
            if not search.done:
                search.take(node)
        _from_leaves(search, last, leaves)
    return search.picked if search.done else None


def _groups(search: Search) -> tuple[list[Open], list[Open]]:
    """Groups of equal weight, lightest first, until they suffice: those that are taken whole, and the last one."""
    groups: dict[tuple[int, int], list[Open]] = {}
    for node in search.usable:
        groups.setdefault(weight(node), []).append(node)
    whole: list[Open] = []
    last: list[Open] = []
    for key in sorted(groups):
        whole, last = [*whole, *last], groups[key]
        offers = [offer for node in (*whole, *last) if (offer := search.offer(node)) is not None]
        if suffice(offers, search.ask.nodes, search.ask.min_cpus, search.ask.P):
            break
    return whole, last


def _from_leaves(search: Search, group: Sequence[Open], leaves: Sequence[frozenset[str]]) -> None:
    """Take nodes of the group: leaves that the job is on already, then the best of the others, one by one."""
    here = {picked.offer.node.machine.name for picked in search.picked}
    rest = []
    for leaf in leaves:
        if here & leaf:
            _from_leaf(search, group, leaf)
        else:
            rest.append(leaf)
    while rest and not search.done:
        leaf = min(rest, key=lambda leaf: _rank(search, _inside(search, group, leaf)))
        rest.remove(leaf)
        _from_leaf(search, group, leaf)


def _rank(search: Search, inside: Sequence[Open]) -> tuple[bool, int]:
    """Leaves that hold the rest come first, the emptiest of them; of those that do not, the fullest."""
    cpus = sum(offer.cpus for node in inside if (offer := search.offer(node)) is not None)
    fits = len(inside) >= search.nodes_left and (search.ask.release < R24 or cpus >= search.cpus_left)
    return not fits, len(inside) if fits else -len(inside)


def _inside(search: Search, group: Sequence[Open], leaf: frozenset[str]) -> list[Open]:
    return [node for node in group if node.machine.name in leaf and node.index not in search.tried]


def _from_leaf(search: Search, group: Sequence[Open], leaf: frozenset[str]) -> None:
    for node in _inside(search, group, leaf):
        if search.done:
            return
        search.take(node)
