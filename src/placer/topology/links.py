"""Link classes and their bandwidths. All bandwidths are GB/s one way (1 GB = 1e9 B).

The constants of NVLink, PCIe, socket links and NICs are those that NCCL's topology search uses (src/graph/topo.h); the
xGMI ones are RCCL's. They are what a collective reaches, not what a data sheet says: a V100 link is 25 GB/s on paper
and 20 here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

import msgspec

from placer.topology import types

NVLINK_GBPS = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}
"""One NVLink by compute capability; a capability between two entries takes the lower one, 86 is itself alone."""

NVLINK_PORTS = {60: 4, 70: 6, 75: 2, 80: 12, 86: 4, 90: 18, 100: 18}
"""NVLink ports of one GPU, by NVIDIA's product data."""

MOST_PORTS = 18
"""No GPU has more NVLink ports; used where the generation is not known."""

A100_PORTS_GBPS = 235.0
"""All twelve links of an A100 together (12 x 20 = 240 is never reached; NCCL caps it so)."""

IN_NETWORK_EFFICIENCY = {90: 0.85, 100: 0.74}
"""NVLink SHARP: share of the port total that an in-switch all-reduce reaches (NCCL `nvlsEfficiency`)."""

C2C_GBPS = 450.0
"""Grace to GPU, by the data sheet."""

XGMI_SLOWEST_GBPS = 36.0
"""One xGMI peer of an MI200, the slowest that is known; taken where the model is not."""

PCIE_GEN3_X16_GBPS = 12.0
"""PCIe generation 3, 16 lanes; each generation doubles it, half the lanes halve it (NCCL)."""

INTEL_P2P_FACTOR = 1.2
"""A peer-to-peer path through an Intel CPU loses this factor (NCCL, 6/5)."""

NO_PEER_ACCESS_FACTOR = 0.75
"""Without peer access data bounces through host memory; one measured box of four RTX 4090 (18 against 22 GB/s)."""

NIC_GBPS_PER_GBIT = 0.12
"""12 GB/s for each 100 Gb/s of a NIC (NCCL)."""


class Cpu(enum.StrEnum):
    """CPU families that differ in their socket link."""

    INTEL_BROADWELL = "intel-broadwell"
    INTEL_SKYLAKE = "intel-skylake"  # and Cascade Lake, Ice Lake
    INTEL_SAPPHIRE_RAPIDS = "intel-sapphire-rapids"
    INTEL_EMERALD_RAPIDS = "intel-emerald-rapids"
    AMD_ZEN2 = "amd-zen2"  # and Zen 1
    AMD_ZEN4 = "amd-zen4"  # and Zen 3
    AMD_ZEN5 = "amd-zen5"
    POWER9 = "power9"
    ARM = "arm"


SOCKET_GBPS = {
    Cpu.INTEL_BROADWELL: 6.0,
    Cpu.INTEL_SKYLAKE: 10.0,
    Cpu.INTEL_SAPPHIRE_RAPIDS: 22.0,
    Cpu.INTEL_EMERALD_RAPIDS: 40.0,
    Cpu.AMD_ZEN2: 16.0,
    Cpu.AMD_ZEN4: 24.0,
    Cpu.AMD_ZEN5: 32.0,
    Cpu.POWER9: 32.0,
    Cpu.ARM: 6.0,
}
"""The link between two sockets by CPU family (NCCL)."""


class Host(msgspec.Struct, frozen=True):
    """What is known of the machine around the GPUs. None = unknown; defaults are then taken and said."""

    cpu: Cpu | None = None
    pcie_generation: int | None = None
    pcie_lanes: int = 16
    peer_access: bool = True  # `nvidia-smi topo -p2p` says OK


