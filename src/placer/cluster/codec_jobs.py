"""The `jobs` of a snapshot document, and request documents, <-> `Job`, `JobRequest`, `Allocation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from placer import ranges, units
from placer.cluster import codec_errors, codec_wire, types

_Share = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class RequestWire(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What a job asks for."""

    nodes: codec_wire.Count | None = None
    nodes_max: codec_wire.Count | None = None
    gpus: codec_wire.Count | None = None
    gpus_per_node: codec_wire.GpuCount | None = None
    gpus_per_task: codec_wire.GpuCount | None = None
    gpus_per_socket: codec_wire.GpuCount | None = None
    gpu_type: str | None = None
    gpu_share: _Share | None = None
    ntasks: codec_wire.Count | None = None
    ntasks_per_node: codec_wire.Count | None = None
    cpus_per_task: codec_wire.Count | None = None
    cpus_per_gpu: codec_wire.Count | None = None
    memory_per_node: codec_wire.Memory | None = None
    memory_per_cpu: codec_wire.Memory | None = None
    memory_per_gpu: codec_wire.Memory | None = None
    whole_memory: bool = False
    exclusive: bool = False
    partition: str | msgspec.UnsetType | None = msgspec.UNSET
    constraint: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    switches: codec_wire.Count | None = None
    threads_per_core: codec_wire.Count | None = None
    required: str | None = None
    preferred: str | None = None
    workload: types.Workload = types.Workload.ALLREDUCE
    time_limit: codec_wire.Seconds | msgspec.UnsetType | None = msgspec.UNSET


