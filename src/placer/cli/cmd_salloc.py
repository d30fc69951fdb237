"""`placer salloc`: salloc, with the options that put the job where it runs best."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from placer.cli import _sbatch_flow, _sbatch_kin

if TYPE_CHECKING:
    from placer.slurm import submission_types as submissions

EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  placer salloc --placer-dry-run -N 2 --gpus-per-node=4 -t 1:00:00\n"
    "  placer salloc --placer-dry-run --placer-snapshot fixtures/slurm/24.11 -p gpu -N 1 -G 4 -t 10"
)


@click.command(
    cls=_sbatch_flow.PassThrough,
    epilog=EXAMPLES,
    options_metavar="[--placer-OPTION…] [SALLOC OPTIONS] [command [args…]]",
    add_help_option=True,
)
@_sbatch_flow.own_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """Get an allocation with salloc, placed as advised.

    Everything goes to salloc untouched, and its status comes back; placer only adds options in front, never one that
    you gave. Whatever fails in placer, salloc runs all the same. Twins in the environment are those of `placer
    sbatch`: PLACER_SBATCH_OFF=1, PLACER_SBATCH_PIN=0.
    """
    return _sbatch_flow.run("salloc", ctx.args, _read, _sbatch_kin.options("salloc"))


def _read(words: list[str]) -> submissions.Submission | None:
    return _sbatch_kin.read("salloc", words, os.environ)
