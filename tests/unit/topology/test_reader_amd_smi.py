"""`amd-smi topology` in its three forms."""

from __future__ import annotations

import json
import pathlib

import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import amd_smi

TOOLS = pathlib.Path(__file__).parents[3] / "fixtures" / "topo" / "tools"
TABLES = (TOOLS / "amd-smi-mi300x-8.txt").read_text()


def read(text: str) -> topo.NodeTopology:
    assert amd_smi.recognises(text)
    return amd_smi.read(text, source="amd", name="n1")


def test_read_tables_give_addresses_and_a_full_mesh() -> None:
    node = read(TABLES)
    assert [gpu.bus_id for gpu in node.gpus][::7] == ["0000:05:00.0", "0000:e5:00.0"]
    assert [gpu.index for gpu in node.gpus] == list(range(8))
    assert len(node.links) == 28
    assert {link.type for link in node.links} == {topo.LinkType.XGMI}
    assert (node.no_peer, node.partial, node.warnings) == ((), False, ())


def test_read_tables_half_that_differs_is_unknown() -> None:
    line = next(line for line in TABLES.split("\n") if line.startswith("0000:05:00.0 SELF"))
    node = read(TABLES.replace(line, line.replace("XGMI", "PCIE", 1)))
    assert len(node.links) == 27
    assert "GPU0 and GPU1 contradict each other" in node.warnings[0]


def test_read_new_json_in_any_order_of_links() -> None:
    node = read((TOOLS / "amd-smi-pcie-2.json").read_text())
    assert [(gpu.id, gpu.bus_id) for gpu in node.gpus] == [("GPU0", "0000:03:00.0"), ("GPU1", "0000:0c:00.0")]
    assert node.links == (topo.Link("GPU0", "GPU1", topo.LinkType.UNKNOWN),)
    assert node.no_peer == (("GPU0", "GPU1"),)


def test_read_old_json_names_peers_by_keys() -> None:
    gpus = [
        {"gpu": i, "link_type": {"gpu_0": "XGMI", "gpu_1": "XGMI"} | {f"gpu_{i}": "SELF"}, "weight": {"gpu_0": 15}}
        for i in range(2)
    ]
    node = read(json.dumps(gpus))
    assert node.links == (topo.Link("GPU0", "GPU1", topo.LinkType.XGMI),)
    assert node.gpus == (topo.Gpu("GPU0", 0), topo.Gpu("GPU1", 1))
    assert read(json.dumps({"gpu_data": gpus})).links == node.links


@pytest.mark.parametrize(
    "text",
    [
        '[{"link_type": ',
        '[{"link_type": "XGMI"}]',
        '[{"gpu": 0, "link_type": {}}, {"gpu": 0}]',
        "[" * 100_000 + '"link_type"',
        "LINK TYPE TABLE:\nGPU0 GPU1\n",
        "LINK TYPE TABLE:\n",
        "ACCESS TABLE:\n 0000:05:00.0\n\nLINK TYPE TABLE:\n 0000:06:00.0\n",
    ],
)
def test_read_broken_text_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        amd_smi.read(text, source="amd", name="n1")


def test_read_broken_json_is_told_at_its_place() -> None:
    with pytest.raises(errors.ParseError) as caught:
        amd_smi.read('\n[\n  {"gpu": x}]', source="amd", name="n1")
    assert (caught.value.line, caught.value.column) == (3, 11)
