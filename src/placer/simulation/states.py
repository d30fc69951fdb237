"""States of nodes, each kept once, and the scores of pod types in them.

A score depends on the pod's type and on what is free on the node, never on which node it is. So nodes in the same state
share their scores, and a decision scores only the states that the pod's type has not met yet: about 25 of 1,213 nodes.
"""

from __future__ import annotations

import numpy as np

from placer.placement import fgd
from placer.placement import packing_nodes as packing
from placer.simulation import policies

FIRST_ROOM = 4096


class States:
    """All states met so far, numbered from 0; arrays grow by doubling."""

    def __init__(self, gpus: int) -> None:
        self.count = 0
        self._known: dict[tuple[int, int, int, int, bytes], int] = {}
        self.cpu = np.zeros(FIRST_ROOM, dtype=np.int64)
        self.gpu = np.zeros((FIRST_ROOM, gpus), dtype=np.int64)
        self.model = np.zeros(FIRST_ROOM, dtype=np.int64)
        self.gpus = np.zeros(FIRST_ROOM, dtype=np.int64)
        self.classes = np.zeros(FIRST_ROOM, dtype=np.int64)

    @property
    def room(self) -> int:
        """How many states the arrays hold before they grow."""
        return len(self.cpu)

    def number(self, cpu: int, gpu: packing.Ints, model: int, gpus: int, classes: int) -> int:
        """The number of a state, new or known."""
        key = (cpu, model, gpus, classes, gpu.tobytes())
        known = self._known.get(key)
        if known is not None:
            return known
        if self.count == self.room:
            for name in ("cpu", "gpu", "model", "gpus", "classes"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate([old, np.zeros_like(old)]))
        i = self.count
        self.cpu[i], self.gpu[i], self.model[i], self.gpus[i], self.classes[i] = cpu, gpu, model, gpus, classes
        self._known[key] = i
        self.count += 1
        return i

    def nodes(self, chosen: packing.Ints) -> packing.Nodes:
        """These states as nodes."""
        return packing.Nodes(
            self.cpu[chosen], self.gpu[chosen], self.model[chosen], self.gpus[chosen], self.classes[chosen]
        )


class ScoreTable:
    """What a policy says about each pod type in each state: nan = not asked yet, -inf = does not fit."""

    def __init__(self, states: States, policy: policies.Policy, pods: list[fgd.Pod]) -> None:
        self.states, self.policy, self.pods = states, policy, pods
        self.value = np.full((len(pods), states.room), np.nan)
        self.gpu = np.full((len(pods), states.room), packing.NO_GPU, dtype=np.int16)

    def of(self, kind: int, state_of: packing.Ints) -> packing.Floats:
        """(N,) the scores of a pod type on nodes in these states; a fresh array."""
        if self.value.shape[1] < self.states.room:
            self._grow()
        row: packing.Floats = self.value[kind].take(state_of)
        if np.isnan(row[row.argmax()]):  # argmax finds nan first
            self._score(kind, np.unique(state_of[np.isnan(row)]))
            row = self.value[kind].take(state_of)
        return row

    def _score(self, kind: int, states: packing.Ints) -> None:
        pod = self.pods[kind]
        nodes = self.states.nodes(states)
        fit = packing.fits(nodes, pod)
        self.value[kind, states[~fit]] = -np.inf
        if not fit.any():
            return
        states = states[fit]
        scores = self.policy.score(self.states.nodes(states), pod)
        self.value[kind, states] = scores.value
        self.gpu[kind, states] = scores.gpu

    def _grow(self) -> None:
        more = ((0, 0), (0, self.states.room - self.value.shape[1]))
        self.value = np.pad(self.value, more, constant_values=np.nan)
        self.gpu = np.pad(self.gpu, more, constant_values=packing.NO_GPU)
