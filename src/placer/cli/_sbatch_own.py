"""The `--placer-…` options of `placer sbatch`, and their environment twins `PLACER_SBATCH_…`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from placer import errors
from placer.slurm import sbatch_options

PREFIX: Final = "placer-"
DEFAULT_SECONDS: Final = 3.0
_SAY_NO: Final = frozenset({"", "0", "no", "false", "off", "n", "f"})
_FLAGS: Final = ("off", "dry-run", "print-added", "explain", "strict", "shape", "pin", "no-pin")
_VALUES: Final = ("snapshot", "timeout")


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """What placer itself was told."""

    off: bool = False
    dry_run: bool = False
    print_added: bool = False  # for filters: the added options alone, one a line
    explain: bool = False
    strict: bool = False
    shape: bool = False
    pin: bool = True
    snapshot: str | None = None
    timeout: float = DEFAULT_SECONDS  # for the whole advice
    complaint: str | None = None  # about the environment, which is no reason not to submit


def _option(name: str, argument: sbatch_options.Argument) -> sbatch_options.Option:
    return sbatch_options.Option(PREFIX + name, argument=argument, exact=True)


OPTIONS: Final = (
    *(_option(name, sbatch_options.Argument.NONE) for name in _FLAGS),
    *(_option(name, sbatch_options.Argument.REQUIRED) for name in _VALUES),
)


def take(
    argv: Sequence[str],
    environ: Mapping[str, str],
    options: tuple[sbatch_options.Option, ...] = sbatch_options.OPTIONS,
) -> tuple[Own, list[str]]:
    """Take placer's own options out of the words after `placer sbatch`; the others stay as they are, in their order.

    Own options are known only where sbatch would look for an option: not behind the script, not as an argument of
    another option. Raises UsageError for one that does not exist or lacks its value.
    """
    table = options + OPTIONS
    said: dict[str, str | None] = {}
    ours: set[int] = set()
    start = 0
    while True:
        found = sbatch_options.split(argv, start, table)
        for problem in found.problems:
            if problem.spelling.startswith(f"--{PREFIX}"):
                raise errors.UsageError(
                    f"{problem.fault.value} `{errors.printable(problem.spelling)}`", hint="placer sbatch --help"
                )
        for one in found.given:
            if one.option.name.startswith(PREFIX):
                said[one.option.name.removeprefix(PREFIX)] = one.value
                ours.update(range(one.first, one.last + 1))
        if found.rest >= len(argv) or argv[found.rest] != ":":
            break
        start = found.rest + 1
    own = _of(said, environ)
    return own, [word for index, word in enumerate(argv) if index not in ours]


def _of(said: Mapping[str, str | None], environ: Mapping[str, str]) -> Own:
    def flag(name: str) -> bool:
        return name in said or environ.get(_variable(name), "").strip().lower() not in _SAY_NO

    def value(name: str) -> str | None:
        return said[name] if name in said else environ.get(_variable(name)) or None

    timeout, complaint = DEFAULT_SECONDS, None
    try:
        timeout = _seconds(value("timeout"), "--placer-timeout" if "timeout" in said else _variable("timeout"))
    except errors.UsageError as error:
        if "timeout" in said:
            raise
        complaint = error.message
    pin = "no-pin" not in said and environ.get(_variable("pin"), "yes").strip().lower() not in _SAY_NO - {""}
    return Own(
        off=flag("off"),
        dry_run=flag("dry-run") or flag("print-added"),
        print_added=flag("print-added"),
        explain=flag("explain"),
        strict=flag("strict"),
        shape=flag("shape"),
        pin="pin" in said or (pin and not flag("no-pin")),
        snapshot=value("snapshot"),
        timeout=timeout,
        complaint=complaint,
    )


def _variable(name: str) -> str:
    return f"PLACER_SBATCH_{name.upper().replace('-', '_')}"


def _seconds(text: str | None, name: str) -> float:
    if text is None:
        return DEFAULT_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 3600:
        raise errors.UsageError(
            f"`{name}` takes seconds between 0 and 3600, not `{errors.printable(text)}`",
            hint="placer sbatch --placer-timeout 10 …",
        )
    return seconds
