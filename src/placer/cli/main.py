"""`placer`: finds the verb, runs it, and turns every failure into `error:` and `hint:` lines with its exit code."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
import traceback
from typing import Any, Final

import click

import placer
from placer import errors

VERBS: Final[dict[str, str]] = {
    "place": "Where should this job run, and why?",
    "plan": "Which pending jobs should start now, and where?",
    "defrag": "Which fewest moves make room for a request?",
    "explain": "What a batch script gets wrong, and the corrected script",
    "sbatch": "Submit with sbatch, placed as advised",
    "salloc": "Allocate with salloc, placed as advised",
    "srun": "Run with srun, placed as advised",
    "topo": "Show what is wired to what: nodes and fabrics",
    "snapshot": "Keep the state of a cluster in a file, or show one",
    "simulate": "Replay traces against published policies and placer's own",
    "sandbox": "Start a real Slurm with emulated GPU nodes on this machine",
    "config": "Show the configuration and where it comes from",
}
"""Every verb with its one-line help, so that `--help` imports none of them."""


_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing to a full or broken disk answers."""


class LazyVerbs(click.Group):
    """A group that imports `placer.cli.cmd_<verb>` only when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of a reader's need."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one verb."""
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"placer.cli.cmd_{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a programming error of ours, found by the tests
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=LazyVerbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nExamples:\n"
    "  placer place train.sbatch                    where should this script run?\n"
    "  placer sbatch train.sbatch                   submit it so\n"
    "  placer topo                                  what is wired to what on this host\n"
    "  placer place --snapshot cluster.yaml --nodes 2 --gpus-per-node 4",
)
@click.version_option(placer.__version__, "-V", "--version", prog_name="placer")
def cli() -> None:
    """Where a GPU job should run, and why.

    Reads the topology (NVLink, PCIe, NUMA, leaf and spine switches) and the state of a cluster, and answers with a
    placement, its predicted bandwidth, what else was possible, and the command to run. Data goes to stdout, everything
    else to stderr. Exit codes: 0 ok, 1 error, 2 usage, 3 no feasible placement, 4 source unreachable, 5 stale data.
    """


def run(argv: list[str] | None = None) -> None:
    """Entry point of the console script; ends the process with the documented exit codes."""
    sys.exit(invoke(argv))


def invoke(argv: list[str] | None = None) -> int:
    """Run a command line and return its exit code; no exception leaves but SystemExit of a replaced process."""
    try:
        result: Any = cli.main(args=argv, prog_name="placer", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return 130
    except click.ClickException as error:
        return complain(_click_message(error), _click_hint(error), error.exit_code)
    except errors.PlacerError as error:
        return complain(error.message, error.hint or _verb_hint(argv), error.exit_code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our stdout went away (`placer … | head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in _NO_ROOM:
            return _own_fault(error)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered has no place either
        return complain(f"cannot write the answer: {error.strerror}", "df -h", 1)
    except Exception as error:  # noqa: BLE001 - the last resort: a fault of placer must not look like a crash
        return _own_fault(error)
    return result if isinstance(result, int) else 0


def _own_fault(error: Exception) -> int:
    if os.environ.get("PLACER_DEBUG"):
        traceback.print_exc()
    fault = f"placer failed on its own account: {type(error).__name__}: {errors.printable(str(error))}"
    return complain(fault, "run it again with PLACER_DEBUG=1 and report what it prints", 1)


def _verb_hint(argv: list[str] | None) -> str:
    """Where an error knows no better command: the help of the verb that met it."""
    words = sys.argv[1:] if argv is None else argv
    verb = next((word for word in words if word in VERBS), None)
    return f"placer {verb} --help" if verb is not None else "placer --help"


def complain(message: str, hint: str | None, exit_code: int) -> int:
    """Print `error:` and `hint:` on stderr, if there is one to print on; gives the exit code back."""
    if sys.stderr is None:  # closed by the caller
        return exit_code
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    paint = {"error": "\x1b[1;31merror\x1b[0m", "hint": "\x1b[36mhint\x1b[0m"} if colour else {}
    lines = f"{paint.get('error', 'error')}: {message}\n"
    if hint:
        lines += f"\n{paint.get('hint', 'hint')}: {hint}\n"
    with contextlib.suppress(OSError):
        sys.stderr.write(lines)
        sys.stderr.flush()
    return exit_code


def _click_message(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".").replace("\n", " ")
    return message[:1].lower() + message[1:] if message[:2].istitle() else message


def _click_hint(error: click.ClickException) -> str | None:
    context = getattr(error, "ctx", None)
    return f"`{context.command_path} --help` shows what it takes" if context is not None else None
