"""Pictures as they look now: a change shows in the diff and is looked at before it is accepted."""

from __future__ import annotations

import pathlib

import pytest
from syrupy.assertion import SnapshotAssertion

from placer.report import fabric_picture, node_picture, svg
from placer.slurm import topology_conf
from placer.topology import graph
from placer.topology import types as topo
from placer.topology.readers import sniff

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
MACHINES = ["a100-pcie-bridges", "dgx-1v", "dgx-a100", "hgx-a100-4", "hgx-h100", "mi300x-8", "pcie-8", "rtx-2"]


def machine(name: str) -> topo.NodeTopology:
    text = (FIXTURES / "topo" / f"{name}.txt").read_text()
    return sniff.read(text, source=name, name="gpu01")


def tree() -> topo.Fabric:
    text = (FIXTURES / "slurm" / "26.05" / "scontrol_show_topology.txt").read_text()
    return topology_conf.read(text, source="scontrol show topology")


ROWS = {f"gpu{i:02}": (3 * i % 9, 8) for i in range(1, 7)} | {"old1": (0, 4), "old2": (4, 4), "login": (0, 0)}


@pytest.mark.parametrize("name", MACHINES)
def test_node_picture(name: str, snapshot: SnapshotAssertion) -> None:
    topology = machine(name)
    count = len(topology.gpus)
    used = range(0, count, 3)
    text = node_picture.node(topology, name="gpu01", gpu_count=count, used=used, chosen=(1, 2)[: count - 1])
    assert text == snapshot


def test_node_picture_unknown(snapshot: SnapshotAssertion) -> None:
    assert node_picture.node(None, name="gpu01", gpu_count=16, used=(0, 1), chosen=(4, 5, 6, 7)) == snapshot


def test_fabric_picture(snapshot: SnapshotAssertion) -> None:
    assert fabric_picture.fabric(tree(), ROWS, ["gpu02", "gpu03"]) == snapshot


@pytest.mark.parametrize("name", ["dgx-1v", "dgx-a100"])
def test_node_svg(name: str, snapshot: SnapshotAssertion) -> None:
    assert svg.node(machine(name), free=[0, 1, 2, 3], chosen=[2, 3]) == snapshot


def test_fabric_svg(snapshot: SnapshotAssertion) -> None:
    assert svg.fabric(tree(), ROWS, ["gpu02", "gpu03"]) == snapshot


def test_dot(snapshot: SnapshotAssertion) -> None:
    assert graph.node_dot(machine("dgx-1v")) + graph.fabric_dot(tree()) == snapshot