class AllocationWire(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a job holds on a node; `gpus` are indices, or a count where they are not known."""

    node: str
    gpus: list[codec_wire.Index] | codec_wire.GpuCount | None = None
    cpus: codec_wire.Count = 0
    cpu_ids: str | None = None
    memory: codec_wire.Memory = 0


class JobWire(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One entry of `jobs`."""

    id: str | int
    name: str = ""
    user: str = ""
    account: str = ""
    state: types.JobState = types.JobState.PENDING
    reason: str | None = None
    partition: str = ""
    priority: codec_wire.Whole = 0
    preemptible: bool = False
    submitted: str | None = None
    started: str | None = None
    ends: str | None = None
    time_limit: codec_wire.Seconds | None = None
    request: RequestWire | None = None
    allocations: list[AllocationWire] | None = None
    dependency: str | None = None


def decode(
    wires: Sequence[JobWire], gpus: Mapping[str, frozenset[int]], where: codec_errors.Where, left_out: list[str]
) -> list[types.Job]:
    """The jobs of a document. `gpus` are the GPU indices of each node that there is.

    A request that names neither partition nor time limit takes the job's. Allocations on nodes that are not there are
    dropped, GPUs that several jobs hold are kept, both are said in `left_out`. Raises DocumentError.
    """
    holders: dict[tuple[str, int], str] = {}
    seen: set[str] = set()
    jobs = []
    for position, wire in enumerate(wires):
        here = where.at(f"jobs[{position}]")
        job_id = str(wire.id)
        if job_id in seen:
            raise here.error("id", f"job `{job_id}` stands twice")
        seen.add(job_id)
        allocations = _known_allocations(wire, gpus, here, left_out)
        _note_shared(job_id, allocations, holders, left_out)
        jobs.append(_job(wire, allocations, here))
    return jobs


def _job(wire: JobWire, allocations: tuple[types.Allocation, ...], where: codec_errors.Where) -> types.Job:
    time_limit = where.duration("time_limit", wire.time_limit)
    request = decode_request_wire(
        wire.request or RequestWire(), where.at("request"), partition=wire.partition or None, time_limit=time_limit
    )
    return types.Job(
        id=str(wire.id),
        name=wire.name,
        user=wire.user,
        account=wire.account,
        state=wire.state,
        reason=wire.reason,
        partition=wire.partition,
        priority=wire.priority,
        preemptible=wire.preemptible,
        submitted=where.moment("submitted", wire.submitted),
        started=where.moment("started", wire.started),
        ends=where.moment("ends", wire.ends),
        time_limit=time_limit,
        request=request,
        allocations=allocations,
        dependency=wire.dependency,
    )


def _known_allocations(
    wire: JobWire, gpus: Mapping[str, frozenset[int]], where: codec_errors.Where, left_out: list[str]
) -> tuple[types.Allocation, ...]:
    kept = []
    for position, allocation in enumerate(wire.allocations or ()):
        here = where.at(f"allocations[{position}]")
        made = _allocation(allocation, here)
        if made.node not in gpus:
            left_out.append(f"job {wire.id}: what it holds on node {made.node}, which is not listed")
            continue
        for index in made.gpus or ():
            if index not in gpus[made.node]:
                raise here.error("gpus", f"there is no GPU {index} on node `{made.node}`")
        if made.gpu_count > len(gpus[made.node]):
            raise here.error("gpus", f"node `{made.node}` has {len(gpus[made.node])} GPUs, not {made.gpu_count}")
        kept.append(made)
    return tuple(kept)


def _note_shared(
    job_id: str,
    allocations: Sequence[types.Allocation],
    holders: dict[tuple[str, int], str],
    left_out: list[str],
) -> None:
    for allocation in allocations:
        for index in allocation.gpus or ():
            first = holders.setdefault((allocation.node, index), job_id)
            if first != job_id:
                left_out.append(f"GPU {index} of node {allocation.node} is held by job {first} and by job {job_id}")


def _allocation(wire: AllocationWire, where: codec_errors.Where) -> types.Allocation:
    gpus = wire.gpus if wire.gpus is not None else []
    if isinstance(gpus, list) and len(set(gpus)) != len(gpus):
        raise where.error("gpus", "names a GPU twice")
    return types.Allocation(
        node=wire.node,
        gpus=tuple(gpus) if isinstance(gpus, list) else None,
        gpu_count=len(gpus) if isinstance(gpus, list) else gpus,
        cpus=wire.cpus,
        cpu_ids=where.numbers("cpu_ids", wire.cpu_ids),
        memory_mib=where.memory("memory", wire.memory),
    )


def decode_request(document: object, *, source: str, path: str = "") -> types.JobRequest:
    """A request document (the keys of `request` alone) from plain builtins. Raises DocumentError."""
    where = codec_errors.Where(source, path)
    return decode_request_wire(codec_errors.convert(document, RequestWire, where), where)


def decode_request_wire(
    wire: RequestWire, where: codec_errors.Where, *, partition: str | None = None, time_limit: int | None = None
) -> types.JobRequest:
    """A checked request; `partition` and `time_limit` stand in for keys that are not there at all."""
    return types.JobRequest(
        nodes=wire.nodes,
        nodes_max=wire.nodes_max,
        gpus=wire.gpus,
        gpus_per_node=wire.gpus_per_node,
        gpus_per_task=wire.gpus_per_task,
        gpus_per_socket=wire.gpus_per_socket,
        gpu_type=wire.gpu_type,
        gpu_share=wire.gpu_share,
        ntasks=wire.ntasks,
        ntasks_per_node=wire.ntasks_per_node,
        cpus_per_task=wire.cpus_per_task,
        cpus_per_gpu=wire.cpus_per_gpu,
        memory_per_node_mib=_memory(where, "memory_per_node", wire.memory_per_node),
        memory_per_cpu_mib=_memory(where, "memory_per_cpu", wire.memory_per_cpu),
        memory_per_gpu_mib=_memory(where, "memory_per_gpu", wire.memory_per_gpu),
        whole_memory=wire.whole_memory,
        exclusive=wire.exclusive,
        partition=partition if isinstance(wire.partition, msgspec.UnsetType) else wire.partition,
        constraint=wire.constraint,
        nodelist=wire.nodelist,
        exclude=wire.exclude,
        reservation=wire.reservation,
        switches=wire.switches,
        threads_per_core=wire.threads_per_core,
        topology=types.TopologyConstraint(wire.required, wire.preferred),
        workload=wire.workload,
        time_limit=time_limit
        if isinstance(wire.time_limit, msgspec.UnsetType)
        else where.duration("time_limit", wire.time_limit),
    )


def _memory(where: codec_errors.Where, step: str, value: int | str | None) -> int | None:
    return None if value is None else where.memory(step, value)


def encode(job: types.Job) -> dict[str, object]:
    """One entry of `jobs`."""
    entry: dict[str, object] = {
        "id": job.id,
        "name": job.name,
        "user": job.user,
        "state": job.state.value,
        "reason": job.reason,
        "partition": job.partition,
        "priority": job.priority,
        "preemptible": job.preemptible,
        "submitted": _moment(job.submitted),
        "time_limit": job.time_limit,
        "request": _encode_job_request(job),
        "allocations": [_encode_allocation(allocation) for allocation in job.allocations],
    }
    told = {
        "account": job.account or None,
        "started": _moment(job.started),
        "ends": _moment(job.ends),
        "dependency": job.dependency,
    }
    entry.update((key, value) for key, value in told.items() if value is not None)
    return entry


def encode_request(request: types.JobRequest) -> dict[str, object]:
    """The request document: what was said, memory as text."""
    return codec_wire.plain(
        RequestWire(
            nodes=request.nodes,
            nodes_max=request.nodes_max,
            gpus=request.gpus,
            gpus_per_node=request.gpus_per_node,
            gpus_per_task=request.gpus_per_task,
            gpus_per_socket=request.gpus_per_socket,
            gpu_type=request.gpu_type,
            gpu_share=request.gpu_share,
            ntasks=request.ntasks,
            ntasks_per_node=request.ntasks_per_node,
            cpus_per_task=request.cpus_per_task,
            cpus_per_gpu=request.cpus_per_gpu,
            memory_per_node=_amount(request.memory_per_node_mib),
            memory_per_cpu=_amount(request.memory_per_cpu_mib),
            memory_per_gpu=_amount(request.memory_per_gpu_mib),
            whole_memory=request.whole_memory,
            exclusive=request.exclusive,
            partition=msgspec.UNSET if request.partition is None else request.partition,
            constraint=request.constraint,
            nodelist=request.nodelist,
            exclude=request.exclude,
            reservation=request.reservation,
            switches=request.switches,
            threads_per_core=request.threads_per_core,
            required=request.topology.required,
            preferred=request.topology.preferred,
            workload=request.workload,
            time_limit=msgspec.UNSET if request.time_limit is None else request.time_limit,
        )
    )


def _encode_job_request(job: types.Job) -> dict[str, object]:
    """As `encode_request`; null where the job knows what its request does not say, since absence takes the job's."""
    document = encode_request(job.request)
    if job.request.partition is None and job.partition:
        document["partition"] = None
    if job.request.time_limit is None and job.time_limit is not None:
        document["time_limit"] = None
    return document


def _encode_allocation(allocation: types.Allocation) -> dict[str, object]:
    entry = codec_wire.plain(
        AllocationWire(
            node=allocation.node,
            gpus=allocation.gpu_count if allocation.gpus is None else list(allocation.gpus),
            cpus=allocation.cpus,
            cpu_ids=None if allocation.cpu_ids is None else ranges.format(allocation.cpu_ids),
            memory=units.format_memory(allocation.memory_mib),
        )
    )
    if allocation.cpu_ids is None:
        del entry["cpu_ids"]
    return entry


def _amount(mib: int | None) -> str | None:
    return None if mib is None else units.format_memory(mib)


def _moment(seconds: int | None) -> str | None:
    return None if seconds is None else units.format_moment(seconds)
