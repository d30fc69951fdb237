"""`placer plan`: which pending jobs should start now, and where?"""

from __future__ import annotations

import click

from placer.cli import _sources

EXAMPLES = (
    "\b\nExamples:\n"
    "  placer plan --snapshot fixtures/slurm/24.11\n"
    "  placer plan --snapshot fixtures/slurm/24.11 --priorities tiers\n"
    "  placer plan --snapshot fixtures/slurm/24.11 --reserve 1 -o json"
)


@click.command(epilog=EXAMPLES)
@_sources.options
@click.option(
    "--priorities",
    type=click.Choice(["weights", "tiers"]),
    default="weights",
    help="A GPU is worth its job's priority, or no number of jobs is worth one of higher priority.",
)
@click.option(
    "--reserve",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Keep nodes for the first N jobs that must wait: no job of lower priority delays them.",
)
@click.option(
    "--horizon",
    default="7-0",
    metavar="TIME",
    help="How far ahead starts of waiting jobs are told, like 12:00:00 or 2-0.",
)
@click.option("--gap", type=click.FloatRange(min=0), default=1e-4, help="Relative gap at which a plan is good enough.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
@click.option(
    "--limit",
    "solve_seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Answer with the best found after so long.",
)
def command(
    source: _sources.SourceOptions,
    priorities: str,
    reserve: int,
    horizon: str,
    gap: float,
    output: str,
    solve_seconds: float | None,
) -> int:
    """Which pending jobs should start now, and where?

    All of them are placed at once, so that the value of what starts is greatest: every GPU of a job is worth its
    priority, and the highest priority counts 1. Beside it stands the value that best fit by priority and size gets.
    Jobs that no placement can start (held, dependent, not begun) are told with their reason.
    """
    import time

    from placer import units
    from placer.advice import plan
    from placer.advice import queue_types as advice
    from placer.files import config
    from placer.placement import types as placement

    settings = config.load()
    seconds = solve_seconds if solve_seconds is not None else settings.solve_seconds
    options = advice.Options(
        limits=placement.SolveLimits(seconds=seconds, gap=gap, clock=time.perf_counter),
        tiers=priorities == "tiers",
        reserve=reserve,
        horizon=units.parse_duration(horizon, source="--horizon") or 365 * advice.DAY,
        oversubscription=tuple(settings.oversubscription.items()),
        nic_gbits=settings.nic_gbits,
    )
    found = plan.plan_queue(_sources.read(source, settings), options)
    if output == "table":
        from placer.cli import _plan_table, _render

        _render.say(_plan_table.text(found))
    else:
        from placer.cli import _document, _plan_document

        _document.emit("QueuePlan", _plan_document.document(found), output)
    return 0
