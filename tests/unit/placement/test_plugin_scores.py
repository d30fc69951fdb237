"""Pair scores of NVIDIA's best-effort allocator: published constants, and what it sees of a node."""

from __future__ import annotations

import itertools

import pytest

from placer.placement import plugin_scores
from placer.topology import types as topo

L = topo.LinkType


@pytest.mark.parametrize(
    ("relation", "lanes", "score"),
    [
        ("SYS", 0, 10),
        ("NODE", 0, 20),
        ("PHB", 0, 30),
        ("PXB", 0, 40),
        ("PIX", 0, 50),
        ("BOARD", 0, 60),
        ("SYS", 2, 210),
        ("NODE", 18, 1820),
        ("NODE", 19, 20),
        (None, 0, 0),
    ],
)
def test_pair_score_relation_and_lanes_published_constants(relation: str | None, lanes: int, score: int) -> None:
    assert plugin_scores.pair_score(relation, lanes) == score


def _node(count: int, lanes: int, model: str, switches: tuple[topo.PcieSwitch, ...] = ()) -> topo.NodeTopology:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model=model, numa=(2 * i // count,)) for i in range(count))
    pairs = tuple(topo.Link(a.id, b.id, L.NVLINK, lanes) for a, b in itertools.combinations(gpus, 2))
    return topo.NodeTopology("n", "test", gpus=gpus, links=pairs, switches=switches)


def test_of_node_nvlink_mesh_adds_the_hidden_pcie_relation() -> None:
    view = plugin_scores.of_node(_node(4, 4, "a100"))  # four A100s, four links to each of the others
    assert view.scores[0] == (0, 420, 410, 410)
    assert "2 GPU pairs" in view.assumed[0]


def test_of_node_nvswitch_links_are_not_seen() -> None:
    view = plugin_scores.of_node(_node(8, 18, "h100"))
    assert view.scores[0] == (0, 20, 20, 20, 10, 10, 10, 10)


def test_of_node_pcie_switches_tell_the_hidden_relation() -> None:
    switches = (
        topo.PcieSwitch("root", ()),
        topo.PcieSwitch("left", ("GPU0", "GPU1"), "root"),
        topo.PcieSwitch("right", ("GPU2",), "root"),
    )
    view = plugin_scores.of_node(_node(4, 4, "a100", switches=switches))
    assert view.scores[0] == (0, 450, 440, 410)


def test_of_node_printed_relations_are_taken_as_they_are() -> None:
    gpus = tuple(topo.Gpu(f"GPU{i}", index) for i, index in enumerate((4, 2)))
    node = topo.NodeTopology("n", "test", gpus=gpus, links=(topo.Link("GPU0", "GPU1", L.PXB),))
    assert plugin_scores.of_node(node) == plugin_scores.View((4, 2), ((0, 40), (40, 0)))
