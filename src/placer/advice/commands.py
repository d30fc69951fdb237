"""The commands that a person runs to get what was advised."""

from __future__ import annotations

import shlex

from placer import hostlist
from placer.cluster import types as cluster
from placer.placement import shapes
from placer.placement import types as plan


def to_start(
    snapshot: cluster.ClusterSnapshot,
    request: cluster.JobRequest,
    shape: shapes.Shape,
    placement: plan.Placement,
    script: str | None,
) -> tuple[str, ...]:
    """What submits the job to the chosen nodes, and what starts its ranks there."""
    names = hostlist.fold([node.name for node in placement.nodes])
    submit = ["sbatch", f"--nodelist={names}", *([] if script else _shape_options(request, shape)), _script(script)]
    return (_line(submit), *_launch(request, placement))


def to_wait(
    snapshot: cluster.ClusterSnapshot, request: cluster.JobRequest, shape: shapes.Shape, script: str | None
) -> tuple[str, ...]:
    """What submits a job that has to wait: its shape and soft wishes, no pinned nodes, since a pin delays it."""
    wishes = (
        ["--switches=1"] if shape.count > 1 and snapshot.topology.fabric.levels and request.switches is None else []
    )
    submit = ["sbatch", *wishes, *([] if script else _shape_options(request, shape)), _script(script)]
    return (_line(submit),)


def to_look(snapshot: cluster.ClusterSnapshot) -> tuple[str, ...]:
    """What shows what the cluster has."""
    return ("sinfo -o '%P %D %c %m %G %f'",) if snapshot.source.system == "slurm" else ("placer snapshot show",)


def _shape_options(request: cluster.JobRequest, shape: shapes.Shape) -> list[str]:
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    options = [f"--nodes={shape.count}"] if shape.exactly else []
    if shape.extra or shape.fill:
        options.append(f"--gpus={kind}{shape.gpus}")
    elif shape.demand.gpus:
        options.append(f"--gpus-per-node={kind}{shape.demand.gpus}")
    if request.ntasks_per_node is not None:
        options.append(f"--ntasks-per-node={request.ntasks_per_node}")
    elif request.ntasks is not None:
        options.append(f"--ntasks={request.ntasks}")
    if request.cpus_per_task is not None:
        options.append(f"--cpus-per-task={request.cpus_per_task}")
    if request.partition is not None:
        options.append(f"--partition={request.partition}")
    return options


def _launch(request: cluster.JobRequest, placement: plan.Placement) -> tuple[str, ...]:
    """Inside the job: every rank keeps seeing its peers' GPUs, so that they can exchange data directly."""
    ranks = sum(len(node.ranks) for node in placement.nodes)
    if ranks <= 1 or not any(node.gpus for node in placement.nodes):
        return ()
    tasks = "" if request.ntasks is not None or request.ntasks_per_node is not None else f" --ntasks={ranks}"
    return (f"srun{tasks} --gpu-bind=none --cpu-bind=cores PROGRAM",)


def _script(script: str | None) -> str:
    return script if script is not None else "SCRIPT"


def _line(words: list[str]) -> str:
    return " ".join(word if word == "SCRIPT" else shlex.quote(word) for word in words)
