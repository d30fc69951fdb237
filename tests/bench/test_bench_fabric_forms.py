"""Fabrics of 10,000 nodes: 1 s from labels, from topology.conf, and as a picture."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from placer.report import svg
from placer.slurm import topology_conf, topology_yaml
from placer.topology import fabric as fabrics
from placer.topology import labels
from placer.topology import types as topo
from placer.topology.exports import kubernetes as exports
from placer.topology.fabrics import csv_table

NODES = 10_000
LEAF, SPINE = 16, 32  # nodes of a leaf, leaves of a spine


def _labels() -> list[tuple[str, dict[str, str]]]:
    return [
        (
            f"n{i:05}",
            {
                "kubernetes.io/hostname": f"n{i:05}",
                "nvidia.com/gpu.clique": f"uuid-{i // LEAF}.0",
                "fabric.topograph.run/tier-0": f"leaf{i // LEAF}",
                "fabric.topograph.run/tier-1": f"spine{i // LEAF // SPINE}",
                "topology.kubernetes.io/zone": "z",
            },
        )
        for i in range(NODES)
    ]


@pytest.fixture(scope="module")
def fabric() -> topo.Fabric:
    domains = {f"n{i:05}": {"leaf": f"leaf{i // LEAF}", "spine": f"spine{i // LEAF // SPINE}"} for i in range(NODES)}
    return fabrics.from_node_domains(["leaf", "spine"], domains, source="bench", kind="tree")


def test_fabric_of_10000_nodes_from_labels(benchmark: BenchmarkFixture) -> None:
    made = benchmark(labels.fabric_of, _labels())
    assert len(fabrics.domains_of(made, 0)) == NODES // LEAF


def test_fabric_of_10000_nodes_from_topology_conf(benchmark: BenchmarkFixture, fabric: topo.Fabric) -> None:
    text = topology_conf.write(fabric)
    made = benchmark(topology_conf.read, text, source="bench")
    assert len(fabrics.nodes_of(made)) == NODES


def test_fabric_of_10000_nodes_from_topology_yaml(benchmark: BenchmarkFixture, fabric: topo.Fabric) -> None:
    text = topology_yaml.write_one(fabric)
    made = benchmark(topology_yaml.read, text, source="bench")
    assert len(fabrics.nodes_of(made)) == NODES


def test_fabric_of_10000_nodes_from_a_table(benchmark: BenchmarkFixture, fabric: topo.Fabric) -> None:
    text = csv_table.write(fabric)
    made = benchmark(csv_table.read, text, source="bench")
    assert len(fabrics.nodes_of(made)) == NODES


def test_fabric_of_10000_nodes_as_hyper_nodes(benchmark: BenchmarkFixture, fabric: topo.Fabric) -> None:
    assert benchmark(lambda: exports.to_yaml(exports.hyper_nodes(fabric))).count("kind: HyperNode") == 645


def test_fabric_of_10000_nodes_as_svg(benchmark: BenchmarkFixture, fabric: topo.Fabric) -> None:
    assert "</svg>" in benchmark(svg.fabric, fabric)
