from __future__ import annotations

import pytest

from placer import errors
from placer.topology import fabric
from placer.topology import types as topo


def tree(*switches: topo.Switch) -> topo.Fabric:
    return fabric.from_switches(switches, source="topology.conf")


def shape(made: topo.Fabric) -> list[tuple[int, str, str, str | None]]:
    return [(d.level, d.name, ",".join(d.nodes), d.parent) for d in made.domains]


# spine              core
#  leaf1 leaf2        mid        leaf9
#  n1 n10 n2          leaf3
def test_from_switches_two_levels_leaf_and_spine() -> None:
    made = tree(
        topo.Switch("spine", switches=("leaf1", "leaf2"), line=1),
        topo.Switch("leaf2", nodes=("n10",), line=2),
        topo.Switch("leaf1", nodes=("n2", "n1"), line=3),
    )
    assert [level.name for level in made.levels] == ["leaf", "spine"]
    assert shape(made) == [
        (0, "leaf1", "n1,n2", "spine"),
        (0, "leaf2", "n10", "spine"),
        (1, "spine", "n1,n2,n10", None),
    ]
    assert [d.line for d in made.domains] == [3, 2, 1]
    assert (made.kind, made.warnings) == ("tree", ())


def test_from_switches_one_level_only_leaf() -> None:
    made = tree(topo.Switch("a", nodes=("n1",)), topo.Switch("b", nodes=("n2",)))
    assert [level.name for level in made.levels] == ["leaf"]
    assert [d.name for d in fabric.roots(made)] == ["a", "b"]


def test_from_switches_four_levels_named_by_number_above_core() -> None:
    made = tree(
        topo.Switch("l", nodes=("n",)),
        topo.Switch("s", switches=("l",)),
        topo.Switch("c", switches=("s",)),
        topo.Switch("x", switches=("c",)),
    )
    assert [level.name for level in made.levels] == ["leaf", "spine", "core", "level3"]


def test_from_switches_none_no_levels() -> None:
    assert tree() == topo.Fabric()


def test_from_switches_uneven_leaf_is_repeated_upwards_to_its_parent() -> None:
    made = tree(
        topo.Switch("l1", nodes=("n1",)),
        topo.Switch("s", switches=("l1",)),
        topo.Switch("l2", nodes=("n2",)),
        topo.Switch("c", switches=("s", "l2")),
    )
    assert shape(made) == [
        (0, "l1", "n1", "s"),
        (0, "l2", "n2", "l2"),
        (1, "l2", "n2", "c"),
        (1, "s", "n1", "c"),
        (2, "c", "n1,n2", None),
    ]


def test_from_switches_nodes_repeated_above_as_scontrol_prints_are_no_finding() -> None:
    made = tree(
        topo.Switch("l", nodes=("n1", "n2"), level=0), topo.Switch("s", nodes=("n1", "n2"), switches=("l",), level=1)
    )
    assert made.warnings == ()


def test_from_switches_nodes_beside_switches_hang_on_the_upper_one() -> None:
    made = tree(topo.Switch("l", nodes=("n1",)), topo.Switch("s", nodes=("n2",), switches=("l",), line=4))
    assert fabric.domain_of_node(made, 0) == {"n1": "l"}
    assert fabric.domain_of_node(made, 1) == {"n1": "s", "n2": "s"}
    assert made.warnings == ("topology.conf:4: switch `s` has switches below, but these nodes are on none of them: n2",)


def test_from_switches_node_under_two_leaves_stays_with_the_first() -> None:
    made = tree(topo.Switch("a", nodes=("n1", "n2"), line=1), topo.Switch("b", nodes=("n2", "n3"), line=2))
    assert fabric.domain_of_node(made, 0) == {"n1": "a", "n2": "a", "n3": "b"}
    assert made.warnings == ("topology.conf:2: switch `b` repeats nodes of `a`, which keeps them: n2",)


