"""The catalogue: published facts of each machine, predicted bandwidths, and which names find it."""

from __future__ import annotations

import itertools
import os
import pathlib

import pytest

from placer.placement import bandwidth
from placer.topology import catalog, links
from placer.topology import types as topo
from placer.topology.readers import sniff

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))


def machine(name: str, gpus: int = 0) -> topo.NodeTopology:
    found = catalog.find(name, gpus)
    assert found is not None
    return found


def busbw(name: str, gpus: int | None = None, *, in_network: bool = True) -> float | None:
    node = machine(name)
    return bandwidth.of_set(node, range(gpus or len(node.gpus)), in_network=in_network).busbw_gbps


# Published: GPUs, adapters, NUMA nodes with CPUs, CPUs.
PUBLISHED = {
    "dgx-1v": (8, 4, 2, 80),
    "dgx-2": (16, 10, 2, 96),
    "dgx-a100": (8, 12, 8, 256),
    "dgx-h100": (8, 12, 2, 224),
    "dgx-h200": (8, 12, 2, 224),
    "dgx-b200": (8, 12, 2, 224),
    "dgx-b300": (8, 8, 0, 0),
    "hgx-1": (8, 0, 0, 0),
    "hgx-2": (16, 0, 0, 0),
    "hgx-a100-8": (8, 0, 0, 0),
    "hgx-a100-4": (4, 0, 0, 0),
    "hgx-h100": (8, 0, 0, 0),
    "hgx-h100-4": (4, 0, 0, 0),
    "hgx-h200": (8, 0, 0, 0),
    "hgx-b200": (8, 0, 0, 0),
    "hgx-b300": (8, 8, 0, 0),
    "gb200": (4, 4, 2, 144),
    "gh200": (1, 0, 1, 72),
    "ex235a": (8, 4, 4, 128),
    "mi300x-8": (8, 0, 0, 0),
    "mi325x-8": (8, 0, 0, 0),
    "mi355x-8": (8, 0, 0, 0),
    "l40s-4": (4, 2, 2, 384),
    "rtx4090-8": (8, 2, 2, 224),
    "p3.16xlarge": (8, 1, 2, 64),
    "p4d.24xlarge": (8, 4, 2, 96),
    "p5.48xlarge": (8, 32, 2, 192),
    "g5.48xlarge": (8, 1, 2, 192),
    "nd-a100-v4": (8, 8, 4, 96),
    "nd-h100-v5": (8, 8, 0, 0),
    "nd-mi300x-v5": (8, 8, 2, 96),
}


