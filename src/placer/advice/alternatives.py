"""Other ways to run a job: another shape for the same GPUs, or other nodes."""

from __future__ import annotations

import msgspec

from placer.advice import types as advice
from placer.placement import gang_problem as problems
from placer.placement import job, shapes
from placer.placement import types as plan

NOTICEABLE = 0.01
"""Predicted bandwidths that differ by less are the same."""


Answers = tuple[tuple[advice.Alternative, ...], tuple[str, ...]]
"""Alternatives, and a note where the time limit cut the search for them short."""


def now(
    site: job.Site,
    question: job.Question,
    chosen: plan.GangResult,
    options: advice.Options,
    deadline: problems.Deadline,
) -> Answers:
    """At most `options.alternatives` other answers that fit now: the fastest other shape, other nodes, other shapes."""
    if not options.alternatives:
        return (), ()
    found, complete = _other_shapes(site, question, chosen.prediction, deadline)
    if deadline.passed:
        return _answers(found, options, complete=False)
    elsewhere = _elsewhere(site, msgspec.structs.replace(question, limits=deadline.rest), chosen)
    if elsewhere is not None:
        found.insert(min(1, len(found)), elsewhere)
    return _answers(found, options, complete=complete)


def instead(site: job.Site, question: job.Question, options: advice.Options, deadline: problems.Deadline) -> Answers:
    """Shapes for the same number of GPUs that fit now, for a job that has to wait."""
    if not options.alternatives:
        return (), ()
    found, complete = _other_shapes(site, question, None, deadline)
    return _answers(found, options, complete=complete)


def _answers(found: list[advice.Alternative], options: advice.Options, *, complete: bool) -> Answers:
    cut = "not all alternatives were searched" if found else "alternatives were not searched"
    return tuple(found[: options.alternatives]), () if complete else (f"{cut}: time limit",)


def _other_shapes(
    site: job.Site, question: job.Question, chosen: plan.Prediction | None, deadline: problems.Deadline
) -> tuple[list[advice.Alternative], bool]:
    """Fastest first, and whether all shapes were searched."""
    total, taken = question.shape.gpus, question.shape.count
    if total < 2 or question.shape.fill:
        return [], True
    most = max((len(node.gpus) for node in site.free.classes.nodes), default=0)
    counts = [
        n
        for n in range(1, min(total, len(site.snapshot.nodes)) + 1)
        if total % n == 0 and n != taken and total // n <= most
    ]
    found = []
    complete = True
    for count in counts:
        if deadline.passed:
            complete = False
            break
        asked = msgspec.structs.replace(question, shape=_reshaped(question.shape, count), limits=deadline.rest)
        result = job.search(site, asked)
        complete = complete and result.solve.termination is not plan.Termination.LIMIT
        if result.placement is not None and result.prediction is not None:
            why = _compare(f"as {count} x {total // count} GPUs", result.prediction, chosen)
            found.append(advice.Alternative(result.placement, result.prediction, why))
    return sorted(found, key=lambda a: -(a.prediction.allreduce_busbw_gbps or 0.0)), complete


def _reshaped(shape: shapes.Shape, count: int) -> shapes.Shape:
    """The same GPUs, tasks, CPUs and memory in all, on `count` nodes."""
    old = shape.demand
    memory = None if old.memory_mib is None else -(-old.memory_mib * shape.count // count)
    demand = shapes.Demand(
        gpus=shape.gpus // count,
        cpus=-(-old.cpus * shape.count // count),
        memory_mib=memory,
        tasks=-(-old.tasks * shape.count // count),
    )
    return shapes.Shape(count, demand, 0, shape.ranks)


def _elsewhere(site: job.Site, question: job.Question, chosen: plan.GangResult) -> advice.Alternative | None:
    """The best answer that shares no node with the chosen one."""
    if chosen.placement is None or question.request.nodelist is not None:
        return None
    used = frozenset(node.name for node in chosen.placement.nodes)
    result = job.search(site, msgspec.structs.replace(question, avoid=used))
    if result.placement is None or result.prediction is None:
        return None
    why = _compare("on other nodes", result.prediction, chosen.prediction, chosen.score, result.score)
    return advice.Alternative(result.placement, result.prediction, why)


def _compare(
    what: str,
    other: plan.Prediction,
    chosen: plan.Prediction | None,
    chosen_score: tuple[plan.ScoreTerm, ...] = (),
    other_score: tuple[plan.ScoreTerm, ...] = (),
) -> str:
    theirs = other.allreduce_busbw_gbps
    if chosen is None:
        speed = f", {theirs:.0f} GB/s" if theirs is not None else ""
        return f"{what}: fits now{speed}, but is not the shape that was asked for"
    mine = chosen.allreduce_busbw_gbps
    if (mine is None) != (theirs is None):
        return (
            f"{what}: bandwidth {'not ' if theirs is None else ''}predicted for this one only{_domains(other, chosen)}"
        )
    if mine is not None and theirs is not None and abs(theirs - mine) > NOTICEABLE * mine:
        ask = "; ask for this shape to get it" if theirs > mine else ""
        return f"{what}: {theirs:.0f} GB/s, {'faster' if theirs > mine else 'slower'} than {mine:.0f} GB/s{ask}"
    before = {term.name: term for term in chosen_score}
    for term in other_score:
        old = before.get(term.name)
        if old is not None and old.value is not None and term.value is not None and term.value > old.value:
            same = "same bandwidth, " if mine is not None else ""
            return f"{what}: {same}{term.name} {term.value:g} instead of {old.value:g} {term.unit}"
    return f"{what}: no measurable difference{_domains(other, chosen)}"


def _domains(other: plan.Prediction, chosen: plan.Prediction) -> str:
    """The first level at which the two differ in the number of domains."""
    for (level, theirs), (_, mine) in zip(other.domains, chosen.domains, strict=True):
        if theirs != mine:
            return f"; {theirs} {level} instead of {mine}"
    return ""