def test_from_switches_two_parents_lower_one_counts() -> None:
    """slurmctld 22.05 starts with such a file, so a live cluster may have one."""
    made = tree(
        topo.Switch("top", switches=("mid", "l"), line=1),
        topo.Switch("mid", switches=("l",), line=2),
        topo.Switch("l", nodes=("n",), line=3),
    )
    assert shape(made) == [(0, "l", "n", "mid"), (1, "mid", "n", "top"), (2, "top", "n", None)]
    assert made.warnings == ("topology.conf:1: switch `top` is a second parent of `l`; only `mid` counts",)


def test_from_switches_printed_level_differs_warns() -> None:
    made = tree(topo.Switch("l", nodes=("n",), level=1, line=7))
    assert "topology.conf:7: switch `l` is printed with level 1" in made.warnings[0]


def test_from_switches_empty_switch_is_left_out_with_a_warning() -> None:
    made = tree(topo.Switch("l", nodes=("n",)), topo.Switch("e", line=2))
    assert shape(made) == [(0, "l", "n", None)]
    assert made.warnings == ("topology.conf:2: switch `e` has neither nodes nor switches below; left out",)


@pytest.mark.parametrize(
    ("switches", "line", "words"),
    [
        (
            [topo.Switch("a", nodes=("n",), line=1), topo.Switch("a", nodes=("m",), line=2)],
            2,
            "defined twice, first in line 1",
        ),
        ([topo.Switch("a", switches=("b",), line=5)], 5, "child `b` that is not defined"),
        ([topo.Switch("a", switches=("a",), line=3)], 3, "cycle: a > a"),
        (
            [
                topo.Switch("a", switches=("b",), line=1),
                topo.Switch("b", switches=("c",), line=2),
                topo.Switch("c", switches=("b",), line=3),
            ],
            1,
            "cycle: b > c > b",
        ),
    ],
)
def test_from_switches_no_tree_parse_error_with_line(switches: list[topo.Switch], line: int, words: str) -> None:
    with pytest.raises(errors.ParseError) as caught:
        fabric.from_switches(switches, source="topology.conf")
    assert (caught.value.source, caught.value.line) == ("topology.conf", line)
    assert words in caught.value.message


def test_from_switches_deeper_than_32_levels_parse_error() -> None:
    chain = [topo.Switch("s0", nodes=("n",))] + [topo.Switch(f"s{i}", switches=(f"s{i - 1}",)) for i in range(1, 40)]
    with pytest.raises(errors.ParseError, match="more than 32 levels"):
        fabric.from_switches(chain, source="f")


# --- node domains


def test_from_node_domains_two_levels() -> None:
    made = fabric.from_node_domains(
        ["rack", "block"],
        {
            "n2": {"rack": "r1", "block": "b1"},
            "n10": {"rack": "r2", "block": "b1"},
            "n1": {"rack": "r1", "block": "b1"},
        },
        source="labels",
    )
    assert shape(made) == [(0, "r1", "n1,n2", "b1"), (0, "r2", "n10", "b1"), (1, "b1", "n1,n2,n10", None)]
    assert (made.kind, made.warnings) == ("labels", ())


def test_from_node_domains_name_under_two_parents_is_two_domains() -> None:
    made = fabric.from_node_domains(
        ["rack", "block"], {"n1": {"rack": "r1", "block": "b1"}, "n2": {"rack": "r1", "block": "b2"}}, source="labels"
    )
    assert shape(made)[:2] == [(0, "b1/r1", "n1", "b1"), (0, "b2/r1", "n2", "b2")]
    assert made.warnings == ("labels: rack `r1` is named under `b1`, `b2`: taken as 2 different ones",)


def test_from_node_domains_lacking_level_is_taken_from_the_shared_rack() -> None:
    made = fabric.from_node_domains(
        ["rack", "block"], {"n1": {"rack": "r1", "block": "b1"}, "n2": {"rack": "r1"}}, source="labels"
    )
    assert fabric.domain_of_node(made, 1) == {"n1": "b1", "n2": "b1"}
    assert made.warnings == ("labels: 1 of 2 nodes name no block: n2",)


