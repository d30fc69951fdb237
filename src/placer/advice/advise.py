"""Advice for one job: where it should run and why, when it could start, what else was possible, what to run.

The verdict comes from three searches of the same shape: with what is free now, with what would be free at later ends
of running jobs, and with an empty whole cluster ("ever"). One limit covers all of it; what it cut short is said in the
notes, and the answer's termination is then LIMIT wherever something could still have been better.
"""

from __future__ import annotations

import msgspec

from placer import errors
from placer.advice import alternatives, commands, over_shapes, start
from placer.advice import types as advice
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, features, job, ranks, shapes
from placer.placement import gang_problem as problems
from placer.placement import types as plan


def advise(
    snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, options: advice.Options | None = None
) -> advice.Advice:
    """Advise on one request. Raises RequestError for a request that contradicts itself or names what is not there."""
    options = options or advice.Options()
    deadline = problems.Deadline(options.limits)
    site = job.site(
        snapshot,
        workload=request.workload,
        oversubscription=options.oversubscription,
        nic_gbits=options.nic_gbits,
    )
    questions = ask(site, request, options.limits)
    now = over_shapes.best(site, questions, deadline)
    if now.placed:
        found = _fits_now(site, request, options, now, deadline)
    else:
        ever = over_shapes.best(site, questions, deadline, empty=True)
        if ever.placed or not ever.complete:
            found = _must_wait(site, request, options, now, ever, questions, deadline)
        else:
            found = _never(site, request, ever)
    return msgspec.structs.replace(found, solve=msgspec.structs.replace(found.solve, seconds=deadline.seconds))


def ask(site: job.Site, request: cluster.JobRequest, limits: plan.SolveLimits) -> tuple[job.Question, ...]:
    """Every partition, shape and feature variant that a request allows, as questions; a job runs in one partition."""
    most = max((capacity.type_mask(n, request.gpu_type).bit_count() for n in site.free.classes.nodes), default=0)
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


def _fits_now(
    site: job.Site,
    request: cluster.JobRequest,
    options: advice.Options,
    found: over_shapes.Found,
    deadline: problems.Deadline,
) -> advice.Advice:
    assert found.result.placement is not None  # noqa: S101 - the caller checked; tells the type checker
    asked = shapes.with_tasks(found.question.request)
    placement, notes = ranks.bind(site, found.result.placement, found.question.shape, asked, limits=deadline.rest)
    prediction, late = _with_penalty(site, found, deadline)
    others, cut = alternatives.now(site, found.question, found.result, options, deadline)
    said = "\n".join(site.snapshot.assumptions)
    assumed = tuple(f"assumed: {text}" for text in (*notes, *found.result.assumed) if text not in said)
    return advice.Advice(
        verdict=advice.Verdict.FITS_NOW,
        shape=found.question.shape,
        placement=placement,
        score=found.result.score,
        prediction=prediction,
        solve=found.solve,
        fits=found.result.fits,
        start=advice.Start(site.snapshot.source.taken, "free now"),
        alternatives=others,
        commands=commands.to_start(
            site.snapshot, request, found.question.shape, placement, options.script, told=_told(options)
        ),
        notes=(*_unproven(found), *late, *cut, *assumed, *_remarks(site, request)),
    )


def _told(options: advice.Options) -> bool:
    """Whether the script alone says what the job asks for."""
    return options.script is not None and not options.overridden


def _must_wait(
    site: job.Site,
    request: cluster.JobRequest,
    options: advice.Options,
    now: over_shapes.Found,
    ever: over_shapes.Found,
    questions: tuple[job.Question, ...],
    deadline: problems.Deadline,
) -> advice.Advice:
    def fits(free: capacity.Capacity) -> bool | None:
        return over_shapes.possible(site, questions, free, deadline)

    unsure = () if ever.placed else ("whether it could ever fit was not searched to the end: time limit",)
    others, cut = alternatives.instead(site, now.question, options, deadline)
    return advice.Advice(
        verdict=advice.Verdict.MUST_WAIT,
        shape=ever.question.shape,
        solve=now.solve,
        fits=now.result.fits,
        start=start.estimate(site.snapshot, site.free, fits),
        alternatives=others,
        commands=commands.to_wait(site.snapshot, request, ever.question.shape, options.script, told=_told(options)),
        notes=(*_unproven(now), *unsure, *cut, *_remarks(site, request)),
    )


def _never(site: job.Site, request: cluster.JobRequest, ever: over_shapes.Found) -> advice.Advice:
    return advice.Advice(
        verdict=advice.Verdict.NEVER_FITS,
        shape=ever.question.shape,
        solve=ever.solve,
        fits=ever.result.fits,
        start=advice.Start(None, "not even on the empty, whole cluster"),
        commands=commands.to_look(site.snapshot),
        notes=_remarks(site, request),
    )


def _unproven(found: over_shapes.Found) -> tuple[str, ...]:
    """What the limit left open about the answer for what is free now."""
    if found.complete:
        return ()
    if found.placed:
        return ("a better placement or shape may exist: time limit",)
    return ("no placement was found before the time limit; the job may fit now all the same",)


def _with_penalty(
    site: job.Site, found: over_shapes.Found, deadline: problems.Deadline
) -> tuple[plan.Prediction | None, tuple[str, ...]]:
    """How much longer a collective takes than with the best placement on an empty cluster, in percent, filled in."""
    prediction = found.result.prediction
    if prediction is None or prediction.allreduce_busbw_gbps is None:
        return prediction, ()
    late = ("the best placement on an empty cluster was not searched to the end: time limit",)
    if deadline.passed:
        return prediction, late
    question = msgspec.structs.replace(found.question, limits=deadline.rest)
    ideal = job.search(site, question, empty=True)
    if ideal.solve.termination is plan.Termination.LIMIT:
        return prediction, late
    if ideal.prediction is None or ideal.prediction.allreduce_busbw_gbps is None:
        return prediction, ()
    penalty = (ideal.prediction.allreduce_busbw_gbps / prediction.allreduce_busbw_gbps - 1) * 100
    return msgspec.structs.replace(prediction, step_penalty_pct=round(max(0.0, penalty), 1)), ()


def _remarks(site: job.Site, request: cluster.JobRequest) -> tuple[str, ...]:
    """What was taken for granted in the snapshot, what is missing from it, and who waits before this job."""
    remarks = [*site.snapshot.assumptions, *(f"left out: {text}" for text in site.snapshot.left_out)]
    if shapes.takes_all_memory(request, _defaults(site.snapshot, request)):
        remarks.insert(0, "the job names no memory, so it takes all memory of each node; `--mem` lets it share nodes")
    untold = [node.name for node in site.snapshot.nodes if not node.cpus or not node.memory_mib]
    if untold:
        remarks.append(f"CPUs or memory of {len(untold)} nodes are not told, and so limit nothing there")
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
