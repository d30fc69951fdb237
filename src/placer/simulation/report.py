"""What a run comes to, in the columns of the published results.

Column r of a run is the mean over all events (one a pod) with round(arrived %) = r, where arrived % counts the demand
of all pods so far, dropped ones too, in units of the cluster's GPUs, of

    allocated %   GPU thousandths in use / capacity, rounded to two digits
    fragmented %  Σ_n F_n(M) / capacity, rounded to two digits, with M the typical pods of the original list

A load at which no pod came (on small clusters) has the values after the last pod before it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from placer.placement import packing_fragments
from placer.placement import packing_nodes as packing
from placer.simulation import replay


class Column(msgspec.Struct, frozen=True):
    """One load. Percent of the cluster's GPUs."""

    arrived_pct: int
    allocated_pct: float
    fragmented_pct: float


class Run(msgspec.Struct, frozen=True):
    """One replay: its columns by rising load, and what became of the pods."""

    policy: str
    seed: int
    columns: tuple[Column, ...]
    pods: int
    dropped_pods: int
    migrated_pods: int = 0
    declined_pods: int = 0


class Mean(msgspec.Struct, frozen=True):
    """One policy at one load over its seeds: unallocated GPU % and its sample standard deviation (0 for one seed)."""

    policy: str
    arrived_pct: int
    unallocated_pct: float
    sd: float
    fragmented_pct: float


def summarise(trail: replay.Trail, fragments: packing_fragments.Fragments, *, policy: str, seed: int) -> Run:
    """The columns of one run."""
    used = trail.used_milli
    lost = fragmentation(trail, fragments)
    capacity = trail.capacity_milli
    arrived = np.rint(100.0 * trail.arrived_milli / capacity).astype(np.int64)
    allocated = np.round(100.0 * used / capacity, 2)
    fragmented = np.round(100.0 * lost / capacity, 2)
    empty = round(100.0 * _lost_at_start(trail, fragments) / capacity, 2)
    columns = tuple(
        Column(r, round(a, 4), round(f, 4))
        for r, (a, f) in enumerate(
            zip(_by_load(arrived, allocated, 0.0), _by_load(arrived, fragmented, empty), strict=True)
        )
    )
    dropped = int((trail.node == replay.DROPPED).sum()) - trail.declined
    return Run(policy, seed, columns, len(trail.node), dropped, trail.migrations, trail.declined)


def _by_load(arrived: packing.Ints, values: packing.Floats, start: float) -> list[float]:
    """The mean of the values at each load from 0 to the last; where there is none, the last value before."""
    events, sums = np.bincount(arrived), np.bincount(arrived, weights=values)
    means: list[float] = []
    before, at = start, 0
    for count, total in zip(events.tolist(), sums.tolist(), strict=True):
        means.append(total / count if count else before)
        at += count
        before = float(values[at - 1]) if at else start
    return means


def _lost_at_start(trail: replay.Trail, fragments: packing_fragments.Fragments) -> float:
    nodes = trail.states.nodes(trail.start)
    return float(fragments.of(nodes.cpu_milli, nodes.gpu_milli, nodes.model).sum())


def fragmentation(trail: replay.Trail, fragments: packing_fragments.Fragments) -> packing.Floats:
    """(E,) Σ_n F_n(M) in thousandths of a GPU after each pod."""
    nodes = trail.states.nodes(np.arange(trail.states.count))
    of_state = fragments.of(nodes.cpu_milli, nodes.gpu_milli, nodes.model)
    growth = of_state[trail.change_after] - of_state[trail.change_before]
    by_pod = np.bincount(trail.change_pod, weights=growth, minlength=len(trail.node))
    lost: packing.Floats = of_state[trail.start].sum() + np.cumsum(by_pod)
    return lost


def means(runs: list[Run]) -> tuple[Mean, ...]:
    """For each policy, in order of appearance, each load that all its runs have."""
    found: list[Mean] = []
    for policy in dict.fromkeys(run.policy for run in runs):
        tables = [{c.arrived_pct: c for c in run.columns} for run in runs if run.policy == policy]
        for r in sorted(set.intersection(*(set(table) for table in tables))):
            left = np.array([100.0 - table[r].allocated_pct for table in tables])
            lost = np.array([table[r].fragmented_pct for table in tables])
            sd = float(left.std(ddof=1)) if len(left) > 1 else 0.0
            found.append(Mean(policy, r, round(float(left.mean()), 4), round(sd, 4), round(float(lost.mean()), 4)))
    return tuple(found)
