"""Section 4 of the rules: which nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from placer.slurm_model import cores, types
from placer.slurm_model.cores import Offer
from placer.slurm_model.release import R22, R24, R26
from placer.slurm_model.usable import INFINITE, Open


@dataclasses.dataclass(slots=True)
class Picked:
    offer: Offer
    cpus: int
    gpus: int
    reduced: bool = False


def choose(ask: types.Ask, usable: Sequence[Open], leaves: Sequence[frozenset[str]] | None) -> list[Picked] | None:
    """`leaves` None = flat."""
    names = {o.machine.name for o in usable}
    if not usable or not names.issuperset(ask.required):
        return None
    if ask.release >= R26 and ask.one_node and not ask.wants_gpus:
        return _first_node(ask, usable, True)
    if not ask.wants_gpus:
        return _attempt(ask, usable, leaves, first=True)
    if ask.release >= R26 and ask.one_node:
        return _first_node(ask, usable, True) or _first_node(ask, usable, False)
    found = _attempt(ask, usable, leaves, first=True)
    if found:
        return found
    left = list(usable)
    while left:
        found = _attempt(ask, left, leaves, first=False)
        if found:
            return found
        size = {o.index: _size(ask, o) for o in left}
        least = min(size.values())
        left = [o for o in left if size[o.index] > least]
        if not {o.machine.name for o in left}.issuperset(ask.required):
            return None
    return None


def _size(ask: types.Ask, o: Open) -> int:
    t = ask.t(o.machine)
    gpus = sum(o.f) + o.any
    return o.open * t * gpus if ask.release >= R26 else o.open * t + gpus


def _first_node(ask: types.Ask, usable: Sequence[Open], first: bool) -> list[Picked] | None:
    taken = 0
    for o in sorted(usable, key=lambda o: (o.machine.weight, o.index)):
        if ask.required and o.machine.name not in ask.required:
            continue
        offer = cores.near_gpus(ask, o, first=first, taken=taken) if ask.wants_gpus else cores.without_gpus(ask, o)
        if offer is None:
            continue
        gpus = max(0, min(offer.gpus, ask.P - taken)) if ask.P else offer.gpus
        taken += gpus
        if offer.cpus < ask.min_cpus or taken < ask.P:
            continue
        return [Picked(offer, min(offer.cpus, max(ask.min_cpus, ask.pn_min)), gpus)]
    return None


def weight(o: Open) -> tuple[int, int]:
    return o.machine.weight, 255 - min(o.near, 255)


class _Search:
    def __init__(self, ask: types.Ask, usable: Sequence[Open], first: bool) -> None:
        self.ask, self.usable, self.first = ask, usable, first
        self.by_name = {o.machine.name: o for o in usable}
        self.min_nodes = ask.nodes
        self.max_nodes = ask.nodes_max if ask.nodes_max is not None else INFINITE
        self.wanted = ask.nodes
        self.cpus_left = max(ask.min_cpus, ask.cpg * (ask.P or ask.nodes * ask.per_node))
        self.gpus_taken = 0
        self.picked: list[Picked] = []
        self.tried: set[int] = set()
        self.offers: dict[int, Offer | None] = {}

    def offer(self, o: Open) -> Offer | None:
        """Counted once, with what is taken by then."""
        if o.index not in self.offers:
            if not self.ask.wants_gpus:
                self.offers[o.index] = cores.without_gpus(self.ask, o)
            else:
                nodes_left = max(1, self.wanted - len(self.picked))
                self.offers[o.index] = cores.near_gpus(self.ask, o, first=self.first, taken=self.gpus_taken, nodes_left=nodes_left)
        return self.offers[o.index]

    @property
    def done(self) -> bool:
        ask = self.ask
        return (
            len(self.picked) >= self.wanted_now and self.cpus_left <= 0 and self.gpus_taken >= ask.P
        )

    @property
    def wanted_now(self) -> int:
        return self.wanted

    def acceptable(self) -> bool:
        return len(self.picked) >= self.min_nodes and self.cpus_left <= 0 and self.gpus_taken >= self.ask.P

    def add(self, o: Open) -> bool:
        ask = self.ask
        if o.index in self.tried or len(self.picked) >= self.max_nodes:
            return False
        self.tried.add(o.index)
        nodes_left = max(1, self.wanted - len(self.picked))
        offer = self.offer(o)
        if offer is None:
            return False
        t = ask.t(o.machine)
        cpus = min(offer.cpus, self.cpus_left - (nodes_left - 1) * t)
        reduced = ask.release == R22 and cpus < offer.cpus
        cpus = max(cpus, ask.pn_min)
        if not ask.q and ask.release >= R24:
            cpus = max(cpus, offer.min_cores * t)
        if offer.cpus < ask.pn_min or (len(self.picked) + 1 == self.max_nodes and offer.cpus < self.cpus_left):
            return False
        gpus = offer.gpus
        if ask.P:
            gpus = min(gpus, ask.P - self.gpus_taken - (nodes_left - 1)) if self.gpus_taken < ask.P else gpus
        if ask.release == R22 and nodes_left == 1:
            of_sockets = ask.per_sock * min(ask.s, sum(f > 0 for f in offer.node.f) or 1)
            cpus = max(cpus, min(offer.cpus, ask.cpg * (ask.per_node or of_sockets or gpus)))
        if ask.release >= R24 and (ask.per_task or ask.q):
            tasks = cpus // ask.cpt
            if ask.release >= R26:
                tasks = min(tasks, offer.hi)
            gpus = min(gpus, tasks * ask.per_task if ask.per_task else tasks // ask.q)
        self.picked.append(Picked(offer, cpus, gpus, reduced))
        self.cpus_left -= cpus
        self.gpus_taken += gpus
        return True


def _attempt(
    ask: types.Ask, usable: Sequence[Open], leaves: Sequence[frozenset[str]] | None, *, first: bool
) -> list[Picked] | None:
    search = _Search(ask, usable, first)
    if leaves is None:
        return _flat(ask, search)
    return _tree(ask, search, leaves)


def _tree(ask: types.Ask, search: _Search, leaves: Sequence[frozenset[str]]) -> list[Picked] | None:
    for name in ask.required:
        if not search.add(search.by_name[name]):
            return None
    if search.done:
        return search.picked
    groups: dict[tuple[int, int], list[Open]] = {}
    for o in search.usable:
        groups.setdefault(weight(o), []).append(o)
    ordered = [groups[key] for key in sorted(groups)]
    pool: list[Open] = []
    for position, group in enumerate(ordered):
        pool += group
        if _suffices(ask, search, pool) or position == len(ordered) - 1:
            for earlier in ordered[:position]:
                for o in earlier:
                    search.add(o)
                    if search.done:
                        return search.picked
            return _leaves(ask, search, group, leaves)
    return None


def _suffices(ask: types.Ask, search: _Search, pool: Sequence[Open]) -> bool:
    offers = [offer for o in pool if (offer := search.offer(o)) is not None]
    wanted = search.wanted if ask.release >= R24 else search.min_nodes
    return (
        len(offers) >= wanted
        and sum(offer.cpus for offer in offers) >= ask.min_cpus
        and sum(offer.gpus for offer in offers) >= ask.P
    )


def _leaves(ask: types.Ask, search: _Search, group: Sequence[Open], leaves: Sequence[frozenset[str]]) -> list[Picked] | None:
    left = {o.machine.name: o for o in group if o.index not in search.tried}
    done_leaves: set[int] = set()
    def run(leaf: int) -> None:
        done_leaves.add(leaf)
        for o in sorted(left.values(), key=lambda o: o.index):
            if o.machine.name in leaves[leaf]:
                search.add(o)
                if search.done:
                    return
    if search.picked:
        names = {p.offer.node.machine.name for p in search.picked}
        for i, leaf in enumerate(leaves):
            if names & leaf:
                run(i)
                if search.done:
                    return search.picked
    while not search.done:
        options = []
        for i, leaf in enumerate(leaves):
            if i in done_leaves:
                continue
            inside = [o for name, o in left.items() if name in leaf and o.index not in search.tried]
            if inside:
                options.append((i, inside))
        if not options:
            break
        nodes_left = max(1, search.wanted - len(search.picked))
        def fits(inside: list[Open]) -> bool:
            if len(inside) < nodes_left:
                return False
            if ask.release >= R24:
                return sum(x.cpus for o in inside if (x := search.offer(o))) >= search.cpus_left
            return True
        fitting = [(len(inside), i) for i, inside in options if fits(inside)]
        best = min(fitting)[1] if fitting else min((-len(inside), i) for i, inside in options)[1]
        run(best)
    return search.picked if search.acceptable() else None


def _flat(ask: types.Ask, search: _Search) -> list[Picked] | None:
    for name in ask.required:
        if not search.add(search.by_name[name]):
            return None
    if search.done:
        return search.picked
    offers = {o.index: x for o in search.usable if (x := search.offer(o)) is not None}
    runs = _runs(sorted((o for o in search.usable if o.index in offers), key=lambda o: o.index))
    for run in [run for run in runs if any(o.machine.name in ask.required for o in run)]:
        runs.remove(run)
        at = next(i for i, o in enumerate(run) if o.machine.name in ask.required)
        for o in [*run[at:], *run[:at][::-1]]:
            if not search.done:
                search.add(o)
    while runs and not search.done and len(search.picked) < search.max_nodes:
        nodes_left = max(1, search.wanted - len(search.picked))
        def key(run: list[Open]) -> tuple[object, ...]:
            cpus = sum(offers[o.index].cpus for o in run)
            gpus = sum(offers[o.index].gpus for o in run)
            does = len(run) >= nodes_left and cpus >= search.cpus_left and gpus >= ask.P - search.gpus_taken
            w = weight(run[0])
            return (w, not does, cpus if does else -cpus, run[0].index)
        run = min(runs, key=key)
        runs.remove(run)
        if nodes_left == 1:
            good = [o for o in run if offers[o.index].cpus >= search.cpus_left and offers[o.index].gpus >= ask.P - search.gpus_taken]
            if good:
                search.add(min(good, key=lambda o: (offers[o.index].cpus, o.index)))
        for o in run:
            if search.done:
                break
            search.add(o)
    return search.picked if search.acceptable() else None


def _runs(left: Sequence[Open]) -> list[list[Open]]:
    runs: list[list[Open]] = []
    for o in left:
        if runs and runs[-1][-1].index == o.index - 1 and weight(runs[-1][-1]) == weight(o):
            runs[-1].append(o)
        else:
            runs.append([o])
    return runs
