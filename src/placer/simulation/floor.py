"""What no policy can beat: a linear program that knows all arrivals in advance.

Sets: pod types j (CPU c_j, u_j thousandths of k_j GPUs, models), n_j of them; node classes κ (model, CPU c_κ, GPUs
G_κ), N_κ nodes; positions p = 0 … 100 on a GPU, in steps of 10 thousandths. Variables x_jκ >= 0: pods of a type on a
class, where one fits on an empty node; f_κps >= 0: shares of size s that lie from p to p + s on GPUs of class κ.

    max  Σ_jκ u_j k_j x_jκ
    subject to  r_j <= Σ_κ x_jκ <= n_j                                   every type
                Σ_j c_j x_jκ <= N_κ c_κ                                  every class: CPU, summed over its nodes
                Σ_p f_κps = Σ_{j of size s} x_jκ                         every class and size: each share lies somewhere
                Σ_s f_κ0s + Σ_{j whole} k_j x_jκ <= N_κ G_κ              every class: shares at p = 0 open a GPU
                Σ_s f_κps <= Σ_s f_κ,p−s,s                               every class and p > 0: what ends at p goes on
                Σ_j u_j k_j x_jκ <= 1000 N_κ G_κ                         every class: GPU thousandths in all

Sizes are rounded down to whole steps, so it is a bound for any sizes. Pods of several GPUs, and whole ones, take that
many positions 0. Larger shares lie first, which leaves out equal packings.

r_j = 0 bounds *any* policy, even one that declines pods. A policy that places whatever fits drops nothing until the
cluster is nearly full, and then it is too late for the best packing. With r_j the pods of the first X % arrived, and X
the largest whole number up to 100 for which the program has a solution, it bounds every policy that drops nothing
before X. Only pods that name no model are in r_j: those that do run out of their models long before, in any policy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer.placement import fgd, milp, packing_holes
from placer.placement import packing_nodes as packing
from placer.placement import types as place
from placer.simulation import openb

MOST_PREFIX_PCT: Final = 100

Kinds = Mapping[fgd.Pod, float]


class Packed(msgspec.Struct, frozen=True):
    """The most GPU thousandths in use, and how many pods of each type that takes."""

    used_milli: float
    placed: dict[fgd.Pod, float]


class Floor(msgspec.Struct, frozen=True):
    """Least unallocated GPU % after all arrivals: of any policy, and of those that place the first `prefix_pct` %."""

    any_pct: float
    placing_pct: float
    prefix_pct: int


class _Class(msgspec.Struct, frozen=True):
    model: str
    cpu_milli: int
    gpus: int
    nodes: int


class Bound:
    """The program for one cluster."""

    def __init__(self, nodes: Sequence[openb.Node]) -> None:
        counted = Counter((n.model, n.cpu_milli, n.gpu_count) for n in nodes)
        self._classes = [_Class(*key, count) for key, count in sorted(counted.items())]
        self.capacity = sum(n.gpu_count for n in nodes) * packing.WHOLE

    def pack(self, demand: Kinds, least: Kinds | None = None) -> Packed | None:
        """The best packing of this many pods, at least `least` of them placed; None when that is impossible."""
        model = milp.Model()
        placed: dict[fgd.Pod, list[int]] = {kind: [] for kind in sorted(demand)}
        for group in self._classes:
            here = {kind: model.variable(cost=_cost(kind)) for kind in placed if _fits(kind, group)}
            for kind, x in here.items():
                placed[kind].append(x)
            if here:
                _class_rows(model, group, here)
        for kind, xs in placed.items():
            model.row(((x, 1.0) for x in xs), low=least.get(kind, 0.0) if least else 0.0, high=demand[kind])
        answer = milp.solve(model)
        if answer.termination is not place.Termination.OPTIMAL:
            return None
        amounts = {kind: math.fsum(answer.values[x] for x in xs) for kind, xs in placed.items()}
        return Packed(math.fsum(-_cost(kind) * amount for kind, amount in amounts.items()), amounts)


def _class_rows(model: milp.Model, group: _Class, here: Mapping[fgd.Pod, int]) -> None:
    """CPU and GPUs of one class."""
    model.row(((x, k.cpu_milli / 1000) for k, x in here.items()), high=group.nodes * group.cpu_milli / 1000)
    model.row(((x, -_cost(k) / 1000) for k, x in here.items()), high=group.nodes * group.gpus)
    of_size: dict[int, list[int]] = {}
    whole = [(x, float(k.gpu_count)) for k, x in here.items() if k.gpu_milli == packing.WHOLE]
    for kind, x in here.items():
        if _is_share(kind):
            of_size.setdefault(kind.gpu_milli // packing_holes.GRID, []).append(x)
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    for size, arcs in _arcs(tuple(of_size)).items():
        flows = [model.variable() for _ in arcs]
        for p, flow in zip(arcs, flows, strict=True):
            begin.setdefault(p, []).append(flow)
            end.setdefault(p + size, []).append(flow)
        model.row([(f, 1.0) for f in flows] + [(x, -1.0) for x in of_size[size]], low=0.0, high=0.0)
    model.row(whole + [(f, 1.0) for f in begin.pop(0, [])], high=group.nodes * group.gpus)
    for p, flows in sorted(begin.items()):
        model.row([(f, 1.0) for f in flows] + [(f, -1.0) for f in end[p]], high=0.0)


def _arcs(sizes: Sequence[int]) -> dict[int, list[int]]:
    """For each size the positions where a share may begin when larger ones lie before smaller ones."""
    reached = {0}
    found: dict[int, list[int]] = {}
    for size in sorted((s for s in sizes if s), reverse=True):
        found[size] = []
        for p in range(packing_holes.STEPS - size + 1):
            if p in reached:
                found[size].append(p)
                reached.add(p + size)
    return found


def floor(nodes: Sequence[openb.Node], arrivals: Sequence[openb.Pod]) -> Floor:
    """Both bounds for one order of arrivals, at its end. Takes about 7 seconds on the public trace."""
    bound = Bound(nodes)
    demand = Counter(kind_of(pod) for pod in arrivals)
    best = placing = bound.pack(demand)
    low, high = 0, MOST_PREFIX_PCT + 1
    while high - low > 1:
        middle = (low + high) // 2
        packed = bound.pack(demand, _first(arrivals, middle * bound.capacity / 100))
        if packed is None:
            high = middle
        else:
            low, placing = middle, packed
    return Floor(_left(best, bound), _left(placing, bound), low)


def kind_of(pod: openb.Pod) -> fgd.Pod:
    """A pod's type."""
    return fgd.Pod(pod.cpu_milli, pod.gpu_milli, pod.gpu_count, pod.models)


def _first(arrivals: Sequence[openb.Pod], demand_milli: float) -> Counter[fgd.Pod]:
    """The pods that name no model, by type, of those that come until so much was asked for."""
    count, asked = 0, 0
    for pod in arrivals:
        asked += pod.demand_milli
        if asked > demand_milli:
            break
        count += 1
    return Counter(kind_of(pod) for pod in arrivals[:count] if not pod.models)


def _left(packed: Packed | None, bound: Bound) -> float:
    used = packed.used_milli if packed else 0.0
    return round(max(0.0, 100.0 * (1.0 - used / bound.capacity)), 4)


def _is_share(kind: fgd.Pod) -> bool:
    """Whether it has a place on one GPU; the smallest, below one step, count by their thousandths alone."""
    return kind.gpu_count == 1 and kind.gpu_milli < packing.WHOLE


def _cost(kind: fgd.Pod) -> float:
    return -float(kind.gpu_milli * kind.gpu_count)


def _fits(kind: fgd.Pod, group: _Class) -> bool:
    allowed = not kind.models or group.model in kind.models
    return allowed and kind.cpu_milli <= group.cpu_milli and kind.gpu_count <= group.gpus
