"""One run: pods come one by one, each is placed where a policy says or dropped for good, none ever leaves.

A pod fits where CPU, memory, GPUs and the model suffice and fewer than 1,001 pods run. No retries, as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from placer.placement import fgd
from placer.placement import packing_nodes as packing
from placer.simulation import migration, openb, policies, states

MOST_PODS: Final = 1001
"""Pods that one node may run, as published."""

PRICE_EVERY: Final = 50
"""Pods between two looks at the prices."""

DROPPED: Final = -1

Ints = packing.Ints
Floats = packing.Floats


class Trail(msgspec.Struct, frozen=True):
    """What happened, for E pods in the order of arrival.

    `node` (E,) index into the nodes as given or `DROPPED`; `gpu` (E,) the GPU of a pod of one, else `NO_GPU`.
    `arrived_milli`, `used_milli` (E,) are GPU thousandths asked for and in use after each pod.
    `change_pod`, `change_before`, `change_after` (C,) name, for each change of a node, the pod that caused it and the
    node's state before and after, as numbers in `states`; `start` (N,) are the nodes' first states, `final` their last.
    """

    capacity_milli: int
    node: Ints
    gpu: Ints
    arrived_milli: Ints
    used_milli: Ints
    change_pod: Ints
    change_before: Ints
    change_after: Ints
    start: Ints
    final: Ints
    states: states.States
    migrations: int = 0
    declined: int = 0


class Fleet:
    """The cluster while pods arrive. Nodes stand in the order in which equal scores are decided."""

    def __init__(
        self, nodes: Sequence[openb.Node], order: Ints, models: Sequence[str], *, by_class: bool = False
    ) -> None:
        self.order, self.by_class = order, by_class
        arranged = [nodes[i] for i in order]
        width = max(node.gpu_count for node in arranged)
        number = {model: i for i, model in enumerate(models)}
        self.cpu = np.array([n.cpu_milli for n in arranged], dtype=np.int64)
        self.memory = np.array([n.memory_mib for n in arranged], dtype=np.int64)
        self.model = np.array([number[n.model] for n in arranged], dtype=np.int64)
        self.gpus = np.array([n.gpu_count for n in arranged], dtype=np.int64)
        self.gpu = np.where(np.arange(width) < self.gpus[:, None], packing.WHOLE, 0)
        self.classes = np.zeros(len(arranged), dtype=np.int64)
        self.pods = np.zeros(len(arranged), dtype=np.int64)
        self.states = states.States(width)
        self.state = np.array([self._number(n) for n in range(len(arranged))], dtype=np.int64)
        self.least_memory = int(self.memory.min())
        self.changes: list[tuple[int, int, int]] = []

    def _number(self, n: int) -> int:
        classes = int(self.classes[n]) if self.by_class else 0
        return self.states.number(int(self.cpu[n]), self.gpu[n], int(self.model[n]), int(self.gpus[n]), classes)

    def take(self, n: int, pod: openb.Pod, gpu: int, kind: fgd.Pod, *, event: int) -> None:
        """Place a pod on node n; `gpu` for a pod of one."""
        if gpu != packing.NO_GPU:
            self.gpu[n, gpu] -= pod.gpu_milli
        elif pod.gpu_count:
            self.gpu[n] -= packing.several(self.gpu[n][None, :], kind)[0] * pod.gpu_milli
        self.classes[n] |= policies.class_bit(kind)
        self._book(n, pod, 1, event)

    def give(self, n: int, pod: openb.Pod, gpu: int, *, event: int) -> None:
        """Take a pod of at most one GPU away from node n again."""
        if gpu != packing.NO_GPU:
            self.gpu[n, gpu] += pod.gpu_milli
        self._book(n, pod, -1, event)

    def _book(self, n: int, pod: openb.Pod, sign: int, event: int) -> None:
        self.cpu[n] -= sign * pod.cpu_milli
        self.memory[n] -= sign * pod.memory_mib
        self.pods[n] += sign
        self.least_memory = min(self.least_memory, int(self.memory[n]))
        before = int(self.state[n])
        self.state[n] = self._number(n)
        self.changes.append((event, before, int(self.state[n])))

    def closed(self, pod: openb.Pod) -> packing.Bools | None:
        """(N,) nodes without memory or a place for this pod; None = no node."""
        full = len(self.changes) >= MOST_PODS
        if pod.memory_mib <= self.least_memory and not full:
            return None
        shut: packing.Bools = self.memory < pod.memory_mib
        if full:
            shut |= self.pods >= MOST_PODS
        return shut


class Replay:
    """One run of a policy.

    `order` is that of equal scores (`arrivals.tie_order`), `models` the names that the policy's arrays count by.
    `accept` tells for each pod whether it may be placed at all; by default all may. `moves` bounds the migrations;
    `potential` weighs them.
    """

    def __init__(
        self,
        nodes: Sequence[openb.Node],
        pods: Sequence[openb.Pod],
        policy: policies.Policy,
        order: Ints,
        models: Sequence[str],
        *,
        accept: Sequence[bool] | None = None,
        moves: int = 0,
        potential: migration.Potential | None = None,
    ) -> None:
        self.pods, self.policy, self.models, self.accept = pods, policy, models, accept
        self.fleet = Fleet(nodes, order, models, by_class=policy.by_class)
        shapes = [(p.cpu_milli, p.gpu_milli, p.gpu_count) for p in pods]
        number = {shape: i for i, shape in enumerate(dict.fromkeys(shapes))}
        self.kinds = [fgd.Pod(*shape) for shape in number]
        self.kind_of = [number[shape] for shape in shapes]
        self.table = states.ScoreTable(self.fleet.states, policy, self.kinds)
        self.capacity = int(self.fleet.gpus.sum()) * packing.WHOLE
        self.prices: Floats | None = None
        self.mover = migration.Mover(self, moves, potential) if moves and potential else None
        self._barred: dict[tuple[str, ...], packing.Bools] = {}

    def run(self) -> Trail:
        """Place every pod in turn."""
        fleet, count = self.fleet, len(self.pods)
        start = fleet.state.copy()
        node = np.full(count, DROPPED, dtype=np.int64)
        gpu = np.full(count, packing.NO_GPU, dtype=np.int64)
        used = np.zeros(count, dtype=np.int64)
        arrived, declined = 0, 0
        for i, pod in enumerate(self.pods):
            if i % PRICE_EVERY == 0:
                self._refresh_prices(arrived)
            arrived += pod.demand_milli
            if self.accept is not None and not self.accept[i]:
                declined += 1
                continue
            where = self.place(i, pod)
            if where is not None:
                node[i], gpu[i] = fleet.order[where[0]], where[1]
                used[i] = pod.demand_milli
        changes = np.array(fleet.changes, dtype=np.int64).reshape(-1, 3)
        return Trail(
            self.capacity,
            node,
            gpu,
            np.cumsum([p.demand_milli for p in self.pods], dtype=np.int64),
            np.cumsum(used),
            changes[:, 0],
            changes[:, 1],
            changes[:, 2],
            start,
            fleet.state,
            fleet.states,
            self.mover.made if self.mover else 0,
            declined,
        )

    def place(self, i: int, pod: openb.Pod) -> tuple[int, int] | None:
        """Place pod i, if need be by moving another; (node, GPU), or None when it is dropped."""
        values = self.values(self.kind_of[i], pod)
        n = self.policy.choose(values) if values.max() > -np.inf else DROPPED
        if n == DROPPED:
            return self.mover.make_room(i, pod) if self.mover else None
        kind = self.kinds[self.kind_of[i]]
        scored = int(self.table.gpu[self.kind_of[i], self.fleet.state[n]])
        g = self.policy.choose_gpu(self.fleet.gpu[n], kind, scored)
        self.fleet.take(n, pod, g, kind, event=i)
        if self.mover:
            self.mover.placed(i, n, g)
        return n, g

    def values(self, kind: int, pod: openb.Pod) -> Floats:
        """(N,) what the policy says about each node for this pod; -inf where it does not fit."""
        row = self.table.of(kind, self.fleet.state)
        if self.prices is not None and pod.gpu_count:
            row -= self.prices[self.fleet.model] * (pod.demand_milli / packing.WHOLE)
        if pod.models:
            row[self.barred(pod.models)] = -np.inf
        shut = self.fleet.closed(pod)
        if shut is not None:
            row[shut] = -np.inf
        return row

    def barred(self, models: tuple[str, ...]) -> packing.Bools:
        """(N,) nodes of other models."""
        found = self._barred.get(models)
        if found is None:
            allowed = np.array([model in models for model in self.models], dtype=np.bool_)
            found = self._barred[models] = ~allowed[self.fleet.model]
        return found

    def _refresh_prices(self, arrived: int) -> None:
        free = np.bincount(self.fleet.model, self.fleet.gpu.sum(axis=1), len(self.models)).astype(np.float64)
        self.prices = self.policy.prices(arrived / self.capacity, free)
