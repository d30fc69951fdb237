"""`placer srun`: srun, with the options that put the job where it runs best."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from placer.cli import _sbatch_flow, _sbatch_kin

if TYPE_CHECKING:
    from placer.slurm import submission_types as submissions

EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  placer srun --placer-dry-run -N 2 --gpus-per-node=4 -n 8 python train.py\n"
    "  placer srun --placer-dry-run --placer-snapshot fixtures/slurm/24.11 -p gpu -N 1 -G 4 true"
)


@click.command(
    cls=_sbatch_flow.PassThrough,
    epilog=EXAMPLES,
    options_metavar="[--placer-OPTION…] [SRUN OPTIONS] [command [args…]]",
    add_help_option=True,
)
@_sbatch_flow.own_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """Run a job with srun, placed as advised.

    Outside an allocation srun gets a job of its own, which is placed; within one it only starts a step, and runs at
    once as if called directly. Everything goes to srun untouched; placer only adds options in front, never one that
    you gave. Twins in the environment are those of `placer sbatch`: PLACER_SBATCH_OFF=1, PLACER_SBATCH_PIN=0.
    """
    return _sbatch_flow.run("srun", ctx.args, _read, _sbatch_kin.options("srun"))


def _read(words: list[str]) -> submissions.Submission | None:
    return _sbatch_kin.read("srun", words, os.environ)
