"""The reader of `rocm-smi --showtopo`."""

from __future__ import annotations

import pathlib

import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import rocm_smi

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"

TYPES = "====== Link Type between two GPUs ======\n       GPU0   GPU1   GPU2\n"


def read(text: str) -> topo.NodeTopology:
    return rocm_smi.read(text, source="saved.txt", name="n1")


def test_read_mi300x_is_a_full_xgmi_mesh_on_two_sockets() -> None:
    node = read((FIXTURES / "mi300x-8.txt").read_text())
    assert len(node.links) == 28
    assert {link.type for link in node.links} == {topo.LinkType.XGMI}
    assert [gpu.numa for gpu in node.gpus] == [(0,)] * 4 + [(1,)] * 4
    assert not node.partial


def test_read_weights_and_hops_are_no_links() -> None:
    weights = "===== Weight between two GPUs =====\n   GPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n"
    node = read(weights + "==== Numa Nodes ====\nGPU[0]\t\t: (Topology) Numa Node: 0\nGPU[1]\t: Numa Node: 1\n")
    assert (node.links, [gpu.numa for gpu in node.gpus], node.partial) == ((), [(0,), (1,)], True)


def test_read_pcie_pairs_follow_the_numa_nodes() -> None:
    text = TYPES + "GPU0   0      PCIE   PCIE\nGPU1   PCIE   0      PCIE\nGPU2   PCIE   PCIE   0\n"
    numa = "".join(f"GPU[{i}]\t\t: (Topology) Numa Node: {n}\n" for i, n in enumerate((0, 0, 1)))
    assert [link.label for link in read(text + numa).links] == ["NODE", "SYS", "SYS"]
    assert "NODE within a NUMA node" in read(text + numa).assumed[0]
    assert {link.type for link in read(text).links} == {topo.LinkType.UNKNOWN}


def test_read_node_and_affinity_that_differ_mean_one_of_both() -> None:
    node = read("GPU[0]\t\t: (Topology) Numa Node: 2\nGPU[0]\t\t: (Topology) Numa Affinity: 1\n")
    assert node.gpus[0].numa == (1, 2)


def test_read_minus_one_is_unknown() -> None:
    text = TYPES + "GPU0   0      XGMI   XGMI\n" + "GPU[0]\t\t: (Topology) Numa Node: -1\n"
    node = read(text)
    assert (node.gpus[0].numa, [link.label for link in node.links]) == (None, ["XGMI", "XGMI"])
    assert node.partial


@pytest.mark.parametrize("text", ["", "ROCm System Management Interface", TYPES.replace("GPU2", "GPU0")])
def test_read_without_gpus_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        read(text)
