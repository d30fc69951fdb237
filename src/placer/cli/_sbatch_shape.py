"""`--placer-shape`: the options that give a job another shape, where the user's command line leaves room for it.

sbatch takes the last of what is said twice, and what placer adds stands before the user's own words. So a shape that
the command line fixes cannot be changed; one that the script or the environment asks for can.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from placer.advice import finish
from placer.cli import _sbatch_additions
from placer.cluster import types as cluster
from placer.slurm import submission_types as submissions

_SETS_THE_SHAPE: Final = (
    "nodes", "ntasks", "ntasks-per-node", "gpus", "gpus-per-node", "gpus-per-task", "gres", "tres-per-task",
    "cpus-per-task", "mem",
)  # fmt: skip
_NEEDS_THE_SHAPE: Final = (
    "nodelist", "nodefile", "segment", "mincpus", "extra-node-info", "use-min-nodes", "contiguous", "ntasks-per-core",
)  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """The options of the new shape with their reasons, the job as it then is, and what there is to say.

    `notice` is for everybody, `remarks` for those who ask.
    """

    additions: tuple[_sbatch_additions.Addition, ...] = ()
    submission: submissions.Submission | None = None
    notice: str | None = None
    remarks: tuple[str, ...] = ()


def change(compared: finish.Comparison | str, submission: submissions.Submission) -> Change:
    """What to add so that the job takes the best shape; nothing where it has it, or where it cannot be given."""
    if isinstance(compared, str):
        return Change(remarks=(f"the shape stays: {compared}",))
    others = tuple(f"{_shape(way)}: {_times(way)}" for way in (compared.asked, *compared.others))
    cut = () if compared.complete else ("not all shapes were compared: time limit",)
    if not compared.changes:
        return Change(remarks=("the shape stays: no other ends earlier for sure", *others, *cut))
    blocked = _blocked(submission)
    if blocked is not None:
        notice = f"the shape stays, though {_shape(compared.best)} would end first: {blocked}"
        return Change(notice=notice, remarks=(*others, *cut))
    reason = f"{_shape(compared.best)} instead of {_shape(compared.asked)}: {_times(compared.best)}"
    additions = tuple(
        _sbatch_additions.Addition(option, reason) for option in options(submission, compared.best.request)
    )
    changed = msgspec.structs.replace(submission, request=compared.best.request)
    return Change(additions, changed, reason, (*others, *cut))


def _blocked(submission: submissions.Submission) -> str | None:
    for name in _SETS_THE_SHAPE:
        choice = submission.choice(name)
        if choice is not None and choice.origin is submissions.Origin.CLI:
            return f"`{choice.spelling}` on the command line is stronger than what is added"
    for name in _NEEDS_THE_SHAPE:
        if submission.gives(name):
            return f"`--{name}` is given for the asked shape"
    return None if submission.understood else "part of the request is not understood"


def options(submission: submissions.Submission, request: cluster.JobRequest) -> tuple[str, ...]:
    """The options that say the new shape: the user's own names again, so that nothing is said in two ways."""
    old = submission.request
    added = [f"--nodes={request.nodes}"]
    if request.gpus_per_node is not None:
        added.append(_gpus(submission, request.gpus_per_node, request.gpu_type))
    if request.ntasks is not None and request.ntasks != old.ntasks:
        added.append(f"--ntasks={request.ntasks}")
    if request.ntasks_per_node is not None:
        added.append(f"--ntasks-per-node={request.ntasks_per_node}")
    if request.cpus_per_task != old.cpus_per_task:
        added.append(f"--cpus-per-task={request.cpus_per_task}")
    if request.memory_per_node_mib != old.memory_per_node_mib:
        added.append(f"--mem={request.memory_per_node_mib}M")
    return tuple(added)


def _gpus(submission: submissions.Submission, count: int, kind: str | None) -> str:
    typed = f"{kind}:{count}" if kind else str(count)
    gres = submission.choice("gres")
    if gres is None or submission.gives("gpus-per-node"):
        return f"--gpus-per-node={typed}"
    entries = [entry for entry in (gres.value or "").split(",") if entry]
    others = [entry for entry in entries if entry.split(":")[0].split("/")[-1] != "gpu"]
    if len(others) == len(entries):
        return f"--gpus-per-node={typed}"
    return f"--gres={','.join([f'gpu:{typed}', *others])}"


def _shape(way: finish.Way) -> str:
    nodes = "1 node" if way.nodes == 1 else f"{way.nodes} nodes"
    return f"{nodes} x {way.gpus_per_node} GPUs"


def _times(way: finish.Way) -> str:
    """`starts now, runs 1 to 1.2 times as long, ends within 4:00 to 4:54`."""
    if way.starts.high == 0:
        begins = "starts now"
    elif math.isfinite(way.starts.high):
        begins = f"starts within {_clock(way.starts.high)}"
    else:
        begins = "start not known"
    if not math.isfinite(way.relative.high):
        return f"{begins}, speed not predicted"
    low, high = round(way.relative.low, 2), round(way.relative.high, 2)
    runs = "" if low == high == 1 else f", runs {low:g} to {high:g} times as long"
    if way.ends is None or not math.isfinite(way.ends.high):
        return begins + runs
    return f"{begins}{runs}, ends within {_clock(way.ends.low)} to {_clock(way.ends.high)}"


def _clock(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d}"
