"""The nouns of the model. Frozen; the symbols of `Ask` are those of the rules that the other modules carry out.

CPU ids are Slurm's own: `core * threads + thread`, cores counted socket by socket. Cores are given whole.
"""

from __future__ import annotations

import enum

import msgspec

from placer.slurm_model.release import Release


class Device(msgspec.Struct, frozen=True):
    """One GPU; its place in `Machine.devices` is its index.

    `socket` is None where gres.conf ties it to no single socket; `links[j]` are its links to GPU j, () = not told.
    """

    type: str | None = None
    socket: int | None = None
    links: tuple[int, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One node as slurm.conf and gres.conf describe it."""

    name: str
    sockets: int
    cores_per_socket: int
    threads: int = 1
    memory_mib: int = 0
    devices: tuple[Device, ...] = ()
    weight: int = 1

    @property
    def cores(self) -> int:
        """Cores of the node."""
        return self.sockets * self.cores_per_socket

    def cores_of(self, socket: int) -> range:
        """Core numbers of one socket."""
        return range(socket * self.cores_per_socket, (socket + 1) * self.cores_per_socket)


class NodeLoad(msgspec.Struct, frozen=True):
    """What jobs hold on a node now: GPU indices, cores, memory."""

    gpus: frozenset[int] = frozenset()
    cores: frozenset[int] = frozenset()
    memory_mib: int = 0


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a submission, all of them derived (`ask.build`). 0 = not said, if not noted otherwise."""

    release: Release
    n: int = 0  # tasks; 0 = unknown
    n_set: bool = False  # Slurm counts n as given
    cpt: int = 1  # CPUs per task
    npn: int = 0  # tasks per node
    nps: int = 0  # tasks per socket
    one_thread: bool = False  # one thread of each core
    cpg: int = 0  # CPUs per GPU
    q: int = 0  # tasks per GPU
    per_node: int = 0  # GPUs of each node
    per_sock: int = 0  # GPUs of each socket
    per_task: int = 0  # GPUs of each task
    P: int = 0  # GPUs of the whole job
    s: int = 0  # sockets per node
    gpu_type: str | None = None
    enforce: bool = False  # GPUs only of sockets that give cores
    exclusive: bool = False
    memory_mib: int = 0  # of each node
    nodes: int = 1  # least number of nodes
    nodes_max: int | None = None  # None = no limit
    required: tuple[str, ...] = ()  # nodes that the job must hold
    min_cpus: int = 1  # CPUs of the whole job
    pn_min: int = 1  # CPUs of each node
    refused: str | None = None  # why Slurm refuses the options together

    def t(self, machine: Machine) -> int:
        """Threads used of each core."""
        return 1 if self.one_thread else machine.threads

    @property
    def wants_gpus(self) -> bool:
        """Whether the job asks for GPUs."""
        return bool(self.per_node or self.per_sock or self.per_task or self.P)

    @property
    def one_node(self) -> bool:
        """Whether the job may use one node only."""
        return self.nodes_max == 1


class Verdict(enum.StrEnum):
    """What becomes of a job: it starts now, it waits, or it never runs as it was asked for."""

    RUNNING = "running"
    WAITS = "waits"
    NEVER = "never"


class NodeGrant(msgspec.Struct, frozen=True):
    """What a job gets on one node. All tuples ascend."""

    node: str
    gpus: tuple[int, ...]
    cpus: tuple[int, ...]  # CPU ids
    tasks: int = 0


class Choice(msgspec.Struct, frozen=True):
    """What Slurm chooses. `nodes` in node order, empty unless the job runs; `why` in words where it does not."""

    verdict: Verdict
    nodes: tuple[NodeGrant, ...] = ()
    why: str = ""
