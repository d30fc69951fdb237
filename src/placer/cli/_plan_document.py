"""A plan for the queue as a document: kind `QueuePlan`, keys as promised."""

from __future__ import annotations

from typing import Any

from placer import units
from placer.advice import queue_types as advice
from placer.cli import _advice_document
from placer.placement import types as plan


def document(found: advice.QueuePlan) -> dict[str, Any]:
    """Plain builtins in the order that a reader wants."""
    return {
        "jobs": [_job(job) for job in found.jobs],
        "value": found.value,
        "greedy_value": found.greedy_value,
        "solve": _solve(found.solve),
        "gpus": {"started": found.gpus_started, "free": found.gpus_free},
        "notes": list(found.notes),
    }


def _job(job: advice.Decision) -> dict[str, Any]:
    start = None
    if job.start is not None:
        earliest = job.start.earliest
        start = {"earliest": units.format_moment(earliest) if earliest is not None else None, "basis": job.start.basis}
    return {
        "id": job.id,
        "alias": job.alias,
        "decision": job.choice.value,
        "placement": _advice_document.placement(job.placement),
        "reason": job.reason,
        "start": start,
        "gpus": job.gpus,
        "priority": job.priority,
        "tasks": {"start": job.tasks, "of": job.of} if job.of > 1 else None,
    }


def _solve(found: plan.SolveResult) -> dict[str, Any]:
    """In the sense of `value`, which is to be as great as can be: the bound is the most that any plan could have."""
    flipped = _advice_document.solve(found)
    for key in ("objective", "bound"):
        flipped[key] = None if flipped[key] is None else 0.0 - flipped[key]
    return flipped
