"""NVIDIA's own machines and boards.

DGX machines have a published host, HGX boards none: theirs differs by vendor, so NUMA nodes, CPUs and adapters of a
board stay unknown. Lanes of NVLink are those of the GPU's product data; which adapter shares a PCIe switch with which
GPU is by the user guides' block diagrams and by the matrices that `nvidia-smi topo -m` prints on these machines.
"""

from __future__ import annotations

from typing import Final

from placer.topology import catalog_build as build
from placer.topology import types as topo

CUBE_MESH: Final = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip
"""NVLinks of the hybrid cube mesh of 8 V100: six a GPU (NVIDIA, "DGX-1 system architecture", WP-08437)."""

_NV = topo.LinkType.NVLINK


def dgx_1v() -> topo.NodeTopology:
    """Two 20-core Xeon E5-2698 v4; on each of four PCIe switches two GPUs and one EDR adapter."""
    on = build.cpus(2, 1, 20)
    gpus = build.gpus("Tesla V100-SXM2", [0] * 4 + [1] * 4, on)
    nics = build.nics([100.0] * 4, names="mlx5_", numa=[0, 0, 1, 1])
    places = {f"GPU{i}": (i // 4, i // 2) for i in range(8)} | {f"NIC{i}": (i // 2, i) for i in range(4)}
    links = build.placed(places, build.pairs(CUBE_MESH, _NV), near=topo.LinkType.PIX)
    return build.machine("dgx-1v", "NVIDIA DGX-1 system architecture, WP-08437", gpus, links=links, nics=nics, on=on)


def hgx_1() -> topo.NodeTopology:
    """The board of DGX-1V: links between its GPUs only; pairs without NVLink are unknown."""
    gpus = build.gpus("Tesla V100-SXM2", [None] * 8)
    return build.machine("hgx-1", "NVIDIA HGX-1 with V100, hybrid cube mesh", gpus, links=build.pairs(CUBE_MESH, _NV))


def dgx_2() -> topo.NodeTopology:
    """Two 24-core Xeon 8168; 16 V100 behind NVSwitches; two GPUs and one adapter on each of eight PCIe switches.

    Four GPUs with their two adapters hang on one switch above: PXB, and NODE to the other four of the socket. mlx5_4
    and mlx5_5 are the two ports for storage; where those sit is not published.
    """
    on = build.cpus(2, 1, 24)
    gpus = build.gpus("Tesla V100-SXM3", [0] * 8 + [1] * 8, on)
    cluster = (0, 1, 2, 3, 6, 7, 8, 9)
    numa = [cluster.index(i) // 4 if i in cluster else None for i in range(10)]
    nics = build.nics([100.0] * 10, names="mlx5_", numa=numa)
    switch = {f"GPU{i}": i // 2 for i in range(16)} | {f"NIC{nic}": i for i, nic in enumerate(cluster)}
    links = list(build.all_to_all(gpus, _NV, 6))
    names = list(switch)
    for at, a in enumerate(names):
        for b in names[at + 1 :]:
            if not b.startswith("NIC"):
                continue
            i, j = switch[a], switch[b]
            near = topo.LinkType.PIX if i == j else topo.LinkType.PXB if i // 2 == j // 2 else topo.LinkType.NODE
            links.append(topo.Link(a, b, near if i // 4 == j // 4 else topo.LinkType.SYS))
    return build.machine("dgx-2", "NVIDIA DGX-2 user guide", gpus, links=tuple(links), nics=nics, on=on)


def hgx_2() -> topo.NodeTopology:
    """Sixteen V100 behind NVSwitches, six NVLinks each."""
    gpus = build.gpus("Tesla V100-SXM3", [None] * 16)
    return build.machine("hgx-2", "NVIDIA HGX-2 board", gpus, links=build.all_to_all(gpus, _NV, 6))


def dgx_a100() -> topo.NodeTopology:
    """Two 64-core EPYC 7742 as eight NUMA nodes, GPUs on 3, 3, 1, 1, 7, 7, 5, 5; two GPUs and two adapters a switch.

    mlx5_4, 5, 10 and 11 are for storage and near no GPU; each two are ports of one card.
    """
    on = build.cpus(2, 4, 16)
    nodes = [3, 3, 1, 1, 7, 7, 5, 5]
    gpus = build.gpus("NVIDIA A100-SXM4", nodes, on)
    numa = [3, 3, 1, 1, None, None, 7, 7, 5, 5, None, None]
    nics = build.nics([200.0] * 12, names="mlx5_", numa=numa)
    places = {gpu.id: (node, node) for gpu, node in zip(gpus, nodes, strict=True)}
    storage = {4: -1, 5: -1, 10: -2, 11: -2}  # a place of their own
    places |= {
        nic.id: (n, n) if n is not None else (storage[i], storage[i])
        for i, (nic, n) in enumerate(zip(nics, numa, strict=True))
    }
    own = {-1: topo.LinkType.PIX, -2: topo.LinkType.PIX}
    links = build.placed(places, build.all_to_all(gpus, _NV, 12), own=own)
    return build.machine(
        "dgx-a100", "NVIDIA DGX A100 user guide; NVIDIA/nccl#1505", gpus, links=links, nics=nics, on=on
    )


def hgx_a100_8() -> topo.NodeTopology:
    """Eight A100 SXM behind NVSwitches, twelve NVLinks each."""
    gpus = build.gpus("NVIDIA A100-SXM4", [None] * 8)
    return build.machine("hgx-a100-8", "NVIDIA HGX A100 8-GPU board", gpus, links=build.all_to_all(gpus, _NV, 12))


def hgx_a100_4() -> topo.NodeTopology:
    """Four A100 SXM, every pair on four NVLinks, no switch."""
    gpus = build.gpus("NVIDIA A100-SXM4", [None] * 4)
    return build.machine("hgx-a100-4", "NVIDIA HGX A100 4-GPU board", gpus, links=build.all_to_all(gpus, _NV, 4))


def _dgx_hopper(name: str, model: str) -> topo.NodeTopology:
    """Two 56-core Xeon 8480C; one 400 Gb/s adapter on the PCIe switch of each GPU; a two-port storage card a socket."""
    on = build.cpus(2, 1, 56)
    gpus = build.gpus(model, [0] * 4 + [1] * 4, on)
    nics = build.nics([400.0] * 12, names="mlx5_", numa=[0] * 6 + [1] * 6)
    of_gpu = (0, 3, 4, 5, 6, 9, 10, 11)  # mlx5_N of each GPU, user guide, table "Network Modules"
    places = {gpu.id: (i // 4, i) for i, gpu in enumerate(gpus)}
    places |= {f"NIC{n}": (n // 6, of_gpu.index(n) if n in of_gpu else 8 + n // 6) for n in range(12)}
    own = {8: topo.LinkType.PIX, 9: topo.LinkType.PIX}
    links = build.placed(places, build.all_to_all(gpus, _NV, 18), own=own)
    return build.machine(name, "NVIDIA DGX H100/H200 user guide", gpus, links=links, nics=nics, on=on)


def dgx_h100() -> topo.NodeTopology:
    """DGX H100."""
    return _dgx_hopper("dgx-h100", "NVIDIA H100 80GB HBM3")


def dgx_h200() -> topo.NodeTopology:
    """DGX H200: the same machine with other GPUs."""
    return _dgx_hopper("dgx-h200", "NVIDIA H200")


def _hgx(name: str, model: str, lanes: int, count: int = 8) -> topo.NodeTopology:
    gpus = build.gpus(model, [None] * count)
    board = f"NVIDIA {name.upper().replace('-', ' ', 1)} board"
    return build.machine(name, board, gpus, links=build.all_to_all(gpus, _NV, lanes))


def hgx_h100() -> topo.NodeTopology:
    """Eight H100 SXM behind NVSwitches, 18 NVLinks each."""
    return _hgx("hgx-h100", "NVIDIA H100 80GB HBM3", 18)


def hgx_h100_4() -> topo.NodeTopology:
    """Four H100 SXM, every pair on six NVLinks, no switch."""
    return _hgx("hgx-h100-4", "NVIDIA H100 80GB HBM3", 6, 4)


def hgx_h200() -> topo.NodeTopology:
    """Eight H200 SXM behind NVSwitches, 18 NVLinks each."""
    return _hgx("hgx-h200", "NVIDIA H200", 18)


def hgx_b200() -> topo.NodeTopology:
    """Eight B200 behind NVSwitches, 18 NVLinks each."""
    return _hgx("hgx-b200", "NVIDIA B200", 18)


def hgx_b300() -> topo.NodeTopology:
    """Eight B300 behind NVSwitches, each with a ConnectX-8 of 800 Gb/s on the board, which is a PCIe switch too."""
    gpus = build.gpus("NVIDIA B300", [None] * 8)
    nics = build.nics([800.0] * 8)
    near = tuple(topo.Link(gpu.id, nic.id, topo.LinkType.PIX) for gpu, nic in zip(gpus, nics, strict=True))
    return build.machine(
        "hgx-b300", "NVIDIA HGX B300 board", gpus, links=(*build.all_to_all(gpus, _NV, 18), *near), nics=nics
    )


def dgx_b200() -> topo.NodeTopology:
    """Two 56-core Xeon 8570; one 400 Gb/s adapter on the PCIe switch of each GPU; a two-port BlueField-3 a socket."""
    on = build.cpus(2, 1, 56)
    gpus = build.gpus("NVIDIA B200", [0] * 4 + [1] * 4, on)
    nics = build.nics([400.0] * 12, numa=[*[0] * 4, *[1] * 4, 0, 0, 1, 1])
    places = {gpu.id: (i // 4, i) for i, gpu in enumerate(gpus)} | {f"NIC{i}": (i // 4, i) for i in range(8)}
    places |= {f"NIC{n}": ((n - 8) // 2, n // 2 + 8) for n in range(8, 12)}
    own = {12: topo.LinkType.PIX, 13: topo.LinkType.PIX}
    links = build.placed(places, build.all_to_all(gpus, _NV, 18), own=own)
    source = "NVIDIA DGX B200 user guide; matrix in vllm-project/vllm#16336"
    return build.machine("dgx-b200", source, gpus, links=links, nics=nics, on=on)


def dgx_b300() -> topo.NodeTopology:
    """The board with two 64-core Xeon 6776P; how those are split into NUMA nodes is a setting and stays unknown."""
    board = hgx_b300()
    return build.machine("dgx-b300", "NVIDIA DGX B300 user guide", board.gpus, links=board.links, nics=board.nics)


MACHINES: Final = (
    build.Machine("dgx-1v", dgx_1v, ("dgx-1-with-v100", "dgx-1-v100")),
    build.Machine("dgx-2", dgx_2, ("dgx-2h",)),
    build.Machine("dgx-a100", dgx_a100, ("dgxa100",)),
    build.Machine("dgx-h100", dgx_h100, ("dgxh100",)),
    build.Machine("dgx-h200", dgx_h200, ("dgxh200",)),
    build.Machine("dgx-b200", dgx_b200, ("dgxb200",)),
    build.Machine("dgx-b300", dgx_b300, ("dgxb300",)),
    build.Machine("hgx-1", hgx_1),
    build.Machine("hgx-2", hgx_2),
    build.Machine("hgx-a100-8", hgx_a100_8, ("hgx-a100",)),
    build.Machine("hgx-a100-4", hgx_a100_4, ("hgx-a100",)),
    build.Machine("hgx-h100", hgx_h100, ("hgx-h100-8",)),
    build.Machine("hgx-h100-4", hgx_h100_4, ("hgx-h100",)),
    build.Machine("hgx-h200", hgx_h200, ("hgx-h200-8",)),
    build.Machine("hgx-b200", hgx_b200, ("hgx-b200-8",)),
    build.Machine("hgx-b300", hgx_b300, ("hgx-b300-8",)),
)
