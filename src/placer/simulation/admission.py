"""Admission control: decline pods on purpose so that what comes later packs better. Not comparable with the rest.

The program of `floor` packs the mix at 130 % of the cluster's GPUs; it takes x_j of n_j pods of type j. Once a given
share of the cluster has been asked for, a pod of type j is accepted with probability x_j / n_j.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from placer.placement import fgd
from placer.simulation import floor, openb

DEMAND: Final = 1.3
"""The demand that the mix is packed at, in units of the cluster's GPUs."""


def chances(nodes: Sequence[openb.Node], pods: Sequence[openb.Pod]) -> dict[fgd.Pod, float]:
    """x_j / n_j of each type of the original list."""
    bound = floor.Bound(nodes)
    counts = Counter(floor.kind_of(pod) for pod in pods)
    scale = DEMAND * bound.capacity / sum(pod.demand_milli for pod in pods)
    demand = {kind: count * scale for kind, count in counts.items()}
    packed = bound.pack(demand)
    if packed is None:  # no row asks for anything, so there always is a packing; the solver gave up
        return dict.fromkeys(demand, 1.0)
    return {kind: min(1.0, packed.placed[kind] / amount) for kind, amount in demand.items()}


def accept(
    arrivals: Sequence[openb.Pod],
    chance: Mapping[fgd.Pod, float],
    *,
    after_milli: float,
    rng: np.random.Generator,
) -> list[bool]:
    """For each pod whether it is accepted; all are until `after_milli` thousandths of GPUs have been asked for."""
    drawn = rng.random(len(arrivals))
    asked = np.cumsum([pod.demand_milli for pod in arrivals])
    return [bool(asked[i] <= after_milli or drawn[i] < chance[floor.kind_of(pod)]) for i, pod in enumerate(arrivals)]
