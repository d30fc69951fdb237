"""What Slurm printed about a node, a job, a partition: one type for every release and form.

None = this form does not tell; an empty string or tuple = told, and nothing there. So two forms of the same moment can
be laid over each other.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node. Memory in MiB. `states` are upper-case words, `*` and the like spelt out."""

    name: str
    states: tuple[str, ...] | None = None
    reason: str | None = None
    cpus: int | None = None
    cpus_effective: int | None = None
    cpus_used: int | None = None
    memory_mib: int | None = None
    memory_kept_mib: int | None = None  # MemSpecLimit: not for jobs
    memory_used_mib: int | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    weight: int | None = None
    features: tuple[str, ...] | None = None
    partitions: tuple[str, ...] | None = None
    gres: str | None = None
    gres_used: str | None = None
    gres_drained: str | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a job holds on each of `nodes`. CPUs by Slurm's own ids, or as (socket, core) pairs."""

    nodes: tuple[str, ...]
    cpu_ids: tuple[int, ...] | None = None
    cores: tuple[tuple[int, int], ...] | None = None
    memory_mib: int | None = None
    gres: str | None = None


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One job. Moments in seconds since 1970, durations in seconds, memory in MiB, counts 0 = not asked for."""

    id: str
    alias: str | None = None  # as squeue prints it: 15_3, 17+1
    name: str | None = None
    user: str | None = None
    account: str | None = None
    states: tuple[str, ...] | None = None
    reason: str | None = None
    dependency: str | None = None
    priority: int | None = None
    partition: str | None = None
    submitted: int | None = None
    started: int | None = None
    ends: int | None = None
    time_limit: int | None = None
    nodes: int | None = None
    nodes_max: int | None = None
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    cpus_per_tres: str | None = None
    sockets_per_node: int | None = None
    threads_per_core: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    memory_per_tres: str | None = None
    tres_per_job: str | None = None
    tres_per_node: str | None = None
    tres_per_socket: str | None = None
    tres_per_task: str | None = None
    features: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    switches: int | None = None
    exclusive: bool | None = None
    requeue: bool | None = None
    held_nodes: str | None = None  # node-list syntax
    holdings: tuple[Holding, ...] | None = None


class PartitionRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One partition. Memory in MiB, 0 = unlimited; times in seconds."""

    name: str
    nodes: str | None = None
    default: bool | None = None
    up: bool | None = None
    max_nodes: int | None = None
    max_time: int | None = None
    default_time: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    job_defaults: str | None = None
    spreads: bool | None = None
    exclusive: bool | None = None
    preempt_mode: str | None = None


Record = TypeVar("Record", NodeRecord, JobRecord, PartitionRecord)


class Read(msgspec.Struct, Generic[Record], frozen=True):
    """The records of one text, and what of it could not be read, in words."""

    records: tuple[Record, ...] = ()
    left_out: tuple[str, ...] = ()


def merge(first: Record, second: Record) -> Record:
    """`first`, with what it does not tell filled in from `second`."""
    gaps = {
        field: value
        for field in first.__struct_fields__
        if getattr(first, field) is None and (value := getattr(second, field)) is not None
    }
    return msgspec.structs.replace(first, **gaps) if gaps else first
