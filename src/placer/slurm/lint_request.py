"""Rules about what a job asks for: what sbatch takes, and what hurts all the same (slurm.md 2.2, 2.4, 2.7)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from placer.cluster import types as cluster
from placer.slurm import lint_types as types

_SRUN = re.compile(r"[ \t]*(?:(?:exec|time|if|then|\w+=\S*)[ \t]+)*srun\b(.*)")
_CPUS = re.compile(r"(?:^|\s)(?:-c|--cpus-per-(?:task|gpu)\b)")
_SHELL = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")
_NEED_EXPORT: Final = ((22, 5), (23, 2))
"""Releases whose srun reads SRUN_CPUS_PER_TASK alone (slurm.md 2.1)."""


def remarks(facts: types.Facts) -> Iterator[types.Remark]:
    """Everything that the options in force tell together."""
    yield from _hides_peers(facts)
    yield from _whole_memory(facts)
    yield from _switch_wait(facts)
    yield from _uneven(facts)
    yield from _srun_cpus(facts)
    yield from _strands_gpus(facts)


def _hides_peers(facts: types.Facts) -> Iterator[types.Remark]:
    request = facts.request
    name = next((name for name in ("gpus-per-task", "tres-per-task") if facts.submission.gives(name)), None)
    binds = "".join(_value(facts, option) for option in ("gpu-bind", "tres-bind"))
    if name is None or not request.gpus_per_task or "none" in binds or request.ntasks == 1:
        return
    tasks = _tasks_per_node(request)
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    fix = f"#SBATCH --gpus-per-node={kind}{request.gpus_per_task * tasks}" if tasks else "#SBATCH --gpus-per-node=N"
    yield types.Remark(
        types.Rule.HIDES_PEERS,
        f"`--{name}` hides the other GPUs of a node from each rank",
        "NCCL and CUDA IPC between ranks of a node then fail or go the slow way; programs that take the GPU of their "
        "local rank find only GPU 0",
        f"{fix} and `srun --gpu-bind=none`",
        facts.line_of(name),
    )


def _whole_memory(facts: types.Facts) -> Iterator[types.Remark]:
    request = facts.request
    if not request.exclusive or request.whole_memory:
        return
    told = next((name for name in ("mem", "mem-per-cpu", "mem-per-gpu") if facts.submission.gives(name)), None)
    line = facts.line_of("exclusive")
    edits = (types.Edit(line + 1, ("#SBATCH --mem=0",)),) if told is None and line is not None else ()
    yield types.Remark(
        types.Rule.WHOLE_MEMORY,
        "`--exclusive` gives all CPUs and GPUs of a node but not its memory",
        f"the job gets what `--{told}` says" if told else "the job gets the partition's default memory",
        "#SBATCH --mem=0",
        line,
        edits,
    )


def _switch_wait(facts: types.Facts) -> Iterator[types.Remark]:
    if facts.request.switches is None or facts.submission.switch_wait is not None:
        return
    yield types.Remark(
        types.Rule.SWITCH_WAIT,
        f"`--switches={facts.request.switches}` without a time is a wish for 5 minutes",
        "after the site's max_switch_wait, 300 s unless set, the job takes nodes anywhere",
        f"#SBATCH --switches={facts.request.switches}@60:00, as long as it is worth to wait",
        facts.line_of("switches"),
    )


def _uneven(facts: types.Facts) -> Iterator[types.Remark]:
    request = facts.request
    nodes, total = request.nodes, request.gpus
    if not facts.submission.gives("gpus") or not total or not nodes or nodes < 2 or request.nodes_max:
        return
    if request.gpus_per_node or request.gpus_per_task or request.ntasks_per_gpu or total % nodes or total == nodes:
        return
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    yield types.Remark(
        types.Rule.UNEVEN,
        f"`--gpus={total}` over {nodes} nodes may be dealt out unevenly",
        f"a total only promises one GPU on each node: the first may get {total - nodes + 1}, where so many are free",
        f"#SBATCH --gpus-per-node={kind}{total // nodes}",
        facts.line_of("gpus"),
    )


def _srun_cpus(facts: types.Facts) -> Iterator[types.Remark]:
    """On 22.05 and 23.02 srun does not take `--cpus-per-task` over from the job."""
    release = facts.site.release
    cpus = facts.request.cpus_per_task or 1
    if (release is not None and release not in _NEED_EXPORT) or cpus == 1:
        return
    if not facts.submission.gives("cpus-per-task") or not facts.lines:
        return
    first = facts.script.first_command
    if first is None or any("SRUN_CPUS_PER_TASK" in line for line in facts.lines[first - 1 :]):
        return
    bare = _bare_srun(facts.lines, first)
    if bare is None:
        return
    export = "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"
    where = "on Slurm 22.05 and 23.02 " if release is None else ""
    yield types.Remark(
        types.Rule.SRUN_CPUS,
        f"{where}this `srun` gives each task one CPU, not {cpus}",
        "srun of 22.05 and 23.02 does not take `--cpus-per-task` over from the job",
        export,
        bare,
        (types.Edit(first, (export,)),) if _SHELL.match(facts.lines[0]) else (),
    )


def _bare_srun(lines: tuple[str, ...], first: int) -> int | None:
    """The first `srun` that does not say how many CPUs a task gets, continued lines read as one."""
    number = first
    while number <= len(lines):
        start, text = number, lines[number - 1]
        while text.endswith("\\") and number < len(lines) and len(text) < 10_000:
            text = text[:-1] + " " + lines[number]
            number += 1
        found = _SRUN.match(text)
        if found is not None and not _CPUS.search(found[1]):
            return start
        number += 1
    return None


def _strands_gpus(facts: types.Facts) -> Iterator[types.Remark]:
    """So many CPUs or so much memory for each GPU that GPUs of the node are left which no equal job can use."""
    request = facts.request
    gpus = _gpus_of_node(request)
    if not gpus or request.exclusive or request.whole_memory:
        return
    cpus = _cpus_of_node(request, gpus)
    memory = _memory_of_node(request, gpus, cpus)
    suitable = [shape for shape in facts.site.shapes if _suits(shape, request, gpus)]
    found = [(_stranded(shape, gpus, cpus, memory), shape) for shape in suitable]
    if not found or min(left for left, _ in found) <= 0:
        return
    left, shape = min(found, key=lambda pair: pair[0])
    jobs = shape.gpus // gpus
    if cpus * jobs > shape.cpus:
        name = "cpus-per-gpu" if request.cpus_per_gpu else "cpus-per-task"
        tasks = max(1, round(cpus / (request.cpus_per_task or cpus)))
        share = shape.cpus // jobs // (gpus if request.cpus_per_gpu else tasks)
        takes, fix = f"{cpus} of {shape.cpus} CPUs", f"#SBATCH --{name}={max(1, share)}"
    else:
        name = next((n for n in ("mem", "mem-per-gpu", "mem-per-cpu") if facts.submission.gives(n)), "mem")
        parts = {"mem": 1, "mem-per-gpu": gpus, "mem-per-cpu": max(cpus, 1)}[name]
        takes = f"{memory / 1024:.0f} of {shape.memory_mib / 1024:.0f} GiB"
        fix = f"#SBATCH --{name}={shape.memory_mib // jobs // parts}M"
    yield types.Remark(
        types.Rule.STRANDS_GPUS,
        f"{gpus} of {shape.gpus} GPUs come with {takes} of a node like {shape.name}",
        f"jobs like this one leave {left} GPUs of each such node without CPUs or memory, and may wait for these",
        fix,
        facts.line_of(name),
    )


def _suits(shape: types.NodeShape, request: cluster.JobRequest, gpus: int) -> bool:
    partitions = set((request.partition or "").split(",")) - {""}
    return (
        shape.gpus > gpus
        and request.gpu_type in {None, shape.gpu_type}
        and (not partitions or not partitions.isdisjoint(shape.partitions))
    )


def _stranded(shape: types.NodeShape, gpus: int, cpus: int, memory: int) -> int:
    """GPUs left when the node is full of such jobs, beyond those that their number leaves anyway; 0 if none fits."""
    by_gpus = shape.gpus // gpus
    jobs = min(by_gpus, shape.cpus // max(cpus, 1), shape.memory_mib // memory if memory else by_gpus)
    return (by_gpus - jobs) * gpus if jobs else 0


def _gpus_of_node(request: cluster.JobRequest) -> int:
    """GPUs on one node, one for each task or node at least; 0 where that is not told."""
    if request.gpus_per_node:
        return request.gpus_per_node
    if request.gpus and request.nodes and not request.nodes_max:
        return request.gpus // request.nodes
    if request.gpus_per_task:
        return request.gpus_per_task * (_tasks_per_node(request) or 1)
    return 1 if request.gpus and request.cpus_per_gpu else 0


def _tasks_per_node(request: cluster.JobRequest) -> int | None:
    if request.ntasks_per_node:
        return request.ntasks_per_node
    if request.ntasks and request.nodes and not request.nodes_max:
        return math.ceil(request.ntasks / request.nodes)
    return 1 if request.nodes and not request.ntasks else None


def _cpus_of_node(request: cluster.JobRequest, gpus: int) -> int:
    if request.cpus_per_gpu:
        return request.cpus_per_gpu * gpus
    return (request.cpus_per_task or 1) * (_tasks_per_node(request) or 1)


def _memory_of_node(request: cluster.JobRequest, gpus: int, cpus: int) -> int:
    if request.memory_per_node_mib:
        return request.memory_per_node_mib
    return (request.memory_per_gpu_mib or 0) * gpus or (request.memory_per_cpu_mib or 0) * cpus


def _value(facts: types.Facts, name: str) -> str:
    choice = facts.submission.choice(name)
    return (choice.value or "") if choice is not None else ""
