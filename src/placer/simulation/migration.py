"""Bounded migration: before a pod is dropped, one running pod may be moved to make room for it.

For a pod p of one GPU (u >= 300) that fits nowhere, look at all running pods q of at most one GPU that were not moved
yet, on a node A where p fits once q is gone, while q fits on some B != A (the policy says which). With Φ the policy's
measure of what a node has lost for further pods, and π the price of its model, move the q with the most

    Φ(A) − Φ(A − q + p) + Φ(B) − Φ(B + q) + (π_A − π_B) s_q

The number of moves of a run is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from placer.placement import packing_nodes as packing
from placer.simulation import openb

if TYPE_CHECKING:
    from placer.simulation import replay

LEAST_MILLI: Final = 300
"""Pods below this part of a GPU are not worth a move."""

NOWHERE: Final = -1

Potential = Callable[[packing.Nodes], packing.Floats]
"""(B,) Φ in GPUs: what is free on a node and of no use, lower is better."""


class Move(msgspec.Struct, frozen=True):
    """Pod q goes from node a to GPU `goal_gpu` of node b; the new pod comes to `gpu` of a. States are after both."""

    q: int
    a: int
    b: int
    goal_gpu: int
    gpu: int
    states: tuple[int, int, int, int]


class Mover:
    """Knows where every pod runs and makes at most `budget` moves."""

    def __init__(self, run: replay.Replay, budget: int, potential: Potential) -> None:
        self.run, self.budget, self.potential, self.made = run, budget, potential, 0
        count = len(run.pods)
        self._node = np.full(count, NOWHERE, dtype=np.int64)  # does not run, or may not be moved
        self._gpu = np.full(count, packing.NO_GPU, dtype=np.int64)
        self._cpu = np.array([p.cpu_milli for p in run.pods], dtype=np.int64)
        self._memory = np.array([p.memory_mib for p in run.pods], dtype=np.int64)
        self._milli = np.array([p.demand_milli for p in run.pods], dtype=np.int64)
        self._kind = np.array(run.kind_of, dtype=np.int64)

    def placed(self, i: int, n: int, g: int) -> None:
        """Pod i runs on node n now and may be moved, unless it holds several GPUs."""
        if self.run.pods[i].gpu_count <= 1:
            self._node[i], self._gpu[i] = n, g

    def make_room(self, i: int, pod: openb.Pod) -> tuple[int, int] | None:
        """Move one pod so that pod i fits, and place it; (node, GPU), or None."""
        if self.made >= self.budget or pod.gpu_count != 1 or pod.gpu_milli < LEAST_MILLI:
            return None
        found = [move for q in self._candidates(pod) if (move := self._move(int(q), pod, self.run.kind_of[i]))]
        if not found:
            return None
        best = found[int(self._gains(found).argmax())]
        run = self.run
        moved, kind = run.pods[best.q], run.kinds[run.kind_of[best.q]]
        run.fleet.give(best.a, moved, int(self._gpu[best.q]), event=i)
        run.fleet.take(best.b, moved, best.goal_gpu, kind, event=i)
        run.fleet.take(best.a, pod, best.gpu, run.kinds[run.kind_of[i]], event=i)
        self._node[best.q] = NOWHERE
        self.made += 1
        self.placed(i, best.a, best.gpu)
        return best.a, best.gpu

    def _candidates(self, pod: openb.Pod) -> packing.Ints:
        """Pods whose going would let `pod` onto their node, and that fit on some node now."""
        fleet = self.run.fleet
        homeless = self._node < 0
        movable = np.zeros(len(self.run.kinds), dtype=np.bool_)
        for kind in np.unique(self._kind[~homeless]):
            movable[kind] = self.run.table.of(int(kind), fleet.state).max() > -np.inf
        q = np.flatnonzero(~homeless & movable[self._kind])
        a = self._node[q]
        fits = fleet.cpu[a] + self._cpu[q] >= pod.cpu_milli
        fits &= fleet.memory[a] + self._memory[q] >= pod.memory_mib
        if pod.models:
            fits &= ~self.run.barred(pod.models)[a]
        q, a = q[fits], a[fits]
        g = self._gpu[q]
        freed = np.where(g >= 0, fleet.gpu[a, g] + self._milli[q], 0)
        room: packing.Ints = q[np.maximum(freed, fleet.gpu[a].max(axis=1)) >= pod.gpu_milli]
        return room

    def _move(self, q: int, pod: openb.Pod, kind: int) -> Move | None:
        """Where q would go and what `pod` would take, or None when q has no place to go."""
        run, fleet = self.run, self.run.fleet
        a, moved, its_kind = int(self._node[q]), run.pods[q], run.kind_of[q]
        values = run.values(its_kind, moved)
        values[a] = -np.inf
        b = int(values.argmax())
        if values[b] == -np.inf:
            return None
        goal = int(run.table.gpu[its_kind, fleet.state[b]])
        without = fleet.after(a, moved, int(self._gpu[q]), -1)
        if run.table.of(kind, np.array([without]))[0] == -np.inf:
            return None
        gpu = int(run.table.gpu[kind, without])
        states = (int(fleet.state[a]), fleet.after_state(without, pod, gpu), int(fleet.state[b]))
        return Move(q, a, b, goal, gpu, (*states, fleet.after(b, moved, goal, 1)))

    def _gains(self, moves: list[Move]) -> packing.Floats:
        fleet = self.run.fleet
        states = np.array([move.states for move in moves])
        lost = self.potential(fleet.states.nodes(states.ravel())).reshape(states.shape)
        gains: packing.Floats = lost[:, 0] - lost[:, 1] + lost[:, 2] - lost[:, 3]
        if self.run.prices is not None:
            price = self.run.prices[fleet.model]
            a, b = (np.array([getattr(move, side) for move in moves]) for side in "ab")
            gains += (price[a] - price[b]) * self._milli[[move.q for move in moves]] / packing.WHOLE
        return gains
