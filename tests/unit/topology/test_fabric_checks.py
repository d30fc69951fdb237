from __future__ import annotations

import pathlib

import pytest

from placer.slurm import topology_conf
from placer.topology import fabric as fabrics
from placer.topology import fabric_checks, fabric_diff, fabric_parts, node_diff
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi

ROOT = pathlib.Path(__file__).parents[3]


def checked(text: str) -> list[tuple[int | None, str, str]]:
    found = fabric_checks.check(topology_conf.switches(text, source="f"))
    return [(entry.line, str(entry.severity), entry.text) for entry in found]


def test_check_every_fault_of_the_fixture_with_its_line() -> None:
    assert checked((ROOT / "fixtures/fabric/faulty.conf").read_text()) == [
        (3, "warning", "nodes of `leaf2` are on `leaf1` too: n04"),
        (4, "error", "switch `leaf2` is defined twice, first in line 3"),
        (6, "warning", "switch `empty` has neither nodes nor switches below"),
        (9, "warning", "nodes of `spine2` are on no leaf: n99"),
        (9, "warning", "switch `leaf3` has two parents, `spine1` and `spine2`"),
        (9, "warning", "switch `leaf4` has two parents, `spine1` and `spine2`"),
        (10, "error", "switch `top` has a child `gone` that is not defined"),
        (11, "error", "switches form a cycle: loop1 > loop2 > loop1"),
    ]


def test_check_sound_tree_nothing() -> None:
    assert checked((ROOT / "fixtures/topo/fabric-two-level.conf").read_text()) == []


def test_check_as_scontrol_prints_nothing() -> None:
    """Nodes of spines are those of their leaves."""
    assert checked((ROOT / "fixtures/slurm/24.11/scontrol_show_topology.txt").read_text()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\nSwitchName=c Nodes=n[9-40]\n", "has 32 nodes below"),
        ("SwitchName=a Nodes=n1\nSwitchName=s Switches=a\n", "single switch below"),
    ],
)
def test_check_fan_out_that_makes_no_sense_note(text: str, words: str) -> None:
    ((_, severity, said),) = checked(text)
    assert severity == "note"
    assert words in said


def test_check_switch_that_is_its_own_child_cycle() -> None:
    assert checked("SwitchName=a Switches=a\n")[0][2] == "switches form a cycle: a > a"


def test_check_long_cycle_is_cut() -> None:
    text = "".join(f"SwitchName=s{i} Switches=s{(i + 1) % 50}\n" for i in range(50))
    said = [entry for entry in checked(text) if entry[1] == "error"]
    assert len(said) == 1
    assert "…" in said[0][2]


# --- parts


def three_levels() -> topo.Fabric:
    names = {f"n{i}": {"rack": f"r{i // 2}", "nvlink-domain": f"d{i // 2}", "pod": f"p{i // 4}"} for i in range(8)}
    return fabrics.from_node_domains(["nvlink-domain", "rack", "pod"], names, source="f")


def test_restrict_keeps_the_nodes_and_drops_what_is_empty() -> None:
    made = fabric_parts.restrict(three_levels(), ["n1", "n7", "stranger"])
    assert [(d.name, d.nodes) for d in made.domains] == [
        ("d0", ("n1",)),
        ("d3", ("n7",)),
        ("r0", ("n1",)),
        ("r3", ("n7",)),
        ("p0", ("n1",)),
        ("p1", ("n7",)),
    ]


def test_without_a_middle_level_children_hang_on_the_next_above() -> None:
    made = fabric_parts.without(three_levels(), [1])
    assert [level.name for level in made.levels] == ["nvlink-domain", "pod"]
    assert [(d.level, d.name, d.parent) for d in made.domains][:3] == [
        (0, "d0", "p0"),
        (0, "d1", "p0"),
        (0, "d2", "p1"),
    ]


def test_network_drops_an_nvlink_level_that_a_rack_repeats() -> None:
    assert [level.name for level in fabric_parts.network(three_levels()).levels] == ["rack", "pod"]


# --- differences


def node(name: str) -> topo.NodeTopology:
    return nvidia_smi.read_matrix((ROOT / "fixtures" / name).read_text(), source=name, name="n")


def test_node_diff_equal_states_nothing() -> None:
    assert node_diff.diff(node("topo/dgx-1v.txt"), node("topo/dgx-1v.txt")) == ()


