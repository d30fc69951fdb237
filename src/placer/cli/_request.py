"""The options that describe a job, and how they combine with a script or a request document."""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from placer import errors

if TYPE_CHECKING:
    from placer.cluster import types as cluster

F = TypeVar("F", bound=Callable[..., Any])
MAX_BYTES = 16 << 20
WORKLOADS = ("allreduce", "alltoall", "pipeline", "host-bound", "independent")
LEVEL_HELP = "A level of the fabric, like `leaf`; `placer topo fabric` lists them."


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as given; None = not given."""

    nodes: int | None = None
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpu_type: str | None = None
    gpu_share: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    mem: str | None = None
    mem_per_gpu: str | None = None
    exclusive: bool = False
    partition: str | None = None
    constraint: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    required: str | None = None
    preferred: str | None = None
    workload: str | None = None
    time: str | None = None


def options(function: F) -> F:
    """Add the request options of `placer place`; the verb gets one `asked` argument."""
    count = click.IntRange(min=0, max=1_000_000)
    decorators = [
        click.option("-N", "--nodes", type=count, help="Number of nodes."),
        click.option("-G", "--gpus", type=count, help="GPUs of the whole job."),
        click.option("--gpus-per-node", type=count, help="GPUs on each node."),
        click.option("--gpu-type", metavar="TYPE", help="Type of GPU, as the scheduler names it."),
        click.option("--gpu-share", type=count, metavar="MILLI", help="Thousandths of one GPU."),
        click.option("-n", "--ntasks", type=count, help="Tasks (ranks) of the whole job."),
        click.option("--ntasks-per-node", type=count, help="Tasks (ranks) on each node."),
        click.option("-c", "--cpus-per-task", type=count, help="Logical CPUs of each task."),
        click.option("--cpus-per-gpu", type=count, help="Logical CPUs for each GPU."),
        click.option("--mem", metavar="SIZE", help="Memory on each node, like 100G; 0 = all."),
        click.option("--mem-per-gpu", metavar="SIZE", help="Memory for each GPU."),
        click.option("--exclusive", is_flag=True, help="Whole nodes."),
        click.option("-p", "--partition", metavar="NAME", help="Partition, or several with commas."),
        click.option("-C", "--constraint", metavar="EXPR", help="Features, like `a100&ib`."),
        click.option("-w", "--nodelist", metavar="NODES", help="Nodes that the job must hold."),
        click.option("-x", "--exclude", metavar="NODES", help="Nodes that it must not use."),
        click.option("--required", metavar="LEVEL", help="All nodes in one domain of this level. " + LEVEL_HELP),
        click.option("--preferred", metavar="LEVEL", help="As few domains of this level as possible."),
        click.option("--workload", type=click.Choice(WORKLOADS), help="What the ranks do with each other."),
        click.option("-t", "--time", metavar="TIME", help="Time limit, like 2:00:00 or 1-12."),
    ]

    @functools.wraps(function)
    def wrapped(**arguments: Any) -> Any:
        asked = RequestOptions(**{name: arguments.pop(name) for name in RequestOptions.__struct_fields__})
        return function(asked=asked, **arguments)

    for decorator in reversed(decorators):
        wrapped = decorator(wrapped)
    return wrapped  # type: ignore[return-value]


class Asked(msgspec.Struct, frozen=True):
    """A request, the script it came from, and remarks about that script."""

    request: cluster.JobRequest
    script: str | None = None
    remarks: tuple[str, ...] = ()


def read(source: str | None, asked: RequestOptions) -> Asked:
    """Read a script, a request document or `-` (stdin); options override what it says."""
    if source is None:
        from placer.cluster import types as cluster

        found = Asked(cluster.JobRequest())
        if asked == RequestOptions():
            raise errors.UsageError(
                "nothing is asked for", hint="`placer place --nodes 2 --gpus-per-node 4` or `placer place SCRIPT`"
            )
    else:
        found = _from_file(source)
    return Asked(_override(found.request, asked), found.script, found.remarks)


def _from_file(source: str) -> Asked:
    data = read_bytes(source)
    if data.lstrip()[:2] == b"#!" or source.endswith((".sh", ".sbatch", ".slurm", ".job")):
        import os

        from placer.slurm import submission

        read = submission.read([source], os.environ, read_script=lambda _path: data)
        return Asked(read.request, None if source == "-" else source, tuple(finding.text for finding in read.findings))
    from placer.cluster import codec_jobs
    from placer.files import snapshots

    return Asked(codec_jobs.decode_request(snapshots.parse_document(data, source=source), source=source))


def read_bytes(source: str, verb: str = "place") -> bytes:
    """The bytes of a file, or of stdin for `-`; `verb` is whose help a hint names. Raises InputError."""
    try:
        if source == "-" and sys.stdin is None:
            raise errors.InputError("standard input is closed", hint=f"placer {verb} - < train.sbatch")
        if source == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with pathlib.Path(source).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        name = errors.printable(source)
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise errors.InputError(f"{name}: {reason}", hint=f"`placer {verb} --help` shows what it takes") from None
    if len(data) > MAX_BYTES:
        raise errors.InputError(
            f"{errors.printable(source)}: larger than 16 MiB", hint="give a batch script or a request document"
        )
    return data


def _override(request: cluster.JobRequest, asked: RequestOptions) -> cluster.JobRequest:
    """The request with every given option in place of what it said."""
    from placer import units
    from placer.cluster import types as cluster

    direct = (
        "nodes", "gpus", "gpus_per_node", "gpu_type", "gpu_share", "ntasks", "ntasks_per_node", "cpus_per_task",
        "cpus_per_gpu", "partition", "constraint", "nodelist", "exclude",
    )  # fmt: skip
    changes: dict[str, Any] = {name: value for name in direct if (value := getattr(asked, name)) is not None}
    if asked.nodes is not None:
        changes["nodes_max"] = None
    if asked.mem is not None:
        memory = units.parse_memory(asked.mem, source="--mem")
        changes |= {"memory_per_node_mib": memory or None, "whole_memory": memory == 0}
        changes |= {"memory_per_gpu_mib": None, "memory_per_cpu_mib": None}
    if asked.mem_per_gpu is not None:
        changes |= {"memory_per_gpu_mib": units.parse_memory(asked.mem_per_gpu, source="--mem-per-gpu")}
        changes |= {"memory_per_node_mib": None, "memory_per_cpu_mib": None, "whole_memory": False}
    if asked.exclusive:
        changes["exclusive"] = True
    if asked.required is not None or asked.preferred is not None:
        old = request.topology
        changes["topology"] = cluster.TopologyConstraint(
            asked.required or old.required, asked.preferred or old.preferred
        )
    if asked.workload is not None:
        changes["workload"] = cluster.Workload(asked.workload)
    if asked.time is not None:
        changes["time_limit"] = units.parse_duration(asked.time, source="--time")
    return msgspec.structs.replace(request, **changes)
