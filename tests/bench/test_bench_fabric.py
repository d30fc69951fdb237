"""10,000 nodes in racks of 32, 8 racks below a spine: the tree, what nodes say of themselves, and the dense index."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from placer.report import fabric_picture, svg
from placer.slurm import topology_conf
from placer.topology import fabric, index
from placer.topology import types as topo

NODES = tuple(f"n{i:05}" for i in range(10_000))


def switches() -> list[topo.Switch]:
    leaves = [topo.Switch(f"leaf{i}", nodes=NODES[i * 32 : i * 32 + 32]) for i in range(313)]
    spines = [
        topo.Switch(f"spine{s}", switches=tuple(leaf.name for leaf in leaves[s * 8 : s * 8 + 8])) for s in range(40)
    ]
    return [*leaves, *spines, topo.Switch("core", switches=tuple(spine.name for spine in spines))]


@pytest.fixture(scope="module")
def tree() -> topo.Fabric:
    return fabric.from_switches(switches(), source="bench")


def test_fabric_from_switches_10000_nodes(benchmark: BenchmarkFixture) -> None:
    made = benchmark(fabric.from_switches, switches(), source="bench")
    assert len(made.domains) == 313 + 40 + 1


def test_fabric_from_node_domains_10000_nodes(benchmark: BenchmarkFixture) -> None:
    told = {node: {"rack": f"r{i // 32}", "block": f"b{i // 256}"} for i, node in enumerate(NODES)}
    made = benchmark(fabric.from_node_domains, ["rack", "block"], told, source="bench")
    assert len(made.domains) == 313 + 40


def test_fabric_read_topology_conf_10000_nodes(benchmark: BenchmarkFixture, tree: topo.Fabric) -> None:
    text = topology_conf.write(tree)
    made = benchmark(topology_conf.read, text, source="bench")
    assert len(made.domains) == len(tree.domains)


def test_index_build_10000_nodes(benchmark: BenchmarkFixture, tree: topo.Fabric) -> None:
    topology = topo.ClusterTopology(nodes=NODES, machine_of=(0,) * len(NODES), fabric=tree)
    made = benchmark(index.build, topology)
    assert made.domain_of.shape == (3, 10_001)


def test_fabric_pictures_10000_nodes(benchmark: BenchmarkFixture, tree: topo.Fabric) -> None:
    rows = {node: (i % 9, 8) for i, node in enumerate(NODES)}
    text = benchmark(lambda: fabric_picture.fabric(tree, rows) + svg.fabric(tree, rows))
    assert "lines more" in text
