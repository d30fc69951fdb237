"""The six published policies, exactly as their simulator has them: whole-number scores, ties by the order of nodes.

Each turns a float into a whole number by cutting its fraction off. That rounding is part of the policy: FGD with
unrounded scores leaves 0.9 points more of the GPUs unallocated on the default trace.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from placer.placement import fgd, packing_fragments
from placer.placement import packing_nodes as packing

MOST_CPU_MILLI: Final = 128_000
MOST_GPU_MILLI: Final = 8_000
"""What the published scores are normalised by: the CPU and GPUs of the trace's largest node."""

Floats = packing.Floats
Nodes = packing.Nodes
Scores = packing.Scores


class Policy(Protocol):
    """How a replay asks where a pod should go."""

    @property
    def by_class(self) -> bool:
        """Whether `Nodes.classes` matters; without, more nodes are alike and the replay is faster."""

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """Score nodes on which the pod fits. Depends on nothing but its arguments, so that it may be kept."""

    def prices(self, arrived: float, free_milli: packing.Floats) -> Floats | None:
        """What a pod of one GPU loses in score on each model, now; None = nothing. Asked now and then, not always.

        `arrived` is the demand that came so far in units of the cluster's GPUs, `free_milli` (M,) what is free.
        """

    def choose(self, values: Floats) -> int:
        """One of the nodes; `values` (N,) in the order of ties, -inf where the pod does not fit (not everywhere)."""

    def choose_gpu(self, gpu_milli: packing.Ints, pod: fgd.Pod, scored: int) -> int:
        """The GPU for a share on the chosen node, given what `score` said."""


class Published:
    """What the published policies have in common: the largest score wins, the first node of equals."""

    by_class: bool = False

    def prices(self, arrived: float, free_milli: packing.Floats) -> Floats | None:
        """None: they price nothing."""
        del arrived, free_milli
        return None

    def choose(self, values: Floats) -> int:
        """The first of the best."""
        return int(values.argmax())

    def choose_gpu(self, gpu_milli: packing.Ints, pod: fgd.Pod, scored: int) -> int:
        """As scored."""
        del gpu_milli, pod
        return scored


