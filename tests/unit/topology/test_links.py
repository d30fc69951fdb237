"""Link classes against the constants of NCCL and RCCL, and the kind of wiring of known machines."""

from __future__ import annotations

import itertools

import pytest

from placer.topology import links
from placer.topology import types as topo

L = topo.LinkType


def _full(count: int, kind: topo.LinkType, lanes: int = 0, model: str | None = None) -> topo.NodeTopology:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model=model) for i in range(count))
    pairs = tuple(topo.Link(a.id, b.id, kind, lanes) for a, b in itertools.combinations(gpus, 2))
    return topo.NodeTopology("n", "test", gpus=gpus, links=pairs)


@pytest.mark.parametrize(
    ("name", "sm"),
    [
        ("Tesla P100-SXM2-16GB", 60),
        ("v100", 70),
        ("Tesla V100-SXM2-32GB", 70),
        ("Tesla T4", 75),
        ("NVIDIA TITAN RTX", 75),
        ("a100", 80),
        ("nvidia_a100-sxm4-40gb", 80),
        ("a100_3g.20gb", 80),
        ("NVIDIA A100-SXM4-80GB", 80),
        ("NVIDIA A10", 86),
        ("NVIDIA A40", 86),
        ("GeForce RTX 3090", 86),
        ("rtx_a6000", 86),
        ("NVIDIA RTX 6000 Ada Generation", 89),
        ("NVIDIA L40S", 89),
        ("rtx4090", 89),
        ("NVIDIA H100 80GB HBM3", 90),
        ("h200", 90),
        ("gh200", 90),
        ("b200", 100),
        ("NVIDIA GB200", 100),
        ("NVIDIA GeForce RTX 5090", 120),
        ("AMD Instinct MI300X", None),
        ("gpu", None),
        (None, None),
    ],
)
def test_sm_of_name_gives_the_vendors_compute_capability(name: str | None, sm: int | None) -> None:
    assert links.sm_of(name) == sm


@pytest.mark.parametrize(("lanes", "sm"), [(6, 70), (12, 80), (18, 90), (0, None)])
def test_sm_of_unknown_name_follows_the_ports_in_use(lanes: int, sm: int | None) -> None:
    assert links.sm_of("gpu", lanes=lanes) == sm
    assert links.sm_of("h100", lanes=lanes) == 90


@pytest.mark.parametrize(
    ("sm", "lanes", "gbps"),
    [
        (60, 4, 72.0),
        (70, 2, 40.0),
        (80, 4, 80.0),
        (80, 12, 235.0),
        (80, 8, 160.0),
        (86, 4, 48.0),
        (90, 18, 370.8),
        (100, 18, 721.8),
    ],
)
def test_nvlink_bandwidth_is_links_times_nccls_constant(sm: int, lanes: int, gbps: float) -> None:
    assert links.nvlink_gbps(sm, lanes) == pytest.approx(gbps)
    assert links.bandwidth_gbps(topo.Link("a", "b", L.NVLINK, lanes), sm=sm) == pytest.approx(gbps)


@pytest.mark.parametrize(("generation", "lanes", "gbps"), [(3, 16, 12), (4, 16, 24), (5, 16, 48), (4, 8, 12)])
def test_pcie_bandwidth_doubles_with_the_generation(generation: int, lanes: int, gbps: float) -> None:
    assert links.pcie_gbps(generation, lanes) == gbps


def test_nic_bandwidth_is_twelve_for_a_hundred_gigabits() -> None:
    assert links.nic_gbps(400) == 48


@pytest.mark.parametrize(
    ("model", "gbps"), [("MI300X", 48), ("AMD Instinct MI350X", 48), ("mi250", 36), ("a100", None)]
)
def test_xgmi_bandwidth_is_rccls_by_generation(model: str, gbps: float | None) -> None:
    assert links.xgmi_gbps(model) == gbps
    assert links.bandwidth_gbps(topo.Link("a", "b", L.XGMI), model=model) == gbps


