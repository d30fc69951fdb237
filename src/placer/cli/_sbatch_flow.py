"""What `placer sbatch`, `placer salloc` and `placer srun` have in common: advise, add options, become the program."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from placer import errors
from placer.cli import _sbatch_exec, _sbatch_own
from placer.slurm import sbatch_options

if TYPE_CHECKING:
    from placer.slurm import submission_types as submissions

F = TypeVar("F", bound=Callable[..., Any])

Read = Callable[[list[str]], "submissions.Submission | None"]
"""What the words after the program's name ask for; None where there is nothing to advise on.

Raises InputError for what the program would refuse.
"""


class PassThrough(click.Command):
    """Gets its words as they are: they are the program's. Only a lone `--help` is placer's own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep every word."""
        if args in (["--help"], ["-h"]):
            return super().parse_args(ctx, args)
        ctx.args = list(args)
        return ctx.args


def _flag(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, is_flag=True, expose_value=False, help=text)


_OWN: Final[tuple[Callable[[Any], Any], ...]] = (
    _flag("--placer-dry-run", "Print the exact command and submit nothing."),
    _flag(
        "--placer-print-added", "Print the options that would be added, one a line, and submit nothing; for filters."
    ),
    _flag("--placer-explain", "Say on stderr what was advised, and why each option is added."),
    _flag("--placer-off", "Run sbatch at once, as if called directly."),
    _flag("--placer-strict", "Do not submit when the advice fails or the job can never start."),
    _flag("--placer-pin/--placer-no-pin", "Allow `--nodelist` for a job that can start at once. Default: allowed."),
    _flag("--placer-shape", "Allow other nodes and tasks per node for the same number of GPUs."),
    click.option(
        "--placer-snapshot", metavar="PATH", expose_value=False, help="A saved cluster instead of the live one."
    ),
    click.option(
        "--placer-timeout", metavar="SECONDS", expose_value=False, help="How long the advice may take. Default: 3."
    ),
)


def own_options(function: F) -> F:
    """Show placer's own options in the help of a verb."""
    for decorator in reversed(_OWN):
        function = decorator(function)
    return function


def run(
    program: str,
    args: list[str],
    read: Read,
    options: tuple[sbatch_options.Option, ...] = sbatch_options.OPTIONS,
) -> int:
    """Advise and become the program; gives an exit status only where nothing is to be run."""
    _die_of_signals_as_the_program_does()
    own, words = _sbatch_own.take(args, os.environ, options)
    if own.complaint is not None:
        _warn(own.complaint, None)
    skip = _sbatch_exec.tried(os.environ)
    path = program if own.dry_run else _sbatch_exec.path_of(program, os.environ, skip)
    added = () if own.off or skip else _added(own, words, read)
    if own.print_added:
        click.echo(b"".join(os.fsencode(option) + b"\n" for option in added), nl=False)
        return 0
    if own.dry_run:
        click.echo(os.fsencode(_sbatch_exec.line([program, *added, *words])))
        return 0
    return _sbatch_exec.become(path, words, added, skip)


def _die_of_signals_as_the_program_does() -> None:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _added(own: _sbatch_own.Own, words: list[str], read: Read) -> tuple[str, ...]:
    """The options to add; never fails but under `--placer-strict`."""
    try:
        return _advised(own, words, read)
    except errors.PlacerError as error:
        if own.strict:
            raise
        _warn(error.message, error.hint)
    except Exception as error:  # noqa: BLE001 - whatever breaks here must not lose the job
        message = f"failed on its own account: {type(error).__name__}: {error}"
        if own.strict:
            raise errors.PlacerError(errors.printable(message), hint="PLACER_DEBUG=1 shows where") from None
        _warn(message, "PLACER_DEBUG=1 shows where")
    return ()


def _advised(own: _sbatch_own.Own, words: list[str], read: Read) -> tuple[str, ...]:
    found = read(words)
    if found is None:
        if own.explain:
            _say("nothing is added: no job of its own, or one that is left to Slurm")
        return ()
    _tell(own, _findings(found))
    reason = _no_advice(found)
    if reason is not None:
        if own.explain:
            _say(f"nothing is added: {reason}")
        return ()
    from placer.cli import _sbatch_advise

    answer = _sbatch_advise.ask(own, found)
    if answer.error is not None:
        raise _error(answer)
    if answer.notice is not None:
        _say(answer.notice)
    for text in answer.explanations if own.explain else ():
        _say(text)
    if answer.never is not None:
        if own.strict:
            raise _NeverFitsError(answer.never, hint="placer place SCRIPT shows what would fit")
        _warn(answer.never, "placer place SCRIPT shows what would fit")
    return answer.options


class _NeverFitsError(errors.PlacerError):
    """Under `--placer-strict`, a job that can never start is not submitted."""

    exit_code = 3


def _error(answer: Any) -> errors.PlacerError:
    error = errors.PlacerError(answer.error, hint=answer.hint)
    error.exit_code = answer.exit_code
    return error


def _no_advice(found: Any) -> str | None:
    """Why there is nothing to advise on."""
    if not found.submits:
        return "nothing is submitted"
    if found.components > 1:
        return "a heterogeneous job"
    if found.gives("clusters"):
        return "the job goes to another cluster (`--clusters`)"
    return None if found.wants_gpus else "the job asks for no GPUs"


def _findings(found: Any) -> list[str]:
    """Findings in words, the most important first; what is only not understood interests those who ask."""
    order = ("overridden", "near-miss", "hides-peers", "whole-memory", "conflict", "lint", "not-understood")
    ranked = sorted(found.findings, key=lambda finding: order.index(finding.concern))
    name = found.script or "script"
    return [f"{f'{name}:{one.line}: ' if one.line else ''}{one.text}; {one.hint}" for one in ranked]


def _tell(own: _sbatch_own.Own, findings: list[str]) -> None:
    """One warning; all of them under `--placer-explain`."""
    for text in findings if own.explain else findings[:1]:
        more = f" ({len(findings) - 1} more: --placer-explain)" if not own.explain and len(findings) > 1 else ""
        _warn(text + more, None)


def _warn(message: str, hint: str | None) -> None:
    _print(f"warning: placer: {message}{f' ({hint})' if hint else ''}")


def _say(text: str) -> None:
    _print(f"placer: {text}")


def _print(text: str) -> None:
    """One line on stderr; a stderr that is gone is no reason to lose a job."""
    try:
        print(errors.printable(" ".join(text.split()), 400), file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return
