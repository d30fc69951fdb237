"""The nouns of topology. Frozen; defined here once and used by every other room.

Identity of a GPU is its PCI address or UUID; `id` and `index` are names that one source gave it and that a container
or a job renumbers. What a source does not tell is None (unknown), and unknown is never read as near.
"""

from __future__ import annotations

import enum

import msgspec


class LinkType(enum.StrEnum):
    """How two devices reach each other, best first; the words are those of the `nvidia-smi topo` legend."""

    NVLINK = "NV"  # a bonded set of NVLinks, printed NV<lanes>
    XGMI = "XGMI"  # AMD Infinity Fabric
    C2C = "C2C"  # NVLink between CPU and GPU
    PIX = "PIX"  # at most one PCIe bridge
    PXB = "PXB"  # several PCIe bridges, no host bridge
    PHB = "PHB"  # a PCIe host bridge
    NODE = "NODE"  # host bridges within one NUMA node
    SYS = "SYS"  # the link between NUMA nodes; old drivers print SOC
    UNKNOWN = "?"  # the source names a relation that placer does not know


CLOSENESS: dict[LinkType, int] = {kind: rank for rank, kind in enumerate(LinkType)}
"""Rank of each relation, 0 the closest; UNKNOWN is the farthest."""


class Link(msgspec.Struct, frozen=True, order=True):
    """An unordered pair of devices; `a` precedes `b` in the order of the source's header."""

    a: str
    b: str
    type: LinkType
    lanes: int = 0  # bonded NVLinks; 0 for every other type
    bandwidth_gbps: float | None = None  # GB/s one way, when the source or the machine type tells

    @property
    def label(self) -> str:
        """As tools print it: `NV12`, `PIX`."""
        return f"{self.type.value}{self.lanes}" if self.type is LinkType.NVLINK else self.type.value


class Gpu(msgspec.Struct, frozen=True):
    """One GPU of a node."""

    id: str  # as the source names it: GPU0
    index: int | None = None
    bus_id: str | None = None  # 0000:3b:00.0, domain with four digits
    uuid: str | None = None
    model: str | None = None  # product name or gres type, as the source writes it
    numa: tuple[int, ...] | None = None  # more than one = one of these
    cpus: tuple[int, ...] | None = None  # OS CPU numbers near it
    memory_numa: int | None = None  # the NUMA node that *is* this GPU's memory (GB200)
    memory_mib: int | None = None
    healthy: bool | None = None
    minor: int | None = None  # N of /dev/nvidiaN, which need not be the index
    module: int | None = None  # its socket on an SXM board, counted from 1 as the driver does
    sm: int | None = None  # compute capability, 90 for 9.0
    pcie_gen: int | None = None  # as the link runs now; an idle GPU may run slower than it can
    pcie_gen_max: int | None = None  # the most that GPU and slot allow together
    pcie_width: int | None = None  # lanes
    pcie_width_max: int | None = None
    host_gbps: float | None = None  # C2C or NVLink to its CPU, GB/s one way
    clique: str | None = None  # NVLink domain and clique, as in the node label nvidia.com/gpu.clique
    mig: str | None = None  # the tool's word: Enabled, Disabled
    mig_devices: tuple[str, ...] = ()  # in words, one an instance


class Nic(msgspec.Struct, frozen=True):
    """One network adapter of a node. `name` is what NCCL_IB_HCA wants; None when the text does not tell."""

    id: str
    name: str | None = None
    bus_id: str | None = None
    numa: tuple[int, ...] | None = None
    speed_gbits: float | None = None
    rdma: bool | None = None  # False: an Ethernet device without verbs, which collectives leave alone


class NumaNode(msgspec.Struct, frozen=True):
    """A NUMA node; one without CPUs is memory only."""

    id: int
    cpus: tuple[int, ...] | None = None
    memory_mib: int | None = None
    package: int | None = None


class PcieSwitch(msgspec.Struct, frozen=True):
    """A PCIe switch and the devices behind it, nested by `parent`."""

    id: str
    devices: tuple[str, ...] = ()
    parent: str | None = None
    numa: tuple[int, ...] | None = None


class NodeTopology(msgspec.Struct, frozen=True):
    """The inside of one node, as far as it is known.

    `cores` lists the hardware threads (OS CPU numbers) of each physical core, cores in ascending order of their first
    thread; empty = unknown. `assumed` says in words what did not come from the node itself. `no_peer` lists pairs of
    GPU ids that cannot reach each other's memory whatever lies between them; a pair that is not listed was not denied.
    `cpuset` are CPUs that a source showed near GPUs from inside a job, fewer than the machine has there. `tool` is what
    wrote the source (see `readers.merge`), empty = not told. `origins` says, after a merge, which source each fact came
    from: `gpus.numa` where it is one for all GPUs, else `gpus[GPU0].numa`.
    """

    name: str
    source: str
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    links: tuple[Link, ...] = ()
    numa_nodes: tuple[NumaNode, ...] = ()
    switches: tuple[PcieSwitch, ...] = ()
    cores: tuple[tuple[int, ...], ...] = ()
    machine: str | None = None  # a machine of the catalogue
    partial: bool = False
    warnings: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    no_peer: tuple[tuple[str, str], ...] = ()
    cpuset: tuple[int, ...] | None = None
    tool: str = ""
    origins: tuple[tuple[str, str], ...] = ()


class Level(msgspec.Struct, frozen=True):
    """One tier of a fabric, like `leaf` or `rack`."""

    name: str
    label: str | None = None  # the node-label key that it came from
    oversubscription: float | None = None  # bandwidth below divided by bandwidth above; None = not told
    size: int | None = None  # nodes that Slurm counts a block of this level as; None = not told


class Domain(msgspec.Struct, frozen=True):
    """A switch, block, rack … : all nodes below it. (level, name) is unique in a Fabric."""

    name: str
    level: int  # index into Fabric.levels, 0 the closest to the nodes
    nodes: tuple[str, ...]  # natural order
    parent: str | None = None  # name of the domain one level up; None at the top
    line: int | None = None  # where the source defines it


class Switch(msgspec.Struct, frozen=True):
    """A switch as a topology file writes it: either nodes or other switches below."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    link_speed: int | None = None
    level: int | None = None  # as printed by Slurm; None when the file does not say
    line: int | None = None


class Fabric(msgspec.Struct, frozen=True):
    """Levels closest first, and every domain of every level.

    A node is in at most one domain of a level. Where a tree is uneven, a domain is repeated upwards under its own name,
    so that a node in a domain of level l has one at every level above l up to its root. Two domains without a common
    ancestor cannot reach each other by what is known.
    """

    levels: tuple[Level, ...] = ()
    domains: tuple[Domain, ...] = ()
    kind: str = "none"  # tree, block, labels, flat, ring, torus3d, none
    warnings: tuple[str, ...] = ()
    kept: str | None = None  # JSON of what a form says that placer keeps but does not use: ring and torus3d


class ClusterTopology(msgspec.Struct, frozen=True):
    """Every node's inside and the fabric between them. Equal nodes share one NodeTopology."""

    nodes: tuple[str, ...] = ()  # natural order
    machines: tuple[NodeTopology, ...] = ()  # each distinct wiring once
    machine_of: tuple[int, ...] = ()  # nodes[i] is wired like machines[machine_of[i]]; -1 = unknown
    fabric: Fabric = Fabric()