def test_node_diff_links_down_are_worse() -> None:
    found = node_diff.diff(node("topo/dgx-1v.txt"), node("fabric/dgx-1v-link-down.txt"))
    assert [(c.direction, c.what, c.before, c.after) for c in found] == [
        ("worse", "GPU0 - GPU3", "NV2", "NV1"),
        ("worse", "GPU2 - GPU6", "NV1", "SYS"),
    ]
    back = node_diff.diff(node("fabric/dgx-1v-link-down.txt"), node("topo/dgx-1v.txt"))
    assert [c.direction for c in back] == ["better", "better"]


def made_of(*gpus: topo.Gpu, links: tuple[topo.Link, ...] = ()) -> topo.NodeTopology:
    return topo.NodeTopology("n", "f", gpus=gpus, links=links)


def test_node_diff_gpu_gone_renumbered_ones_are_known_by_uuid() -> None:
    a, b, c = (topo.Gpu(f"GPU{i}", i, uuid=f"GPU-{i}") for i in range(3))
    after = made_of(topo.Gpu("GPU0", 0, uuid="GPU-1"), topo.Gpu("GPU1", 1, uuid="GPU-2"))
    found = node_diff.diff(made_of(a, b, c), after)
    assert [(x.direction, x.what, x.before, x.after) for x in found] == [("worse", "GPU GPU0", "GPU-0", "gone")]


def test_node_diff_pcie_width_halved_numa_changed_memory_less() -> None:
    old = topo.Gpu("GPU0", bus_id="0000:01:00.0", pcie_width=16, numa=(0,), memory_mib=81559, healthy=True)
    new = topo.Gpu("GPU0", bus_id="0000:01:00.0", pcie_width=8, numa=(1,), memory_mib=40000, healthy=False)
    assert [(c.direction, c.what, c.before, c.after) for c in node_diff.diff(made_of(old), made_of(new))] == [
        ("other", "GPU0: NUMA node", "0", "1"),
        ("worse", "GPU0: PCIe lanes", "16", "8"),
        ("worse", "GPU0: memory in MiB", "81559", "40000"),
        ("worse", "GPU0: health", "well", "unwell"),
    ]


def test_node_diff_what_one_state_does_not_tell_is_no_change() -> None:
    old = topo.Gpu("GPU0", pcie_width=16, numa=(0,))
    assert node_diff.diff(made_of(old), made_of(topo.Gpu("GPU0"))) == ()


def test_node_diff_numa_nodes_and_memory() -> None:
    old = topo.NodeTopology("n", "f", numa_nodes=(topo.NumaNode(0, (0, 1), 1000), topo.NumaNode(1, (2, 3), 1000)))
    new = topo.NodeTopology("n", "f", numa_nodes=(topo.NumaNode(0, (0, 1, 2, 3), 900),))
    assert [(c.what, c.before, c.after) for c in node_diff.diff(old, new)] == [
        ("NUMA node 0: CPUs", "0-1", "0-3"),
        ("NUMA node 0: memory in MiB", "1000", "900"),
        ("NUMA node 1", "there", "gone"),
    ]


def tree(text: str) -> topo.Fabric:
    return topology_conf.read(text, source="f")


def test_fabric_diff_moves_renames_and_members() -> None:
    old = tree(
        "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\nSwitchName=c Nodes=n9\nSwitchName=s Switches=a,b,c\n"
    )
    new = tree(
        "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=x Nodes=n[9-10]\n"
        "SwitchName=s Switches=a,b,x\n"
    )
    assert [(c.direction, c.what, c.before, c.after) for c in fabric_diff.diff(old, new)] == [
        ("worse", "1 nodes", "n8", "gone"),
        ("better", "1 nodes", "not there", "n10"),
        ("other", "leaf renamed", "c", "x"),
        ("other", "leaf of n4", "a", "b"),
    ]


def test_fabric_diff_levels_and_equal() -> None:
    one = tree("SwitchName=a Nodes=n[1-4]\n")
    two = tree("SwitchName=a Nodes=n[1-4]\nSwitchName=s Switches=a\n")
    assert [(c.what, c.before, c.after) for c in fabric_diff.diff(one, two)] == [("levels", "leaf", "leaf < spine")]
    assert fabric_diff.diff(two, two) == ()
