"""The commands that a person runs to get what was advised."""

from __future__ import annotations

import shlex

from placer import hostlist, units
from placer.cluster import types as cluster
from placer.placement import shapes
from placer.placement import types as plan


def to_start(
    snapshot: cluster.ClusterSnapshot,
    request: cluster.JobRequest,
    shape: shapes.Shape,
    placement: plan.Placement,
    script: str | None,
    *,
    told: bool,
) -> tuple[str, ...]:
    """What submits the job to the chosen nodes, and what starts its ranks there; `told`: the script says it all."""
    names = hostlist.fold([node.name for node in placement.nodes])
    submit = ["sbatch", f"--nodelist={names}", *([] if told else _options(request, shape)), _script(script)]
    return (_line(submit), *_launch(request, placement))


def to_wait(
    snapshot: cluster.ClusterSnapshot,
    request: cluster.JobRequest,
    shape: shapes.Shape,
    script: str | None,
    *,
    told: bool,
) -> tuple[str, ...]:
    """What submits a job that has to wait: its shape and soft wishes, no pinned nodes, since a pin delays it."""
    wishes = ["--switches=1"] if request.switches is None and _may_share_a_leaf(snapshot, shape) else []
    if not told:
        wishes += _options(request, shape)
        wishes += [f"--nodelist={request.nodelist}"] if request.nodelist else []
        wishes += [f"--switches={request.switches}"] if request.switches is not None else []
    submit = ["sbatch", *wishes, _script(script)]
    return (_line(submit),)


def _may_share_a_leaf(snapshot: cluster.ClusterSnapshot, shape: shapes.Shape) -> bool:
    """Whether a wish for one leaf switch can come true; Slurm knows such wishes in switch trees only."""
    fabric = snapshot.topology.fabric
    largest = max((len(domain.nodes) for domain in fabric.domains if domain.level == 0), default=0)
    return fabric.kind == "tree" and 1 < shape.count <= largest and not shape.extra and not shape.fill


def to_look(snapshot: cluster.ClusterSnapshot) -> tuple[str, ...]:
    """What shows what the cluster has."""
    return ("sinfo -o '%P %D %c %m %G %f'",) if snapshot.source.system == "slurm" else ("placer snapshot show",)


def _options(request: cluster.JobRequest, shape: shapes.Shape) -> list[str]:
    """The request as options of sbatch, in the shape that was found; nodes and switches are the caller's."""
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    options = [f"--nodes={shape.count}"] if shape.exactly else []
    if shape.extra or shape.fill:
        options.append(f"--gpus={kind}{shape.gpus}")
        options += [f"--gpus-per-task={request.gpus_per_task}"] if request.gpus_per_task else []
    elif shape.demand.gpus:
        options.append(f"--gpus-per-node={kind}{shape.demand.gpus}")
    if request.ntasks is not None and request.ntasks >= shape.count:  # with fewer tasks sbatch takes fewer nodes
        options.append(f"--ntasks={request.ntasks}")
    said: tuple[tuple[str, object], ...] = (
        ("ntasks-per-node", request.ntasks_per_node),
        *_cpus(request, shape),
        *_memory(request),
        ("threads-per-core", request.threads_per_core),
        ("partition", request.partition),
        ("constraint", request.constraint),
        ("exclude", request.exclude),
        ("reservation", request.reservation),
        ("time", units.format_duration(request.time_limit) if request.time_limit else None),
    )
    options += [f"--{name}={value}" for name, value in said if value is not None]
    return [*options, "--exclusive"] if request.exclusive else options


def _cpus(request: cluster.JobRequest, shape: shapes.Shape) -> tuple[tuple[str, object], ...]:
    """sbatch takes one of the two; the other asks for no more CPUs."""
    by_task = shape.demand.tasks * (request.cpus_per_task or 0)
    if request.cpus_per_gpu is not None and shape.demand.gpus * request.cpus_per_gpu >= by_task:
        return (("cpus-per-gpu", request.cpus_per_gpu),)
    return (("cpus-per-task", request.cpus_per_task),)


def _memory(request: cluster.JobRequest) -> tuple[tuple[str, object], ...]:
    if request.whole_memory:
        return (("mem", 0),)
    amounts = (
        ("mem", request.memory_per_node_mib),
        ("mem-per-gpu", request.memory_per_gpu_mib),
        ("mem-per-cpu", request.memory_per_cpu_mib),
    )
    given = [(name, units.format_memory(mib)) for name, mib in amounts if mib is not None]
    return tuple(given[:1])  # sbatch takes one of them


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
