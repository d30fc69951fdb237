"""Section 6 of the rules as 22.05 has them: GPUs by links to those taken, in levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from placer.slurm_model.pools import ANY, Pools

TOP_LEVEL: Final = 4
"""Links are counted in so many levels; more links than that on a machine are scaled down to them."""


def of_node(node: Pools, want: int) -> None:
    """One of no socket and one of each socket with cores; then by links, sockets with cores first."""
    for pool in (ANY, *node.used):
        if len(node.chosen) < want:
            _pick_lowest(node, pool)
    near = list(node.chosen)
    _by_links(node, want, near, (ANY, *node.used))
    _by_links(node, want, near, node.others)


def of_tasks(node: Pools, tasks: Sequence[int], per_task: int, want: int) -> None:
    """Of no socket, then up to the GPUs of all tasks so far from each socket with tasks, then by links."""
    _fill(node, want, ANY)
    total = 0
    for s, count in enumerate(tasks):
        total += count * per_task
        if count:
            _fill(node, min(total, want), s)
    _by_links(node, want, list(node.chosen), node.sockets)


def of_job(node: Pools, want: int) -> None:
    """Of no socket, then the lowest of the first socket with cores, then by links in sockets with cores."""
    _fill(node, want, ANY)
    first = next((s for s in node.used if node.free(s)), None)
    if first is not None and len(node.chosen) < want:
        _pick_lowest(node, first)
    _by_links(node, want, list(node.chosen), node.used, highest=node.linked)


def rest_of_job(nodes: Sequence[Pools], want: int) -> int:
    """What the job is short of: one for each node that has none, then by links to its lowest; gives how many."""
    left = want
    for node in nodes:
        if not node.chosen and left > 0:
            pool = next((pool for pool in (ANY, *node.others, *node.used) if node.free(pool)), None)
            if pool is not None:
                _pick_lowest(node, pool)
                left -= 1
    for node in nodes:
        before = len(node.chosen)
        _by_links(node, before + left, sorted(node.chosen)[:1], (ANY, *node.sockets))
        left -= len(node.chosen) - before
    return want - left


def _pick_lowest(node: Pools, pool: int) -> None:
    if node.free(pool):
        node.pick(node.free(pool)[0], pool)


def _fill(node: Pools, want: int, pool: int) -> None:
    """Lowest indices of a pool until the node has `want`."""
    while len(node.chosen) < want and node.free(pool):
        _pick_lowest(node, pool)


def _by_links(node: Pools, want: int, near: Sequence[int], pools: Iterable[int], *, highest: bool = False) -> None:
    """Level by level from the best: GPUs of the pools that are so well linked to one of `near`.

    In a pool the lowest index comes first, or the highest.
    """
    for level in range(TOP_LEVEL, -1, -1):
        for pool in pools:
            for i in sorted(node.free(pool), reverse=highest):
                if len(node.chosen) < want and _level(node, near, i) >= level:
                    node.pick(i, pool)


def _level(node: Pools, near: Sequence[int], i: int) -> int:
    most = max((links for device in node.machine.devices for links in device.links), default=0)
    best = max((node.links(j, i) for j in near), default=0)
    return best if most <= TOP_LEVEL else best * TOP_LEVEL // most
