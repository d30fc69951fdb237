from __future__ import annotations

import pathlib

import pytest

from placer.topology import checks, fabric
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi

TOPO = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"
NV, PIX, SYS = topo.LinkType.NVLINK, topo.LinkType.PIX, topo.LinkType.SYS


def node(*links: topo.Link, gpus: int = 2, **more: object) -> topo.NodeTopology:
    made = tuple(topo.Gpu(f"GPU{i}", numa=(0,)) for i in range(gpus))
    return topo.NodeTopology("n", "t", **{"gpus": made, "links": links, **more})  # type: ignore[arg-type]


def found(what: tuple[checks.Finding, ...]) -> list[tuple[str, str]]:
    return [(f.severity.value, f.where) for f in what]


@pytest.mark.parametrize("name", ["dgx-1v", "hgx-h100", "pcie-8", "rtx-2", "hgx-a100-4"])
def test_check_sound_machine_has_no_error_and_no_warning(name: str) -> None:
    made = nvidia_smi.read_matrix((TOPO / f"{name}.txt").read_text(), source=name, name="n")
    assert [f for f in checks.check(made) if f.severity is not checks.Severity.NOTE] == []


def test_check_directions_differ_error() -> None:
    made = node(topo.Link("GPU0", "GPU1", NV, 12), topo.Link("GPU1", "GPU0", NV, 4))
    assert ("error", "GPU[0-1]") in found(checks.check(made))
    assert "the two directions differ: NV12 and NV4" in [f.text for f in checks.check(made)]


def test_check_missing_link_warns_with_both_ends() -> None:
    links = [topo.Link(f"GPU{a}", f"GPU{b}", PIX) for a, b in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3))]
    made = checks.check(node(*links, gpus=4))
    assert found(made) == [("warning", "GPU[2-3]")]
    assert made[0].text == "some links between these GPUs are not told"


def test_check_no_links_at_all_is_one_warning() -> None:
    assert [f.text for f in checks.check(node(gpus=3))] == ["nothing is known of the links between the GPUs"]
    assert checks.check(node(gpus=1)) == ()


def test_check_gpu_without_nvlink_among_peers_warns() -> None:
    links = [topo.Link("GPU0", "GPU1", NV, 4), topo.Link("GPU0", "GPU2", PIX), topo.Link("GPU1", "GPU2", PIX)]
    assert found(checks.check(node(*links, gpus=3))) == [("warning", "GPU2")]


def test_check_fewer_lanes_to_the_nvswitch_warns() -> None:
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    links = [topo.Link(f"GPU{a}", f"GPU{b}", NV, 6 if b == 3 else 18) for a, b in pairs]
    made = checks.check(node(*links, gpus=4))
    assert [(f.severity.value, f.where, f.text) for f in made] == [
        ("warning", "GPU3", "6 NVLinks towards the NVSwitch, while other GPUs have 18")
    ]


def test_check_unknown_place_and_far_nic_are_told() -> None:
    made = topo.NodeTopology(
        "n",
        "t",
        gpus=(topo.Gpu("GPU0"),),
        nics=(topo.Nic("NIC0", name="mlx5_0"), topo.Nic("NIC1")),
        links=(topo.Link("GPU0", "NIC0", SYS), topo.Link("GPU0", "NIC1", PIX)),
    )
    assert found(checks.check(made)) == [("warning", "GPU0"), ("note", "mlx5_0")]


def test_check_strangers_twins_self_links_and_dead_gpus_are_errors() -> None:
    made = topo.NodeTopology(
        "n",
        "t",
        gpus=(topo.Gpu("a", numa=(0,), healthy=False), topo.Gpu("a", numa=(0,))),
        links=(topo.Link("a", "a", PIX), topo.Link("a", "ghost", PIX)),
    )
    wrong = [f for f in checks.check(made) if f.severity is checks.Severity.ERROR]
    assert [(f.text, f.where) for f in wrong] == [
        ("devices share a name", "a"),
        ("links lead to devices that are not listed", "ghost"),
        ("1 of 2 GPUs are not healthy", "a"),
        ("a device is linked to itself", "a"),
    ]


# --- fabrics


def test_check_fabric_sound_tree_nothing() -> None:
    switches = [
        topo.Switch("a", nodes=("n1", "n2")),
        topo.Switch("b", nodes=("n3", "n4")),
        topo.Switch("s", switches=("a", "b")),
    ]
    made = fabric.from_switches(switches, source="t")
    assert checks.check_fabric(made, ["n1", "n2", "n3", "n4"]) == ()


def test_check_fabric_missing_unknown_and_high_nodes() -> None:
    switches = [
        topo.Switch("a", nodes=("n1",)),
        topo.Switch("b", nodes=("n2",)),
        topo.Switch("s", nodes=("n3",), switches=("a", "b")),
    ]
    made = checks.check_fabric(fabric.from_switches(switches, source="t"), ["n1", "n3", "n4", "n5"])
    assert [(f.severity.value, f.text, f.where) for f in made] == [
        ("warning", "2 of 4 nodes are in no domain", "n[4-5]"),
        ("warning", "1 of 3 nodes are in no leaf", "n3"),
        ("warning", "1 of 3 nodes of the fabric are not in the cluster", "n2"),
        ("note", "every leaf has a single node", ""),
    ]


def test_check_fabric_islands_warn() -> None:
    made = fabric.from_switches([topo.Switch("a", nodes=("n1", "n2")), topo.Switch("b", nodes=("n3",))], source="t")
    assert ("warning", "a,b") in found(checks.check_fabric(made, []))


def test_check_fabric_senseless_fan_out_is_noted() -> None:
    switches = [topo.Switch(f"l{i}", nodes=tuple(f"n{i}x{j}" for j in range(2 if i else 20))) for i in range(4)]
    switches += [topo.Switch(f"s{i}", switches=(f"l{i}",)) for i in range(4)]
    switches.append(topo.Switch("c", switches=("s0", "s1", "s2", "s3")))
    notes = [(f.text, f.where) for f in checks.check_fabric(fabric.from_switches(switches, source="t"), [])]
    assert ("more than four times as many nodes as a usual leaf", "l0") in notes
    assert ("every spine has a single leaf below", "") in notes


def test_check_fabric_that_breaks_its_promises_errors() -> None:
    made = topo.Fabric(
        levels=(topo.Level("leaf"), topo.Level("spine")),
        domains=(
            topo.Domain("a", 0, ("n1", "n2"), "s"),
            topo.Domain("b", 0, ("n2",), "nowhere"),
            topo.Domain("s", 1, ("n1",)),
        ),
    )
    wrong = [(f.text, f.where) for f in checks.check_fabric(made, []) if f.severity is checks.Severity.ERROR]
    assert wrong == [
        ("lies below `s`, which does not hold all of its nodes", "a"),
        ("lies below `nowhere`, which does not hold all of its nodes", "b"),
        ("in more than one leaf", "n2"),
    ]


def test_check_fabric_unknown_is_a_note_only_where_there_are_nodes() -> None:
    assert checks.check_fabric(topo.Fabric(), []) == ()
    assert [f.text for f in checks.check_fabric(topo.Fabric(), ["n1"])] == ["no fabric is known"]
