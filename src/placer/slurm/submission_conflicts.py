"""Options that one release of sbatch refuses together, or by their value, and another does not.

What is refused was asked of sbatch 22.05, 24.11 and 26.05; where a document names the release in between, that one is
written here (slurm.md 2.2). Conflicts that every release refuses stand where the options are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from placer import errors, hostlist
from placer.slurm import submission_types as types
from placer.slurm import submission_values

_TRES_PER_TASK: Final = (23, 2)
_EXACT_CPUS_PER_GPU: Final = (23, 11)
_TOPO: Final = (24, 5)
_SHARING: Final = (23, 11)
_NODE_COUNTS: Final = (24, 11)
_ONE_SHARING_OPTION: Final = (24, 11)
_REQUEUE_TAKES_A_WORD: Final = (26, 5)
_REQUEUE: Final = (None, "", "expedite")
_ONE_OPTION_FOR_GPUS_OF_A_NODE: Final = (26, 5)


def refuse(
    script: Sequence[types.Choice],
    variables: Sequence[types.Choice],
    cli: Sequence[types.Choice],
    source: str,
    release: tuple[int, int] | None,
) -> None:
    """Raise ParseError or RequestError for what `release` refuses; nothing for None."""
    if release is None:
        return
    said = {choice.name: choice for choice in (*script, *cli)}
    every = {choice.name: choice for choice in (*script, *variables, *cli)}
    _Refusal(said, every, source, release).check()


class _Refusal:
    """One submission: what script and command line say, and that with the environment, the stronger of each name."""

    def __init__(
        self,
        said: dict[str, types.Choice],
        every: dict[str, types.Choice],
        source: str,
        release: tuple[int, int],
    ) -> None:
        self.said, self.every, self.source, self.release = said, every, source, release

    def check(self) -> None:
        """The first refusal is raised."""
        self._values()
        if self.release >= _ONE_SHARING_OPTION:
            self._together(self.said, "exclusive", "oversubscribe")
        if self.release >= _ONE_OPTION_FOR_GPUS_OF_A_NODE and self._asks_gpus("gres"):
            self._together(self.every, "gpus-per-node", "gres")
        yields = self.release >= _EXACT_CPUS_PER_GPU  # the variable, to what script and command line say
        self._together(self.said if yields else self.every, "cpus-per-gpu", "cpus-per-task")
        if self.release >= _TRES_PER_TASK:
            self._per_task()

    def _values(self) -> None:
        for name, value, since in (
            ("exclusive", "topo", _TOPO),
            ("gres-flags", "allow-task-sharing", _SHARING),
            ("gres-flags", "multiple-tasks-per-sharing", _SHARING),
            ("gres-flags", "one-task-per-sharing", _SHARING),
        ):
            choice = self.every.get(name)
            if choice is not None and value in (choice.value or "").lower() and self.release < since:
                raise self._error(choice, f"`{value}` is not known before Slurm {since[0]}.{since[1]:02}")
        requeue = self.every.get("requeue")
        if requeue is not None and self.release >= _REQUEUE_TAKES_A_WORD and requeue.value not in _REQUEUE:
            raise self._error(requeue, "only `expedite` may follow")
        nodes = self.every.get("nodes")
        if nodes is not None and self.release < _NODE_COUNTS:
            self._nodes(nodes)

    def _nodes(self, nodes: types.Choice) -> None:
        """Before node counts could be lists, and a list of nodes longer than the job."""
        if "," in (nodes.value or ""):
            raise self._error(nodes, "a list of node counts is not known to this release")
        named = self.every.get("nodelist")
        try:
            least, most = submission_values.node_range(nodes.value or "")
            names = hostlist.expand(named.value or "") if named is not None else ()
        except (ValueError, errors.ParseError):
            return  # refused where it is read
        if len(names) > (most or least) and "/" not in (named.value or "" if named is not None else ""):
            raise self._error(nodes, "fewer nodes than `--nodelist` names")

    def _per_task(self) -> None:
        choice = self.every.get("tres-per-task")
        if choice is None:
            return
        gpus, cpus, _ = _parsed(choice.value or "")
        if cpus:
            self._together(self.every, "tres-per-task", "cpus-per-task")
            self._together(self.every, "tres-per-task", "cpus-per-gpu")
        if gpus:
            self._together(self.every, "tres-per-task", "gpus-per-task")
            self._together(self.every, "tres-per-task", "ntasks-per-gpu")

    def _asks_gpus(self, name: str) -> bool:
        return name in self.every and "gpu" in (self.every[name].value or "")

    def _together(self, among: dict[str, types.Choice], first: str, second: str) -> None:
        if first in among and second in among:
            raise self._error(among[second], f"`--{first}` and `--{second}` exclude each other")

    def _error(self, choice: types.Choice, message: str) -> errors.InputError:
        if choice.origin is types.Origin.SCRIPT:
            return errors.ParseError(
                message, source=self.source, line=choice.line, column=choice.column, excerpt=choice.spelling
            )
        return errors.RequestError(f"{choice.origin.value}: `{errors.printable(choice.spelling)}`: {message}")


def _parsed(text: str) -> tuple[bool, bool, bool]:
    """Whether `--tres-per-task` names GPUs, CPUs, and anything else."""
    try:
        gpus, cpus, rest = submission_values.tres_per_task(text)
    except ValueError:
        return False, False, True
    return gpus is not None, cpus is not None, bool(rest)
