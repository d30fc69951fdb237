"""Several pod sets, or the components of a heterogeneous job, on one cluster: `pod_sets` asked of a site.

Every set is a question of its own (`job`): a request in one shape. All nodes are different. The level that is required
or preferred holds for all sets together. Spares are nodes that could take a set's part, kept aside beside it: they are
searched for as if the set were larger, and then the nodes that lie most alone are the spares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from placer import errors
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, job, pod_sets
from placer.placement import gang_problem as problems
from placer.placement import types as plan


class PodSet(msgspec.Struct, frozen=True):
    """A set of equal parts: `question.shape.count` nodes, and `spares` more that are kept aside."""

    name: str
    question: job.Question
    spares: int = 0


class PlacedSet(msgspec.Struct, frozen=True):
    """One set's nodes in rank order with their GPUs; `placement` is None when the sets do not all fit."""

    name: str
    fits: plan.Fits
    placement: plan.Placement | None = None
    spares: plan.Placement = plan.Placement()


class SetsResult(msgspec.Struct, frozen=True):
    """All sets, placed or none. `prediction` is that of a collective over all sets that exchange anything."""

    solve: plan.SolveResult
    sets: tuple[PlacedSet, ...]
    prediction: plan.Prediction | None = None


def search(
    site: job.Site,
    sets: Sequence[PodSet],
    *,
    topology: cluster.TopologyConstraint = cluster.TopologyConstraint(),  # noqa: B008 - frozen value
    limits: plan.SolveLimits = plan.SolveLimits(),  # noqa: B008 - frozen value
    free: capacity.Capacity | None = None,
    empty: bool = False,
) -> SetsResult:
    """The best nodes for all sets at once, proven; or none, with what keeps nodes out of each set.

    Raises RequestError for a set that asks for what only a job by itself can have: a total that is filled node by node,
    nodes that give one GPU more, counted features, a number of switches.
    """
    now = free or site.free
    for one in sets:
        _check(one)
    found = [job.candidates(site, one.question, now, empty=empty) for one in sets]
    problem, nodes = _problem(site, sets, found, now, topology)
    solution = pod_sets.solve(problem, limits)
    if not solution.chosen:
        return SetsResult(solution.solve, tuple(PlacedSet(s.name, f.fits) for s, f in zip(sets, found, strict=True)))
    levels = site.index.levels
    domains = tuple(zip(levels, solution.domains_used, strict=True))
    known = solution.busbw is not None and np.isfinite(solution.busbw) and not _blind(problem, solution)
    prediction = plan.Prediction(solution.busbw if known else None, None, domains, "" if known else "unknown")
    placed = tuple(
        _placed(site, one, f, nodes[list(chosen)], _kept_last(problem, s, chosen))
        for s, (one, f, chosen) in enumerate(zip(sets, found, solution.chosen, strict=True))
    )
    return SetsResult(solution.solve, placed, prediction)


def _check(one: PodSet) -> None:
    question = one.question
    if question.shape.fill or question.shape.extra or question.variant.at_least or question.request.switches:
        raise errors.RequestError(
            f"the set `{errors.printable(one.name)}` must name its nodes and the GPUs of each, without counted features"
            " or switches",
            hint="give `nodes` and `gpus_per_node` for each set",
        )


def _problem(
    site: job.Site,
    sets: Sequence[PodSet],
    found: Sequence[job.Candidates],
    free: capacity.Capacity,
    topology: cluster.TopologyConstraint,
) -> tuple[pod_sets.SetsProblem, problems.Ints]:
    """The question in arrays over all nodes that fit any set, and their positions in the snapshot."""
    levels = site.index.levels
    nodes = np.unique(np.concatenate([f.positions for f in found]))
    shape = (len(sets), len(nodes))
    fits, forced = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    bandwidth, nic = np.full(shape, np.inf), np.full(shape, np.inf)
    damage = np.zeros(shape, dtype=np.int64)
    for s, (one, f) in enumerate(zip(sets, found, strict=True)):
        request, asked = one.question.request, one.question.shape
        where = np.searchsorted(nodes, f.positions)
        want = eligible.wanted(site.snapshot, request, one.question.variant, asked.count)
        fits[s, where], damage[s, where] = True, f.damage
        forced[s, where] = eligible.forced(free, want, f.positions)
        if asked.gpus > 1 and request.workload is not cluster.Workload.INDEPENDENT:
            bandwidth[s, where], nic[s, where] = f.busbw, f.nic
    problem = pod_sets.SetsProblem(
        counts=tuple(one.question.shape.count + one.spares for one in sets),
        domain_of=site.domain_of[:, nodes],
        fits=fits,
        bandwidth=bandwidth,
        nic=nic,
        damage=damage,
        forced=forced,
        required=job.level_index(levels, topology.required, "required"),
        preferred=job.level_index(levels, topology.preferred, "preferred"),
        oversubscription=site.oversubscription,
        spans_roots=not job.one_tree(site.snapshot),
    )
    return problem, nodes


def _blind(problem: pod_sets.SetsProblem, solution: pod_sets.SetsSolution) -> bool:
    """Whether the adapters of a chosen node are not known: then nothing is predicted across nodes."""
    return any(bool(np.isnan(problem.nic[s, list(part)]).any()) for s, part in enumerate(solution.chosen))


def _kept_last(problem: pod_sets.SetsProblem, s: int, chosen: tuple[int, ...]) -> problems.Ints:
    """int [1 + L, nodes of the set]: whether the node is forced, and its domains; by these the spares are picked."""
    rows = [problem.forced[s], *problem.domain_of]
    return np.array([row[list(chosen)] for row in rows], dtype=np.int64)


def _placed(
    site: job.Site, one: PodSet, found: job.Candidates, positions: problems.Ints, traits: problems.Ints
) -> PlacedSet:
    """The nodes of a set with their GPUs; the spares leave the domains that hold fewest of the set's nodes."""
    forced, domains = traits[0], traits[1:]
    places = list(range(len(positions)))
    spares: list[int] = []
    for _ in range(one.spares):
        alone = [Counter(row[places].tolist()) for row in domains]
        spares.append(
            min(places, key=lambda p: (forced[p], *(c[row[p]] for c, row in zip(alone, domains, strict=True)), -p))
        )
        places.remove(spares[-1])
    size = one.question.shape.demand.gpus
    nodes = []
    for position in positions.tolist():
        at = int(np.searchsorted(found.positions, position))
        table = site.tables[site.table_of[position]]
        best = table.best(int(found.masks[at]), size) if size and found.sure[at] else None
        nodes.append(plan.NodePlacement(site.snapshot.nodes[position].name, best.order if best is not None else ()))
    kept = plan.Placement(tuple(nodes[p] for p in places))
    return PlacedSet(one.name, found.fits, kept, plan.Placement(tuple(nodes[p] for p in sorted(spares))))
