"""Rules about options that Slurm refuses together, by release.

Each was asked of sbatch 22.05, 24.11 and 26.05 (`--test-only`); tests ask again. `since` is the first of these that
refuses; where releases between were not asked, the text names that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from placer.slurm import lint_edit
from placer.slurm import lint_types as types

Test = Callable[[types.Facts], bool]

_ALWAYS: Final[types.Release] = (0, 0)


class Conflict(msgspec.Struct, frozen=True):
    """Options that do not go together; the remark stands at the first of `names` that the script gives."""

    names: tuple[str, ...]
    applies: Test
    text: str
    why: str
    fix: str
    since: types.Release = _ALWAYS


def remarks(facts: types.Facts) -> Iterator[types.Remark]:
    """Conflicts that the release refuses, and those that a later one will."""
    for conflict in CONFLICTS:
        if conflict.applies(facts):
            yield _remark(facts, conflict)


def _remark(facts: types.Facts, conflict: Conflict) -> types.Remark:
    line = next((line for name in conflict.names if (line := facts.line_of(name)) is not None), None)
    release = facts.site.release
    if conflict.since == _ALWAYS:
        ends = "sbatch refuses the job"
    elif release is None or release < conflict.since:
        ends = f"Slurm {types.version(conflict.since)} refuses the job"
    else:
        ends = f"sbatch {types.version(release)} refuses the job"
    return types.Remark(
        types.Rule.CONFLICT, conflict.text, f"{conflict.why}; {ends}", conflict.fix, line, _edits(facts, conflict)
    )


def _edits(facts: types.Facts, conflict: Conflict) -> tuple[types.Edit, ...]:
    """`--gres=gpu:N` beside an equal `--gpus-per-node` may go unasked; anything else is for a person."""
    if conflict.names != ("gres", "gpus-per-node"):
        return ()
    gres, node = facts.at("gres"), facts.at("gpus-per-node")
    if gres is None or node is None or (gres.value or "").removeprefix("gpu:") != node.value:
        return ()
    edit = lint_edit.dropped(facts.lines, gres)
    return (edit,) if edit is not None else ()


def refused(facts: types.Facts) -> bool:
    """Whether the release, the oldest one when it is not known, refuses the job for one of these reasons."""
    release = facts.site.release or _ALWAYS
    return any(conflict.since <= release and conflict.applies(facts) for conflict in CONFLICTS)


def _gives(facts: types.Facts, *names: str) -> bool:
    return all(facts.submission.gives(name) for name in names)


def _said(facts: types.Facts, name: str) -> str:
    choice = facts.submission.choice(name)
    return (choice.value or "") if choice is not None else ""


def _gres_gpus(facts: types.Facts) -> str:
    entries = _said(facts, "gres").split(",")
    return next((entry for entry in entries if entry.split(":")[0].split("/")[-1] == "gpu"), "")


def _typed(entry: str) -> bool:
    return any(not part.isdigit() for part in entry.removeprefix("gres/").removeprefix("gpu").split(":") if part)


def _mixes_types(facts: types.Facts) -> bool:
    gres, node = _gres_gpus(facts), _said(facts, "gpus-per-node")
    return bool(gres and node) and _typed(gres) != _typed(node)


def _no_gpus(facts: types.Facts) -> bool:
    return not facts.submission.wants_gpus


def _no_tasks(facts: types.Facts) -> bool:
    given = any(facts.submission.gives(name) for name in ("ntasks", "nodes", "gpus"))
    return bool(facts.request.gpus_per_task) and not given


def _odd_segment(facts: types.Facts) -> bool:
    segment, nodes = _said(facts, "segment"), facts.request.nodes
    if not (segment.isascii() and segment.isdigit() and len(segment) < 7 and int(segment)) or not nodes:
        return False
    return bool(nodes > int(segment) and nodes % int(segment))


CONFLICTS: Final = (
    Conflict(
        ("gres", "gpus-per-node"),
        lambda facts: bool(_gres_gpus(facts)) and _gives(facts, "gpus-per-node") and not _mixes_types(facts),
        "`--gres=gpu` and `--gpus-per-node` say the same",
        "both are the GPUs of each node",
        "keep `--gpus-per-node` alone",
        since=(26, 5),
    ),
    Conflict(
        ("gres", "gpus-per-node"),
        _mixes_types,
        "`--gres` and `--gpus-per-node` ask for GPUs with and without a type",
        "Slurm cannot tell whether these are the same GPUs",
        "keep `--gpus-per-node=TYPE:N` alone",
    ),
    Conflict(
        ("cpus-per-gpu", "cpus-per-task"),
        lambda facts: _gives(facts, "cpus-per-gpu", "cpus-per-task"),
        "`--cpus-per-gpu` and `--cpus-per-task` exclude each other",
        "both set the CPUs of the job",
        "keep one of them",
    ),
    Conflict(
        ("exclusive", "oversubscribe"),
        lambda facts: {"exclusive", "oversubscribe"} <= {placed.option.name for placed in facts.placed},
        "`--exclusive` and `--oversubscribe` exclude each other",
        "one wants nodes alone, the other shares them",
        "keep one of them",
        since=(24, 11),
    ),
    Conflict(
        ("gpus-per-socket",),
        lambda facts: _gives(facts, "gpus-per-socket") and not facts.request.sockets_per_node,
        "`--gpus-per-socket` needs `--sockets-per-node`",
        "Slurm must know how many sockets to count",
        "#SBATCH --sockets-per-node=2, or `--gpus-per-node` instead",
    ),
    Conflict(
        ("gpus-per-task", "tres-per-task"),
        lambda facts: _no_tasks(facts) and not _gives(facts, "ntasks-per-node"),
        "GPUs for each task, but no number of tasks",
        "`--gpus-per-task` needs `--ntasks` or `--gpus`",
        "#SBATCH --ntasks=N",
    ),
    Conflict(
        ("gpus-per-task", "tres-per-task"),
        lambda facts: _no_tasks(facts) and _gives(facts, "ntasks-per-node"),
        "GPUs for each task, but no number of tasks",
        "`--gpus-per-task` needs `--ntasks`, `--gpus` or `--nodes`",
        "#SBATCH --nodes=1",
        since=(24, 11),
    ),
    Conflict(
        ("tres-per-task", "gpus-per-task"),
        lambda facts: _gives(facts, "gpus-per-task") and "gpu" in _said(facts, "tres-per-task"),
        "`--tres-per-task=gres/gpu` and `--gpus-per-task` exclude each other",
        "both are the GPUs of each task",
        "keep `--gpus-per-task` alone",
    ),
    Conflict(
        ("tres-per-task", "cpus-per-task", "cpus-per-gpu"),
        lambda facts: (
            _said(facts, "tres-per-task").startswith("cpu")
            and any(facts.submission.gives(name) for name in ("cpus-per-task", "cpus-per-gpu"))
        ),
        "`--tres-per-task=cpu` excludes `--cpus-per-task` and `--cpus-per-gpu`",
        "each sets the CPUs of the job",
        "keep one of them",
    ),
    Conflict(
        ("gres-flags",),
        lambda facts: {"enforce-binding", "disable-binding"} <= set(_said(facts, "gres-flags").split(",")),
        "`enforce-binding` and `disable-binding` exclude each other",
        "one takes GPUs only near the job's cores, the other anywhere",
        "#SBATCH --gres-flags=enforce-binding",
    ),
    Conflict(
        ("mem-per-gpu",),
        lambda facts: _gives(facts, "mem-per-gpu") and _no_gpus(facts),
        "memory for each GPU, but no GPUs",
        "nothing sets the amount",
        "#SBATCH --gpus-per-node=N, or `--mem` instead",
    ),
    Conflict(
        ("cpus-per-gpu",),
        lambda facts: _gives(facts, "cpus-per-gpu") and _no_gpus(facts),
        "CPUs for each GPU, but no GPUs",
        "nothing sets the number",
        "#SBATCH --gpus-per-node=N, or `--cpus-per-task` instead",
        since=(24, 11),
    ),
    Conflict(
        ("segment",),
        _odd_segment,
        "the nodes are no multiple of `--segment`",
        "every segment has the same number of nodes",
        "#SBATCH --segment=N with N a divisor of the nodes",
        since=(26, 5),
    ),
)
"""Every pair that is known; those of memory options and of `--ntasks-per-gpu` are refused by the reader already."""
