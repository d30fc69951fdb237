"""Advice for one job: where it should run and why, when it could start, what else was possible, what to run.

The verdict comes from three searches of the same shape: with what is free now, with what would be free at later ends
of running jobs, and with an empty whole cluster ("ever").
"""

from __future__ import annotations

import math

import msgspec

from placer import errors
from placer.advice import alternatives, commands, start
from placer.advice import types as advice
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, features, job, ranks, shapes
from placer.placement import types as plan


class Found(msgspec.Struct, frozen=True):
    """The best answer over all shapes and variants of a request, with the question that led to it."""

    question: job.Question
    result: plan.GangResult


def advise(
    snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, options: advice.Options | None = None
) -> advice.Advice:
    """Advise on one request. Raises RequestError for a request that contradicts itself or names what is not there."""
    options = options or advice.Options()
    site = job.site(
        snapshot,
        workload=request.workload,
        oversubscription=options.oversubscription,
        nic_gbits=options.nic_gbits,
    )
    questions = ask(site, request, options.limits)
    now = best(site, questions)
    if now.result.placement is not None:
        return _fits_now(site, request, options, now)
    ever = best(site, questions, empty=True)
    if ever.result.placement is None:
        return _never(site, request, ever)
    return _must_wait(site, request, options, now, ever, questions)


def ask(site: job.Site, request: cluster.JobRequest, limits: plan.SolveLimits) -> tuple[job.Question, ...]:
    """Every partition, shape and feature variant that a request allows, as questions; a job runs in one partition."""
    most = max((capacity.type_mask(n, request.gpu_type).bit_count() for n in site.snapshot.nodes), default=0)
    variants = features.parse(request.constraint)
    several_switches = request.switches is not None and request.switches > 1
    wanted = _with_listed(site.snapshot, request)
    questions: list[job.Question] = []
    for partition in eligible.partitions(request):
        one = msgspec.structs.replace(wanted, partition=partition)
        defaults = _defaults(site.snapshot, one)
        found = shapes.of(one, most_gpus=most, most_nodes=len(site.snapshot.nodes), defaults=defaults)
        questions += (
            job.Question(one, shape, variant, limits=limits)
            for shape in found
            for variant in variants
            if not (shape.fill and (variant.at_least or several_switches))
        )
    return tuple(questions)


