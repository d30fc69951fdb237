"""From what Slurm printed about jobs to Job: state, request, and what is held on each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from placer import errors, hostlist, ranges
from placer.cluster import types
from placer.slurm import gres
from placer.slurm import parse_records as records
from placer.slurm.snapshot_nodes import Notes

_RUNNING = frozenset({"RUNNING", "CONFIGURING", "RESIZING", "SIGNALING", "STAGE_OUT"})
_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})
_HOLDS = frozenset({"REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"})


class Site(msgspec.Struct, frozen=True):
    """What the jobs of a cluster are read against."""

    nodes: Mapping[str, types.NodeState]
    exclusive_partitions: frozenset[str]  # OverSubscribe=EXCLUSIVE: whole nodes for every job
    preempting_partitions: frozenset[str]  # PreemptMode=REQUEUE
    counts_memory: bool


def jobs(found: Sequence[records.JobRecord], site: Site, notes: Notes) -> tuple[types.Job, ...]:
    """All jobs that run or wait, in natural order of their ids; finished ones are dropped."""
    made = [job for record in found if (job := _job(record, site, notes)) is not None]
    _note_shared_gpus(made, notes)
    return tuple(sorted(made, key=lambda job: hostlist.natural_key(job.id)))


def _job(record: records.JobRecord, site: Site, notes: Notes) -> types.Job | None:
    state = job_state(record)
    if state is None:
        return None
    waits = state in {types.JobState.PENDING, types.JobState.HELD}
    return types.Job(
        id=record.id,
        alias=record.alias,
        name=record.name or "",
        user=record.user or "",
        account=record.account or "",
        state=state,
        reason=record.reason or None,
        partition=record.partition or "",
        priority=record.priority or 0,
        preemptible=bool(record.requeue) and record.partition in site.preempting_partitions,
        submitted=record.submitted,
        started=None if waits else record.started,
        ends=None if waits else record.ends,
        time_limit=record.time_limit,
        request=_request(record, waits, site, notes),
        allocations=() if waits else _allocations(record, site, notes),
        dependency=record.dependency or None,
    )


def job_state(record: records.JobRecord) -> types.JobState | None:
    """None for a job that is over."""
    words = frozenset(record.states or ())
    if "COMPLETING" in words:
        return types.JobState.COMPLETING
    if words & {"SUSPENDED", "STOPPED"}:
        return types.JobState.SUSPENDED
    if words & _RUNNING:
        return types.JobState.RUNNING
    if words & _PENDING:
        held = record.priority == 0 or (record.reason or "").startswith("JobHeld") or words & _HOLDS
        return types.JobState.HELD if held else types.JobState.PENDING
    return None


# --- what it asks for


def _request(record: records.JobRecord, waits: bool, site: Site, notes: Notes) -> types.JobRequest:
    total, per_node, per_task, per_socket = (
        _ask(record, text, notes)
        for text in (record.tres_per_job, record.tres_per_node, record.tres_per_task, record.tres_per_socket)
    )
    kinds = tuple(dict.fromkeys(kind for ask in (total, per_node, per_task, per_socket) for kind in ask.types))
    if len(kinds) > 1:
        notes.leave_out(f"job {record.id} asks for GPUs of several types ({', '.join(kinds)}): only the count is kept")
    per_gpu = _ask(record, record.memory_per_tres, notes).count
    amount = None if per_gpu is not None else record.memory_per_node_mib
    request = types.JobRequest(
        nodes=record.nodes or None,
        gpus=total.count,
        gpus_per_node=per_node.count,
        gpus_per_task=per_task.count,
        gpus_per_socket=per_socket.count,
        gpu_type=kinds[0] if len(kinds) == 1 else None,
        ntasks=record.ntasks or None,
        ntasks_per_node=record.ntasks_per_node or None,
        cpus_per_task=record.cpus_per_task or None,
        cpus_per_gpu=_ask(record, record.cpus_per_tres, notes).count,
        memory_per_node_mib=amount or None,
        memory_per_cpu_mib=record.memory_per_cpu_mib or None,
        memory_per_gpu_mib=per_gpu,
        whole_memory=amount == 0 and not record.memory_per_cpu_mib and site.counts_memory,
        exclusive=bool(record.exclusive) or record.partition in site.exclusive_partitions,
        partition=record.partition or None,
        constraint=record.features or None,
        nodelist=record.nodelist or None,
        exclude=record.exclude or None,
        reservation=record.reservation or None,
        switches=record.switches or None,
        threads_per_core=record.threads_per_core or None,
        sockets_per_node=record.sockets_per_node or None,
        time_limit=record.time_limit,
    )
    return msgspec.structs.replace(request, nodes_max=_most_nodes(record, request)) if waits else request


def _most_nodes(record: records.JobRecord, request: types.JobRequest) -> int | None:
    """The most nodes a waiting job may get.

    Slurm sets no most unless `-N` does. A job of G GPUs in all then gets any number of nodes up to G, since every node
    of it gives at least one GPU; other jobs get no more than the least.
    """
    if record.nodes_max or not request.nodes:
        return record.nodes_max or None
    total = request.gpus
    if total is None and request.gpus_per_task is not None and request.gpus_per_node is None:
        total = request.gpus_per_task * (request.ntasks or 1)
    return None if total is None else max(request.nodes, total)


def _ask(record: records.JobRecord, text: str | None, notes: Notes) -> gres.Ask:
    try:
        ask = gres.ask(text or "", source=f"request of job {record.id}")
    except errors.ParseError as error:
        notes.leave_out(error.message)
        return gres.Ask()
    if ask.others:
        notes.leave_out(f"job {record.id} asks for {', '.join(ask.others)}: not counted as GPUs")
    return ask


# --- what it holds


def _allocations(record: records.JobRecord, site: Site, notes: Notes) -> tuple[types.Allocation, ...]:
    if not record.holdings and record.held_nodes:
        return _blind_allocations(record, site, notes)
    made = [
        _allocation(record, holding, site.nodes[node], notes)
        for holding in record.holdings or ()
        for node in holding.nodes
        if _is_known(record, node, site, notes)
    ]
    return tuple(sorted(made, key=lambda allocation: hostlist.natural_key(allocation.node)))


def _is_known(record: records.JobRecord, node: str, site: Site, notes: Notes) -> bool:
    if node not in site.nodes:
        notes.leave_out(f"job {record.id} runs on {node}, which is not among the nodes")
    return node in site.nodes


def _allocation(
    record: records.JobRecord, holding: records.Holding, node: types.NodeState, notes: Notes
) -> types.Allocation:
    cpu_ids = holding.cpu_ids if holding.cpu_ids is not None else _cpu_ids(holding.cores, node)
    indices, count = _gpus(record, holding.gres, node, notes)
    return types.Allocation(
        node=node.name,
        gpus=indices,
        gpu_count=count,
        cpus=len(cpu_ids or ()),
        cpu_ids=cpu_ids,
        memory_mib=holding.memory_mib or 0,
    )


def _cpu_ids(cores: tuple[tuple[int, int], ...] | None, node: types.NodeState) -> tuple[int, ...] | None:
    """Slurm's CPU ids of whole cores: (socket * cores per socket + core) * threads + thread."""
    if cores is None or not node.cores_per_socket:
        return None
    threads = node.threads_per_core or 1
    first = [(socket * node.cores_per_socket + core) * threads for socket, core in cores]
    return tuple(sorted({cpu + thread for cpu in first for thread in range(threads)}))


