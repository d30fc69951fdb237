"""`placer defrag`: which running jobs must move so that a request fits?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer import errors
from placer.cli import _request, _sources

if TYPE_CHECKING:
    from placer.cluster import types as cluster

EXAMPLES = (
    "\b\nExamples:\n"
    "  placer defrag --snapshot fixtures/slurm/24.11 --for 14 --move-all\n"
    "  placer defrag --snapshot fixtures/slurm/24.11 --nodes 2 --gpus-per-node 4 --mem 10G --move-all\n"
    "  placer defrag --snapshot fixtures/slurm/24.11 --nodes 2 --gpus-per-node 4 --mem 1G --within leaf --move-all"
)


@click.command(epilog=EXAMPLES)
@click.option("--for", "job", metavar="JOB", help="A waiting job that is to fit, by its id.")
@click.option("--within", metavar="LEVEL", help="All nodes of it in one domain of this level, like `leaf`.")
@click.option("--move-all", is_flag=True, help="Also move jobs that are not preemptible, if nothing else helps.")
@_request.options
@_sources.options
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
    job: str | None,
    within: str | None,
    move_all: bool,
    asked: _request.RequestOptions,
    source: _sources.SourceOptions,
    output: str,
    solve_seconds: float | None,
) -> int:
    """Which running jobs must move so that a request fits?

    The fewest, weighted: first jobs, then GPUs, then the work they lose; preemptible jobs only, unless `--move-all`.
    The moves come in an order in which each fits. Exit code 0: there is a plan (perhaps without moves). 3: there is
    none, which is proven when the answer says infeasible. Nothing is moved.
    """
    import time

    from placer.advice import migration
    from placer.files import config
    from placer.placement import types as plan

    settings = config.load()
    if job is None and asked == _request.RequestOptions():
        raise errors.UsageError(
            "nothing is asked for", hint="`placer defrag --for JOB` or `placer defrag --nodes 2 --gpus-per-node 8`"
        )
    if job is not None and asked != _request.RequestOptions():
        raise errors.UsageError("`--for` and the options of a request exclude each other", hint="leave out `--for`")
    snapshot = _sources.read(source, settings)
    seconds = solve_seconds if solve_seconds is not None else settings.solve_seconds
    options = migration.Options(
        limits=plan.SolveLimits(seconds=seconds, clock=time.perf_counter),
        within=within,
        move_all=move_all,
        oversubscription=tuple(settings.oversubscription.items()),
        nic_gbits=settings.nic_gbits,
    )
    found = migration.make_room(snapshot, _wanted(snapshot, job, asked), options)
    if output == "table":
        from placer.cli import _defrag_table, _render

        _render.say(_defrag_table.text(found))
    else:
        from placer.cli import _defrag_document, _document

        _document.emit("MigrationPlan", _defrag_document.document(found), output)
    return 0 if found.fits else 3


def _wanted(snapshot: cluster.ClusterSnapshot, job: str | None, asked: _request.RequestOptions) -> cluster.JobRequest:
    from placer.advice import migration

    return migration.request_of(snapshot, job) if job is not None else _request.read(None, asked).request
