"""Rank order of a job of P pipeline stages x D data-parallel replicas over the domains of a fabric (Arnold's measure).

One node holds the tensor-parallel part. Ranks count replicas fastest: node p D + d holds replica d of stage p, so that
the data-parallel (DP) group of stage p is the nodes p D … p D + D - 1, and the pipeline (PP) group of replica d the
nodes d, D + d, 2D + d, …. The *spread* of a group is the number of domains (Arnold: minipods) that it touches. DP
groups carry the large collectives, so first the largest DP spread is made small, then their mean.

With f_s free nodes in domain s, W = Σ ⌊f_s / D⌋ groups fit whole. P <= W: every spread is 1, over as few domains as can
be. Else P - W groups are cut over two domains each (`rank_leftovers`, proven), and only where that is impossible over
more.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from placer import errors
from placer.placement import milp, rank_leftovers
from placer.placement import types as plan


class Spread(msgspec.Struct, frozen=True):
    """Domains that the groups touch: the most and the mean over the DP groups, and over the PP groups."""

    max_dp: int
    mean_dp: float
    max_pp: int
    mean_pp: float


class RankOrder(msgspec.Struct, frozen=True):
    """`nodes`: positions of the given nodes in rank order. `exact`: none has a smaller (max DP, mean DP) spread."""

    nodes: tuple[int, ...]
    spread: Spread
    exact: bool


def spread(domains: Sequence[int], stages: int, replicas: int) -> Spread:
    """Arnold's measure of a rank order, `domains[rank]` being the domain of each node; -1 (unknown) is one of its own.

    Raises InputError when there are not stages x replicas nodes.
    """
    if stages < 1 or replicas < 1 or len(domains) != stages * replicas:
        raise errors.InputError(f"{len(domains)} nodes for {stages} stages x {replicas} replicas")
    known = _distinct(domains)
    dp = [len(set(known[p * replicas : (p + 1) * replicas])) for p in range(stages)]
    pp = [len(set(known[d::replicas])) for d in range(replicas)]
    return Spread(max(dp), sum(dp) / stages, max(pp), sum(pp) / replicas)


def arrange(
    domains: Sequence[int], stages: int, replicas: int, limits: plan.SolveLimits = milp.NO_LIMITS
) -> RankOrder | None:
    """Choose stages x replicas of the nodes and their order; None when there are fewer.

    `domains[i]` is the domain of node i, -1 unknown. Among the nodes of a domain the first ones are taken.
    """
    if stages < 1 or replicas < 1:
        raise errors.InputError(f"{stages} stages x {replicas} replicas is no job")
    if len(domains) < stages * replicas:
        return None
    known = _distinct(domains)
    nodes: dict[int, list[int]] = {}
    for node, domain in enumerate(known):
        nodes.setdefault(domain, []).append(node)
    free = {domain: len(inside) for domain, inside in nodes.items()}
    whole = {domain: count // replicas for domain, count in free.items()}
    if sum(whole.values()) >= stages:
        groups, exact = _fewest(whole, free, stages, replicas), True
    else:
        groups, exact = rank_leftovers.cut(free, stages, replicas, limits)
    at = dict.fromkeys(nodes, 0)
    order: list[int] = []
    for group in sorted(groups, key=lambda group: [(domain, -count) for domain, count in group]):
        for domain, count in group:
            order += nodes[domain][at[domain] : at[domain] + count]
            at[domain] += count
    return RankOrder(tuple(order), spread([known[node] for node in order], stages, replicas), exact)


def _distinct(domains: Sequence[int]) -> list[int]:
    """Unknown domains become different ones."""
    top = max(domains, default=0) + 1
    return [domain if domain >= 0 else top + node for node, domain in enumerate(domains)]


def _fewest(whole: dict[int, int], free: dict[int, int], stages: int, replicas: int) -> list[rank_leftovers.Group]:
    """All groups whole, in the fewest domains; the last one is the smallest that is enough."""
    taken: list[rank_leftovers.Group] = []
    left = sorted((domain for domain in whole if whole[domain]), key=lambda domain: (-whole[domain], domain))
    while len(taken) < stages:
        missing = stages - len(taken)
        enough = [domain for domain in left if whole[domain] >= missing]
        domain = min(enough, key=lambda domain: (free[domain], domain)) if enough else left[0]
        left.remove(domain)
        taken += [((domain, replicas),)] * min(missing, whole[domain])
    return taken
