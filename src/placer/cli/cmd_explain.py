"""`placer explain`: what is wrong with a batch script, why, and what the line should be."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import click

from placer import errors
from placer.cli import _request, _sources

if TYPE_CHECKING:
    from placer.slurm import lint
    from placer.slurm import lint_types as types

EXAMPLES = (
    "\b\nExamples:\n"
    "  placer explain fixtures/jobs/broken.sbatch --release 24.11\n"
    "  placer explain fixtures/jobs/train.sbatch --snapshot fixtures/slurm/24.11 -o json\n"
    "  placer explain --fix fixtures/jobs/broken.sbatch > fixed.sbatch"
)


@click.command(epilog=EXAMPLES)
@click.argument("script")
@click.option("--fix", is_flag=True, help="Print the corrected script instead; what changes the job is left to you.")
@click.option("--release", metavar="R", help="Slurm release that gets the script, like 24.11. Default: the cluster's.")
@_sources.options
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", help="Form of the answer."
)
def command(script: str, fix: bool, release: str | None, source: _sources.SourceOptions, output: str) -> int:
    """What is wrong with a batch script, why, and what the line should be.

    SCRIPT is a file, or `-` for stdin. Directives that sbatch does not see, options that it ignores or that a release
    refuses, variables of this environment that override the script, and what slows a job down or strands GPUs. The
    cluster, where one is found, tells its release and its nodes. Exit code 0, whatever is found.
    """
    from placer.cli import _render
    from placer.slurm import lint

    data = _request.read_bytes(script, "explain")
    site = _site(release, source)
    if fix:
        fixed = lint.fix(data, script, environ=os.environ, site=site)
        left = lint.check(fixed, script, environ=os.environ, site=site).remarks
        for remark in left:
            _render.note(f"{_place(script, remark.line)}: {remark.text}; {_help(remark)}")
        click.echo(fixed, nl=False)
        return 0
    report = lint.check(data, script, environ=os.environ, site=site)
    if output == "table":
        _render.say(_text(script, report))
    else:
        from placer.cli import _document

        _document.emit("ScriptExplanation", _document_of(script, site, report), output)
    return 0


def _site(release: str | None, source: _sources.SourceOptions) -> types.Site:
    """What is known of the cluster; without one, only what `--release` says."""
    from placer.slurm import lint_types as types

    given = types.parse_release(release) if release is not None else None
    if release is not None and given is None:
        raise errors.UsageError(f"`{errors.printable(release)}` is no release of Slurm", hint="--release 24.11")
    if source.snapshot is None and not shutil.which("scontrol"):
        return types.Site(given)
    from placer.cli import _render
    from placer.files import config

    try:
        snapshot = _sources.read(source, config.load())
    except errors.SourceError as error:
        if source.snapshot is not None or source.strict:
            raise
        _render.warn(f"the cluster cannot be asked: {error.message}")
        return types.Site(given)
    from placer.slurm import lint_shapes

    told = types.parse_release(snapshot.source.version) if snapshot.source.system == "slurm" else None
    return types.Site(given or told, lint_shapes.of(snapshot))


def _text(script: str, report: lint.Report) -> str:
    if not report.remarks:
        return f"{errors.printable(script)}: nothing to say"
    lines: list[str] = []
    for remark in report.remarks:
        lines += [f"{_place(script, remark.line)}: {remark.text}", f"    why: {remark.why}"]
        if remark.fix is not None:
            lines.append(f"    fix: {remark.fix}")
    safe = sum(bool(remark.edits) for remark in report.remarks)
    count = f"{len(report.remarks)} remark{'s' if len(report.remarks) > 1 else ''}"
    end = "; sbatch refuses the script as it is" if report.refused else ""
    lines.append(f"{count}{end}" + (f"; `--fix` corrects {safe} of them" if safe else ""))
    return "\n".join(errors.printable(line, 400) for line in lines)


def _place(script: str, line: int | None) -> str:
    name = "stdin" if script == "-" else errors.printable(script)
    return name if line is None else f"{name}:{line}"


def _help(remark: types.Remark) -> str:
    return remark.fix if remark.fix is not None else remark.why


def _document_of(script: str, site: types.Site, report: lint.Report) -> dict[str, object]:
    from placer.slurm import lint_types as types

    return {
        "script": script,
        "release": types.version(site.release) if site.release is not None else None,
        "refused": report.refused,
        "findings": [
            {
                "line": remark.line,
                "rule": remark.rule.value,
                "text": remark.text,
                "why": remark.why,
                "fix": remark.fix,
                "fixable": bool(remark.edits),
            }
            for remark in report.remarks
        ],
    }
