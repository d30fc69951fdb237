"""The advice of `placer sbatch`: what runs in the worker, and what it says to the process that becomes sbatch."""

from __future__ import annotations

import functools
import os
import time
import traceback
from typing import TYPE_CHECKING

import msgspec

from placer import errors, ranges
from placer.cli import _sbatch_own, _sbatch_worker
from placer.slurm import submission_types as submissions

if TYPE_CHECKING:
    from placer.advice import types as advice


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is added and what there is to say; or, with `error`, why there is no advice."""

    options: tuple[str, ...] = ()
    notice: str | None = None  # about the shape; said whether asked for or not
    explanations: tuple[str, ...] = ()
    never: str | None = None  # why the job can never start
    error: str | None = None
    hint: str | None = None
    exit_code: int = 1


def ask(own: _sbatch_own.Own, submission: submissions.Submission) -> Answer:
    """Advise under the deadline. Raises PlacerError when no advice came in time."""
    data = _sbatch_worker.within(own.timeout, functools.partial(_work, own, submission))
    return msgspec.json.decode(data, type=Answer)


def _work(own: _sbatch_own.Own, submission: submissions.Submission) -> bytes:
    try:
        answer = advise(own, submission)
    except errors.PlacerError as error:
        answer = Answer(error=error.message, hint=error.hint, exit_code=error.exit_code)
    except Exception as error:  # noqa: BLE001 - whatever breaks here must not lose the job
        if os.environ.get("PLACER_DEBUG"):
            traceback.print_exc()
        answer = Answer(error=failure(error), hint="PLACER_DEBUG=1 shows where")
    return msgspec.json.encode(answer)


def failure(error: Exception) -> str:
    """One line for a fault of placer's own."""
    return f"failed on its own account: {type(error).__name__}: {error}"


def advise(own: _sbatch_own.Own, submission: submissions.Submission) -> Answer:
    """Read the cluster, advise, and decide what to add. Raises the errors of each step."""
    from placer.advice import advise as adviser
    from placer.advice import finish
    from placer.advice import types as advice
    from placer.cli import _sbatch_additions, _sbatch_shape, _sources
    from placer.files import config
    from placer.placement import types as plan

    settings = config.load()
    system = None if own.snapshot else "slurm"
    source = _sources.SourceOptions(own.snapshot, system, None, own.timeout, own.strict)
    snapshot = _sources.read(source, settings)
    options = advice.Options(
        limits=plan.SolveLimits(
            seconds=min(settings.solve_seconds, own.timeout / (5 if own.shape else 3)), clock=time.perf_counter
        ),
        oversubscription=tuple(settings.oversubscription.items()),
        nic_gbits=settings.nic_gbits,
        alternatives=0,
    )
    found = adviser.advise(snapshot, submission.request, options)
    change = _sbatch_shape.Change()
    if own.shape:
        change = _sbatch_shape.change(finish.compare(snapshot, submission.request, found, options), submission)
        if change.submission is not None:
            submission = change.submission
            found = adviser.advise(snapshot, submission.request, options)
    decision = _sbatch_additions.decide(found, snapshot, submission, allow_pin=own.pin)
    additions = (*change.additions, *decision.additions)
    never = _never(found) if found.verdict is advice.Verdict.NEVER_FITS else None
    return Answer(
        options=tuple(addition.option for addition in additions),
        notice=change.notice,
        explanations=(
            _summary(found),
            *(f"added {addition.option}: {addition.reason}" for addition in additions),
            *change.remarks,
            *decision.remarks,
            *found.notes,
        ),
        never=never,
    )


def _never(found: advice.Advice) -> str:
    counts = ", ".join(f"{reason} {count}" for reason, count in found.fits.excluded)
    why = f": {found.fits.nodes_fit} of {found.fits.nodes_total} nodes fit (excluded: {counts})" if counts else ""
    return f"this job never fits, not even on the empty cluster{why}"


def _summary(found: advice.Advice) -> str:
    if found.placement is None:
        start = f", {found.start.basis}" if found.start is not None else ""
        return f"{found.verdict.value}{start}"
    nodes = ", ".join(f"{node.name} GPU {ranges.format(node.gpus)}" for node in found.placement.nodes[:8])
    more = f" and {len(found.placement.nodes) - 8} nodes more" if len(found.placement.nodes) > 8 else ""
    predicted = found.prediction.allreduce_busbw_gbps if found.prediction is not None else None
    speed = f", all-reduce at {predicted:.0f} GB/s" if predicted is not None else ""
    return f"{found.verdict.value}: {nodes}{more}{speed}"
