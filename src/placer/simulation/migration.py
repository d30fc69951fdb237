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

from placer.placement import fgd
from placer.placement import packing_nodes as packing
from placer.simulation import openb

if TYPE_CHECKING:
    from placer.simulation import replay

LEAST_MILLI: Final = 300
"""Pods below this part of a GPU are not worth a move."""

NOWHERE: Final = -1

Potential = Callable[[packing.Nodes], packing.Floats]
"""(B,) Φ in GPUs: what is free on a node and of no use, lower is better."""


class _Plan(msgspec.Struct, frozen=True):
    """K moves: pod `q` goes from node `a` to `goal_gpu` of node `b`, then the new pod comes to `gpu` of a."""

    q: packing.Ints
    a: packing.Ints
    b: packing.Ints
    goal_gpu: packing.Ints
    gpu: packing.Ints
    gain: packing.Floats


class Mover:
    """Knows where every pod runs and makes at most `budget` moves."""

    def __init__(self, run: replay.Replay, budget: int, potential: Potential) -> None:
        self.run, self.budget, self.potential, self.made = run, budget, potential, 0
        pods = run.pods
        self._node = np.full(len(pods), NOWHERE, dtype=np.int64)  # does not run, or may not be moved
        self._gpu = np.full(len(pods), packing.NO_GPU, dtype=np.int64)
        self._cpu = np.array([p.cpu_milli for p in pods], dtype=np.int64)
        self._memory = np.array([p.memory_mib for p in pods], dtype=np.int64)
        self._milli = np.array([p.demand_milli for p in pods], dtype=np.int64)
        self._kind = np.array(run.kind_of, dtype=np.int64)
        alike = [(kind, p.models, p.memory_mib) for kind, p in zip(run.kind_of, pods, strict=True)]
        number = {key: i for i, key in enumerate(dict.fromkeys(alike))}
        self._alike = np.array([number[key] for key in alike], dtype=np.int64)

    def placed(self, i: int, n: int, g: int) -> None:
        """Pod i runs on node n now and may be moved, unless it holds several GPUs."""
        if self.run.pods[i].gpu_count <= 1:
            self._node[i], self._gpu[i] = n, g

    def make_room(self, i: int, pod: openb.Pod) -> tuple[int, int] | None:
        """Move one pod so that pod i fits, and place it; (node, GPU), or None."""
        if self.made >= self.budget or pod.gpu_count != 1 or pod.gpu_milli < LEAST_MILLI:
            return None
        plan = self._plan(pod, self.run.kinds[self.run.kind_of[i]])
        if plan is None:
            return None
        best = int(plan.gain.argmax())
        q, a, b, gpu = (int(x[best]) for x in (plan.q, plan.a, plan.b, plan.gpu))
        run, moved = self.run, self.run.pods[q]
        run.fleet.give(a, moved, int(self._gpu[q]), event=i)
        run.fleet.take(b, moved, int(plan.goal_gpu[best]), run.kinds[run.kind_of[q]], event=i)
        run.fleet.take(a, pod, gpu, run.kinds[run.kind_of[i]], event=i)
        self._node[q] = NOWHERE
        self.made += 1
        self.placed(i, a, gpu)
        return a, gpu

    def _plan(self, pod: openb.Pod, kind: fgd.Pod) -> _Plan | None:
        """All moves that make room, with what they gain; None when there is none."""
        q, b = self._goals(self._candidates(pod))
        if not len(q):
            return None
        fleet, a, gpu = self.run.fleet, self._node[q], self._gpu[q]
        row = np.arange(len(q))
        without = _nodes(fleet, a, fleet.cpu[a] + self._cpu[q], _add(fleet.gpu[a], row, gpu, self._milli[q]))
        chosen = self.run.policy.score(without, kind).gpu
        cpu, left = without.cpu_milli - pod.cpu_milli, _add(without.gpu_milli, row, chosen, -pod.gpu_milli)
        goal = self.run.table.gpu[self._kind[q], fleet.state[b]].astype(np.int64)
        filled = _nodes(fleet, b, fleet.cpu[b] - self._cpu[q], _add(fleet.gpu[b], row, goal, -self._milli[q]))
        lost = [self.potential(nodes) for nodes in (_nodes(fleet, a), _nodes(fleet, a, cpu, left))]
        lost += [self.potential(nodes) for nodes in (_nodes(fleet, b), filled)]
        gain = lost[0] - lost[1] + lost[2] - lost[3]
        if self.run.prices is not None:
            price = self.run.prices[fleet.model]
            gain += (price[a] - price[b]) * self._milli[q] / packing.WHOLE
        return _Plan(q, a, b, goal, chosen, gain)

    def _candidates(self, pod: openb.Pod) -> packing.Ints:
        """Pods whose going would let `pod` onto their node; of pods alike on nodes alike the first."""
        fleet = self.run.fleet
        q = np.flatnonzero(self._node >= 0)
        a, g = self._node[q], self._gpu[q]
        fits = fleet.cpu[a] + self._cpu[q] >= pod.cpu_milli
        fits &= fleet.memory[a] + self._memory[q] >= pod.memory_mib
        freed = np.where(g >= 0, fleet.gpu[a, g] + self._milli[q], 0)
        fits &= np.maximum(freed, fleet.gpu[a].max(axis=1)) >= pod.gpu_milli
        if pod.models:
            fits &= ~self.run.barred(pod.models)[a]
        q = self._movable(q[fits])
        a, g = self._node[q], self._gpu[q]
        width = fleet.gpu.shape[1] + 1
        key = (fleet.state[a] * (self._alike.max() + 1) + self._alike[q]) * width + g + 1
        _, first = np.unique(key, return_index=True)
        alike: packing.Ints = np.sort(q[first])
        return alike

    def _movable(self, q: packing.Ints) -> packing.Ints:
        """Those of a type that some node has room for."""
        kinds = np.unique(self._kind[q])
        room = [self.run.table.of(int(kind), self.run.fleet.state).max() > -np.inf for kind in kinds]
        movable: packing.Ints = q[np.isin(self._kind[q], kinds[room])] if len(kinds) else q
        return movable

    def _goals(self, candidates: packing.Ints) -> tuple[packing.Ints, packing.Ints]:
        """The candidates that have a node to go to, and the one that the policy likes best."""
        goal = np.full(len(candidates), NOWHERE, dtype=np.int64)
        for alike in np.unique(self._alike[candidates]):
            mine = np.flatnonzero(self._alike[candidates] == alike)
            q = int(candidates[mine[0]])
            values = self.run.values(self.run.kind_of[q], self.run.pods[q])
            b = int(values.argmax())
            if values[b] == -np.inf:
                continue
            goal[mine] = b
            values[b] = -np.inf
            second = int(values.argmax())
            at_home = mine[self._node[candidates[mine]] == b]
            goal[at_home] = second if values[second] > -np.inf else NOWHERE
        homed = goal >= 0
        return candidates[homed], goal[homed]


def _nodes(
    fleet: replay.Fleet, n: packing.Ints, cpu: packing.Ints | None = None, gpu: packing.Ints | None = None
) -> packing.Nodes:
    """Nodes n of the fleet, with other CPU and GPUs free where they are given."""
    cpu = fleet.cpu[n] if cpu is None else cpu
    gpu = fleet.gpu[n] if gpu is None else gpu
    return packing.Nodes(cpu, gpu, fleet.model[n], fleet.gpus[n], fleet.classes[n])


def _add(gpu_milli: packing.Ints, row: packing.Ints, gpu: packing.Ints, milli: packing.Ints | int) -> packing.Ints:
    """A copy with `milli` more on GPU `gpu[i]` of row i, nothing where that is `NO_GPU`."""
    changed = gpu_milli.copy()
    changed[row, np.maximum(gpu, 0)] += np.where(gpu >= 0, milli, 0)
    return changed