MACHINE_HOSTS = {
    "dgx-1": Host(Cpu.INTEL_BROADWELL, 3),
    "dgx-2": Host(Cpu.INTEL_SKYLAKE, 3),
    "dgx-a100": Host(Cpu.AMD_ZEN2, 4),
    "dgx-h100": Host(Cpu.INTEL_SAPPHIRE_RAPIDS, 5),
    "dgx-h200": Host(Cpu.INTEL_SAPPHIRE_RAPIDS, 5),
    "dgx-b200": Host(Cpu.INTEL_EMERALD_RAPIDS, 5),
    "gb200": Host(Cpu.ARM, 5),
    "gh200": Host(Cpu.ARM, 5),
    "ex235a": Host(Cpu.AMD_ZEN4, 4),
    "p3.16xlarge": Host(Cpu.INTEL_BROADWELL, 3),
    "p4d.24xlarge": Host(Cpu.INTEL_SKYLAKE, 3),
    "p5.48xlarge": Host(Cpu.AMD_ZEN4, 5),
    "g5.48xlarge": Host(Cpu.AMD_ZEN2, 4),
    "nd-a100-v4": Host(Cpu.AMD_ZEN2, 4),
    "nd-h100-v5": Host(Cpu.INTEL_SAPPHIRE_RAPIDS, 5),
    "nd-mi300x-v5": Host(Cpu.INTEL_SAPPHIRE_RAPIDS, 5),
}
"""Machines of the catalogue whose CPU is part of the product, by the sources that the catalogue names.

PCIe is that of a GPU's own link: on p4d.24xlarge generation 3 for GPUs of generation 4, on p5.48xlarge 5 below switches
of generation 4.
"""


class Pcie(msgspec.Struct, frozen=True):
    """Bandwidths of a machine's PCIe paths, and what was assumed to get them."""

    link_gbps: float  # one device's link, a switch uplink
    through_cpu_gbps: float  # a peer path through the CPU
    socket_gbps: float  # the link between sockets, shared by all flows in one direction
    assumed: tuple[str, ...] = ()


class Interconnect(enum.StrEnum):
    """How the GPUs of a node reach each other as a whole."""

    NVSWITCH = "nvswitch"
    NVLINK_MESH = "nvlink-mesh"
    BRIDGES = "bridges"  # NVLink pairs
    XGMI_MESH = "xgmi-mesh"
    PCIE = "pcie"
    UNKNOWN = "unknown"


