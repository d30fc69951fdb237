"""`scontrol show jobs --json` and `squeue --json`, from 22.05 on.

What a job holds has three shapes. 22.05: `allocated_nodes[{nodename, sockets{"0": {cores{"2": "allocated"}}}}]`; 23.02
to 23.11 the same with lists or objects in places; since 24.05 `nodes.allocation[{name, sockets[{cores[{status}]}]}]`.
GPU indices stand in `gres_detail`, one text for each node of the job, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from placer import errors, hostlist
from placer.slurm import parse_json as values
from placer.slurm import parse_records as records

# The first release whose `shared` no longer tells that a job asked for whole nodes.
_SILENT_ON_EXCLUSIVE = 26


class _Job(msgspec.Struct, frozen=True):
    job_id: Any = None
    array_job_id: Any = None
    array_task_id: Any = None
    array_task_string: Any = None
    het_job_id: Any = None
    het_job_offset: Any = None
    name: Any = None
    user_name: Any = None
    account: Any = None
    job_state: Any = None
    state_reason: Any = None
    state_description: Any = None
    dependency: Any = None
    priority: Any = None
    partition: Any = None
    submit_time: Any = None
    start_time: Any = None
    end_time: Any = None
    time_limit: Any = None
    node_count: Any = None
    max_nodes: Any = None
    tasks: Any = None
    tasks_per_node: Any = None
    cpus_per_task: Any = None
    cpus_per_tres: Any = None
    sockets_per_node: Any = None
    threads_per_core: Any = None
    memory_per_node: Any = None
    memory_per_cpu: Any = None
    memory_per_tres: Any = None
    tres_per_job: Any = None
    tres_per_node: Any = None
    tres_per_socket: Any = None
    tres_per_task: Any = None
    features: Any = None
    required_nodes: Any = None
    excluded_nodes: Any = None
    resv_name: Any = None
    required_switches: Any = None
    minimum_switches: Any = None
    shared: Any = None
    requeue: Any = None
    batch_flag: Any = None
    nodes: Any = None
    gres_detail: Any = None
    job_resources: msgspec.Raw = msgspec.Raw(b"null")


class _Jobs(msgspec.Struct, frozen=True):
    jobs: list[_Job] | None = None
    meta: Any = None


class _Core(msgspec.Struct, frozen=True):
    index: int
    status: list[str]


class _Socket(msgspec.Struct, frozen=True):
    index: int
    cores: list[_Core]


class _Memory(msgspec.Struct, frozen=True):
    allocated: int


class _Part(msgspec.Struct, frozen=True):
    name: str
    memory: _Memory
    sockets: list[_Socket]


class _Parts(msgspec.Struct, frozen=True):
    allocation: list[_Part]


class _Resources(msgspec.Struct, frozen=True):
    """The shape since 24.05, decoded in one go since it is most of the bytes."""

    nodes: _Parts


_modern = msgspec.json.Decoder(_Resources)
_any = msgspec.json.Decoder()


def jobs(text: str, *, source: str) -> records.Read[records.JobRecord] | None:
    """The jobs of a document; None when it has no list of jobs. Raises ParseError."""
    document = values.decode(text, _Jobs, source=source, hint="scontrol show jobs --json")
    if document.jobs is None:
        return None
    tells_exclusive = values.version(document.meta).major < _SILENT_ON_EXCLUSIVE
    found, failed = [], []
    for job in document.jobs:
        try:
            found.append(_job(job, tells_exclusive))
        except errors.ParseError as error:
            failed.append(f"{source}: job {values.number(job.job_id)}: {error.message}")
    return records.Read(tuple(found), tuple(failed))


def _job(job: _Job, tells_exclusive: bool) -> records.JobRecord:
    number = values.number(job.job_id)
    if number is None:
        raise errors.ParseError("a job without a number", source="job_id")
    per_node, per_cpu = _memory(job)
    switches = job.required_switches if job.required_switches is not None else job.minimum_switches
    return records.JobRecord(
        id=str(number),
        alias=_alias(job),
        name=values.name(job.name),
        user=values.name(job.user_name),
        account=values.name(job.account),
        states=values.states(job.job_state) or None,
        reason=_reason(job),
        dependency=values.name(job.dependency),
        priority=values.number(job.priority),
        partition=values.name(job.partition),
        submitted=values.moment(job.submit_time),
        started=values.moment(job.start_time),
        ends=values.moment(job.end_time),
        time_limit=values.minutes(job.time_limit),
        nodes=values.number(job.node_count),
        nodes_max=values.number(job.max_nodes),
        ntasks=values.number(job.tasks),
        ntasks_per_node=_or_zero(job.tasks_per_node),
        cpus_per_task=values.number(job.cpus_per_task),
        cpus_per_tres=values.name(job.cpus_per_tres),
        sockets_per_node=_or_zero(job.sockets_per_node),
        threads_per_core=_or_zero(job.threads_per_core),
        memory_per_node_mib=per_node,
        memory_per_cpu_mib=per_cpu,
        memory_per_tres=values.name(job.memory_per_tres),
        tres_per_job=values.name(job.tres_per_job),
        tres_per_node=values.name(job.tres_per_node),
        tres_per_socket=values.name(job.tres_per_socket),
        tres_per_task=values.name(job.tres_per_task),
        features=values.name(job.features),
        nodelist=values.name(job.required_nodes),
        exclude=values.name(job.excluded_nodes),
        reservation=values.name(job.resv_name),
        switches=values.number(switches),
        exclusive=_exclusive(job, tells_exclusive),
        requeue=job.requeue is True and job.batch_flag is True,
        held_nodes=values.name(job.nodes),
        holdings=_holdings(job),
    )


def _or_zero(value: object) -> int:
    return values.number(value) or 0


def _alias(job: _Job) -> str | None:
    array, leader = values.number(job.array_job_id), values.number(job.het_job_id)
    if array:
        task = values.number(job.array_task_id)
        listed = values.name(job.array_task_string)
        return f"{array}_{task}" if task is not None else (f"{array}_[{listed}]" if listed else None)
    return f"{leader}+{_or_zero(job.het_job_offset)}" if leader else None


def _reason(job: _Job) -> str | None:
    """The long text where there is one."""
    reason = values.name(job.state_description) or values.name(job.state_reason)
    return "" if reason == "None" else reason


def _memory(job: _Job) -> tuple[int | None, int | None]:
    """MiB per node and per CPU. 22.05 prints null for both when a job gave no amount, which is 0: all of the node."""
    per_node, per_cpu = values.number(job.memory_per_node), values.number(job.memory_per_cpu)
    if values.name(job.memory_per_tres):
        return None, None  # the same amount, counted per GPU
    return (0 if per_node is None and per_cpu is None else per_node), per_cpu


def _exclusive(job: _Job, told: bool) -> bool | None:
    """`shared` is `"none"` or `["none"]` for whole nodes; 26.05 leaves it empty for every job."""
    return "NONE" in values.states(job.shared) if told else None


# --- what the job holds


def _holdings(job: _Job) -> tuple[records.Holding, ...] | None:
    parts = list(_parts(job.job_resources))
    if not parts:
        return () if not values.name(job.nodes) else None
    details = job.gres_detail if isinstance(job.gres_detail, list) else []
    names = _in_order(job, [node for node, _, _ in parts])
    texts = dict(zip(names, details, strict=True)) if len(details) == len(names) else {}
    return tuple(
        records.Holding(
            nodes=(node,), cores=cores, memory_mib=memory, gres=values.name(texts.get(node)) if details else ""
        )
        for node, memory, cores in parts
    )


def _in_order(job: _Job, found: list[str]) -> list[str]:
    """The nodes of the job in Slurm's order, which `gres_detail` follows."""
    listed = values.name(job.nodes)
    names = list(hostlist.expand(listed, source="nodes")) if listed else found
    return names if set(names) == set(found) else found