def _with_listed(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> cluster.JobRequest:
    """The request with at least as many nodes as its node list names, as sbatch counts them."""
    listed = eligible.listed(snapshot, request)
    if listed <= (request.nodes or 1):
        return request
    most = request.nodes_max or request.nodes
    if most is not None and most < listed:
        raise errors.RequestError(
            f"`nodelist` names {listed} nodes, but the job has at most {most}", hint="leave out `--nodes`"
        )
    if most is None and request.gpus_per_node is None and shapes.total_gpus(request):
        most = max(listed, len(snapshot.nodes))
    return msgspec.structs.replace(request, nodes=listed, nodes_max=most)


def _defaults(snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest) -> cluster.Partition | None:
    for partition in snapshot.partitions:
        if partition.name == request.partition or (request.partition is None and partition.default):
            return partition
    return None


def best(
    site: job.Site, questions: tuple[job.Question, ...], *, free: capacity.Capacity | None = None, empty: bool = False
) -> Found:
    """The best placement over all questions; without any, the first question with what it excludes.

    Nodes are filled unevenly only where no even shape fits.
    """
    found: list[Found] = []
    for fill in (False, True):
        found += [
            Found(q, job.search(site, q, free=free, empty=empty)) for q in questions if bool(q.shape.fill) is fill
        ]
        placed = [f for f in found if f.result.placement is not None]
        if placed:
            return min(placed, key=rank_of)
    return found[0]


def rank_of(found: Found) -> tuple[float, float, int]:
    """Order over shapes: unmet preferred level, predicted slowness (unknown last), fewer nodes."""
    predicted = found.result.prediction
    busbw = predicted.allreduce_busbw_gbps if predicted is not None else None
    unmet = next((t.value or 0 for t in found.result.score if t.name == "unmet preferred level"), 0.0)
    alone = found.question.shape.gpus <= 1
    return unmet, 0.0 if alone else (1 / busbw if busbw else math.inf), found.question.shape.count


def _fits_now(site: job.Site, request: cluster.JobRequest, options: advice.Options, found: Found) -> advice.Advice:
    assert found.result.placement is not None  # noqa: S101 - the caller checked; tells the type checker
    asked = shapes.with_tasks(found.question.request)
    placement, notes = ranks.bind(site, found.result.placement, found.question.shape, asked)
    ideal = job.search(site, found.question, empty=True).prediction
    prediction = _with_penalty(found.result.prediction, ideal)
    assumed = tuple(f"assumed: {text}" for text in (*notes, *found.result.assumed))
    return advice.Advice(
        verdict=advice.Verdict.FITS_NOW,
        shape=found.question.shape,
        placement=placement,
        score=found.result.score,
        prediction=prediction,
        solve=found.result.solve,
        fits=found.result.fits,
        start=advice.Start(site.snapshot.source.taken, "free now"),
        alternatives=alternatives.now(site, found.question, found.result, options),
        commands=commands.to_start(
            site.snapshot, request, found.question.shape, placement, options.script, told=_told(options)
        ),
        notes=(*assumed, *_remarks(site, request)),
    )


def _told(options: advice.Options) -> bool:
    """Whether the script alone says what the job asks for."""
    return options.script is not None and not options.overridden


def _must_wait(
    site: job.Site,
    request: cluster.JobRequest,
    options: advice.Options,
    now: Found,
    ever: Found,
    questions: tuple[job.Question, ...],
) -> advice.Advice:
    def fits(free: capacity.Capacity) -> bool:
        return best(site, questions, free=free).result.placement is not None

    return advice.Advice(
        verdict=advice.Verdict.MUST_WAIT,
        shape=ever.question.shape,
        solve=now.result.solve,
        fits=now.result.fits,
        start=start.estimate(site.snapshot, site.free, fits),
        alternatives=alternatives.instead(site, now.question, options),
        commands=commands.to_wait(site.snapshot, request, ever.question.shape, options.script, told=_told(options)),
        notes=_remarks(site, request),
    )


def _never(site: job.Site, request: cluster.JobRequest, ever: Found) -> advice.Advice:
    return advice.Advice(
        verdict=advice.Verdict.NEVER_FITS,
        shape=ever.question.shape,
        solve=ever.result.solve,
        fits=ever.result.fits,
        start=advice.Start(None, "not even on the empty, whole cluster"),
        commands=commands.to_look(site.snapshot),
        notes=_remarks(site, request),
    )


def _with_penalty(prediction: plan.Prediction | None, ideal: plan.Prediction | None) -> plan.Prediction | None:
    """Fill in how much longer a collective takes than with the best placement on an empty cluster, in percent."""
    if (
        prediction is None
        or prediction.allreduce_busbw_gbps is None
        or ideal is None
        or ideal.allreduce_busbw_gbps is None
    ):
        return prediction
    penalty = (ideal.allreduce_busbw_gbps / prediction.allreduce_busbw_gbps - 1) * 100
    return msgspec.structs.replace(prediction, step_penalty_pct=round(max(0.0, penalty), 1))


def _remarks(site: job.Site, request: cluster.JobRequest) -> tuple[str, ...]:
    """What was taken for granted in the snapshot, what is missing from it, and who waits before this job."""
    remarks = [*site.snapshot.assumptions, *(f"left out: {text}" for text in site.snapshot.left_out)]
    if shapes.takes_all_memory(request, _defaults(site.snapshot, request)):
        remarks.insert(0, "the job names no memory, so it takes all memory of each node; `--mem` lets it share nodes")
    asked = set(eligible.partitions(request))
    ahead = sum(
        job_.state is cluster.JobState.PENDING
        and (not request.partition or not asked.isdisjoint(job_.partition.split(",")))
        for job_ in site.snapshot.jobs
    )
    if ahead:
        who = "1 job waits" if ahead == 1 else f"{ahead} jobs wait"
        remarks.append(f"{who} already; one with a higher priority may take these nodes first")
    return tuple(remarks)
