"""Grace machines, machines with AMD's GPUs, and PCIe boxes."""

from __future__ import annotations

from typing import Final

import msgspec

from placer.topology import catalog_build as build
from placer.topology import links as rates
from placer.topology import types as topo

_GCD_LINKS: Final = (
    (0, 1), (0, 2), (0, 6), (1, 3), (1, 5), (2, 3), (2, 4), (3, 7), (4, 5), (4, 6), (5, 7), (6, 7),
)  # fmt: skip


def gb200() -> topo.NodeTopology:
    """A compute tray of GB200 NVL72: two Grace of 72 cores, four GPUs on the rack's NVLink switches.

    The GPUs' memories are the NUMA nodes 2, 10, 18 and 26. The four ConnectX-7 are in PCIe domains of their own, so
    that every relation is SYS, as the driver prints it. The BlueField cards for storage are left out.
    """
    on = build.cpus(2, 1, 72, threads=1)
    numa, memory = (0, 0, 1, 1), (2, 10, 18, 26)
    gpus = tuple(
        msgspec.structs.replace(gpu, memory_numa=node, host_gbps=rates.C2C_GBPS)
        for gpu, node in zip(build.gpus("NVIDIA GB200", numa, on), memory, strict=True)
    )
    nics = tuple(
        topo.Nic(f"NIC{i}", name, numa=(i // 2,), speed_gbits=400.0)
        for i, name in enumerate(("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"))
    )
    places = {device: (i, i) for i, device in enumerate([*(g.id for g in gpus), *(n.id for n in nics)])}
    links = build.placed(places, build.all_to_all(gpus, topo.LinkType.NVLINK, 18))
    nodes = (*on.nodes, *(topo.NumaNode(id=node, cpus=()) for node in memory))
    source = "NVIDIA DGX GB200 user guide and deployment guide; sgl-project/sglang#11208"
    return build.machine("gb200", source, gpus, links=links, nics=nics, on=build.Cpus(nodes, on.cores))


def gh200() -> topo.NodeTopology:
    """One Grace Hopper superchip: 72 cores, one GPU behind C2C whose memory is NUMA node 1; 2 to 8 are for MIG."""
    on = build.cpus(1, 1, 72, threads=1)
    gpus = tuple(
        msgspec.structs.replace(gpu, memory_numa=1, host_gbps=rates.C2C_GBPS)
        for gpu in build.gpus("NVIDIA GH200", [0], on)
    )
    nodes = (*on.nodes, *(topo.NumaNode(id=n, cpus=()) for n in range(1, 9)))
    source = "NVIDIA GH200 data sheet; lscpu in bytedance/xpu-perf#129"
    return build.machine("gh200", source, gpus, on=build.Cpus(nodes, on.cores))


def mi250x() -> topo.NodeTopology:
    """HPE Cray EX235a: one 64-core EPYC 7A53 as four NUMA nodes, four MI250X, each two GPUs (GCDs) to the system.

    GCDs on the NUMA nodes 3, 3, 1, 1, 0, 0, 2, 2; one 200 Gb/s interface on each MI250X. Pairs without xGMI between
    them are unknown. How many xGMI links a pair has is not taken into account: every one counts as RCCL's peer.
    """
    on = build.cpus(1, 4, 16)
    numa = [3, 3, 1, 1, 0, 0, 2, 2]
    gpus = build.gpus("AMD Instinct MI250X", numa, on)
    nics = build.nics([200.0] * 4, numa=numa[::2])
    xgmi = build.pairs(dict.fromkeys(_GCD_LINKS, 0), topo.LinkType.XGMI)
    near = tuple(topo.Link(f"GPU{i}", f"NIC{i // 2}", topo.LinkType.PIX) for i in range(8))
    source = "docs.lumi-supercomputer.eu, hardware, LUMI-G; RCCL topo_expl model topo_8p_90a_1"
    return build.machine("ex235a", source, gpus, links=(*xgmi, *near), nics=nics, on=on)


def _instinct(name: str, model: str) -> topo.NodeTopology:
    """Eight accelerators on one board, every pair on one xGMI link."""
    gpus = build.gpus(model, [None] * 8)
    source = f"{model} platform data sheet"
    return build.machine(name, source, gpus, links=build.all_to_all(gpus, topo.LinkType.XGMI))


def mi300x() -> topo.NodeTopology:
    """The MI300X platform."""
    return _instinct("mi300x-8", "AMD Instinct MI300X")


def mi325x() -> topo.NodeTopology:
    """The MI325X platform."""
    return _instinct("mi325x-8", "AMD Instinct MI325X")


def mi355x() -> topo.NodeTopology:
    """The MI355X platform."""
    return _instinct("mi355x-8", "AMD Instinct MI355X")


def l40s() -> topo.NodeTopology:
    """Two sockets of 96 cores, on each two L40S with root ports of their own; a two-port adapter on the second."""
    on = build.cpus(2, 1, 96)
    gpus = build.gpus("NVIDIA L40S", [0, 0, 1, 1], on)
    nics = build.nics([None, None], names="mlx5_", numa=[1, 1])
    places = {f"GPU{i}": (i // 2, i) for i in range(4)} | {"NIC0": (1, 4), "NIC1": (1, 4)}
    links = build.placed(places, near=topo.LinkType.PIX)
    return build.machine("l40s-4", "matrix in warpem/miss-alignment#106", gpus, links=links, nics=nics, on=on)


def rtx4090() -> topo.NodeTopology:
    """Two sockets of 56 cores, on each four RTX 4090; the driver calls every pair SYS, the CPUs alone tell."""
    on = build.cpus(2, 1, 56)
    gpus = build.gpus("NVIDIA GeForce RTX 4090", [0] * 4 + [1] * 4, on)
    nics = build.nics([None, None], numa=[1, 1])
    places = {f"GPU{i}": (i, i) for i in range(8)} | {"NIC0": (6, 8), "NIC1": (6, 8)}
    links = build.placed(places, within=topo.LinkType.PHB, near=topo.LinkType.PIX)
    return build.machine("rtx4090-8", "matrix in NVIDIA/go-gpuallocator#17", gpus, links=links, nics=nics, on=on)


MACHINES: Final = (
    build.Machine("gb200", gb200, ("gb200-nvl72", "gb200-nvl", "dgx-gb200")),
    build.Machine("gh200", gh200, ("gh200-480gb", "gh200-120gb")),
    build.Machine("ex235a", mi250x, ("hpe-cray-ex235a", "mi250x-8")),
    build.Machine("mi300x-8", mi300x),
    build.Machine("mi325x-8", mi325x),
    build.Machine("mi355x-8", mi355x),
    build.Machine("l40s-4", l40s),
    build.Machine("rtx4090-8", rtx4090),
)
