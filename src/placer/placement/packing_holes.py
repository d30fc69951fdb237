"""What the rest of a GPU, and of a node, can still earn: values from the duals of the cutting-stock problem.

Value of a hole. U are the sizes of the mix's shares on a grid of 10 thousandths, d_u their numbers. How many GPUs do
they need? Over all patterns q, with a_uq shares of size u and Σ_u a_uq u <= 1,

    min Σ_q y_q   subject to  Σ_q a_uq y_q >= d_u,  y >= 0

has the dual    max Σ_u d_u λ_u  subject to  Σ_u a_uq λ_u <= 1 for every pattern q,  0 <= λ <= 1

so λ_u is what one more share of size u costs in GPUs. The dual is solved directly: patterns that it violates are found
by an unbounded knapsack and added until there is none. Then a hole of g earns v(g) = max {Σ λ_u n_u : Σ u n_u <= g},
and v(1) = 1. The duals are degenerate: v is the mean over DRAWS problems with d_u ~ Poisson(DRAWN p_u / Σ p_u).

Value of a node. With a price μ of CPU (GPUs for a CPU), a share of size u earns on average over its types j
r_u(μ) = Σ_j p_j max(0, v(u) − μ c_j) / Σ_j p_j, a whole GPU likewise with v = 1, and a hole
v_μ(g) = max {Σ r_u(μ) n_u : Σ u n_u <= g}. A node with c CPUs free and holes g_i earns at most

    V(n) = min over μ of  μ c + Σ_i v_μ(g_i)

a Lagrangian bound of "fill this node as well as possible".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from placer.placement import fgd, milp
from placer.placement import packing_nodes as packing

GRID: Final = 10
"""Thousandths of a GPU for one step; sizes are rounded up to it, holes down."""

STEPS: Final = packing.WHOLE // GRID

PRICES: Final = (0, .005, .01, .02, .03, .04, .05, .06, .07, .08, .1, .13, .17, .22, .3, .5, 1)  # fmt: skip
"""The prices μ of one CPU, in GPUs, that V looks at."""

DRAWS: Final = 16
DRAWN: Final = 6000
SEED: Final = 1

_SLACK: Final = 1e-7

Floats = packing.Floats


def size(gpu_milli: int) -> int:
    """Steps of the grid that a share takes."""
    return -(-gpu_milli // GRID)


def knapsack(earn: Mapping[int, float]) -> Floats:
    """(…, STEPS + 1) the most that each hole earns, from what one share of each size (in steps) does."""
    best = np.zeros(STEPS + 1)
    sizes = np.array(sorted(earn), dtype=np.int64)
    value = np.array([earn[s] for s in sorted(earn)])
    for g in range(1, STEPS + 1):
        small = int(np.searchsorted(sizes, g, side="right"))
        best[g] = max(best[g - 1], (value[:small] + best[g - sizes[:small]]).max(initial=0.0))
    return best


def hole_values(mix: Sequence[fgd.Weighted]) -> Floats:
    """(STEPS + 1,) v(g), in GPUs."""
    shares: dict[int, float] = {}
    for w in mix:
        if w.pod.gpu_count == 1 and size(w.pod.gpu_milli) < STEPS:
            shares[size(w.pod.gpu_milli)] = shares.get(size(w.pod.gpu_milli), 0.0) + w.share
    sizes = sorted(shares)
    total = sum(shares.values())
    draw = np.random.default_rng(SEED)
    patterns = [{s: STEPS // s} for s in sizes]
    mean = np.zeros(STEPS + 1)
    for _ in range(DRAWS if sizes else 0):
        demand = {s: int(draw.poisson(DRAWN * shares[s] / total)) for s in sizes}
        mean += knapsack(duals(demand, patterns)) / DRAWS
    mean[STEPS] = 1.0
    return mean


def duals(demand: Mapping[int, float], patterns: list[dict[int, int]]) -> dict[int, float]:
    """λ of one cutting-stock problem, by sizes in steps; Σ d_u λ_u is the least (fractional) number of GPUs.

    `patterns` is kept between problems of the same sizes, and grows by those that were found to be violated.
    """
    while True:
        model = milp.Model()
        number = {s: model.variable(0.0, 1.0, cost=-float(d)) for s, d in demand.items()}
        for pattern in patterns:
            model.row(((number[s], float(n)) for s, n in pattern.items() if s in number), high=1.0)
        values = milp.solve(model).values
        found = {s: values[i] for s, i in number.items()}
        best = knapsack(found)
        if best[STEPS] <= 1.0 + _SLACK:
            return found
        patterns.append(_pattern(found, best))


def _pattern(earn: Mapping[int, float], best: Floats) -> dict[int, int]:
    """The shares that earn best[STEPS]."""
    pattern: dict[int, int] = {}
    g = STEPS
    while g > 0:
        if best[g] == best[g - 1]:
            g -= 1
            continue
        s = next(s for s in earn if s <= g and earn[s] + best[g - s] == best[g])
        pattern[s] = pattern.get(s, 0) + 1
        g -= s
    return pattern


def priced_values(mix: Sequence[fgd.Weighted], holes: Floats) -> Floats:
    """(STEPS + 1, len(PRICES)) v_μ(g), in GPUs."""
    ones = [w for w in mix if w.pod.gpu_count == 1 and w.pod.gpu_milli]
    table = np.zeros((STEPS + 1, len(PRICES)))
    for i, price in enumerate(PRICES):
        earn: dict[int, float] = {}
        share: dict[int, float] = {}
        for w in ones:
            s = size(w.pod.gpu_milli)
            earn[s] = earn.get(s, 0.0) + w.share * max(0.0, float(holes[s]) - price * w.pod.cpu_milli / 1000)
            share[s] = share.get(s, 0.0) + w.share
        table[:, i] = knapsack({s: earn[s] / share[s] for s in earn})
    return table
