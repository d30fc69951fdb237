"""Section 6 of the rules: which GPUs, given the cores of each socket."""

from __future__ import annotations

import math
from collections.abc import Sequence

from placer.slurm_model import types
from placer.slurm_model.cores import Offer
from placer.slurm_model.nodes import Picked
from placer.slurm_model.release import R22, R24, R26
from placer.slurm_model.usable import INFINITE


class Node:
    """One node while its GPUs are chosen."""

    def __init__(self, ask: types.Ask, picked: Picked, taken_cores: list[list[int]], tasks: int) -> None:
        self.ask = ask
        self.machine = picked.offer.node.machine
        o = picked.offer.node
        self.picked = picked
        self.k = [len(c) for c in taken_cores]
        self.K = sum(self.k)
        self.tasks = tasks
        self.free = [list(g) for g in o.gpus]
        self.free_any = list(o.gpus_any)
        self.chosen: list[int] = []
        self.counters = {i: 0 for pool in (*self.free, self.free_any) for i in pool}
        self.order = sorted(self.counters)
        self.linked = any(self.machine.devices[i].links for i in self.counters)

    def links(self, i: int, j: int) -> int:
        links = self.machine.devices[i].links
        return max(0, links[j]) if j < len(links) else 0

    def pool(self, s: int) -> list[int]:
        return self.free_any if s < 0 else self.free[s]

    def pick(self, i: int, s: int) -> None:
        self.pool(s).remove(i)
        self.chosen.append(i)
        if self.linked:
            for j in self.order:
                if j not in self.chosen:
                    self.counters[j] += self.links(i, j)

    def take(self, m: int, s: int) -> int:
        """[24+] up to m GPUs of one pool; gives how many."""
        got = 0
        if self.ask.release >= R24 and self.linked:
            at = 0
            self.order.sort(key=lambda j: self.counters[j])
            while got < m and at < len(self.order):
                i = self.order[at]
                if i not in self.pool(s):
                    at += 1
                    continue
                self.pick(i, s)
                got += 1
                self.order.sort(key=lambda j: self.counters[j])
                at = 1
            return got
        while got < m and self.pool(s):
            self.pick(min(self.pool(s)), s)
            got += 1
        return got

    @property
    def with_cores(self) -> list[int]:
        return [s for s, k in enumerate(self.k) if k]

    @property
    def without(self) -> list[int]:
        return [s for s, k in enumerate(self.k) if not k]


