"""Which reader a text goes to, and the comparison with every saved public output."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from placer import errors, ranges
from placer.topology import types as topo
from placer.topology.readers import sniff

ROOT = pathlib.Path(__file__).parents[3]
FIXTURES = ROOT / "fixtures" / "topo"
SAVED = pathlib.Path(os.environ.get("PLACER_DATA", ROOT.parent / "shared" / "data")) / "topo"


def read(text: str) -> topo.NodeTopology:
    return sniff.read(text, source="saved.txt", name="n1")


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_read_every_fixture_is_a_whole_topology(path: pathlib.Path) -> None:
    node = read(path.read_text())
    gpus = len(node.gpus)
    # GPU counts as in the table of fixtures/topo/README.md
    assert gpus == {"a100-pcie-bridges": 4, "hgx-a100-4": 4, "rtx-2": 2}.get(path.stem, 8)
    assert (node.partial, node.warnings) == (False, ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<?xml version='1.0'?>\n<!DOCTYPE topology SYSTEM 'hwloc2.dtd'>\n<topology>", ":3:11: no element found"),
        ('<!-- a --><system version="1">\n', ":2:1: no element found"),
        ('<graphs version="1"/>', "plan of rings"),
        ("<?xml version='1.0'?><project/>", "XML of another kind"),
        ("<!DOCTYPE html><html>", "web page"),
        ("SwitchName=s1 Nodes=gpu[1-4]\n", "placer topo fabric"),
        ("# our tree\n\nSwitchName=s1 Nodes=gpu[1-4]\n", "placer topo fabric"),
        ("hello", "no topology matrix"),
    ],
)
def test_read_known_other_formats_are_named(text: str, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words):
        read(text)


def test_read_listing_of_sysfs_goes_to_its_reader() -> None:
    assert read("/sys/devices/system/node/node0/cpulist:0-3\n").numa_nodes[0].cpus == (0, 1, 2, 3)


def expected() -> dict[str, Any]:
    path = SAVED / "expected.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def test_read_every_saved_output_equals_what_it_says() -> None:
    if not SAVED.is_dir():
        pytest.skip(f"no saved outputs at {SAVED}: set PLACER_DATA")
    wrong = []
    for name, want in expected().items():
        node = read((SAVED / name).read_text())
        gpus = [(g["id"], g["numa"], None if g["cpus"] is None else ranges.parse(g["cpus"])) for g in want["gpus"]]
        if [(g.id, None if g.numa is None else [*g.numa], g.cpus) for g in node.gpus] != gpus:
            wrong.append(f"{name}: gpus")
        if [(n.id, n.name) for n in node.nics] != [(n["id"], n["name"]) for n in want["nics"]]:
            wrong.append(f"{name}: nics")
        told = {(frozenset((link.a, link.b)), link.label) for link in node.links}
        if told != {(frozenset((a, b)), kind) for a, b, kind in want["links"]} or len(told) != len(node.links):
            wrong.append(f"{name}: links")
    assert wrong == []
    assert len(expected()) == 35


def test_read_saved_table_of_peer_access_denies_the_pair() -> None:
    path = SAVED / "p2p-rw-2gpu-gns.txt"
    if not path.exists():
        pytest.skip(f"no saved outputs at {SAVED}: set PLACER_DATA")
    node = read(path.read_text())
    assert (node.no_peer, node.links, node.partial) == ((("GPU0", "GPU1"),), (), True)


@pytest.mark.parametrize(
    ("file", "gpus", "nics", "links"),
    [
        ("amd-smi-mi300x-8.txt", 8, 0, 28),
        ("amd-smi-pcie-2.json", 2, 0, 1),
        ("hwloc2-synthetic.xml", 0, 0, 0),
        ("hwloc3-synthetic.xml", 0, 0, 0),
        ("hwloc3-nvswitch-4.xml", 4, 2, 15),
        ("nccl-h100-4.xml", 4, 5, 28),
        ("nccl-vendor-4.xml", 4, 4, 28),
        ("nvidia-smi-q-a100-4.xml", 4, 0, 0),
        ("p2p-read-4.txt", 4, 0, 0),
        ("sysfs-4.txt", 4, 2, 10),
    ],
)
def test_read_every_tools_output_goes_to_its_reader(file: str, gpus: int, nics: int, links: int) -> None:
    node = read((FIXTURES / "tools" / file).read_text())
    assert (len(node.gpus), len(node.nics), len(node.links)) == (gpus, nics, links)
    assert len(list((FIXTURES / "tools").iterdir())) == 10
