"""Section 7 of the rules: what each task of a step sees in CUDA_VISIBLE_DEVICES.

Indices are global, as on nodes without a device cgroup; with one, `renumbered` gives what the task itself reads.
Tasks are not bound to CPUs here, so that `closest` sees all GPUs of the step.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from placer import errors
from placer.slurm_model.release import R22, R24, Release


class Bind(enum.StrEnum):
    """How a step's tasks are tied to its GPUs (--gpu-bind, --tres-bind); ALL = no option."""

    ALL = "all"
    NONE = "none"
    CLOSEST = "closest"
    PER_TASK = "per_task"
    SINGLE = "single"
    MAP = "map_gpu"
    MASK = "mask_gpu"


class Binding(msgspec.Struct, frozen=True):
    """A binding with its numbers: (k,) of per_task and single, the list of map_gpu, the masks of mask_gpu."""

    kind: Bind = Bind.ALL
    numbers: tuple[int, ...] = ()


def parse(text: str) -> Binding:
    """The argument of --gpu-bind: `single:2`, `map_gpu:0,1*2`, `mask_gpu:0x3,0xc`, with or without `verbose,`.

    --gpus-per-task=k binds as `per_task:k`, --ntasks-per-gpu=k as `single:k`. Raises ParseError.
    """
    rest = text.removeprefix("verbose,").removeprefix("verbose").removeprefix("v,")
    name, colon, listed = rest.partition(":")
    kinds = {"": Bind.ALL, **{kind.value: kind for kind in Bind if kind is not Bind.ALL}}
    kind = kinds.get(name)
    takes = kind in {Bind.PER_TASK, Bind.SINGLE, Bind.MAP, Bind.MASK}
    if kind is None or takes != bool(colon):
        hint = "none, closest, per_task:K, single:K, map_gpu:LIST or mask_gpu:LIST"
        raise errors.ParseError("no binding of GPUs", source="--gpu-bind", excerpt=text, hint=hint)
    numbers = tuple(number for entry in listed.split(",") for number in _repeated(entry, text)) if takes else ()
    if kind in {Bind.PER_TASK, Bind.SINGLE} and (len(numbers) != 1 or numbers[0] < 1):
        raise errors.ParseError("one number from 1 on belongs here", source="--gpu-bind", excerpt=text)
    return Binding(kind, numbers)


def _repeated(entry: str, text: str) -> tuple[int, ...]:
    number, star, times = entry.partition("*")
    digits = number[2:] if number[:2].lower() == "0x" else number
    base = 16 if number[:2].lower() == "0x" else 10
    good = digits.isascii() and digits.isalnum() and len(digits) <= 64
    try:
        value, count = int(digits, base), int(times) if star else 1
    except ValueError:
        good = False
    if not good or not 0 < count <= 4096:
        raise errors.ParseError("not a list of numbers", source="--gpu-bind", excerpt=text)
    return (value,) * count


def views(gpus: Sequence[int], local_tasks: int, binding: Binding, *, release: Release) -> tuple[tuple[int, ...], ...]:
    """GPU indices that each task of one node sees, by SLURM_LOCALID. `gpus`: the step's GPUs on that node.

    With L the step's GPUs, ascending, and i the local id: per_task:k sees L[i*k .. i*k+k-1]; single:k sees
    L[i//k mod |L|]; map_gpu and mask_gpu see what they name if it is in L, else L[0]. [22][24] a task that is alone on
    its node is never bound. [22] `none` shows the others no GPU at all: CUDA_VISIBLE_DEVICES is empty.
    """
    step = tuple(sorted(gpus))
    if not step or (local_tasks == 1 and release <= R24):
        return (step,) * local_tasks
    if binding.kind in {Bind.ALL, Bind.NONE, Bind.CLOSEST}:
        hidden = binding.kind is Bind.NONE and release == R22
        return (() if hidden else step,) * local_tasks
    return tuple(_bound(step, binding, i) for i in range(local_tasks))


def _bound(step: tuple[int, ...], binding: Binding, i: int) -> tuple[int, ...]:
    numbers = binding.numbers
    if binding.kind is Bind.PER_TASK:
        return step[i * numbers[0] : (i + 1) * numbers[0]]
    if binding.kind is Bind.SINGLE:
        return (step[i // numbers[0] % len(step)],)
    named = numbers[i % len(numbers)]
    if binding.kind is Bind.MAP:
        return (named,) if named in step else step[:1]
    return tuple(gpu for gpu in step if named >> gpu & 1) or step[:1]


def step_gpus(
    job_gpus: Sequence[int],
    *,
    release: Release,
    total: int | None = None,
    per_node: int | None = None,
    per_task: int | None = None,
    local_tasks: int = 1,
) -> tuple[int, ...]:
    """The GPUs that a step of one node gets from a job that asked for GPUs per node: the lowest, as many as it asks.

    None = not asked. [22] `--gpus` in the step gets all; [22][24] so does `--gpus-per-task` of a single task.
    """
    held = tuple(sorted(job_gpus))
    if total is not None:
        return held if release == R22 else held[:total]
    if per_task is not None:
        return held if local_tasks == 1 and release <= R24 else held[: per_task * local_tasks]
    return held if per_node is None else held[:per_node]


def renumbered(view: Sequence[int], visible: Sequence[int]) -> tuple[int, ...]:
    """A view as a task reads it where a device cgroup leaves it `visible`: places in that list, from 0."""
    order = sorted(visible)
    return tuple(order.index(gpu) for gpu in view)
