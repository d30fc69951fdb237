"""Section 6 of the rules: which GPUs, given the cores of each socket. What 22.05 does otherwise is in `gpus_22`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placer.slurm_model import gpus_22, types
from placer.slurm_model.pools import ANY, Pools
from placer.slurm_model.release import R22, R24, R26


def choose(ask: types.Ask, nodes: Sequence[Pools]) -> list[tuple[int, ...]] | None:
    """GPU indices of each node, ascending; None where the job stays pending for want of them.

    [24+] so does one whose tasks per socket are counted to fewer than it has, [26] and one that is short of GPUs.
    """
    if ask.exclusive:
        every = [tuple(range(len(node.machine.devices))) for node in nodes]
        return None if ask.release >= R26 and sum(map(len, every)) < ask.P else every
    if ask.per_task:
        tasks = [_tasks_of_sockets(ask, node) for node in nodes]
        if ask.release >= R24 and sum(map(sum, tasks)) < ask.n:
            return None
        served = [_of_tasks(ask, node, counts) for node, counts in zip(nodes, tasks, strict=True)]
    elif ask.per_node or ask.per_sock:
        served = [_of_node(ask, node) for node in nodes]
    else:
        served = [_of_job(ask, nodes)]
    return [tuple(sorted(node.chosen)) for node in nodes] if all(served) or ask.release < R26 else None


def _of_node(ask: types.Ask, node: Pools) -> bool:
    if ask.per_sock:
        _of_sockets(ask, node)
    elif ask.release == R22:
        gpus_22.of_node(node, ask.per_node)
    else:
        left = ask.per_node - _by_cores(node, ask.per_node)
        for s in () if ask.enforce else node.others:
            left -= node.take(left, s)
    return len(node.chosen) >= ask.per_node


def _by_cores(node: Pools, want: int) -> int:
    """[24+] from each socket in proportion to its cores, then of no socket, then sockets with cores; gives how many."""
    left = want
    for s in node.used:
        left -= node.take(min(left, want * node.k[s] // node.K), s)
    for s in (ANY, *node.used):
        left -= node.take(left, s)
    return want - left


def _of_sockets(ask: types.Ask, node: Pools) -> None:
    """per_sock of each socket that counts, then of no socket, then of these and all others.

    Sockets with cores count; if --sockets-per-node is larger, further ones with enough free GPUs; if smaller, those
    without free GPUs do not. It is no upper limit.
    """
    sockets = node.used
    if ask.s > len(sockets):
        more = [s for s in node.others if len(node.free(s)) >= ask.per_sock]
        sockets = sorted(sockets + more[: ask.s - len(sockets)])
    elif ask.s < len(sockets):
        sockets = [s for s in sockets if node.free(s)]
    left = ask.per_sock * len(sockets)
    for s in sockets:
        left -= node.take(min(left, ask.per_sock), s)
    for s in (ANY, *sockets, *node.sockets):
        left -= node.take(left, s)


def _tasks_of_sockets(ask: types.Ask, node: Pools) -> list[int]:
    """Tasks that are counted to each socket, which need not be those that run there.

    A task has c CPUs: all CPUs of the cores given, threads that are not used included, over the tasks. [24] divides
    them by the threads *used* of a core and so counts too few tasks where these are fewer.
    """
    threads = node.machine.threads
    t = threads if ask.release == R22 else ask.t(node.machine)
    c = 1 if ask.release == R22 else max(1, node.K * threads // max(1, node.tasks))
    cores_per_task = max(1, c // (threads if ask.release >= R26 else t))
    counts = [k * (t // c) if t >= c else math.ceil(k / cores_per_task) for k in node.k]
    if ask.release >= R26:
        return counts
    left = ask.npn or node.tasks
    for s, count in enumerate(counts):
        counts[s] = min(count, left)
        left -= counts[s]
    return counts


def _of_tasks(ask: types.Ask, node: Pools, tasks: Sequence[int]) -> bool:
    want = sum(tasks) * ask.per_task
    if ask.release == R22:
        gpus_22.of_tasks(node, tasks, ask.per_task, want)
        return True
    want = left = min(want, node.tasks * ask.per_task)
    for s, count in enumerate(tasks):
        left -= node.take(min(left, count * ask.per_task), s)
    for s in (ANY, *(() if ask.enforce else node.sockets)):
        left -= node.take(left, s)
    return len(node.chosen) >= want


def _of_job(ask: types.Ask, nodes: Sequence[Pools]) -> bool:
    """GPUs of the whole job: each node in turn leaves one for every later node; then what is still short."""
    taken = 0
    for position, node in enumerate(nodes):
        want = _share(ask, node, ask.P - taken - (len(nodes) - position - 1))
        if ask.release == R22:
            gpus_22.of_job(node, want)
        elif node.linked and want > 1:
            _best_linked(node, want)
        else:
            _by_cores(node, want)
        taken += len(node.chosen)
    if ask.release == R22:
        taken += gpus_22.rest_of_job(nodes, ask.P - taken)
    for node in nodes:
        for s in (ANY, *node.sockets):
            taken += node.take(ask.P - taken, s)
    return taken >= ask.P


def _share(ask: types.Ask, node: Pools, want: int) -> int:
    """At most what the node contributes, and what its cores can serve."""
    offer = node.picked.offer
    want = min(want, node.picked.gpus if ask.release >= R24 else offer.gpus)
    if offer.g:
        t = node.machine.threads if ask.release == R22 else ask.t(node.machine)
        want = min(want, node.K * t // offer.g)
    return max(0, want)


def _best_linked(node: Pools, want: int) -> None:
    """[24+] all free GPUs of sockets with cores, less those that are least linked to one of the best pair."""
    kept = sorted(i for s in node.used for i in node.free(s))
    pairs = [(-node.links(i, j), i) for i in kept for j in kept if i < j]
    if not pairs and not kept:
        return
    keep = min(pairs)[1] if pairs else kept[0]
    while len(kept) > want:
        kept.remove(min((i for i in kept if i != keep), key=lambda i: (node.links(keep, i), i)))
    home = {i: s for s in node.used for i in node.free(s)}
    for i in kept:
        node.pick(i, home[i])