_PartTuple = tuple[str, int | None, tuple[tuple[int, int], ...]]


def _parts(raw: msgspec.Raw) -> Iterator[_PartTuple]:
    """Node, memory and (socket, core) pairs of each node."""
    try:
        resources = _modern.decode(raw)
    except msgspec.DecodeError:
        yield from _older_parts(_any.decode(raw))
        return
    for part in resources.nodes.allocation:
        cores = tuple(
            (socket.index, core.index) for socket in part.sockets for core in socket.cores if "ALLOCATED" in core.status
        )
        yield part.name, part.memory.allocated, cores


def _older_parts(resources: object) -> Iterator[_PartTuple]:
    listed = values.inside(resources, "allocated_nodes") or values.inside(resources, "nodes", "allocation")
    for _, part in _items(listed):
        node = values.name(values.inside(part, "nodename")) or values.name(values.inside(part, "name"))
        memory = values.number(values.inside(part, "memory_allocated"))
        if memory is None:
            memory = values.number(values.inside(part, "memory", "allocated"))
        if node:
            yield node, memory, tuple(_cores(values.inside(part, "sockets")))


def _cores(sockets: object) -> Iterator[tuple[int, int]]:
    for socket, content in _items(sockets):
        for core, status in _items(values.inside(content, "cores")):
            state = values.inside(status, "status") if isinstance(status, dict) else status
            if "ALLOCATED" in values.states(state):
                yield socket, core


def _items(value: object) -> Iterator[tuple[int, object]]:
    """Index and content of the entries of an object `{"0": …}` or a list `[{"index": 0, …}]`."""
    if isinstance(value, dict):
        for key, content in value.items():
            if (index := values.number(key)) is not None:
                yield index, content
    elif isinstance(value, list):
        for position, content in enumerate(value):
            index = values.number(values.inside(content, "index"))
            yield (position if index is None else index), content
