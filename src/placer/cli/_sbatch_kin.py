"""salloc and srun read as sbatch is: their own options are known, what bears on the placement goes to one reader.

A step (srun within an allocation) gets no advice: it has its nodes. What depends on an option that only these programs
have, like `--relative`, is left alone too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from placer.slurm import sbatch_options

if TYPE_CHECKING:
    from placer.slurm import submission_types as submissions

_REQUIRED: Final = sbatch_options.Argument.REQUIRED
_OPTIONAL: Final = sbatch_options.Argument.OPTIONAL


def _more(text: str) -> tuple[sbatch_options.Option, ...]:
    """`I,immediate[=]` may take an argument, `W,wait=` takes one, `bell` takes none."""
    found = []
    for word in text.split():
        short, _, name = word.rpartition(",")
        kind = _OPTIONAL if name.endswith("[=]") else _REQUIRED if name[-1] == "=" else sbatch_options.Argument.NONE
        found.append(sbatch_options.Option(name.rstrip("[=]"), short, kind))
    return tuple(found)


_OF_SALLOC: Final = _more("bell no-bell no-shell I,immediate[=] K,kill-command[=] x11[=]")
_OF_SRUN: Final = _more(
    "accel-bind= bcast[=] bcast-exclude= compress[=] cpu-bind= E,preserve-env epilog= exact external-launcher "
    "het-group= I,immediate[=] interactive jobid= K,kill-on-bad-exit[=] l,label mpi= multi-prog Z,no-allocate overlap "
    "prolog= pty[=] quit-on-interrupt r,relative= resv-ports[=] send-libs[=] slurmd-debug= task-epilog= "
    "task-prolog= T,threads= u,unbuffered W,wait= whole X,disable-status x11[=]"
)
"""As `--help` and the manual pages of 22.05 to 26.05 have them; one that is missing here only costs the advice."""

_LEFT_ALONE: Final = frozenset(
    {"jobid", "het-group", "relative", "no-allocate", "overlap", "exact", "external-launcher"}
)
_STEP: Final = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_NNODES", "SLURM_NTASKS")
_PREFIX: Final = {"salloc": "SALLOC_", "srun": "SLURM_"}


def options(program: str) -> tuple[sbatch_options.Option, ...]:
    """The options of salloc or srun: those of sbatch, except where the program means something else by one."""
    own = _OF_SALLOC if program == "salloc" else _OF_SRUN
    names, letters = {option.name for option in own}, {option.short for option in own if option.short}
    return (*own, *(o for o in sbatch_options.OPTIONS if o.name not in names and o.short not in letters))


def read(program: str, words: list[str], environ: Mapping[str, str]) -> submissions.Submission | None:
    """What is asked for; None where there is nothing to advise on. Raises InputError for values that are refused."""
    from placer.slurm import submission

    if program == "srun" and any(environ.get(name) for name in _STEP):
        return None
    found = sbatch_options.split(words, 0, options(program))
    given = [one for one in found.given if one.option in sbatch_options.OPTIONS]
    alone = {one.option.name for one in found.given} & _LEFT_ALONE
    if found.problems or alone or (found.rest < len(words) and words[found.rest] == ":"):
        return None
    argv = [f"--{one.option.name}" + ("" if one.value is None else f"={one.value}") for one in given]
    return submission.read([*argv, "--wrap=true"], _as_of_sbatch(program, environ), lambda _name: b"")


def _as_of_sbatch(program: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The program's own variables under the names that they have for sbatch."""
    known = {variable for option in sbatch_options.OPTIONS for variable in option.environ}
    prefix = _PREFIX[program]
    found = {name: value for name, value in environ.items() if not name.startswith("SBATCH_")}
    for name, value in environ.items():
        twin = f"SBATCH_{name.removeprefix(prefix)}"
        if name.startswith(prefix) and twin in known:
            found[twin] = value
    return found
