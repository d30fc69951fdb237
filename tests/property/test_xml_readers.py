"""XML, JSON and sysfs readers are total: whatever the text, a topology or a ParseError; a short run of the fuzzer."""

from __future__ import annotations

import importlib.util
import pathlib
import random
import time
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.topology.readers import amd_smi, hwloc_xml, nccl_xml, nccl_xml_write, nvidia_xml, p2p, sniff, sysfs

ROOT = pathlib.Path(__file__).parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz_readers", ROOT / "tests" / "fuzz" / "fuzz_readers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FUZZ = load()
READERS = (hwloc_xml.read, nccl_xml.read, nvidia_xml.read, p2p.read, amd_smi.read, sysfs.read_listing, sniff.read)
TAGS = (
    "topology",
    "object",
    "system",
    "cpu",
    "pci",
    "gpu",
    "nvlink",
    "nic",
    "net",
    "nvidia_smi_log",
    "distances2hetero",
)
NAMES = (
    "version",
    "type",
    "os_index",
    "cpuset",
    "nodeset",
    "numaid",
    "affinity",
    "busid",
    "dev",
    "target",
    "count",
    "name",
)
VALUES = (
    "2.0",
    "Machine",
    "Package",
    "NUMANode",
    "Core",
    "PU",
    "Bridge",
    "PCIDev",
    "0",
    "0x3",
    "0000:3b:00.0",
    "é",
    "",
)


@pytest.mark.parametrize("name", sorted(FUZZ.READERS))
def test_readers_mutated_bytes_give_a_topology_or_a_parse_error(name: str, tmp_path: pathlib.Path) -> None:
    assert FUZZ.run(name, 150, 7, tmp_path) == 0


elements: st.SearchStrategy[Any] = st.recursive(
    st.just([]),
    lambda inner: st.lists(
        st.tuples(
            st.sampled_from(TAGS), st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=5), inner
        ),
        max_size=4,
    ),
    max_leaves=12,
)


def written(tree: list[tuple[str, dict[str, str], list]]) -> str:  # type: ignore[type-arg]
    return "".join(f"<{tag}{_told(attributes)}>{written(inside)}</{tag}>" for tag, attributes, inside in tree)


def _told(attributes: dict[str, str]) -> str:
    return "".join(f" {key}='{value}'" for key, value in attributes.items())


@given(st.sampled_from(TAGS), st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=3), elements)
@settings(max_examples=200, deadline=None)
def test_readers_any_tree_of_known_words_gives_a_topology_or_a_parse_error(
    root: str,
    attributes: dict[str, str],
    tree: list[tuple[str, dict[str, str], list]],  # type: ignore[type-arg]
) -> None:
    text = written([(root, {"version": "2.0"} | attributes, tree)])
    for reader in READERS:
        assert FUZZ.check(reader, text) is None


LINK = '<nvlink target="0000:{:02x}:00.0" count="2"/>'
GPU = '<pci busid="0000:{:02x}:00.0" class="0x030200"><gpu dev="{}">' + LINK + "</gpu></pci>"
NUMA = '<object type="NUMANode" os_index="{}" cpuset="{:#x},' + "0xffffffff," * 200 + '0x1"/>'
PCI = "/sys/bus/pci/devices/0000:{:02x}:{:02x}.{}/class:0x030200\n"


@pytest.mark.parametrize(
    "text",
    [
        "<system>" + "<cpu/>" * 110_000 + "</system>",
        "<system><cpu>" + '<pci busid="0000:01:00.0" class="0x030200"/>' * 110_000 + "</cpu></system>",
        "<system><cpu>" + "<x/>" * 110_000 + "</cpu></system>",
        "<system><cpu><nic>" + "".join(f'<net name="n{i}"/>' for i in range(100_000)) + "</nic></cpu></system>",
        "<system><cpu>" + "".join(GPU.format(i, i, i ^ 1) for i in range(256)) + "</cpu></system>",
        '<topology version="2.0"><object type="Machine" cpuset="' + "0xffffffff," * 60_000 + '0x1"/></topology>',
        '<topology version="2.0"><object type="Machine">'
        + "".join(NUMA.format(i, i) for i in range(9_000))
        + "</object></topology>",
        '<topology version="3.0"><object type="Machine">'
        + "".join(f'<object type="Core"><object type="PU" os_index="{i}"/></object>' for i in range(50_000))
        + "</object></topology>",
        '<topology version="3.0"><object type="Machine"><object type="PU"/></object>'
        '<distances2hetero nbobjs="1024" name="NVLinkBandwidth"><indexes>' + "OSDev:1 " * 1024 + "</indexes>"
        + ("<u64values>" + "25000 " * 4096 + "</u64values>") * 256 + "</distances2hetero></topology>",
        "<nvidia_smi_log>" + "<gpu/>" * 110_000 + "</nvidia_smi_log>",
        "[" + '{"gpu": 0, "link_type": {}},' * 100_000 + "{}]",
        "LINK TYPE TABLE:\n" + "0000:01:00.0 " * 100_000 + "\n",
        " GPU0 GPU1\n" + "GPU0 X OK\n" * 100_000,
        "".join(PCI.format(i >> 8 & 255, i & 31, i >> 5 & 7) for i in range(60_000)),
        "/sys/class/net/eth0/speed:1\n" * 100_000,
        "<" * 3_000_000,
        "<a " * 1_000_000,
        "<?xml version='1.0'?><!--" + "-" * 3_000_000,
        "<topology version='2.0'" + " " * 3_000_000 + ">",
    ],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_read_large_nonsense_takes_two_seconds_at_most(text: str) -> None:
    assert FUZZ.check(sniff.read, text) is None


@pytest.mark.parametrize("path", sorted((ROOT / "fixtures" / "topo" / "tools").iterdir()), ids=lambda path: path.name)
def test_read_every_fixture_in_milliseconds(path: pathlib.Path) -> None:
    """The budget is 2 ms; ten times that is left for a busy machine."""
    text = path.read_text()
    times = []
    for _ in range(5):
        start = time.process_time()
        sniff.read(text, source=path.name, name="n1")
        times.append(time.process_time() - start)
    assert min(times) < 0.02


def test_written_nccl_files_of_mutated_ones_are_read_again() -> None:
    dice = random.Random(3)
    saved = list(FUZZ.texts(("tools/nccl*.xml",)))
    done = 0
    for _ in range(800):
        text = FUZZ.mutate(dice.choice(saved), dice).decode(errors="replace")
        if FUZZ.check(nccl_xml.read, text) is None and _readable(text):
            node = nccl_xml.read(text, source="s", name="n1")
            if all(gpu.bus_id for gpu in node.gpus):
                again = nccl_xml.read(nccl_xml_write.write(node), source="s", name="n1")
                assert [gpu.bus_id for gpu in again.gpus] == [gpu.bus_id for gpu in node.gpus]
                assert {(n.name, n.speed_gbits) for n in again.nics} == {(n.name, n.speed_gbits) for n in node.nics}
                done += 1
    assert done > 20


def _readable(text: str) -> bool:
    try:
        nccl_xml.read(text, source="s", name="n1")
    except errors.ParseError:
        return False
    return True
