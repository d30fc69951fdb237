from __future__ import annotations

import pathlib
from xml.etree import ElementTree

import pytest

from placer.report import svg, svg_fabric
from placer.topology import fabric
from placer.topology import types as topo
from placer.topology.readers import nvidia_smi

TOPO = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"
NS = "{http://www.w3.org/2000/svg}"
MACHINES = {"dgx-1v": 8, "dgx-a100": 8, "hgx-h100": 8, "hgx-a100-4": 4, "pcie-8": 8, "rtx-2": 2}


def machine(name: str) -> topo.NodeTopology:
    return nvidia_smi.read_matrix((TOPO / f"{name}.txt").read_text(), source=name, name="gpu01")


def parse(text: str) -> ElementTree.Element:
    """The root of a drawing that must refer to nothing outside and run nothing."""
    root = ElementTree.fromstring(text)  # noqa: S314 - our own output
    assert root.tag == f"{NS}svg"
    allowed = {"svg", "title", "style", "defs", "pattern", "rect", "path", "text"}
    assert {element.tag.removeprefix(NS) for element in root.iter()} <= allowed
    names = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name]
    style = root.findtext(f"{NS}style") or ""
    assert "@import" not in style
    assert "url(#hatch)" in style
    assert style.count("url(") == style.count("url(#hatch)")
    return root


def of_class(root: ElementTree.Element, tag: str, name: str) -> list[ElementTree.Element]:
    return [element for element in root.iter(f"{NS}{tag}") if element.get("class") == name]


def titles(elements: list[ElementTree.Element]) -> list[str]:
    return [element.findtext(f"{NS}title") or "" for element in elements]


@pytest.mark.parametrize(("name", "gpus"), MACHINES.items())
def test_node_every_machine_is_xml_with_every_gpu_inside_the_canvas(name: str, gpus: int) -> None:
    root = parse(svg.node(machine(name)))
    drawn = [e for e in of_class(root, "rect", "plain") if (e.findtext(f"{NS}title") or "").startswith("GPU ")]
    assert len(drawn) == gpus
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    for rect in root.iter(f"{NS}rect"):
        if "x" in rect.attrib:
            assert 0 <= float(rect.attrib["x"]) <= width - float(rect.attrib["width"]) + 0.01
            assert 0 <= float(rect.attrib["y"]) <= height - float(rect.attrib["height"]) + 0.01


def test_node_states_by_class_letter_and_tooltip() -> None:
    root = parse(svg.node(machine("dgx-1v"), free=[0, 1, 4], chosen=[0, 1]))
    assert [t.split(",")[0] for t in titles(of_class(root, "rect", "chosen")) if t] == ["GPU 0", "GPU 1"]
    assert [t.split(",")[0] for t in titles(of_class(root, "rect", "free")) if t] == ["GPU 4"]
    assert len([t for t in titles(of_class(root, "rect", "used")) if t]) == 5
    letters = [e.text for e in of_class(root, "text", "mid on-used")]
    assert letters.count("U") == 6  # five GPUs and the legend


def test_node_mesh_links_are_thicker_with_more_lanes() -> None:
    links = of_class(parse(svg.node(machine("dgx-1v"))), "path", "fast")
    told = {e.findtext(f"{NS}title"): e.attrib["style"] for e in links if e.find(f"{NS}title") is not None}
    assert len(told) == 16
    double = float(told["GPU 0 - GPU 3: NV2"].removeprefix("stroke-width:"))
    single = float(told["GPU 0 - GPU 1: NV1"].removeprefix("stroke-width:"))
    assert double > single


def test_node_nvswitch_is_one_bar_with_a_link_to_each_gpu() -> None:
    root = parse(svg.node(machine("hgx-h100")))
    assert titles(of_class(root, "rect", "switch")) == ["NVSwitch, NV18 between each two GPUs"]
    assert len(of_class(root, "path", "fast")) == 8


def test_node_dark_and_light_follow_the_reader() -> None:
    text = svg.node(machine("rtx-2"))
    assert text.count("@media (prefers-color-scheme:dark)") == 1


def test_node_names_with_markup_and_escapes_stay_harmless() -> None:
    evil = "<script>alert('x')</script>\"&\x1b\x00\ud800"
    node = topo.NodeTopology(
        evil,
        "t",
        gpus=(topo.Gpu(evil, model=evil, uuid=evil), topo.Gpu("b")),
        nics=(topo.Nic("n", name=evil),),
        machine=evil,
    )
    text = svg.node(node)
    parse(text)
    assert "<script" not in text
    assert "\x1b" not in text
    text.encode()


def three_nodes() -> topo.Fabric:
    return fabric.from_switches(
        [
            topo.Switch("leaf1", nodes=("n1", "n2")),
            topo.Switch("leaf2", nodes=("n3",)),
            topo.Switch("spine", switches=("leaf1", "leaf2")),
        ],
        source="t",
    )


def test_fabric_domains_span_the_rows_of_their_nodes() -> None:
    root = parse(svg.fabric(three_nodes(), {"n1": (1, 8), "n2": (8, 8), "n3": (0, 4)}, ["n2"]))
    boxes = {title: float(e.attrib["height"]) for e in root.iter(f"{NS}rect") if (title := e.findtext(f"{NS}title"))}
    assert boxes == {
        "spine spine: 3 nodes, 9/20 free": 3 * 22 - 4,
        "leaf leaf1: 2 nodes, 9/16 free": 2 * 22 - 4,
        "leaf leaf2: 1 node, 0/4 free": 22 - 4,
    }
    # 7 + 0 + 4 used, 1 + 8 + 0 free, and one of each in the legend
    assert len(of_class(root, "rect", "used")) == 12
    assert len(of_class(root, "rect", "free")) == 10
    assert len(of_class(root, "rect", "domain-chosen")) == 2


def test_fabric_without_rows_folds_nodes() -> None:
    root = parse(svg.fabric(three_nodes()))
    words = [e.text for e in root.iter(f"{NS}text")]
    assert "n[1-2]" in words
    assert of_class(root, "rect", "used") == []


def test_fabric_large_is_folded_then_cut_and_says_so() -> None:
    made = fabric.from_switches(
        [topo.Switch(f"l{i}", nodes=(f"a{i}", f"b{i}")) for i in range(svg_fabric.MOST_ROWS + 5)], source="t"
    )
    rows = dict.fromkeys(fabric.nodes_of(made), (8, 8))
    root = parse(svg.fabric(made, rows))
    words = [e.text or "" for e in root.iter(f"{NS}text")]
    assert "… and 5 rows more" in words
    assert "8/8 free x 2" in words


def test_fabric_unknown_is_still_a_drawing() -> None:
    assert parse(svg.fabric(topo.Fabric())).tag.endswith("svg")
    assert parse(svg.fabric(topo.Fabric(), {"n": (0, 0)})).tag.endswith("svg")


def test_fabric_names_with_markup_stay_harmless() -> None:
    evil = "<script>&\"'\x1b"
    made = fabric.from_node_domains([evil], {evil: {evil: evil}}, source="t")
    text = svg.fabric(made, {evil: (1, 2)}, [evil])
    parse(text)
    assert "<script" not in text
