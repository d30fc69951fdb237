from __future__ import annotations

import pytest

from placer.report import fabric_picture, fabric_walk
from placer.topology import fabric
from placer.topology import types as topo


def two_leaves() -> topo.Fabric:
    return fabric.from_switches(
        [
            topo.Switch("leaf1", nodes=("n1", "n2")),
            topo.Switch("leaf2", nodes=("n10",)),
            topo.Switch("spine", switches=("leaf1", "leaf2")),
        ],
        source="t",
    )


def test_fabric_tree_with_bars_and_chosen_nodes() -> None:
    rows = {"n1": (3, 8), "n2": (8, 8), "n10": (0, 4), "login": (0, 0)}
    assert fabric_picture.fabric(two_leaves(), rows, ["n2"]).splitlines() == [
        "spine spine: 3 nodes, 11 of 20 GPUs free, 1 chosen *",
        "├─ leaf leaf1: 2 nodes, 11 of 16 GPUs free, 1 chosen *",
        "│      n1  [#####...] 3/8 free",
        "│     *n2  [........] 8/8 free",
        "└─ leaf leaf2: 1 node, 0 of 4 GPUs free",
        "       n10  [####] 0/4 free",
        "in no domain: 1 node, 0 of 0 GPUs free",
        "    login  no GPUs",
        "GPUs: # used  . free    nodes: * chosen",
    ]


def test_fabric_nothing_known() -> None:
    assert fabric_picture.fabric(topo.Fabric(), {}) == "no fabric is known"


def test_fabric_uneven_tree_shows_a_repeated_domain_once() -> None:
    made = fabric.from_switches(
        [
            topo.Switch("l1", nodes=("n1",)),
            topo.Switch("s", switches=("l1",)),
            topo.Switch("l2", nodes=("n2",)),
            topo.Switch("c", switches=("s", "l2")),
        ],
        source="t",
    )
    text = fabric_picture.fabric(made, {})
    assert text.count("l2") == 1
    assert "├─ leaf l2: 1 node" in text


def test_fabric_large_is_folded_by_equal_nodes() -> None:
    switches = [topo.Switch(f"l{i}", nodes=tuple(f"n{i}x{j:02}" for j in range(32))) for i in range(8)]
    switches.append(topo.Switch("s", switches=tuple(f"l{i}" for i in range(8))))
    made = fabric.from_switches(switches, source="t")
    rows = dict.fromkeys(fabric.nodes_of(made), (8, 8)) | {"n0x05": (2, 8)}
    lines = fabric_picture.fabric(made, rows).splitlines()
    assert len(lines) <= fabric_picture.MOST_LINES + 1
    assert [line for line in lines if "n1x[00-31]" in line and line.endswith("8/8 free x 32")]
    assert [line for line in lines if "n0x05" in line and "2/8 free" in line]


def test_fabric_very_large_is_cut_and_says_so() -> None:
    made = fabric.from_switches([topo.Switch(f"l{i}", nodes=(f"n{i}",)) for i in range(100)], source="t")
    lines = fabric_picture.fabric(made, {}).splitlines()
    assert len(lines) == fabric_picture.MOST_LINES + 1
    assert lines[-1] == "… and 40 lines more"


@pytest.mark.parametrize(
    ("free", "total", "most", "cells", "used"),
    [
        (0, 0, 16, 0, 0),
        (8, 8, 16, 8, 0),
        (0, 8, 16, 8, 8),
        (1, 72, 16, 16, 15),
        (71, 72, 16, 16, 1),
        (36, 72, 16, 16, 8),
    ],
)
def test_cells_some_free_or_used_always_shows(free: int, total: int, most: int, cells: int, used: int) -> None:
    assert fabric_walk.cells(free, total, most) == (cells, used)


def test_fabric_names_from_outside_stay_harmless() -> None:
    made = fabric.from_node_domains(["rack"], {"n\x1b[1m": {"rack": "r\x07" * 60}}, source="t")
    text = fabric_picture.fabric(made, {"n\x1b[1m": (1, 2)})
    assert not [c for c in text if c != "\n" and not c.isprintable()]
    assert max(map(len, text.splitlines())) <= 78
