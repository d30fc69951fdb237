"""Pairs whose peer access is denied, by `topo -p2p` (models: 0.75 of the PCIe path, no NVLink)."""

from __future__ import annotations

import msgspec
import pytest

from placer.placement import bandwidth, wiring
from placer.topology import links
from placer.topology import types as topo

L = topo.LinkType
AMD = links.Host(links.Cpu.AMD_ZEN4, 4)  # PCIe 4 x16: 24 GB/s, through the CPU too


def node(kind: topo.LinkType, lanes: int = 0, count: int = 2) -> topo.NodeTopology:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model="a100", numa=(0,)) for i in range(count))
    pairs = tuple(
        topo.Link(f"GPU{i}", f"GPU{j}", kind, lanes if kind is L.NVLINK else 0)
        for i in range(count)
        for j in range(i + 1, count)
    )
    return topo.NodeTopology("n", "test", gpus, links=pairs)


def busbw(machine: topo.NodeTopology, host: links.Host = AMD) -> float | None:
    wired = wiring.of(machine, host=host)
    return bandwidth.of_set(wired, wired.index).busbw_gbps


def denied(machine: topo.NodeTopology) -> topo.NodeTopology:
    return msgspec.structs.replace(machine, no_peer=(("GPU1", "GPU0"),))


def test_of_pix_pair_without_peer_access_has_three_quarters() -> None:
    assert busbw(node(L.PIX)) == 24.0
    assert busbw(denied(node(L.PIX))) == 18.0


def test_of_nvlink_pair_without_peer_access_has_its_pcie_path() -> None:
    assert busbw(node(L.NVLINK, 4)) == 80.0
    assert busbw(denied(node(L.NVLINK, 4))) == 18.0


def test_of_host_without_any_peer_access_is_slowed_once() -> None:
    host = msgspec.structs.replace(AMD, peer_access=False)
    assert busbw(denied(node(L.PIX)), host) == 18.0


def test_of_ring_goes_round_a_denied_pair() -> None:
    """Four GPUs behind one switch: a ring that leaves the pair 0-1 out keeps 24 GB/s."""
    assert busbw(denied(node(L.PIX, count=4))) == 24.0
    assert busbw(denied(node(L.PIX, count=3))) == 18.0  # the only ring has the pair


def test_of_unknown_gpu_in_a_denied_pair_is_left_out() -> None:
    machine = msgspec.structs.replace(node(L.PIX), no_peer=(("GPU0", "GPU7"), ("GPU0", "GPU0")))
    assert busbw(machine) == pytest.approx(24.0)
