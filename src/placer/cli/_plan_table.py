"""A plan for the queue for people: what starts, job by job, what the optimum gains, and how it was found."""

from __future__ import annotations

from placer import errors, hostlist, units
from placer.advice import queue_types as advice
from placer.cli import _render

MAX_ROWS = 60
"""Rows of the table before the rest is counted only; `-o json` has them all."""


def text(found: advice.QueuePlan) -> str:
    """The whole plan as plain text."""
    rows = [_row(job) for job in found.jobs]
    table = _render.plain_table(("job", "gpus", "decision", "nodes", "start", "why"), rows[:MAX_ROWS])
    if len(rows) > MAX_ROWS:
        table += f"\n… {len(rows) - MAX_ROWS} more jobs; `-o json` has them all"
    parts = [_headline(found), table if rows else "", _value(found), _notes(found.notes)]
    return "\n\n".join(part for part in parts if part)


def _headline(found: advice.QueuePlan) -> str:
    starts = sum(job.choice is advice.Choice.START for job in found.jobs)
    jobs = "no job waits" if not found.jobs else f"{starts} of {len(found.jobs)} waiting jobs can start now"
    return f"{jobs}: {found.gpus_started} of {found.gpus_free} free GPUs" if found.jobs else jobs


def _row(job: advice.Decision) -> tuple[str, ...]:
    names = hostlist.fold({node.name for node in job.placement.nodes}) if job.placement is not None else "-"
    start = "now" if job.choice is advice.Choice.START else "-"
    if job.start is not None and job.start.earliest is not None and job.choice is advice.Choice.WAIT:
        start = units.format_moment(job.start.earliest)
    gpus = "-" if job.gpus is None else str(job.gpus)
    return (
        errors.printable(job.alias or job.id, 40),
        gpus,
        job.choice.value,
        errors.printable(names, 40),
        start,
        errors.printable(job.reason, 100),
    )


def _value(found: advice.QueuePlan) -> str:
    solve = found.solve
    gain = f", {100 * (found.value / found.greedy_value - 1):.1f} % more" if found.greedy_value > 0 else ""
    gap = f", gap {solve.gap:.1g}" if solve.gap is not None else ""
    return (
        f"value {found.value:.6g}, by priority and best fit {found.greedy_value:.6g}{gain}\n"
        f"solved: {solve.termination.value}{gap} by {solve.method} in {solve.seconds * 1000:.1f} ms"
    )


def _notes(found: tuple[str, ...]) -> str:
    return "\n".join(f"note: {errors.printable(line, 300)}" for line in found)