def test_from_node_domains_ambiguous_rack_stays_unknown() -> None:
    made = fabric.from_node_domains(
        ["rack", "block"],
        {"n1": {"rack": "r1", "block": "b1"}, "n2": {"rack": "r1", "block": "b2"}, "n3": {"rack": "r1"}},
        source="labels",
    )
    assert "n3" not in fabric.domain_of_node(made, 0)
    assert "labels: rack `r1` of these nodes may be any of 2: n3" in made.warnings


def test_from_node_domains_missing_middle_level_repeats_the_rack() -> None:
    made = fabric.from_node_domains(
        ["rack", "block", "zone"],
        {"n1": {"rack": "r1", "zone": "z"}, "n2": {"rack": "r2", "block": "b", "zone": "z"}},
        source="labels",
    )
    assert fabric.domain_of_node(made, 1) == {"n1": "r1", "n2": "b"}
    assert fabric.domain_of_node(made, 2) == {"n1": "z", "n2": "z"}


def test_from_node_domains_nothing_told_no_fabric() -> None:
    made = fabric.from_node_domains(["rack"], {"n1": {}, "n2": {"rack": ""}}, source="labels")
    assert (made.levels, made.domains, made.kind) == ((), (), "none")


def test_from_node_domains_unknown_level_parse_error_names_the_levels() -> None:
    with pytest.raises(errors.ParseError, match="names a level `rakc`; the levels are: rack"):
        fabric.from_node_domains(["rack"], {"n1": {"rakc": "r1"}}, source="labels")


def test_from_node_domains_level_twice_parse_error() -> None:
    with pytest.raises(errors.ParseError, match="distinct"):
        fabric.from_node_domains(["rack", "rack"], {}, source="labels")


def test_from_node_domains_path_collides_with_a_name_both_stay_apart() -> None:
    told = {
        "n1": {"rack": "r", "block": "b1"},
        "n2": {"rack": "r", "block": "b2"},
        "n3": {"rack": "b1/r", "block": "b3"},
    }
    made = fabric.from_node_domains(["rack", "block"], told, source="labels")
    assert sorted(d.name for d in fabric.domains_of(made, 0)) == ["b1/r", "b1/r#2", "b2/r"]


# --- lookups


@pytest.fixture
def three_levels() -> topo.Fabric:
    return tree(
        topo.Switch("l1", nodes=("n1",)),
        topo.Switch("l2", nodes=("n2",)),
        topo.Switch("l3", nodes=("n3",)),
        topo.Switch("s1", switches=("l1", "l2")),
        topo.Switch("s2", switches=("l3",)),
        topo.Switch("c", switches=("s1", "s2")),
    )


def test_descendants_of_a_spine_are_its_leaves(three_levels: topo.Fabric) -> None:
    assert [d.name for d in fabric.descendants(three_levels, 1, "s1")] == ["l1", "l2"]
    assert [d.name for d in fabric.descendants(three_levels, 2, "c")] == ["s1", "s2", "l1", "l2", "l3"]
    assert fabric.descendants(three_levels, 1, "nowhere") == ()


def test_level_index_by_name_or_label() -> None:
    made = topo.Fabric(levels=(topo.Level("leaf"), topo.Level("block", label="example.com/block")))
    assert (fabric.level_index(made, "leaf"), fabric.level_index(made, "example.com/block")) == (0, 1)


def test_level_index_unknown_request_error_lists_levels(three_levels: topo.Fabric) -> None:
    with pytest.raises(errors.RequestError, match="no level `rack`: the levels are leaf, spine, core"):
        fabric.level_index(three_levels, "rack")
    with pytest.raises(errors.RequestError, match="no fabric is known"):
        fabric.level_index(topo.Fabric(), "rack")


def test_nodes_of_every_node_in_natural_order(three_levels: topo.Fabric) -> None:
    assert fabric.nodes_of(three_levels) == ("n1", "n2", "n3")


def test_children_and_direct_nodes(three_levels: topo.Fabric) -> None:
    below = fabric.children(three_levels)
    assert [d.name for d in below[2, "c"]] == ["s1", "s2"]
    assert (0, "l1") not in below
    core = fabric.domains_of(three_levels, 2)[0]
    assert fabric.direct_nodes(core, below[2, "c"][:1]) == ("n3",)