def _gpus(
    record: records.JobRecord, text: str | None, node: types.NodeState, notes: Notes
) -> tuple[tuple[int, ...] | None, int]:
    """GPU indices and their number; None where only the number is known."""
    try:
        entries = [entry for entry in gres.parse(text or "", source=f"job {record.id} on {node.name}") if entry.is_gpu]
    except errors.ParseError as error:
        notes.leave_out(error.message)
        return None, 0
    if text is None:
        notes.leave_out(f"job {record.id}: which GPUs it holds on {node.name} is not told")
        return None, 0
    if any(entry.indices is None for entry in entries):
        return None, sum(entry.count for entry in entries)
    known = {slot.index for slot in node.gpus}
    held = {index for entry in entries for index in entry.indices or ()}
    if held - known:
        strange = ", ".join(map(str, sorted(held - known)))
        notes.leave_out(f"job {record.id} holds GPU {strange} of {node.name}, which has no such index")
    indices = tuple(sorted(held & known))
    return indices, len(indices)


def _blind_allocations(record: records.JobRecord, site: Site, notes: Notes) -> tuple[types.Allocation, ...]:
    """Where only the nodes are told (`show job` without `-d`): as many GPUs on each as were asked for."""
    try:
        names = hostlist.expand(record.held_nodes or "", source=f"nodes of job {record.id}")
    except errors.ParseError as error:
        notes.leave_out(error.message)
        return ()
    count = _ask(record, record.tres_per_node, notes).count or 0
    notes.leave_out(f"job {record.id}: what it holds on each node is not told")
    return tuple(
        types.Allocation(node=name, gpus=None, gpu_count=count)
        for name in hostlist.sort(names)
        if _is_known(record, name, site, notes)
    )


def _note_shared_gpus(made: Sequence[types.Job], notes: Notes) -> None:
    taken: dict[str, int] = {}
    doubled: dict[str, int] = {}
    for job in made:
        for allocation in job.allocations:
            mask, held = ranges.to_mask(allocation.gpus or ()), taken.get(allocation.node, 0)
            if mask & held:
                doubled[allocation.node] = doubled.get(allocation.node, 0) | mask & held
            taken[allocation.node] = held | mask
    for node in hostlist.sort(doubled):
        holders = (
            [job.id for job in made for held in job.allocations if held.node == node] if len(doubled) < 100 else []
        )
        which = f" (jobs {', '.join(holders)})" if holders else ""
        notes.leave_out(f"GPU {ranges.format(ranges.from_mask(doubled[node]))} of {node} is held more than once{which}")
