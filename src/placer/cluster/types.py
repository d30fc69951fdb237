"""The nouns of a cluster's state. Frozen; amounts are MiB, seconds, logical CPUs, whole GPUs unless named otherwise."""

from __future__ import annotations

import enum

import msgspec

from placer.topology import types as topo


class NodeCondition(enum.StrEnum):
    """Whether a node takes work."""

    UP = "up"
    DRAINED = "drained"  # drained or draining
    DOWN = "down"  # down, failing, powered off, not responding
    RESERVED = "reserved"


class JobState(enum.StrEnum):
    """What a job is doing."""

    RUNNING = "running"
    PENDING = "pending"
    HELD = "held"
    SUSPENDED = "suspended"
    COMPLETING = "completing"


class Workload(enum.StrEnum):
    """What the job's ranks do with each other; it sets the weight of bandwidth against locality to the host."""

    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"
    PIPELINE = "pipeline"
    HOST_BOUND = "host-bound"
    INDEPENDENT = "independent"


class GpuSlot(msgspec.Struct, frozen=True):
    """A GPU as the scheduler counts it: `index` is its position in the node's gres, bit `index` of every mask."""

    index: int
    type: str | None = None
    uuid: str | None = None
    bus_id: str | None = None
    healthy: bool = True


class NodeState(msgspec.Struct, frozen=True):
    """One node: what it has, and what the node itself says is in use (jobs that we may not see included)."""

    name: str
    gpus: tuple[GpuSlot, ...] = ()
    cpus: int = 0  # logical CPUs that jobs can use; 0 = not told, and then no limit
    memory_mib: int = 0  # 0 = not told, and then no limit
    condition: NodeCondition = NodeCondition.UP
    condition_text: str = ""  # the scheduler's own words: IDLE+DRAIN, and why
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    weight: int = 1  # Slurm's node weight; lower is preferred by Slurm
    gpus_used: tuple[int, ...] = ()  # indices the node reports as in use
    gpus_used_count: int = 0  # how many it reports in use, indices known or not
    cpus_used: int = 0
    memory_used_mib: int = 0


class Allocation(msgspec.Struct, frozen=True):
    """What a job holds on one node. `gpus` is None when only `gpu_count` is known."""

    node: str
    gpus: tuple[int, ...] | None = ()
    gpu_count: int = 0
    cpus: int = 0
    cpu_ids: tuple[int, ...] | None = None  # the scheduler's own numbering
    memory_mib: int = 0


class TopologyConstraint(msgspec.Struct, frozen=True):
    """Levels by name: all nodes of the job in one domain of `required`; in as few as possible of `preferred`."""

    required: str | None = None
    preferred: str | None = None


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks for. None = not said. `gpus` is the total over all nodes."""

    nodes: int | None = None  # least number of nodes
    nodes_max: int | None = None  # most; None = as `nodes`
    gpus: int | None = None
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    gpus_per_socket: int | None = None
    gpu_type: str | None = None
    gpu_share: int | None = None  # thousandths of one GPU
    ntasks: int | None = None
    ntasks_per_node: int | None = None
    cpus_per_task: int | None = None
    cpus_per_gpu: int | None = None
    memory_per_node_mib: int | None = None
    memory_per_cpu_mib: int | None = None
    memory_per_gpu_mib: int | None = None
    whole_memory: bool = False  # Slurm's --mem=0: all memory of each node
    exclusive: bool = False
    partition: str | None = None  # one or several, comma between
    constraint: str | None = None  # Slurm's feature expression, or a label selector
    nodelist: str | None = None  # node-list syntax; the job must hold these
    exclude: str | None = None
    reservation: str | None = None
    switches: int | None = None  # at most so many leaf switches
    threads_per_core: int | None = None
    sockets_per_node: int | None = None  # Slurm's --sockets-per-node, which `gpus_per_socket` counts by
    ntasks_per_socket: int | None = None
    ntasks_per_gpu: int | None = None  # `ntasks`, `ntasks_per_node` and `gpus` already follow from it
    hint: str | None = None  # Slurm's --hint; `threads_per_core` already follows from it
    enforce_binding: bool = False  # Slurm's --gres-flags=enforce-binding: GPUs only of sockets that give cores
    topology: TopologyConstraint = TopologyConstraint()
    workload: Workload = Workload.ALLREDUCE
    time_limit: int | None = None  # seconds


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One job, running or waiting. Moments are seconds since 1970."""

    id: str
    alias: str | None = None  # as queue listings print it when not as `id`: 15_3, 15_[1-20%2], 17+1
    name: str = ""
    user: str = ""
    account: str = ""
    state: JobState = JobState.PENDING
    reason: str | None = None  # the scheduler's own word
    partition: str = ""
    priority: int = 0
    preemptible: bool = False  # may be moved
    submitted: int | None = None
    started: int | None = None
    ends: int | None = None  # by its time limit
    time_limit: int | None = None  # seconds
    request: JobRequest = JobRequest()
    allocations: tuple[Allocation, ...] = ()
    dependency: str | None = None


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition or queue."""

    name: str
    nodes: tuple[str, ...] = ()
    default: bool = False
    up: bool = True
    max_nodes: int | None = None
    max_time: int | None = None  # seconds
    default_time: int | None = None
    default_memory_per_node_mib: int | None = None
    default_memory_per_cpu_mib: int | None = None
    default_whole_memory: bool = False  # a job that names no memory gets all of each node
    default_cpus_per_gpu: int | None = None
    spreads: bool = False  # LLN=yes: least loaded node first


class Source(msgspec.Struct, frozen=True):
    """Where a snapshot came from."""

    system: str = "manual"  # manual, slurm, kubernetes, host
    version: str = ""
    taken: int | None = None  # seconds since 1970


class ClusterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of a cluster. Nodes and jobs stand in natural order of their names."""

    source: Source = Source()
    topology: topo.ClusterTopology = topo.ClusterTopology()
    nodes: tuple[NodeState, ...] = ()
    jobs: tuple[Job, ...] = ()
    partitions: tuple[Partition, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()  # the scheduler's configuration, as printed
    assumptions: tuple[str, ...] = ()  # what was taken for granted, in words
    left_out: tuple[str, ...] = ()  # what could not be read, in words