def test_bandwidth_of_paths_needs_generation_and_cpu() -> None:
    skylake = links.Host(links.Cpu.INTEL_SKYLAKE, 3)
    rome = links.Host(links.Cpu.AMD_ZEN2, 4)
    by_kind = {kind: topo.Link("a", "b", kind) for kind in (L.PIX, L.PXB, L.PHB, L.NODE, L.SYS)}
    assert [links.bandwidth_gbps(link, host=skylake) for link in by_kind.values()] == [12, 12, 10, 10, 10]
    assert [links.bandwidth_gbps(link, host=rome) for link in by_kind.values()] == [24, 24, 24, 24, 16]
    assert links.bandwidth_gbps(by_kind[L.SYS], host=links.Host(pcie_generation=4)) is None
    assert links.bandwidth_gbps(by_kind[L.PIX]) is None
    assert links.bandwidth_gbps(topo.Link("a", "b", L.UNKNOWN), host=rome) is None
    assert links.bandwidth_gbps(topo.Link("a", "b", L.NVLINK, 4)) is None
    assert links.bandwidth_gbps(topo.Link("a", "b", L.SYS, bandwidth_gbps=9.5)) == 9.5
    assert links.bandwidth_gbps(topo.Link("a", "b", L.C2C)) == 450


def test_pcie_of_unknown_host_takes_the_gpus_own_generation_and_says_so() -> None:
    v100 = links.pcie(links.Host(), ["v100", "v100"])
    assert (v100.link_gbps, v100.through_cpu_gbps, v100.socket_gbps) == (12, 10, 6)
    assert "PCIe generation 3" in v100.assumed[0]
    assert "intel" in v100.assumed[1]
    assert links.pcie(links.Host(), ["a100"]).link_gbps == 24
    assert links.pcie(links.Host(), ["h100"]).link_gbps == 48
    assert links.pcie(links.Host(links.Cpu.AMD_ZEN5, 5), ["h100"]).assumed == ()
    assert links.pcie(links.Host(pcie_generation=4, peer_access=False), ["rtx4090"]).link_gbps == 18


def test_host_of_machine_name_gives_the_products_cpu() -> None:
    def host(machine: str) -> links.Host:
        return links.host_of(topo.NodeTopology("n", "test", machine=machine))

    assert host("dgx-a100").cpu is links.Cpu.AMD_ZEN2
    assert host("DGX-1").pcie_generation == 3
    assert host("dgx-100") == links.Host()
    assert host("box") == links.Host()


@pytest.mark.parametrize(
    ("count", "kind", "lanes", "model", "wiring"),
    [
        (8, L.NVLINK, 12, "a100", "nvswitch"),
        (8, L.NVLINK, 12, None, "nvswitch"),
        (8, L.NVLINK, 18, "h100", "nvswitch"),
        (8, L.NVLINK, 8, "A800", "nvswitch"),  # 7 x 8 = 56 lanes, 12 ports
        (16, L.NVLINK, 6, "v100", "nvswitch"),
        (4, L.NVLINK, 18, "gb200", "nvswitch"),
        (4, L.NVLINK, 4, "a100", "nvlink-mesh"),  # 3 x 4 = 12 ports
        (4, L.NVLINK, 6, "h100", "nvlink-mesh"),  # 3 x 6 = 18 ports
        (3, L.NVLINK, 12, "a100", "nvswitch"),  # three of eight, as a job sees them
        (2, L.NVLINK, 12, "a100", "bridges"),
        (8, L.XGMI, 0, "MI300X", "xgmi-mesh"),
        (4, L.SYS, 0, None, "pcie"),
        (4, L.UNKNOWN, 0, None, "unknown"),
        (1, L.SYS, 0, None, "unknown"),
    ],
)
def test_interconnect_of_full_matrices_counts_ports(
    count: int, kind: topo.LinkType, lanes: int, model: str | None, wiring: str
) -> None:
    assert links.interconnect(_full(count, kind, lanes, model)).value == wiring


def test_interconnect_with_one_dead_gpu_stays_nvswitch() -> None:
    node = _full(8, L.NVLINK, 12, "a100")
    cut = tuple(topo.Link(k.a, k.b, L.SYS) if "GPU3" in (k.a, k.b) else k for k in node.links)
    broken = topo.NodeTopology("n", "test", gpus=node.gpus, links=cut)
    assert links.interconnect(broken) is links.Interconnect.NVSWITCH
    assert links.behind_switch(broken) == (True, True, True, False, True, True, True, True)


def test_gpu_pairs_told_in_two_ways_are_left_out() -> None:
    node = topo.NodeTopology(
        "n",
        "test",
        gpus=tuple(topo.Gpu(f"GPU{i}") for i in range(3)),
        links=(
            topo.Link("GPU0", "GPU1", L.NVLINK, 4),
            topo.Link("GPU1", "GPU0", L.SYS),
            topo.Link("GPU2", "GPU0", L.PIX),
            topo.Link("GPU0", "NIC0", L.PIX),
        ),
    )
    assert list(links.gpu_pairs(node)) == [(0, 2)]
