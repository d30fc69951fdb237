"""The insides of the default emulated nodes, and any node's inside as `nvidia-smi topo -m` would print it.

Both machines are the project's own, wired like common ones: 8 A100 on NVSwitch with a NIC beside each pair, and 4 V100
in an NVLink mesh. Their CPU numbers fit the default nodes of the sandbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from placer import ranges
from placer.topology import types as topo


def topology_text(machine: topo.NodeTopology) -> str | None:
    """A whole `nvidia-smi topo -m` table, or None when a relation between two devices is not known."""
    devices = [*(gpu.id for gpu in machine.gpus), *(nic.id for nic in machine.nics)]
    names = [*(gpu.id for gpu in machine.gpus), *(nic.name or nic.id for nic in machine.nics)]
    labels = {frozenset((link.a, link.b)): link.label for link in machine.links}
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for i, device in enumerate(devices):
        cells = [" X " if other == device else labels.get(frozenset((device, other)), "?") for other in devices]
        if any("?" in cell for cell in cells):
            return None
        lines.append("\t".join([names[i], *cells, *(_affinity(machine.gpus[i]) if i < len(machine.gpus) else ())]))
    return "\n".join(lines) + "\n" if machine.gpus else None


def _affinity(gpu: topo.Gpu) -> tuple[str, str]:
    cpus = "N/A" if gpu.cpus is None else ranges.format(gpu.cpus)
    return cpus, "N/A" if gpu.numa is None else ranges.format(gpu.numa)


def _a100() -> topo.NodeTopology:
    """8 GPUs, NV12 between all; a NIC behind the PCIe switch of each pair; 2 sockets of 32 cores, siblings 64 apart."""
    near = [(*range(32), *range(64, 96)), (*range(32, 64), *range(96, 128))]
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model="a100", numa=(i // 4,), cpus=near[i // 4]) for i in range(8))
    nics = tuple(topo.Nic(f"mlx5_{i}", f"mlx5_{i}", numa=(i // 2,), speed_gbits=200.0) for i in range(4))
    switch = {**{f"GPU{i}": i // 2 for i in range(8)}, **{f"mlx5_{i}": i for i in range(4)}}
    return topo.NodeTopology(
        name="a100",
        source="sandbox",
        gpus=gpus,
        nics=nics,
        links=_links(switch),
        numa_nodes=tuple(topo.NumaNode(i, near[i], memory_mib=500_000, package=i) for i in range(2)),
        cores=tuple((i, i + 64) for i in range(64)),
    )


def _links(switch: Mapping[str, int]) -> tuple[topo.Link, ...]:
    devices = list(switch)
    made = []
    for i, a in enumerate(devices):
        for b in devices[i + 1 :]:
            if a.startswith("GPU") and b.startswith("GPU"):
                made.append(topo.Link(a, b, topo.LinkType.NVLINK, lanes=12))
            elif switch[a] // 2 != switch[b] // 2:  # two switches to a socket
                made.append(topo.Link(a, b, topo.LinkType.SYS))
            else:
                kind = topo.LinkType.PXB if switch[a] == switch[b] else topo.LinkType.NODE
                made.append(topo.Link(a, b, kind))
    return tuple(made)


def _v100() -> topo.NodeTopology:
    """4 GPUs, two NVLinks within a socket and one across; one NIC on socket 0; 2 sockets of 16 cores without SMT."""
    near = [tuple(range(16)), tuple(range(16, 32))]
    links = [
        topo.Link(f"GPU{i}", f"GPU{j}", topo.LinkType.NVLINK, lanes=2 if i // 2 == j // 2 else 1)
        for i in range(4)
        for j in range(i + 1, 4)
    ]
    kinds = [topo.LinkType.NODE, topo.LinkType.NODE, topo.LinkType.SYS, topo.LinkType.SYS]
    return topo.NodeTopology(
        name="v100",
        source="sandbox",
        gpus=tuple(topo.Gpu(f"GPU{i}", i, model="v100", numa=(i // 2,), cpus=near[i // 2]) for i in range(4)),
        nics=(topo.Nic("mlx5_0", "mlx5_0", numa=(0,), speed_gbits=100.0),),
        links=(*links, *(topo.Link(f"GPU{i}", "mlx5_0", kind) for i, kind in enumerate(kinds))),
        numa_nodes=tuple(topo.NumaNode(i, near[i], memory_mib=128_000, package=i) for i in range(2)),
        cores=tuple((i,) for i in range(32)),
    )


A100: Final = _a100()
V100: Final = _v100()
