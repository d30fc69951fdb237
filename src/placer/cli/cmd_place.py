"""`placer place`: where should this job run, and why?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from placer.cli import _request, _sources

if TYPE_CHECKING:
    from placer.advice import types as advice
    from placer.cluster import types as cluster

EXAMPLES = (
    "\b\nExamples:\n"
    "  placer place fixtures/jobs/train.sbatch --snapshot fixtures/slurm/24.11\n"
    "  placer place --snapshot fixtures/slurm/24.11 --nodes 2 --gpus-per-node 4 --mem 100G\n"
    "  placer place --snapshot fixtures/slurm/24.11 --gpus 8 --mem 100G --required leaf -o json"
)


@click.command(epilog=EXAMPLES)
@click.argument("request", required=False)
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
    request: str | None,
    asked: _request.RequestOptions,
    source: _sources.SourceOptions,
    output: str,
    solve_seconds: float | None,
) -> int:
    """Where should this job run, and why?

    REQUEST is a batch script, a request document (YAML or JSON), or `-` for stdin; options override what it says.
    Exit code 0: it fits now. 3: it does not; the answer says why, and when it could start.
    """
    from placer.advice import types as advice

    found, snapshot = advise(request, asked, source, solve_seconds)
    if output == "table":
        from placer.cli import _advice_table, _render

        _render.say(_advice_table.text(found, snapshot))
    else:
        from placer.cli import _advice_document, _document

        _document.emit("Advice", _advice_document.document(found), output)
    return 0 if found.verdict is advice.Verdict.FITS_NOW else 3


def advise(
    request: str | None, asked: _request.RequestOptions, source: _sources.SourceOptions, solve_seconds: float | None
) -> tuple[advice.Advice, cluster.ClusterSnapshot]:
    """Read the request and the cluster, and advise."""
    import time

    from placer.advice import advise as adviser
    from placer.advice import types as advice
    from placer.files import config
    from placer.placement import types as plan

    settings = config.load()
    wanted = _request.read(request, asked)
    snapshot = _sources.read(source, settings)
    seconds = solve_seconds if solve_seconds is not None else settings.solve_seconds
    options = advice.Options(
        limits=plan.SolveLimits(seconds=seconds, clock=time.perf_counter),
        oversubscription=tuple(settings.oversubscription.items()),
        nic_gbits=settings.nic_gbits,
        script=wanted.script,
        overridden=asked != _request.RequestOptions(),
    )
    found = adviser.advise(snapshot, wanted.request, options)
    from placer.cli import _render

    for remark in wanted.remarks:
        _render.warn(remark)
    return found, snapshot
