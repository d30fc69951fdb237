"""Which GPU models to keep for the pods that can use no other.

Pods that depend on some of the models ask, at a total demand of the cluster's capacity, for D_s GPUs with the set s of
models: they name them, or are too large for the nodes of the others (a pod of 8 GPUs and 120 CPUs, where only one model
has nodes of 128 CPUs).
Spread over the allowed models so that the least loaded one is raised first (water-filling, group by group until nothing
changes: the spread with least Σ_m load_m² / cap_m), this loads model m with ρ_m GPUs' demand for each GPU it has. When
a share `arrived` of the capacity has been asked for, one GPU of model m costs

    π_m = STRENGTH ρ_m cap_m max(0, 1 − arrived) / max(free_m, 1)

in the units of the packing rule's score: what is still to come for it over what it still has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from placer.placement import fgd
from placer.placement import packing_nodes as packing

STRENGTH: Final = 3.5
ROUNDS: Final = 200
_STILL: Final = 1e-6

Floats = packing.Floats


def pressure(mix: Sequence[fgd.Weighted], models: Sequence[str], capacity: Floats) -> Floats:
    """(M,) ρ: demand of the pods whose `models` are not () for each GPU of a model. `capacity` (M,) are GPUs."""
    per_pod = sum(w.share * w.pod.gpu_milli * w.pod.gpu_count for w in mix)
    groups: dict[tuple[int, ...], float] = {}
    for w in mix:
        allowed = tuple(i for i, model in enumerate(models) if model in w.pod.models and capacity[i] > 0)
        if allowed and per_pod:
            demand = w.share * w.pod.gpu_milli * w.pod.gpu_count / per_pod * float(capacity.sum())
            groups[allowed] = groups.get(allowed, 0.0) + demand
    load = np.zeros(len(models))
    parts = {allowed: np.zeros(len(allowed)) for allowed in groups}
    for _ in range(ROUNDS):
        moved = 0.0
        for allowed, demand in sorted(groups.items()):
            where = list(allowed)
            load[where] -= parts[allowed]
            part = _fill(load[where], capacity[where], demand)
            moved = max(moved, float(np.abs(part - parts[allowed]).max()))
            load[where] += part
            parts[allowed] = part
        if moved < _STILL:
            break
    rho: Floats = np.divide(load, capacity, out=np.zeros_like(load), where=capacity > 0)
    return rho


def _fill(load: Floats, capacity: Floats, demand: float) -> Floats:
    """How `demand` spreads so that the lowest of load / capacity rise to one level."""
    order = np.argsort(load / capacity, kind="stable")
    for count in range(len(order), 0, -1):
        low = order[:count]
        level = (load[low].sum() + demand) / capacity[low].sum()
        if level * capacity[low[-1]] >= load[low[-1]]:
            break
    part: Floats = np.zeros(len(load))
    part[low] = level * capacity[low] - load[low]
    return part


def prices(rho: Floats, capacity: Floats, arrived: float, free_milli: Floats) -> Floats | None:
    """(M,) π for one GPU of each model; None when nothing has a price."""
    rest = max(0.0, 1.0 - arrived)
    if not rest or not rho.any():
        return None
    found: Floats = STRENGTH * rho * capacity * rest / np.maximum(free_milli / packing.WHOLE, 1.0)
    return found