def test_names_lists_every_machine() -> None:
    assert sorted(catalog.names()) == sorted(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_find_machine_has_the_published_devices(name: str) -> None:
    node = machine(name)
    with_cpus = [numa for numa in node.numa_nodes if numa.cpus]
    cpus = [cpu for numa in with_cpus for cpu in numa.cpus or ()]
    assert (len(node.gpus), len(node.nics), len(with_cpus), len(cpus)) == PUBLISHED[name]
    assert sorted(cpus) == list(range(len(cpus)))
    assert sorted(cpu for core in node.cores for cpu in core) == sorted(cpus)


@pytest.mark.parametrize("name", PUBLISHED)
def test_find_machine_is_marked_and_consistent(name: str) -> None:
    node = machine(name)
    assert (node.machine, node.name) == (name, name)
    assert node.source.startswith("catalogue: ")
    assert node.assumed[0].startswith(f"wiring from the catalogue: {name} (")
    ids = [*(gpu.id for gpu in node.gpus), *(nic.id for nic in node.nics)]
    assert [gpu.index for gpu in node.gpus] == list(range(len(node.gpus)))
    assert all(link.a in ids and link.b in ids and link.a != link.b for link in node.links)
    told = [frozenset((link.a, link.b)) for link in node.links]
    assert len(set(told)) == len(told)
    numbers = {numa.id for numa in node.numa_nodes}
    assert all(set(gpu.numa or ()) <= numbers for gpu in node.gpus)
    assert node.partial == (len(told) < len(ids) * (len(ids) - 1) // 2)


@pytest.mark.parametrize("name", PUBLISHED)
def test_find_machine_uses_no_more_nvlinks_than_a_gpu_has(name: str) -> None:
    node = machine(name)
    for gpu, used, switched in zip(node.gpus, links.ports_used(node), links.behind_switch(node), strict=True):
        ports = links.nvlink_ports(links.sm_of(gpu.model))
        most = max((link.lanes for link in node.links if gpu.id in (link.a, link.b)), default=0)
        assert (most if switched else used) <= ports


# Predictions of the bandwidth model, GB/s: A100 port total, H200 ring and in-network, 2 x ring packings of V100 meshes.
@pytest.mark.parametrize(
    ("name", "gpus", "in_network", "expected"),
    [
        ("dgx-a100", 8, True, 235.0),
        ("hgx-a100-8", 2, True, 235.0),
        ("p4d.24xlarge", 8, True, 235.0),
        ("nd-a100-v4", 8, True, 235.0),
        ("hgx-a100-4", 4, True, 235.0),
        ("hgx-h200", 8, False, 370.8),
        ("hgx-h200", 8, True, 490.3),
        ("dgx-h200", 4, True, 370.8),
        ("dgx-h200", 5, True, 420.2),
        ("dgx-h100", 8, True, 490.3),
        ("p5.48xlarge", 8, True, 490.3),
        ("nd-h100-v5", 8, True, 490.3),
        ("hgx-h100-4", 4, True, 370.8),
        ("dgx-b200", 8, True, 830.9),
        ("hgx-b200", 4, True, 721.8),
        ("hgx-b300", 8, False, 721.8),
        ("gb200", 4, True, 721.8),
        ("mi300x-8", 2, True, 48.0),
        ("mi300x-8", 4, True, 144.0),
        ("mi300x-8", 8, True, 336.0),
        ("nd-mi300x-v5", 8, True, 336.0),
        ("dgx-1v", 2, True, 20.0),
        ("dgx-1v", 4, True, 80.0),
        ("dgx-1v", 8, True, 120.0),
        ("p3.16xlarge", 8, True, 120.0),
        ("hgx-1", 8, True, 120.0),
        ("dgx-2", 16, True, 120.0),  # six links of 20
        ("g5.48xlarge", 2, True, 24.0),  # PCIe 4 through an AMD CPU
        ("g5.48xlarge", 8, True, 16.0),  # the link between two sockets of Zen 2
    ],
)
def test_of_set_of_a_catalogue_machine_is_the_prediction(
    name: str, gpus: int, in_network: bool, expected: float
) -> None:
    assert busbw(name, gpus, in_network=in_network) == pytest.approx(expected, abs=0.051)


def test_dgx_1v_sets_count_as_known() -> None:
    node = machine("dgx-1v")
    pairs = [bandwidth.of_set(node, pair).busbw_gbps for pair in itertools.combinations(range(8), 2)]
    assert (pairs.count(40.0), pairs.count(20.0)) == (8, 8)
    quads = [bandwidth.of_set(node, quad).busbw_gbps for quad in itertools.combinations(range(8), 4)]
    assert (quads.count(80.0), quads.count(40.0)) == (2, 6)


def test_dgx_a100_gpus_sit_on_the_published_numa_nodes() -> None:
    assert [gpu.numa for gpu in machine("dgx-a100").gpus] == [(n,) for n in (3, 3, 1, 1, 7, 7, 5, 5)]
    assert [gpu.numa for gpu in machine("nd-a100-v4").gpus] == [(n,) for n in (1, 1, 0, 0, 3, 3, 2, 2)]
    assert [gpu.numa for gpu in machine("ex235a").gpus] == [(n,) for n in (3, 3, 1, 1, 0, 0, 2, 2)]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("dgx-a100", "dgx-a100-8gpu-mlx5-names-numa3-first-tabs.txt"),
        ("dgx-h100", "dgx-h100-12nic-rows-truncated-tabs.txt"),
        ("dgx-2", "dgx2-16gpu-10hca-rows-truncated.txt"),
        ("gb200", "gb200-4gpu-8nic-multi-numa-affinity-gpu-numa-id.txt"),
        ("dgx-1v", "v100-sxm2-8gpu-hybrid-cube-mesh-no-nic.txt"),
        ("p4d.24xlarge", "aws-p4d.24xlarge-8gpu-cut11-ansi-tabs.txt"),
        ("p5.48xlarge", "aws-p5.48xlarge-8gpu-cut11-ansi-tabs.txt"),
        ("rtx4090-8", "rtx4090-8gpu-all-sys-2nic-tabs.txt"),
    ],
)
def test_catalogue_agrees_with_a_matrix_printed_on_such_a_machine(name: str, file: str) -> None:
    path = DATA / "topo" / file
    if not path.exists():
        pytest.skip(f"no {path}: set PLACER_DATA")
    printed = sniff.read(path.read_text(), source=file, name="n")
    node = machine(name)
    ours = _relations(node)
    theirs = _relations(printed)
    common = ours.keys() & theirs.keys()
    assert len(common) >= (28 if len(node.gpus) >= 8 else 6)
    assert {pair: ours[pair] for pair in common} == {pair: theirs[pair] for pair in common}
    for mine, real in zip(node.gpus, printed.gpus, strict=True):
        assert real.cpus is None or (mine.cpus, mine.memory_numa) == (real.cpus, real.memory_numa)
        assert real.numa is None or set(mine.numa or ()) <= set(real.numa)


