"""The objective in words and numbers: what a chosen placement is predicted to do, term by term.

The order of the terms is the order of the objective: unmet preferred level, predicted collective time, spread over the
fabric, leftover damage, FGD measure. Node names break what is still tied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import bandwidth, fgd, gpuset, leftover
from placer.placement import gang_problem as problems
from placer.placement import types as plan

REFERENCE_BYTES = 1_000_000_000
"""Message of the collective-time term: 1 GB, large enough that bandwidth and not latency decides."""


class Part(msgspec.Struct, frozen=True):
    """One chosen node of a job, in rank order."""

    position: int  # into the snapshot's nodes
    mask: int  # its free GPUs of the wanted type
    gpus: int  # how many of them the job takes
    sure: bool  # False where nobody can say which GPUs are free
    nic: float  # GB/s, nan = unknown


def placement(
    snapshot: cluster.ClusterSnapshot, parts: Sequence[Part], sets: Sequence[gpuset.SetChoice | None]
) -> plan.Placement:
    """Nodes in rank order with their GPUs in ring order; no GPUs where nobody can say which are free."""
    return plan.Placement(
        tuple(
            plan.NodePlacement(snapshot.nodes[part.position].name, chosen.order if chosen is not None else ())
            for part, chosen in zip(parts, sets, strict=True)
        )
    )


def predict(
    sets: Sequence[gpuset.SetChoice | None],
    parts: Sequence[Part],
    solution: problems.GangSolution,
    levels: Sequence[str],
) -> plan.Prediction:
    """Bandwidth by the communication model, what limits it, and the domains used at each level."""
    domains = tuple(zip(levels, solution.domains_used, strict=True))
    if sum(part.gpus for part in parts) <= 1:
        return plan.Prediction(
            domains=domains, limited_by="one GPU: nothing to exchange" if parts[0].gpus else "no GPU"
        )
    if len(parts) == 1:
        only = sets[0]
        known = only is not None and only.busbw_gbps is not None
        limit = only.limited_by if only is not None else "unknown: which GPUs are free is not told"
        return plan.Prediction(only.busbw_gbps if known and only else None, None, domains, limit)
    inside = [s.busbw_gbps if s is not None else None for s in sets]
    if any(value is None for value, part in zip(inside, parts, strict=True) if part.gpus > 1):
        return plan.Prediction(None, None, domains, "unknown: the wiring of a node is not told")
    if any(math.isnan(part.nic) for part in parts):
        return plan.Prediction(None, None, domains, "unknown: the network adapters of a node are not told")
    slowest = min((value for value in inside if value is not None), default=math.inf)
    network = min(part.nic for part in parts)
    limit = (
        "network adapters" if network <= slowest else next(s.limited_by for s in sets if s and s.busbw_gbps == slowest)
    )
    return plan.Prediction(solution.busbw, None, domains, limit)


def terms(
    mix: fgd.Mix,
    free: capacity.Capacity,
    parts: Sequence[Part],
    sets: Sequence[gpuset.SetChoice | None],
    demand_cpus: int,
    predicted: plan.Prediction,
    preferred: str | None,
) -> tuple[plan.ScoreTerm, ...]:
    """The named terms of the objective for a chosen placement; `mix` is what the cluster's own jobs ask for."""
    found = []
    if preferred is not None:
        found.append(_unmet(predicted, preferred))
    found.append(_collective(predicted, parts))
    if predicted.domains:
        found.append(_spread(predicted))
    damage = sum(chosen.damage for chosen in sets if chosen is not None) / 1000
    why = "sets of 1, 2, 4, 8 … GPUs of full quality that the nodes could still hold before and cannot after"
    found.append(plan.ScoreTerm("leftover damage", damage, "GPUs", why))
    found.append(_fgd(mix, free, parts, sets, demand_cpus))
    return tuple(found)


def _unmet(predicted: plan.Prediction, preferred: str) -> plan.ScoreTerm:
    used = dict(predicted.domains).get(preferred, 1)
    why = f"all in one {preferred}, as preferred" if used == 1 else f"{used} {preferred} domains, one was preferred"
    return plan.ScoreTerm("unmet preferred level", used - 1, "", why)


def _collective(predicted: plan.Prediction, parts: Sequence[Part]) -> plan.ScoreTerm:
    ranks = sum(part.gpus for part in parts)
    if predicted.allreduce_busbw_gbps is None:
        return plan.ScoreTerm("collective time", None, "ms", f"not predicted: {predicted.limited_by}")
    time = bandwidth.collective_seconds(predicted.allreduce_busbw_gbps, ranks, len(parts), REFERENCE_BYTES)
    speed = f"{predicted.allreduce_busbw_gbps:.0f} GB/s"
    why = f"all-reduce of 1 GB over {ranks} GPUs at {speed}, limited by {predicted.limited_by}"
    return plan.ScoreTerm("collective time", round(time.seconds * 1000, 3), "ms", why)


def _spread(predicted: plan.Prediction) -> plan.ScoreTerm:
    value = sum(4**level * used for level, (_, used) in enumerate(predicted.domains))
    why = ", ".join(f"{used} {name}" for name, used in predicted.domains)
    return plan.ScoreTerm("spread", value, "", why)


def _fgd(
    mix: fgd.Mix,
    free: capacity.Capacity,
    parts: Sequence[Part],
    sets: Sequence[gpuset.SetChoice | None],
    demand_cpus: int,
) -> plan.ScoreTerm:
    """Fragments added for the cluster's own mix of jobs (FGD, Weng et al. 2023), in GPUs."""
    known: dict[tuple[int, int, int], float] = {}

    def wasted(mask: int, count: int, cpus: int) -> float:
        if (mask, count, cpus) not in known:
            known[mask, count, cpus] = leftover.fgd_node(mask, count, cpus, mix)
        return known[mask, count, cpus]

    change = 0.0
    for part, chosen in zip(parts, sets, strict=True):
        if chosen is None:
            continue
        node = free.nodes[part.position]
        before = wasted(node.gpu_mask, len(node.node.gpus), node.cpus)
        change += wasted(node.gpu_mask & ~chosen.mask, len(node.node.gpus), node.cpus - demand_cpus) - before
    why = (
        f"free GPUs that the cluster's own {len(mix)} job types can no longer use (FGD)"
        if mix
        else "no jobs to learn a mix from"
    )
    return plan.ScoreTerm("fgd change", round(change / 1000, 3), "GPUs", why)
