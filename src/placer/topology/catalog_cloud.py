"""Instance types with a whole machine's GPUs; NUMA nodes and relations by the providers' NCCL topology files."""

from __future__ import annotations

from typing import Final

from placer.topology import catalog_build as build
from placer.topology import catalog_dgx
from placer.topology import types as topo

_NV = topo.LinkType.NVLINK


def p3_16xlarge() -> topo.NodeTopology:
    """64 vCPUs on two NUMA nodes; the VM hides which GPU is on which, and how pairs without NVLink are related."""
    on = build.cpus(2, 1, 16)
    gpus = tuple(
        topo.Gpu(gpu.id, gpu.index, model=gpu.model, numa=(0, 1))
        for gpu in build.gpus("Tesla V100-SXM2-16GB", [None] * 8)
    )
    nics = (topo.Nic("NIC0", speed_gbits=25.0, rdma=False),)
    links = build.pairs(catalog_dgx.CUBE_MESH, _NV)
    source = "Amazon EC2 P3 instances; aws/aws-k8s-tester, p3.16xlarge"
    return build.machine("p3.16xlarge", source, gpus, links=links, nics=nics, on=on)


def p4d_24xlarge() -> topo.NodeTopology:
    """96 vCPUs; on each NUMA node two PCIe switches with two GPUs and one 100 Gb/s EFA adapter."""
    on = build.cpus(2, 1, 24)
    gpus = build.gpus("NVIDIA A100-SXM4-40GB", [0] * 4 + [1] * 4, on)
    nics = build.nics([100.0] * 4, numa=[0, 0, 1, 1])
    places = {f"GPU{i}": (i // 4, i // 2) for i in range(8)} | {f"NIC{i}": (i // 2, i) for i in range(4)}
    links = build.placed(places, build.all_to_all(gpus, _NV, 12), near=topo.LinkType.PIX, within=topo.LinkType.PHB)
    source = "aws/aws-ofi-nccl, topology/p4d-24xl-topo.xml"
    return build.machine("p4d.24xlarge", source, gpus, links=links, nics=nics, on=on)


def p5_48xlarge() -> topo.NodeTopology:
    """192 vCPUs on two NUMA nodes; below each GPU's PCIe switch four EFA adapters of 100 Gb/s."""
    on = build.cpus(2, 1, 48)
    gpus = build.gpus("NVIDIA H100 80GB HBM3", [0] * 4 + [1] * 4, on)
    first = (79, 96, 113, 130, 147, 164, 181, 198)  # rdmapN of the first adapter below each GPU
    nics = tuple(
        topo.Nic(f"NIC{4 * g + k}", f"rdmap{first[g] + k}s0", numa=(g // 4,), speed_gbits=100.0)
        for g in range(8)
        for k in range(4)
    )
    places = {f"GPU{i}": (i // 4, i) for i in range(8)} | {f"NIC{i}": (i // 16, i // 4) for i in range(32)}
    links = build.placed(places, build.all_to_all(gpus, _NV, 18), near=topo.LinkType.PIX)
    source = "aws/aws-ofi-nccl, topology/p5.48xl-topo.xml; aws/aws-k8s-tester, p5.48xlarge"
    return build.machine("p5.48xlarge", source, gpus, links=links, nics=nics, on=on)


def g5_48xlarge() -> topo.NodeTopology:
    """192 vCPUs, four A10G on each of two NUMA nodes, no switch and no NVLink; the driver in the VM says PHB of all."""
    on = build.cpus(2, 1, 48)
    gpus = build.gpus("NVIDIA A10G", [0] * 4 + [1] * 4, on)
    nics = build.nics([100.0])
    links = build.placed({f"GPU{i}": (i // 4, i) for i in range(8)}, within=topo.LinkType.PHB)
    source = "aws/aws-ofi-nccl, topology/g5.48xl-topo.xml"
    return build.machine("g5.48xlarge", source, gpus, links=links, nics=nics, on=on)


def nd_a100_v4() -> topo.NodeTopology:
    """96 vCPUs as four NUMA nodes; on each one switch with two GPUs and two 200 Gb/s adapters, in order 1, 0, 3, 2."""
    on = build.cpus(1, 4, 24, threads=1)
    nodes = [1, 1, 0, 0, 3, 3, 2, 2]
    gpus = build.gpus("NVIDIA A100-SXM4", nodes, on)
    nics = build.nics([200.0] * 8, numa=nodes)
    places = {f"{kind}{i}": (node, node) for kind in ("GPU", "NIC") for i, node in enumerate(nodes)}
    links = build.placed(places, build.all_to_all(gpus, _NV, 12), near=topo.LinkType.PIX)
    source = "Azure/azhpc-images, topology/ndv4-topo.xml"
    # The file tells NUMA nodes and not sockets.
    unpackaged = build.Cpus(tuple(topo.NumaNode(node.id, node.cpus) for node in on.nodes), on.cores)
    return build.machine("nd-a100-v4", source, gpus, links=links, nics=nics, on=unpackaged)


def nd_h100_v5() -> topo.NodeTopology:
    """96 vCPUs on two NUMA nodes; one 400 Gb/s adapter below the switch of each GPU.

    Which CPUs a node has stays unknown: the published file and the machines number them differently.
    """
    nodes = [0] * 4 + [1] * 4
    gpus = build.gpus("NVIDIA H100 80GB HBM3", nodes)
    nics = build.nics([400.0] * 8, numa=nodes)
    places = {f"{kind}{i}": (i // 4, i) for kind in ("GPU", "NIC") for i in range(8)}
    links = build.placed(places, build.all_to_all(gpus, _NV, 18), near=topo.LinkType.PIX)
    on = build.Cpus((topo.NumaNode(0), topo.NumaNode(1)))
    source = "Azure/azhpc-images, topology/ndv5-topo.xml"
    return build.machine("nd-h100-v5", source, gpus, links=links, nics=nics, on=on)


def nd_mi300x_v5() -> topo.NodeTopology:
    """96 vCPUs on two NUMA nodes; GPUs and 400 Gb/s adapters side by side below them, no switch to be seen."""
    on = build.cpus(2, 1, 48, threads=1)
    nodes = [0] * 4 + [1] * 4
    gpus = build.gpus("AMD Instinct MI300X", nodes, on)
    nics = build.nics([400.0] * 8, names="mlx5_", numa=nodes)
    places = {f"GPU{i}": (i // 4, i) for i in range(8)} | {f"NIC{i}": (i // 4, 8 + i) for i in range(8)}
    links = build.placed(places, build.all_to_all(gpus, topo.LinkType.XGMI))
    source = "RCCL topo_expl model topo_8p_942vm"
    return build.machine("nd-mi300x-v5", source, gpus, links=links, nics=nics, on=on)


MACHINES: Final = (
    build.Machine("p3.16xlarge", p3_16xlarge),
    build.Machine("p4d.24xlarge", p4d_24xlarge),
    build.Machine("p5.48xlarge", p5_48xlarge),
    build.Machine("g5.48xlarge", g5_48xlarge),
    build.Machine(
        "nd-a100-v4", nd_a100_v4, ("standard-nd96asr-v4", "standard-nd96amsr-a100-v4", "nd96asr-v4", "nd96amsr-a100-v4")
    ),
    build.Machine("nd-h100-v5", nd_h100_v5, ("standard-nd96isr-h100-v5", "nd96isr-h100-v5")),
    build.Machine("nd-mi300x-v5", nd_mi300x_v5, ("standard-nd96isr-mi300x-v5", "nd96isr-mi300x-v5")),
)
