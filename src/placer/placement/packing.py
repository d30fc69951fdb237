"""placer's own online packing rule, for pods of a share, one or several GPUs of one node; the mix of pods is known.

A pod goes to the node, and the GPU on it, with the highest score

    score = [Φ(before) − Φ(after)] / 1000 − π_m s
    Φ(n)  = 40 (G_n − 1000 V(n)) + F(n) + 1.2 H(n)          (thousandths of a GPU; 0 when G_n = 0)

where G_n is what is free on the node's GPUs, s the pod's demand in GPUs, and

V(n)   what the node can still earn, from cutting-stock duals (`packing_holes`): the first key
F(n)   FGD's fragmentation (`packing_fragments`) over all GPU types, weights ~ p_j s_j^-1.5
H(n)   homogeneous fill (`packing_fill`), weights ~ p_j s_j^0.25: F and H decide where V is flat
π_m    the price of a model that other pods depend on (`packing_prices`): because they name it, or because no other
       model has nodes large enough for them

Both sets of weights are scaled so that they sum to the share of GPU pods in the mix; types whose two weights together
are below 0.0004 are left out. Scores are never rounded: on the public trace rounding costs more than any of the terms.
A pod that fits somewhere is always placed; the rule only chooses where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from placer.placement import fgd, packing_fill, packing_fragments, packing_holes, packing_prices
from placer.placement import packing_nodes as packing

EARNING: Final = 40.0
FILL: Final = 1.2
FRAGMENT_POWER: Final = -1.5
FILL_POWER: Final = 0.25
LEAST_WEIGHT: Final = 4e-4

Floats = packing.Floats


def whole_mix(pods: Iterable[fgd.Pod]) -> fgd.Mix:
    """Every type of the pods with its share of all, pods without GPUs included. Order: by type."""
    counts: dict[fgd.Pod, int] = {}
    for pod in pods:
        counts[pod] = counts.get(pod, 0) + 1
    total = sum(counts.values())
    return tuple(fgd.Weighted(pod, counts[pod] / total) for pod in sorted(counts))


class Shape(msgspec.Struct, frozen=True):
    """`nodes` nodes of one shape, as they are when nothing runs on them."""

    model: str
    cpu_milli: int
    gpus: int
    nodes: int = 1


class Rule:
    """The rule for one mix of pods and one cluster. `models` names what `packing_nodes.Nodes.model` counts by.

    Preparing it takes 0.2 seconds; it is worth doing again when the mix has drifted, not for each pod.
    """

    by_class = False

    def __init__(self, mix: fgd.Mix, shapes: Sequence[Shape]) -> None:
        self.mix = mix
        self.models = models = tuple(sorted({shape.model for shape in shapes}))
        gpus = max((shape.gpus for shape in shapes), default=0)
        owned = Counter[str]()
        for shape in shapes:
            owned[shape.model] += shape.gpus * shape.nodes
        self.capacity = np.array([owned[model] for model in models], dtype=np.float64)
        wanting = [w for w in mix if w.pod.gpu_count and w.pod.gpu_milli]
        fragment, fill = _weights(wanting, FRAGMENT_POWER), _weights(wanting, FILL_POWER)
        kept = _heavy(fragment, fill)
        self.holes = packing_holes.hole_values(mix)
        self._prices = packing_holes.priced_values(mix, self.holes)
        self._fragments = packing_fragments.Fragments([w for w in fragment if w.pod in kept], models, gpus)
        self._fill = packing_fill.Fill([w for w in fill if w.pod in kept], models)
        self._table = np.concatenate([self._prices, self._fill.columns], axis=1)
        self.pressure = packing_prices.pressure(_dependent(mix, shapes), models, self.capacity)

    def score(self, nodes: packing.Nodes, pod: fgd.Pod) -> packing.Scores:
        """The score without prices, for nodes that the pod fits on, and the GPU for a pod of one."""
        found = packing.options(nodes.gpu_milli, pod)
        count = len(nodes.cpu_milli)
        lost = self._lost(
            np.concatenate([nodes.cpu_milli, nodes.cpu_milli[found.row] - pod.cpu_milli]),
            np.concatenate([nodes.gpu_milli, found.after]),
            np.concatenate([nodes.model, nodes.model[found.row]]),
        )
        return packing.best(found, lost[:count][found.row] - lost[count:], nodes.gpu_milli.shape)

    def potential(self, nodes: packing.Nodes) -> Floats:
        """(B,) Φ / 1000: what is free on each node and of no use to the mix; lower is better."""
        return self._lost(nodes.cpu_milli, nodes.gpu_milli, nodes.model)

    def earning(self, cpu_milli: packing.Ints, gpu_milli: packing.Ints) -> Floats:
        """(B,) V in GPUs."""
        sums = self._prices[gpu_milli // packing_holes.GRID].sum(axis=1)
        return np.asarray((cpu_milli[:, None] * _CPU_PRICES + sums).min(axis=1))

    def prices(self, arrived: float, free_milli: Floats) -> Floats | None:
        """(M,) π, off the score of a pod for each GPU it asks for; None = no model has one. See `packing_prices`."""
        return packing_prices.prices(self.pressure, self.capacity, arrived, free_milli)

    def choose(self, values: Floats) -> int:
        """The first of the best."""
        return int(values.argmax())

    def choose_gpu(self, gpu_milli: packing.Ints, pod: fgd.Pod, scored: int) -> int:
        """As scored."""
        del gpu_milli, pod
        return scored

    def _lost(self, cpu: packing.Ints, gpu: packing.Ints, model: packing.Ints) -> Floats:
        """(B,) Φ / 1000."""
        sums = self._table[gpu // packing_holes.GRID].sum(axis=1)
        prices = self._prices.shape[1]
        earning = (cpu[:, None] * _CPU_PRICES + sums[:, :prices]).min(axis=1)
        free = gpu.sum(axis=1)
        lost = EARNING * (free - packing.WHOLE * earning)
        lost += self._fragments.of(cpu, gpu, model)
        lost += FILL * self._fill.of(cpu, free, model, sums[:, prices:])
        lost /= packing.WHOLE
        lost[free == 0] = 0.0
        return np.asarray(lost)


_CPU_PRICES: Final = np.array(packing_holes.PRICES) / 1000.0  # for one thousandth of a CPU


def _weights(wanting: Sequence[fgd.Weighted], power: float) -> list[fgd.Weighted]:
    """Shares times s^power, scaled back to their old sum."""
    raw = [w.share * (w.pod.gpu_milli * w.pod.gpu_count / packing.WHOLE) ** power for w in wanting]
    scale = sum(w.share for w in wanting) / sum(raw) if raw else 0.0
    return [fgd.Weighted(w.pod, scale * weight) for w, weight in zip(wanting, raw, strict=True)]


def _dependent(mix: fgd.Mix, shapes: Sequence[Shape]) -> fgd.Mix:
    """The mix with each pod's models as they are in effect: those it may run on and of which an empty node holds it.

    () = any, also for a pod that no node holds.
    """
    every = {shape.model for shape in shapes}
    found = []
    for w in mix:
        large = {s.model for s in shapes if s.cpu_milli >= w.pod.cpu_milli and s.gpus >= w.pod.gpu_count}
        able = large & set(w.pod.models) if w.pod.models else large
        models = () if able == every else tuple(sorted(able))
        found.append(fgd.Weighted(msgspec.structs.replace(w.pod, models=models), w.share))
    return tuple(found)


def _heavy(*sets: Sequence[fgd.Weighted]) -> set[fgd.Pod]:
    weight: dict[fgd.Pod, float] = {}
    for weighted in sets:
        for w in weighted:
            weight[w.pod] = weight.get(w.pod, 0.0) + w.share
    return {pod for pod, total in weight.items() if total >= LEAST_WEIGHT}
