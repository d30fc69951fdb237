"""Section 7 of the rules: what each task of a step sees in CUDA_VISIBLE_DEVICES.

The recordings are of tasks that no CPU binding holds; what CPUs change is in slurm.md 3.1.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

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


_COUNTED = frozenset({Bind.PER_TASK, Bind.SINGLE})
_LISTED = frozenset({Bind.MAP, Bind.MASK})


class Binding(msgspec.Struct, frozen=True):
    """A binding with its numbers: (k,) of per_task and single, the list of map_gpu, the masks of mask_gpu."""

    kind: Bind = Bind.ALL
    numbers: tuple[int, ...] = ()


class Locality(msgspec.Struct, frozen=True):
    """CPUs of each local task, and CPUs near each GPU; a GPU that is not in the table is near all."""

    tasks: tuple[frozenset[int], ...]
    gpus: Mapping[int, frozenset[int]] = {}

    def near(self, task: int, gpu: int) -> bool:
        """Whether the GPU is near some CPU of the task."""
        return gpu not in self.gpus or bool(self.gpus[gpu] & self.tasks[task])

    def holds(self, task: int, gpu: int) -> bool:
        """Whether all CPUs near the GPU are the task's."""
        return gpu in self.gpus and self.gpus[gpu] <= self.tasks[task]


def parse(text: str) -> Binding:
    """The argument of --gpu-bind: `single:2`, `map_gpu:0,1*2`, `mask_gpu:0x3,0xc`, with or without `verbose,`.

    --gpus-per-task=k binds as `per_task:k`, --ntasks-per-gpu=k as `single:k`. Raises ParseError.
    """
    rest = text.removeprefix("verbose,").removeprefix("v,")
    name, colon, listed = ("", "", "") if rest in {"verbose", "v"} else rest.partition(":")
    kind = next((kind for kind in Bind if kind.value == name and kind is not Bind.ALL), Bind.ALL)
    if (kind is Bind.ALL and name) or (kind in _COUNTED | _LISTED) != bool(colon):
        hint = "none, closest, per_task:K, single:K, map_gpu:LIST or mask_gpu:LIST"
        raise errors.ParseError("no binding of GPUs", source="--gpu-bind", excerpt=text[:40], hint=hint)
    numbers = tuple(number for entry in listed.split(",") for number in _repeated(entry, text)) if colon else ()
    if kind in _COUNTED and (len(numbers) != 1 or numbers[0] < 1):
        raise errors.ParseError("one number from 1 on belongs here", source="--gpu-bind", excerpt=text[:40])
    return Binding(kind, numbers)


def _repeated(entry: str, text: str) -> tuple[int, ...]:
    number, star, times = entry.partition("*")
    base = 16 if number[:2].lower() == "0x" else 10
    digits = number[2:] if base == 16 else number
    try:
        if not (digits.isascii() and digits.isalnum() and len(digits) <= 64 and len(times) < 5):
            raise ValueError
        value, count = int(digits, base), int(times) if star else 1
    except ValueError:
        value, count = 0, 0
    if not 0 < count <= 4096:
        raise errors.ParseError("not a list of numbers", source="--gpu-bind", excerpt=text[:40])
    return (value,) * count


def views(
    gpus: Sequence[int],
    local_tasks: int,
    binding: Binding,
    *,
    release: Release,
    locality: Locality | None = None,
    constrained: bool = False,
) -> tuple[tuple[int, ...], ...]:
    """GPU indices that each task of one node sees, by SLURM_LOCALID. `gpus`: the step's GPUs on that node.

    With L the step's GPUs, ascending, and i the local id of a task without CPU binding: per_task:k sees
    L[i*k .. i*k+k-1]; single:k sees L[i//k mod |L|]; map_gpu and mask_gpu see what their list, cycled over the tasks,
    names; what comes out empty is L[0]. `locality` says where tasks are bound to CPUs. `constrained`: a device cgroup
    hides the other GPUs (ConstrainDevices), and map_gpu and mask_gpu count within L.

    [22][24] a task that is alone on its node is never bound and sees L. [22] `none` shows the others no GPU at all:
    CUDA_VISIBLE_DEVICES is empty.
    """
    step = tuple(sorted(gpus))
    if not step or (local_tasks == 1 and release <= R24):
        return (step,) * local_tasks
    if binding.kind in {Bind.ALL, Bind.NONE}:
        hidden = binding.kind is Bind.NONE and release == R22
        return (() if hidden else step,) * local_tasks
    if binding.kind in _LISTED:
        found = [_listed(step, binding, i, constrained) for i in range(local_tasks)]
    elif binding.kind is Bind.CLOSEST:
        found = [_closest(step, locality, i) for i in range(local_tasks)]
    elif binding.kind is Bind.PER_TASK:
        found = _per_task(step, binding.numbers[0], local_tasks, locality)
    else:
        found = _single(step, binding.numbers[0], local_tasks, locality)
    return tuple(view or step[:1] for view in found)


def visible(view: Sequence[int], *, constrained: bool) -> str:
    """CUDA_VISIBLE_DEVICES of a view; a device cgroup numbers the GPUs of each task from 0."""
    return ",".join(map(str, range(len(view)) if constrained else view))


def _listed(step: tuple[int, ...], binding: Binding, i: int, constrained: bool) -> tuple[int, ...]:
    named = binding.numbers[i % len(binding.numbers)]
    numbered = enumerate(step) if constrained else zip(step, step, strict=True)
    if binding.kind is Bind.MAP:
        return tuple(gpu for number, gpu in numbered if number == named)
    return tuple(gpu for number, gpu in numbered if named >> number & 1)


def _closest(step: tuple[int, ...], locality: Locality | None, i: int) -> tuple[int, ...]:
    return tuple(gpu for gpu in step if locality is None or locality.near(i, gpu))


def _per_task(step: tuple[int, ...], k: int, tasks: int, locality: Locality | None) -> list[tuple[int, ...]]:
    """Each task in turn takes k GPUs that are left, near ones first."""
    left = list(step)
    found = []
    for i in range(tasks):
        near = _closest(tuple(left), locality, i)
        order = [*near, *(gpu for gpu in left if gpu not in near)]
        found.append(tuple(sorted(order[:k])))
        left = [gpu for gpu in left if gpu not in order[:k]]
    return found


def _single(step: tuple[int, ...], k: int, tasks: int, locality: Locality | None) -> list[tuple[int, ...]]:
    """k tasks to a GPU: each takes one whose CPUs are all its own, else one near, else any; then anew."""
    slots: dict[int, int] = {}
    found: list[tuple[int, ...]] = []
    for i in range(tasks):
        free = [gpu for gpu in step if slots.get(gpu, k)] or list(step)
        if not any(slots.get(gpu, k) for gpu in step):
            slots = {}
        near = [gpu for gpu in free if locality is not None and locality.near(i, gpu)]
        own = [gpu for gpu in near if locality is not None and locality.holds(i, gpu)]
        gpu = (own or near or free)[0]
        slots[gpu] = slots.get(gpu, k) - 1
        found.append((gpu,))
    return found


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
