"""`placer sbatch`: sbatch, with the options that put the job where it runs best."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click
import msgspec

from placer.cli import _sbatch_exec, _sbatch_flow

if TYPE_CHECKING:
    from placer.slurm import submission_types as submissions

_NO_SCRIPT: Final = frozenset({"wrap", "help", "usage", "version"})

_LONGEST_FOR_LINT: Final = 1 << 18
"""Bytes; a longer script is submitted without remarks on its text rather than late."""

EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  placer sbatch --placer-dry-run fixtures/jobs/train.sbatch\n"
    "  placer sbatch --placer-dry-run --placer-explain --placer-snapshot fixtures/slurm/24.11 \\\n"
    "      fixtures/jobs/train.sbatch\n"
    "  placer sbatch --parsable -N 2 --gpus-per-node=4 train.sbatch"
)


@click.command(
    cls=_sbatch_flow.PassThrough,
    epilog=EXAMPLES,
    options_metavar="[--placer-OPTION…] [SBATCH OPTIONS] [script [args…]]",
    add_help_option=True,
)
@_sbatch_flow.own_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """Submit with sbatch, placed as advised.

    Script, arguments, standard input and environment go to sbatch untouched; stdout and exit status are sbatch's own.
    placer only adds options in front, never one that you gave yourself. Whatever fails in placer, the job is submitted
    all the same, with a warning. Each option has a twin in the environment: PLACER_SBATCH_DRY_RUN=1,
    PLACER_SBATCH_PIN=0, PLACER_SBATCH_TIMEOUT=10. `sbatch --help` lists sbatch's options.

    Lines `#PLACER --required LEVEL --preferred LEVEL --workload CLASS` beside the script's `#SBATCH` lines say what
    sbatch has no word for.
    """
    return _sbatch_flow.run("sbatch", ctx.args, _read)


def _read(words: list[str]) -> submissions.Submission:
    from placer.slurm import submission, submission_files

    line = submission.command_line(words)
    from_stdin = line.rest >= len(words) and not any(one.option.name in _NO_SCRIPT for one in line.first.given)
    data = _sbatch_exec.standard_input() if from_stdin else b""
    read_script = submission_files.reader(os.environ, data)
    taken: list[bytes] = []

    def remember(name: str | None) -> bytes:
        taken.append(read_script(name))
        return taken[-1]

    found = submission.read(words, os.environ, remember)
    remarks = _remarks(taken[0], found.script or "standard input", words[: line.rest]) if taken else ()
    return msgspec.structs.replace(found, findings=(*found.findings, *remarks))


def _remarks(data: bytes, name: str, options: list[str]) -> tuple[submissions.Finding, ...]:
    """What lint sees in the text of a script beyond the findings of reading it; nothing about a script too long."""
    from placer.slurm import lint
    from placer.slurm import lint_types as rules
    from placer.slurm import submission_types as submissions

    if len(data) > _LONGEST_FOR_LINT or ":" in options:
        return ()
    wanted = {
        rules.Rule.CUT, rules.Rule.NOT_EXPANDED, rules.Rule.IGNORED, rules.Rule.SWITCH_WAIT, rules.Rule.UNEVEN,
    }  # fmt: skip
    return tuple(
        submissions.Finding(submissions.Concern.LINT, remark.text, remark.fix or remark.why, remark.line)
        for remark in lint.check(data, name, environ=os.environ, argv=options).remarks
        if remark.rule in wanted
    )
