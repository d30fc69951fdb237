from __future__ import annotations

import pytest

from placer import errors
from placer.topology import fabric, index
from placer.topology import types as topo


@pytest.fixture
def topology() -> topo.ClusterTopology:
    made = fabric.from_switches(
        [
            topo.Switch("leaf1", nodes=("n1", "n2")),
            topo.Switch("leaf2", nodes=("n10",)),
            topo.Switch("spine", switches=("leaf1", "leaf2")),
            topo.Switch("alone", nodes=("z", "elsewhere")),
        ],
        source="t",
    )
    return topo.ClusterTopology(nodes=("login", "n1", "n2", "n10", "z"), machine_of=(-1, 0, 0, 1, 0), fabric=made)


def test_build_numbers_domains_of_every_node(topology: topo.ClusterTopology) -> None:
    made = index.build(topology)
    assert made.levels == ("leaf", "spine")
    assert made.domains == (("alone", "leaf1", "leaf2"), ("spine",))
    # login, n1, n2, n10, z, and the column of unknown nodes
    assert made.domain_of.tolist() == [[-1, 1, 1, 2, 0, -1], [-1, 0, 0, 0, -1, -1]]
    assert [p.tolist() for p in made.parents] == [[-1, 0, 0], [-1]]
    assert made.machine_of.tolist() == [-1, 0, 0, 1, 0, -1]


def test_rows_unknown_node_selects_the_column_of_nothing_known(topology: topo.ClusterTopology) -> None:
    made = index.build(topology)
    rows = made.rows(["n10", "nobody", "n1"])
    assert rows.tolist() == [3, -1, 1]
    assert made.domain_of[:, rows].tolist() == [[2, -1, 1], [0, -1, 0]]
    assert (made.position("z"), made.position("elsewhere")) == (4, index.OUTSIDE)


def test_members_positions_of_a_domain(topology: topo.ClusterTopology) -> None:
    made = index.build(topology)
    assert made.members(0, 1).tolist() == [1, 2]
    assert made.members(1, 0).tolist() == [1, 2, 3]


def test_restrict_keeps_numbers_of_domains(topology: topo.ClusterTopology) -> None:
    made = index.build(topology).restrict({"z", "n2", "nobody"})
    assert made.nodes == ("n2", "z")
    assert made.domain_of.tolist() == [[1, 0, -1], [0, -1, -1]]
    assert made.machine_of.tolist() == [0, 0, -1]
    assert made.position("z") == 1


def test_level_unknown_request_error(topology: topo.ClusterTopology) -> None:
    made = index.build(topology)
    assert made.level("spine") == 1
    with pytest.raises(errors.RequestError, match="no level `rack`; the levels are leaf, spine"):
        made.level("rack")


def test_build_empty_topology() -> None:
    made = index.build(topo.ClusterTopology())
    assert made.domain_of.shape == (0, 1)
    assert made.rows(["x"]).tolist() == [-1]
    with pytest.raises(errors.RequestError, match="no fabric is known"):
        made.level("leaf")


def test_arrays_are_read_only(topology: topo.ClusterTopology) -> None:
    with pytest.raises(ValueError, match="read-only"):
        index.build(topology).domain_of[0, 0] = 5
