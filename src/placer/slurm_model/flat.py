"""Section 4 of the rules, no topology plugin: runs of adjacent nodes of equal weight."""

from __future__ import annotations

from collections.abc import Sequence

from placer.slurm_model.cores import Offer
from placer.slurm_model.search import Picked, Search, suffice, weight
from placer.slurm_model.usable import Open


def choose(search: Search) -> list[Picked] | None:
    """The nodes, None where they do not suffice."""
    if not search.take_required():
        return None
    runs = _runs([node for node in search.usable if search.offer(node) is not None])
    for run in _required_first(search, runs):
        runs.remove(run)
        at = next(i for i, node in enumerate(run) if node.machine.name in search.ask.required)
        _take(search, [*run[at:], *run[:at][::-1]])
    while runs and not search.done:
        run = min(runs, key=lambda run: _rank(search, run))
        runs.remove(run)
        if search.nodes_left == 1:
            _take(search, _smallest(search, run))
        _take(search, run)
    return search.picked if search.done else None


def _runs(nodes: Sequence[Open]) -> list[list[Open]]:
    runs: list[list[Open]] = []
    for node in nodes:
        last = runs[-1][-1] if runs else None
        if last is not None and last.index == node.index - 1 and weight(last) == weight(node):
            runs[-1].append(node)
        else:
            runs.append([node])
    return runs


def _required_first(search: Search, runs: Sequence[list[Open]]) -> list[list[Open]]:
    return [run for run in runs if any(node.machine.name in search.ask.required for node in run)]


def _offers(search: Search, run: Sequence[Open]) -> list[Offer]:
    return [offer for node in run if (offer := search.offer(node)) is not None]


def _rank(search: Search, run: Sequence[Open]) -> tuple[object, ...]:
    """Lowest weight; then runs that suffice, fewest CPUs first; then those that do not, most CPUs first."""
    offers = _offers(search, run)
    cpus, enough = (
        sum(offer.cpus for offer in offers),
        suffice(offers, search.nodes_left, search.cpus_left, search.gpus_left),
    )
    return weight(run[0]), not enough, cpus if enough else -cpus, run[0].index


def _smallest(search: Search, run: Sequence[Open]) -> list[Open]:
    """The node that offers the fewest CPUs yet all that is wanted, if there is one."""
    found = [
        (offer.cpus, node.index, node)
        for node in run
        if (offer := search.offer(node)) is not None and suffice([offer], 1, search.cpus_left, search.gpus_left)
    ]
    return [min(found, key=lambda entry: entry[:2])[2]] if found else []


def _take(search: Search, nodes: Sequence[Open]) -> None:
    for node in nodes:
        if not search.done:
            search.take(node)
