from __future__ import annotations

import pathlib
import shutil
import subprocess

import networkx as nx
import pytest

from placer import errors
from placer.topology import fabric, graph
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi

TOPO = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"


def machine(name: str) -> topo.NodeTopology:
    return nvidia_smi.read_matrix((TOPO / f"{name}.txt").read_text(), source=name, name="n1")


@pytest.fixture(scope="module")
def dgx1v() -> topo.NodeTopology:
    return machine("dgx-1v")


@pytest.fixture(scope="module")
def dgx_a100() -> topo.NodeTopology:
    return machine("dgx-a100")


def test_node_graph_mesh_has_the_sixteen_links_of_a_cube_mesh(dgx1v: topo.NodeTopology) -> None:
    made = graph.node_graph(dgx1v, sm=70)
    fast = [values for _, _, values in made.edges(data=True) if values["type"] == "NV"]
    assert len(fast) == 16
    # six links of 20 GB/s (NCCL's value) on each of eight GPUs, each link seen from one of its two ends
    assert sum(values["bandwidth_gbps"] for values in fast) == 8 * 6 * 20 / 2


def test_node_graph_nvswitch_joins_gpus_to_one_vertex(dgx_a100: topo.NodeTopology) -> None:
    made = graph.node_graph(dgx_a100, sm=80)
    assert sorted(made[graph.NVSWITCH]) == [f"GPU{i}" for i in range(8)]
    assert {values["lanes"] for values in made[graph.NVSWITCH].values()} == {12}
    assert not made.has_edge("GPU0", "GPU1")


def test_node_graph_pcie_switches_and_numa_are_vertices() -> None:
    node = topo.NodeTopology(
        "n",
        "test",
        gpus=(topo.Gpu("GPU0", numa=(1,)),),
        nics=(topo.Nic("NIC0"),),
        switches=(topo.PcieSwitch("sw1", ("GPU0", "NIC0"), parent="sw0"), topo.PcieSwitch("sw0")),
    )
    made = graph.node_graph(node)
    assert sorted(map(sorted, made.edges)) == [["GPU0", "numa:1"], ["GPU0", "sw1"], ["NIC0", "sw1"], ["sw0", "sw1"]]


def test_widest_path_mesh_relays_over_double_links(dgx1v: topo.NodeTopology) -> None:
    """GPU0 and GPU7 have no link; over GPU3 (NV2, NV1) it is 20, over GPU4 (NV2, NV2) 40 GB/s."""
    found = graph.widest_path(dgx1v, "GPU0", "GPU7", sm=70)
    assert found == graph.Path(("GPU0", "GPU4", "GPU7"), 40.0)


def test_widest_path_to_itself_is_unlimited(dgx1v: topo.NodeTopology) -> None:
    assert graph.widest_path(dgx1v, "GPU0", "GPU0") == graph.Path(("GPU0",), float("inf"))


def test_widest_path_unknown_links_none() -> None:
    node = topo.NodeTopology(
        "n", "t", gpus=(topo.Gpu("a"), topo.Gpu("b")), links=(topo.Link("a", "b", topo.LinkType.UNKNOWN),)
    )
    assert graph.widest_path(node, "a", "b") is None


def test_widest_path_no_such_device_request_error(dgx1v: topo.NodeTopology) -> None:
    with pytest.raises(errors.RequestError, match="no device `GPU9`"):
        graph.widest_path(dgx1v, "GPU0", "GPU9")


def test_cut_bandwidth_halves_of_a_cube_mesh(dgx1v: topo.NodeTopology) -> None:
    """0-4 and 1-5 are double, 2-6 and 3-7 single: six lanes of 20 GB/s cross the sockets."""
    first, second = [f"GPU{i}" for i in range(4)], [f"GPU{i}" for i in range(4, 8)]
    assert graph.cut_bandwidth(dgx1v, first, second, sm=70) == 120.0


def test_cut_bandwidth_nvswitch_smaller_set_limits(dgx_a100: topo.NodeTopology) -> None:
    """Two A100s have two times 235 GB/s into the switch (NCCL's cap), however many stand on the other side."""
    assert graph.cut_bandwidth(dgx_a100, ["GPU0", "GPU1"], ["GPU2", "GPU3", "GPU4"], sm=80) == 470.0


def test_cut_bandwidth_mesh_pair_without_link_takes_a_pcie_path(dgx1v: topo.NodeTopology) -> None:
    found = graph.cut_bandwidth(dgx1v, ["GPU0"], ["GPU7"], sm=70)
    assert found is not None
    assert found < 20.0


@pytest.mark.parametrize(("a", "b"), [(["GPU0"], ["GPU0"]), (["GPU0"], ["mlx5_0"])])
def test_cut_bandwidth_overlap_or_no_gpu_request_error(a: list[str], b: list[str], dgx1v: topo.NodeTopology) -> None:
    with pytest.raises(errors.RequestError, match="two sets of different GPUs"):
        graph.cut_bandwidth(dgx1v, a, b)


def two_leaves() -> topo.Fabric:
    return fabric.from_switches(
        [
            topo.Switch("leaf1", nodes=("n1", "n2")),
            topo.Switch("leaf2", nodes=("n3",)),
            topo.Switch("spine", switches=("leaf1", "leaf2")),
            topo.Switch("alone", nodes=("z",)),
        ],
        source="t",
    )


def test_cluster_graph_hops_over_leaf_and_spine() -> None:
    made = graph.cluster_graph(topo.ClusterTopology(nodes=("n1", "n2", "n3", "z", "lost"), fabric=two_leaves()))
    assert [graph.hops(made, "n1", other) for other in ("n1", "n2", "n3", "z", "lost", "nobody")] == [
        0,
        2,
        4,
        None,
        None,
        None,
    ]
    assert nx.is_forest(made)


def test_node_dot_is_read_by_graphviz(dgx_a100: topo.NodeTopology) -> None:
    text = graph.node_dot(dgx_a100)
    assert text.count(f'-- "{graph.NVSWITCH}"') == 8
    _graphviz(text)


def test_dot_names_with_quotes_and_escapes_stay_harmless() -> None:
    evil = 'a"];x\\[label="y\x1b[31m'
    node = topo.NodeTopology(
        evil, "t", gpus=(topo.Gpu(evil), topo.Gpu("b")), links=(topo.Link(evil, "b", topo.LinkType.PIX),)
    )
    text = graph.node_dot(node)
    assert "\x1b" not in text
    assert r'"a\"];x\\[label=\"y?[31m" [shape=box]' in text
    _graphviz(text)


def test_fabric_dot_folds_nodes_of_a_leaf() -> None:
    text = graph.fabric_dot(two_leaves())
    assert 'label="n[1-2] (2)"' in text
    assert '"1/spine" -- "0/leaf1"' in text
    _graphviz(text)


def _graphviz(text: str) -> None:
    """Where Graphviz is installed it must take the text."""
    program = shutil.which("dot")
    if program is not None:
        subprocess.run([program, "-Tdot"], input=text, text=True, capture_output=True, check=True, timeout=60)