class Random(Published):
    """A random node of those that fit, a random GPU of those with room."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """Zero everywhere."""
        return Scores(np.zeros(len(nodes.cpu_milli)), packing.tightest(nodes.gpu_milli, pod))

    def choose(self, values: Floats) -> int:
        """Uniformly among the nodes that fit."""
        return int(self.rng.choice(np.flatnonzero(values > -np.inf)))

    def choose_gpu(self, gpu_milli: packing.Ints, pod: fgd.Pod, scored: int) -> int:
        """Uniformly among the GPUs with room."""
        if scored == packing.NO_GPU:
            return scored
        return int(self.rng.choice(np.flatnonzero(gpu_milli >= pod.gpu_milli)))


class DotProd(Published):
    """Tetris: s = ⌊100 (1 − (c c_m / 128000² + G_n U_m / 8000²) / 2)⌋ with c, G_n free before and U_m = u_m k_m."""

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """See the class."""
        cpu = (nodes.cpu_milli / MOST_CPU_MILLI) * (pod.cpu_milli / MOST_CPU_MILLI)
        gpu = (nodes.gpu_milli.sum(axis=1) / MOST_GPU_MILLI) * (pod.gpu_milli * pod.gpu_count / MOST_GPU_MILLI)
        return Scores(np.trunc(100.0 * (1.0 - (cpu + gpu) / 2.0)), packing.tightest(nodes.gpu_milli, pod))


class BestFit(Published):
    """s = ⌊100 (1 − ½ (c − c_m)/128000 − ½ (G_n − U_m)/8000)⌋, then stretched to 0..100 in whole numbers.

    Stretching keeps the order, and keeps apart what differs, while the scores span at most 100: that is so on nodes of
    up to 128 CPUs and 8 GPUs. On larger ones it is done.
    """

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """See the class."""
        cpu = (nodes.cpu_milli - pod.cpu_milli) / MOST_CPU_MILLI * 0.5
        gpu = (nodes.gpu_milli.sum(axis=1) - pod.gpu_milli * pod.gpu_count) / MOST_GPU_MILLI * 0.5
        return Scores(np.trunc((1.0 - (cpu + gpu)) * 100.0), packing.tightest(nodes.gpu_milli, pod))

    def choose(self, values: Floats) -> int:
        """The first of the best after stretching."""
        first = int(values.argmax())
        highest = values[first]
        lowest = values.min(where=values > -np.inf, initial=np.inf)
        if highest - lowest <= 100:
            return first
        return int((np.floor((values - lowest) * 100.0 / (highest - lowest))).argmax())


class GpuPacking(Published):
    """First GPUs that are shared already, then free GPUs of used nodes, then untouched nodes, the smallest first."""

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """Untouched: max(33 − f, f) of f free GPUs. Takes t > 0 free ones: max(50 − t, 33). Else max(100 − ⌊Σ/10⌋, 50).

        Σ is the percentages left on the GPUs it takes, each cut to a whole number. Pods without GPUs score 0.
        """
        gpu = packing.tightest(nodes.gpu_milli, pod)
        if not pod.gpu_count:
            return Scores(np.zeros(len(gpu)), gpu)
        free = (nodes.gpu_milli == packing.WHOLE).sum(axis=1)
        chosen = packing.several(nodes.gpu_milli, pod)
        taken = (chosen & (nodes.gpu_milli == packing.WHOLE)).sum(axis=1)
        shared = (chosen * (nodes.gpu_milli * 100 // packing.WHOLE)).sum(axis=1) // 10
        value = np.where(taken > 0, np.maximum(50 - taken, 33), np.maximum(100 - shared, 50))
        value = np.where(free == nodes.gpus, np.maximum(33 - free, free), value)
        return Scores(value.astype(np.float64), gpu)


class GpuClustering(Published):
    """Pods of one class together: classes are shares, and whole GPUs by their number."""

    by_class = True

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """⌊25 (8000 − G_n)/8000⌋, + 75 only my class runs there, + 50 mine and others, + 25 none, + 0 only others."""
        gpu = packing.tightest(nodes.gpu_milli, pod)
        if not pod.gpu_count:
            return Scores(np.zeros(len(gpu)), gpu)
        mine = class_bit(pod)
        base = np.trunc(25.0 * (MOST_GPU_MILLI - nodes.gpu_milli.sum(axis=1)) / MOST_GPU_MILLI)
        among = np.where(nodes.classes & mine, 50, np.where(nodes.classes == 0, 25, 0))
        return Scores(base + np.where(nodes.classes == mine, 75, among), gpu)


class Fgd(Published):
    """s = ⌊100 σ((F_before − F_after)/1000)⌋ with σ(x) = 1/(1 + e^−x): the least growth of fragmentation."""

    def __init__(self, fragments: packing_fragments.Fragments) -> None:
        self.fragments = fragments

    def score(self, nodes: Nodes, pod: fgd.Pod) -> Scores:
        """A share tries every GPU with room and takes the first of the best."""
        found = packing.options(nodes.gpu_milli, pod)
        before = len(nodes.cpu_milli)
        fragments = self.fragments.of(
            np.concatenate([nodes.cpu_milli, nodes.cpu_milli[found.row] - pod.cpu_milli]),
            np.concatenate([nodes.gpu_milli, found.after]),
            np.concatenate([nodes.model, nodes.model[found.row]]),
        )
        gained = fragments[:before][found.row] - fragments[before:]
        value = np.trunc(100.0 / (1.0 + np.exp(gained / -1000.0)))
        return packing.best(found, value, nodes.gpu_milli.shape)


def class_bit(pod: fgd.Pod) -> int:
    """The bit of a pod's class in `Nodes.classes`; 0 for a pod without GPUs."""
    if not pod.gpu_count:
        return 0
    return 1 << (min(pod.gpu_count, 62) if pod.gpu_milli >= packing.WHOLE else 0)
