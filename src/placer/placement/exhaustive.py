"""The oracle of small instances: every choice is tried, in plain Python that shares no code with the searches.

It repeats the definitions of `gang_problem` in its own words, one choice at a time, and is meant for n choose K up to
some thousands.
"""

from __future__ import annotations

import itertools
import math

from placer.placement import gang_problem
from placer.placement import types as place

Domain = tuple[int, int]
"""A domain's name: the level that defines it (-1 = the node alone) and its number there."""


def best(problem: gang_problem.GangProblem) -> gang_problem.GangSolution:
    """The least key over all choices; among equal keys the choice that comes first in natural order."""
    chains = [_chain(problem, node) for node in range(problem.nodes)]
    found: tuple[gang_problem.Key, tuple[int, ...]] | None = None
    for chosen in itertools.combinations(range(problem.nodes), problem.count):
        if _allowed(problem, chains, chosen):
            candidate = (_key(problem, chains, chosen), chosen)
            found = candidate if found is None else min(found, candidate)
    if found is None:
        return gang_problem.nothing("exhaustive", place.Termination.INFEASIBLE, 0.0)
    key, chosen = found
    value = key[2] + 0.001 * key[3] / 1000
    return gang_problem.GangSolution(
        solve=place.SolveResult("exhaustive", place.Termination.OPTIMAL, value, value, 0.0),
        chosen=tuple(
            sorted(chosen, key=lambda node: (*(_first(chains, d, node) for d in reversed(chains[node])), node))
        ),
        key=key,
        busbw=None if math.isinf(key[1]) else (math.inf if key[1] == 0 else 1 / key[1]),
        common_level=_common(problem, chains, chosen),
        domains_used=tuple(_used(chains, chosen, level) for level in range(problem.levels)),
    )


def _chain(problem: gang_problem.GangProblem, node: int) -> list[Domain]:
    """The node's domain at each level; where none is told, the one that it has a level closer."""
    chain: list[Domain] = []
    current: Domain = (-1, node)
    for level in range(problem.levels):
        told = int(problem.domain_of[level][node])
        current = (level, told) if told >= 0 else current
        chain.append(current)
    return chain


def _first(chains: list[list[Domain]], domain: Domain, node: int) -> int:
    """Domains follow each other as their first nodes do."""
    return next((other for other in range(node) if domain in chains[other]), node)


def _used(chains: list[list[Domain]], chosen: tuple[int, ...], level: int) -> int:
    return len({chains[node][level] for node in chosen})


def _common(problem: gang_problem.GangProblem, chains: list[list[Domain]], chosen: tuple[int, ...]) -> int:
    return next((le for le in range(problem.levels) if _used(chains, chosen, le) == 1), problem.levels)


def _allowed(problem: gang_problem.GangProblem, chains: list[list[Domain]], chosen: tuple[int, ...]) -> bool:
    if any(problem.forced[node] and node not in chosen for node in range(problem.nodes)):
        return False
    if problem.levels and not problem.spans_roots and _common(problem, chains, chosen) == problem.levels:
        return False
    if problem.required is not None and _used(chains, chosen, problem.required) > 1:
        return False
    if any(_used(chains, chosen, level) > most for level, most in problem.max_domains):
        return False
    for rule in problem.side:
        inside = sum(1 for node in chosen if rule.members[node])
        if inside < rule.at_least or (rule.at_most is not None and inside > rule.at_most):
            return False
    return True


def _key(problem: gang_problem.GangProblem, chains: list[list[Domain]], chosen: tuple[int, ...]) -> gang_problem.Key:
    unmet = 0 if problem.preferred is None else _used(chains, chosen, problem.preferred) - 1
    speeds = [0.0 if math.isnan(b) else b for b in (float(problem.bandwidth[node]) for node in chosen)]
    if len(chosen) > 1:
        divisor = 1.0
        for level in range(_common(problem, chains, chosen)):
            divisor *= max(1.0, problem.oversubscription[level]) if problem.oversubscription else 1.0
        nics = [float(problem.nic[node]) for node in chosen]
        speeds += [nic / divisor for nic in nics if not math.isnan(nic)]
    slowest = min(speeds)
    spread = sum(4**level * _used(chains, chosen, level) for level in range(problem.levels))
    damage = sum(int(problem.damage[node]) for node in chosen)
    return (float(unmet), math.inf if slowest == 0 else 1 / slowest, float(spread), float(damage))