def _relations(node: topo.NodeTopology) -> dict[frozenset[str], str]:
    """Label of each pair, adapters by the name that the verbs have."""
    names = {nic.id: nic.name or nic.id for nic in node.nics}
    return {frozenset((names.get(v.a, v.a), names.get(v.b, v.b))): v.label for v in node.links}


@pytest.mark.parametrize(
    ("product", "gpus", "expected"),
    [
        ("dgx-a100", 8, "dgx-a100"),
        ("DGXA100 920-23687-2530-000", 8, "dgx-a100"),
        ("NVIDIA DGX A100", 0, "dgx-a100"),
        ("DGX-1 with V100-32", 8, "dgx-1v"),
        ("DGX_H100", 8, "dgx-h100"),
        ("p4d.24xlarge", 0, "p4d.24xlarge"),
        ("Standard_ND96asr_v4", 8, "nd-a100-v4"),
        ("Standard_ND96isr_H100_v5", 8, "nd-h100-v5"),
        ("HPE Cray EX235a", 8, "ex235a"),
        ("hgx-a100", 4, "hgx-a100-4"),
        ("hgx-a100", 8, "hgx-a100-8"),
        ("hgx-h100", 4, "hgx-h100-4"),
        ("hgx-h100", 0, "hgx-h100"),
        ("nvidia_h100_80gb_hbm3", 8, "hgx-h100"),
        ("NVIDIA-A100-SXM4-80GB", 8, "hgx-a100-8"),
        ("NVIDIA H200", 8, "hgx-h200"),
        ("b200", 8, "hgx-b200"),
        ("mi300x", 8, "mi300x-8"),
        ("AMD Instinct MI250X", 8, "ex235a"),
    ],
)
def test_find_knows_product_names_instance_types_and_gpu_types(product: str, gpus: int, expected: str) -> None:
    assert machine(product, gpus).name == expected


@pytest.mark.parametrize(
    ("product", "gpus"),
    [
        ("", 8),
        ("dgx-a100", 4),  # the catalogue knows it with 8
        ("hgx-a100", 0),  # two boards
        ("dgx-1", 8),  # also built with P100
        ("dgx-2", 8),
        ("DGX Station A100", 4),
        ("PowerEdge XE9680", 8),
        ("a100", 8),  # may be PCIe cards
        ("h100", 8),
        ("h200", 8),
        ("v100", 8),
        ("nvidia_h200_nvl", 8),
        ("NVIDIA A100 80GB PCIe", 8),
        ("nvidia_a100-sxm4-80gb_mig_1g.10gb", 8),
        ("1g.10gb", 8),
        ("b200", 4),
        ("\x00" * 10_000, 8),
    ],
)
def test_find_of_what_is_ambiguous_or_unknown_is_none(product: str, gpus: int) -> None:
    assert catalog.find(product, gpus) is None
    assert catalog.for_types(product, gpus) is None


def test_host_of_a_catalogue_machine_is_known_where_its_cpu_is() -> None:
    assert links.host_of(machine("dgx-b200")).cpu is links.Cpu.INTEL_EMERALD_RAPIDS
    assert links.host_of(machine("p4d.24xlarge")).pcie_generation == 3
    assert links.host_of(machine("hgx-h200")) == links.Host()


def test_nic_bound_of_whole_machines_is_the_sum_of_their_adapters() -> None:
    # 12 GB/s for 100 Gb/s: 4 EDR, 8 HDR, 8 NDR, 32 EFA.
    for name, expected in (("dgx-1v", 48.0), ("dgx-a100", 192.0), ("dgx-h100", 384.0), ("p5.48xlarge", 384.0)):
        assert bandwidth.nic_bound(machine(name), range(8)) == pytest.approx(expected)


def test_grace_gpus_reach_their_cpu_over_c2c_and_are_numa_nodes_themselves() -> None:
    tray = machine("gb200")
    assert [(gpu.host_gbps, gpu.memory_numa) for gpu in tray.gpus] == [(450.0, n) for n in (2, 10, 18, 26)]
    assert {numa.id for numa in tray.numa_nodes if numa.cpus == ()} == {2, 10, 18, 26}