def tasks_of_sockets(ask: types.Ask, node: Node) -> list[int]:
    machine = node.machine
    T = machine.threads
    t = T if ask.release == R22 else ask.t(machine)
    c = 1 if ask.release == R22 else max(1, node.K * T // node.tasks if node.tasks else 1)
    limit = ask.npn or node.tasks
    found = [0] * len(node.k)
    each, per = t // c, max(1, c // (T if ask.release >= R26 else t))
    for s, k in enumerate(node.k):
        found[s] = k * each if each else math.ceil(k / per)
        if ask.release < R26:
            found[s] = min(found[s], limit - sum(found[:s]))
    return found


def choose(ask: types.Ask, nodes: Sequence[Node]) -> list[list[int]] | None:
    if ask.exclusive:
        if ask.release >= R26 and ask.P > sum(len(node.machine.devices) for node in nodes):
            return None
        return [sorted(range(len(node.machine.devices))) for node in nodes]
    if not ask.wants_gpus:
        return [[] for _ in nodes]
    tasks = [tasks_of_sockets(ask, node) for node in nodes]
    if ask.release >= R24 and ask.per_task and sum(map(sum, tasks)) < ask.n:
        return None
    taken = 0
    for position, node in enumerate(nodes):
        left_nodes = len(nodes) - position - 1
        if ask.per_node:
            want = ask.per_node
            _per_node(ask, node, want)
        elif ask.per_sock:
            want = 0
            _per_socket(ask, node)
        elif ask.per_task:
            want = sum(tasks[position]) * ask.per_task
            if ask.release >= R24 :
                want = min(want, node.tasks * ask.per_task)
            _per_task(ask, node, tasks[position], want)
        else:
            want = ask.P - taken - left_nodes
            want = min(want, node.picked.gpus if ask.release >= R24 else node.picked.offer.gpus)
            if node.picked.offer.g:
                t = node.machine.threads if ask.release == R22 else ask.t(node.machine)
                want = min(want, node.K * t // node.picked.offer.g)
            want = max(0, want)
            _of_job(ask, node, want)
            taken += len(node.chosen)
            want = 0
        if ask.release >= R26 and len(node.chosen) < want:
            return None
    if ask.P and not (ask.per_node or ask.per_sock or ask.per_task):
        if ask.release == R22:
            taken = _old_rest(ask, nodes, taken)
        for node in nodes:
            if taken >= ask.P:
                break
            for s in range(-1, len(node.free)):
                taken += node.take(ask.P - taken, s)
        if taken < ask.P and ask.release >= R26:
            return None
    return [sorted(node.chosen) for node in nodes]


def _per_node(ask: types.Ask, node: Node, want: int, others: bool = True) -> None:
    if ask.release == R22:
        _old_per_node(ask, node, want)
        return
    left = want
    for s in node.with_cores:
        left -= node.take(min(left, want * node.k[s] // node.K), s)
    left -= node.take(left, -1)
    for s in node.with_cores:
        left -= node.take(left, s)
    if others and not ask.enforce:
        for s in node.without:
            left -= node.take(left, s)


def _per_socket(ask: types.Ask, node: Node) -> None:
    k = ask.per_sock
    used = node.with_cores
    if ask.s > len(used):
        more = [s for s in node.without if len(node.free[s]) >= k]
        used = sorted(used + more[: ask.s - len(used)])
    elif ask.s and ask.s < len(used):
        used = [s for s in used if node.free[s]]
    left = k * len(used)
    for s in used:
        left -= node.take(min(left, k), s)
    left -= node.take(left, -1)
    for s in used:
        left -= node.take(left, s)
    for s in range(len(node.free)):
        left -= node.take(left, s)


def _per_task(ask: types.Ask, node: Node, tasks: Sequence[int], want: int) -> None:
    if ask.release == R22:
        _old_fill_any(node, want)
        total = 0
        for s, count in enumerate(tasks):
            total += count * ask.per_task
            while count and len(node.chosen) < min(total, want) and node.free[s]:
                node.pick(node.free[s][0], s)
        _old_by_links(node, want, [list(range(len(node.free)))])
        return
    left = want
    for s, count in enumerate(tasks):
        left -= node.take(min(left, count * ask.per_task), s)
    left -= node.take(left, -1)
    if not ask.enforce:
        for s in range(len(node.free)):
            left -= node.take(left, s)


def _of_job(ask: types.Ask, node: Node, want: int) -> None:
    if ask.release == R22:
        _old_fill_any(node, want)
        first = next((s for s in node.with_cores if node.free[s]), None)
        if len(node.chosen) < want and first is not None:
            node.pick(node.free[first][0], first)
        near = list(node.chosen)
        for level in range(4, -1, -1):
            for s in node.with_cores:
                for i in sorted(node.free[s], reverse=node.linked):
                    if len(node.chosen) < want and _level(node, near, i) >= level:
                        node.pick(i, s)
        return
    if not node.linked or want <= 1:
        _per_node(ask, node, want, others=False)
        return
    pool = sorted(i for s in node.with_cores for i in node.free[s])
    if not pool:
        return
    best = max(((node.links(i, j), -i, -j) for i in pool for j in pool if i < j), default=(0, 0, 0))
    keep = -best[1]
    kept = list(pool)
    while len(kept) > want:
        drop = min((i for i in kept if i != keep), key=lambda i: (node.links(keep, i), i))
        kept.remove(drop)
    for i in kept:
        for s in node.with_cores:
            if i in node.free[s]:
                node.pick(i, s)


def _old_rest(ask: types.Ask, nodes: Sequence[Node], taken: int) -> int:
    for node in nodes:
        if not node.chosen and taken < ask.P:
            for s in (-1, *node.without, *node.with_cores):
                if node.pool(s):
                    node.pick(node.pool(s)[0], s)
                    taken += 1
                    break
    for node in nodes:
        before = len(node.chosen)
        _old_by_links(node, before + ask.P - taken, [list(range(-1, len(node.free)))], lowest=True)
        taken += len(node.chosen) - before
    return taken


def _old_fill_any(node: Node, want: int) -> None:
    while len(node.chosen) < want and node.free_any:
        node.pick(node.free_any[0], -1)


def _old_per_node(ask: types.Ask, node: Node, want: int) -> None:
    if node.free_any and want:
        node.pick(node.free_any[0], -1)
    for s in node.with_cores:
        if len(node.chosen) < want and node.free[s]:
            node.pick(node.free[s][0], s)
    _old_by_links(node, want, [[-1, *node.with_cores], node.without])


def _old_by_links(node: Node, want: int, groups: list[list[int]], lowest: bool = False) -> None:
    near = sorted(node.chosen)[:1] if lowest else list(node.chosen)
    for group in groups:
        for level in range(4, -1, -1):
            for s in group:
                for i in list(node.pool(s)):
                    if len(node.chosen) < want and _level(node, near, i) >= level:
                        node.pick(i, s)


def _level(node: Node, near: Sequence[int], i: int) -> int:
    most = max((max(d.links, default=0) for d in node.machine.devices), default=0)
    best = max((node.links(j, i) for j in near), default=0)
    return best if most <= 4 else best * 4 // most