class _Model(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    sm: int | None
    pcie_generation: int
    xgmi_gbps: float | None = None


def _model(names: str, sm: int | None, generation: int, xgmi: float | None = None) -> _Model:
    return _Model(re.compile(rf"(?<![a-z0-9])(?:{names})(?![0-9])"), sm, generation, xgmi)


# Product names and gres types; the first that matches counts, so the longer name stands before the shorter.
# Compute capability and PCIe generation by NVIDIA's and AMD's product data.
_MODELS = (
    _model("gb300|b300", 103, 5),
    _model("gb200|b200|b100", 100, 5),
    _model("gb10", 121, 5),
    _model(r"(?:rtx|gtx|geforce)?[ _-]?50[6789]0|rtx[ _-]?pro[ _-]?\d{4}", 120, 5),
    _model("gh200|h200|h100|h800|h20", 90, 5),
    _model("l40s|l40|l4|l20", 89, 4),
    _model(r"(?:rtx|gtx|geforce)?[ _-]?40[6789]0|rtx[ _-]?\d000[ _-]ada", 89, 4),
    _model(
        r"(?:rtx|gtx|geforce)?[ _-]?30[56789]0|(?:rtx[ _-]?)?a[456][05]00|rtx[ _-]?a[456]000|a6000|a40|a16|a10g|a10",
        86,
        4,
    ),
    _model("a100x?|a800|a30", 80, 4),
    _model(r"titan[ _-]?rtx|(?:rtx|geforce)?[ _-]?20[678]0|rtx[ _-]?[568]000|t4g?", 75, 3),
    _model(r"v100s?|titan[ _-]?v", 70, 3),
    _model("p100", 60, 3),
    _model(r"p40|p4|gtx[ _-]?10[678]0|titan[ _-]?xp?", 61, 3),
    _model("mi3[0-9][0-9][xa]?", None, 5, 48.0),
    _model("mi2[0-9][0-9]x?", None, 4, 36.0),
)


def _find(model: str | None) -> _Model | None:
    name = (model or "")[:200].casefold()
    return next((known for known in _MODELS if known.pattern.search(name)), None)


def sm_of(model: str | None, *, lanes: int | None = None) -> int | None:
    """Compute capability of a GPU (80 for an A100) by product name or gres type; None = unknown, or not NVIDIA's.

    `lanes`, the NVLink ports that the GPU is seen to use, decides where the name does not: up to 6 a V100 (its links
    are as fast as an A100's), up to 12 an A100, above a Hopper, the slower of those that have 18. The caller says that
    this was assumed.
    """
    known = _find(model)
    if known is not None:
        return known.sm
    if not lanes:
        return None
    if lanes <= NVLINK_PORTS[70]:
        return 70
    return 80 if lanes <= NVLINK_PORTS[80] else 90


def nvlink_gbps(sm: int, lanes: int) -> float:
    """`lanes` bonded NVLinks of one GPU; 0 where the generation has none."""
    per_link = (
        NVLINK_GBPS[86]
        if sm == 86
        else next((v for k, v in sorted(NVLINK_GBPS.items(), reverse=True) if k <= sm and k != 86), 0.0)
    )
    total = lanes * per_link
    return min(total, A100_PORTS_GBPS) if sm == 80 and lanes >= NVLINK_PORTS[80] else total


def nvlink_ports(sm: int | None) -> int:
    """NVLink ports of a generation; the most that exist where it is not known."""
    return NVLINK_PORTS.get(100 if sm is not None and sm >= 100 else sm or 0, MOST_PORTS)


def in_network_efficiency(sm: int | None) -> float:
    """NVLink SHARP efficiency of a generation, 0 where there is none."""
    if sm is None or sm < 90:
        return 0.0
    return IN_NETWORK_EFFICIENCY[100 if sm >= 100 else 90]


def xgmi_gbps(model: str | None) -> float | None:
    """One xGMI peer by AMD product name (RCCL); None = unknown."""
    known = _find(model)
    return known.xgmi_gbps if known is not None else None


def usual_nic_gbits(models: Iterable[str | None]) -> float | None:
    """Speed of a NIC in the machines that NVIDIA builds with these GPUs, Gb/s; None for others. The caller says so.

    DGX-1 and DGX-2 100 (EDR), DGX A100 200 (HDR), DGX H100 and DGX B200 400 (NDR), by their data sheets.
    """
    generations = [sm_of(model) for model in models]
    known = [sm for sm in generations if sm is not None]
    if not known or len(known) < len(generations):
        return None
    return next((speed for sm, speed in ((90, 400.0), (80, 200.0), (70, 100.0)) if min(known) >= sm), None)


def nic_gbps(speed_gbits: float) -> float:
    """What a collective gets through a NIC of so many Gb/s."""
    return speed_gbits * NIC_GBPS_PER_GBIT


def pcie_gbps(generation: int, lanes: int = 16) -> float:
    """One PCIe link of a generation (3 and up) and width."""
    return PCIE_GEN3_X16_GBPS * 2.0 ** (generation - 3) * lanes / 16


def host_of(node: types.NodeTopology) -> Host:
    """What the machine's name tells of its CPU and PCIe; all unknown otherwise."""
    name = (node.machine or "").casefold()
    return next(
        (host for known, host in MACHINE_HOSTS.items() if re.match(rf"{re.escape(known)}(?![0-9])", name)), Host()
    )


def pcie(host: Host, models: Iterable[str | None]) -> Pcie:
    """PCIe bandwidths of a machine with these GPUs; the slowest usual machine where something is not known.

    The generation defaults to the oldest among the GPUs' own; the CPU to the Intel family of that generation's time,
    because its paths are slower than AMD's.
    """
    assumed = []
    generation = host.pcie_generation
    if generation is None:
        found = [_find(model) for model in models]
        generation = min((model.pcie_generation if model else 3 for model in found), default=3)
        assumed.append(f"PCIe generation {generation}, {host.pcie_lanes} lanes")
    link = pcie_gbps(generation, host.pcie_lanes) * (1.0 if host.peer_access else NO_PEER_ACCESS_FACTOR)
    cpu = host.cpu
    if cpu is None:
        by_generation = {3: Cpu.INTEL_BROADWELL, 4: Cpu.INTEL_SKYLAKE}
        cpu = by_generation.get(generation, Cpu.INTEL_SAPPHIRE_RAPIDS)
        assumed.append(f"a CPU like {cpu.value} ({SOCKET_GBPS[cpu]:g} GB/s between sockets)")
    through = link / INTEL_P2P_FACTOR if cpu.value.startswith("intel") else link
    return Pcie(link, through, SOCKET_GBPS[cpu], tuple(assumed))


def bandwidth_gbps(
    link: types.Link, *, sm: int | None = None, model: str | None = None, host: Host | None = None
) -> float | None:
    """One link alone, GB/s one way; None where what decides it is not known.

    NVLink needs `sm` (or `model`), xGMI `model`, PCIe and socket paths the `host` with its generation and CPU. A
    bandwidth that the source itself tells is taken as it is.
    """
    if link.bandwidth_gbps is not None:
        return link.bandwidth_gbps
    if link.type is types.LinkType.NVLINK:
        sm = sm if sm is not None else sm_of(model)
        return nvlink_gbps(sm, link.lanes) if sm is not None else None
    if link.type is types.LinkType.XGMI:
        return xgmi_gbps(model)
    if link.type is types.LinkType.C2C:
        return C2C_GBPS
    if host is None or host.pcie_generation is None or link.type is types.LinkType.UNKNOWN:
        return None
    if link.type in (types.LinkType.PIX, types.LinkType.PXB):
        return pcie(host, ()).link_gbps
    return None if host.cpu is None else path_gbps(link.type, pcie(host, ()))


def path_gbps(kind: types.LinkType, rates: Pcie) -> float:
    """One flow alone over a PCIe or socket path. `kind` is one of PIX, PXB, PHB, NODE, SYS."""
    if kind in (types.LinkType.PIX, types.LinkType.PXB):
        return rates.link_gbps
    return min(rates.through_cpu_gbps, rates.socket_gbps) if kind is types.LinkType.SYS else rates.through_cpu_gbps


def gpu_pairs(node: types.NodeTopology) -> dict[tuple[int, int], types.Link]:
    """Links between GPUs by position (i < j) in `node.gpus`. A pair that the source tells in two ways is left out."""
    place = {gpu.id: i for i, gpu in enumerate(node.gpus)}
    found: dict[tuple[int, int], types.Link] = {}
    twice = set()
    for link in node.links:
        if link.a in place and link.b in place and link.a != link.b:
            i, j = sorted((place[link.a], place[link.b]))
            known = found.setdefault((i, j), link)
            if (known.type, known.lanes) != (link.type, link.lanes):
                twice.add((i, j))
    return {pair: link for pair, link in found.items() if pair not in twice}


def denied_pairs(node: types.NodeTopology) -> frozenset[tuple[int, int]]:
    """Pairs of GPUs, by position (i < j), that `topo -p2p` denies a peer path."""
    place = {gpu.id: i for i, gpu in enumerate(node.gpus)}
    known = [(place[a], place[b]) for a, b in node.no_peer if a in place and b in place and a != b]
    return frozenset((min(pair), max(pair)) for pair in known)


def ports_used(node: types.NodeTopology) -> tuple[int, ...]:
    """NVLink lanes of each GPU towards all its peers added up; more than its ports means that a switch is between."""
    used = [0] * len(node.gpus)
    for (i, j), link in gpu_pairs(node).items():
        if link.type is types.LinkType.NVLINK:
            used[i] += link.lanes
            used[j] += link.lanes
    return tuple(used)


def behind_switch(node: types.NodeTopology) -> tuple[bool, ...]:
    """For each GPU whether it hangs on an NVSwitch: its lanes towards all peers exceed the ports it has."""
    models = [gpu.model or node.machine for gpu in node.gpus]
    return tuple(used > nvlink_ports(sm_of(model)) for used, model in zip(ports_used(node), models, strict=True))


def interconnect(node: types.NodeTopology) -> Interconnect:
    """The fastest kind of wiring between the node's GPUs; single GPUs and nodes without a matrix are UNKNOWN."""
    pairs = gpu_pairs(node)
    if any(behind_switch(node)):
        return Interconnect.NVSWITCH
    peers = [0] * len(node.gpus)
    for (i, j), link in pairs.items():
        if link.type is types.LinkType.NVLINK:
            peers[i] += 1
            peers[j] += 1
    if any(count > 1 for count in peers):
        return Interconnect.NVLINK_MESH
    if any(peers):
        return Interconnect.BRIDGES
    kinds = {link.type for link in pairs.values()}
    if types.LinkType.XGMI in kinds:
        return Interconnect.XGMI_MESH
    return Interconnect.PCIE if kinds - {types.LinkType.UNKNOWN} else Interconnect.UNKNOWN
