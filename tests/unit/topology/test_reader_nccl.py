"""NCCL's XML: dumped, vendors' and invented files; written and read again."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import nccl_xml, nccl_xml_write, nvidia_smi

TOPO = pathlib.Path(__file__).parents[3] / "fixtures" / "topo"
DUMP = (TOPO / "tools" / "nccl-h100-4.xml").read_text()
VENDOR = (TOPO / "tools" / "nccl-vendor-4.xml").read_text()
L = topo.LinkType


def read(text: str) -> topo.NodeTopology:
    return nccl_xml.read(text, source="nccl", name="n1")


def labels(node: topo.NodeTopology) -> dict[tuple[str, str], str]:
    return {(link.a, link.b): link.label for link in node.links}


def test_read_dump_gives_gpus_places_and_cpus() -> None:
    node = read(DUMP)
    near = (*range(16, 32), *range(80, 96))
    assert node.gpus[2] == topo.Gpu(
        "GPU2", 2, "0000:9a:00.0", numa=(1,), cpus=near, sm=90, pcie_gen_max=5, pcie_width_max=16
    )
    assert node.numa_nodes[1] == topo.NumaNode(1, near)
    assert node.switches[0] == topo.PcieSwitch("0000:16:00.0", ("GPU0", "mlx5_0"), None, (0,))


def test_read_dump_nvswitch_ports_add_up_and_lost_ones_are_noted() -> None:
    """4 + 4 + 5 + 5 ports; GPU 3 has lost the last switch."""
    node = read(DUMP)
    assert [labels(node)[f"GPU{a}", f"GPU{b}"] for a, b in ((0, 1), (0, 2), (0, 3), (2, 3))] == [
        "NV18",
        "NV18",
        "NV13",
        "NV13",
    ]
    assert node.warnings == ("GPU3 has 13 NVLinks to the switches, the others 18: 5 are down",)


def test_read_dump_adapters_with_speed_and_one_below_two_cpus() -> None:
    nics = read(DUMP).nics
    assert nics[0] == topo.Nic("eth0", "eth0", None, (0, 1), 100.0)
    assert nics[4] == topo.Nic("mlx5_3", "mlx5_3", "0000:ab:00.0", (1,), 400.0)
    found = labels(read(DUMP))
    assert (found["GPU0", "mlx5_0"], found["GPU0", "mlx5_1"], found["GPU0", "mlx5_2"]) == ("PIX", "NODE", "SYS")
    assert ("GPU0", "eth0") not in found


def test_read_vendor_file_without_gpu_elements() -> None:
    node = read(VENDOR)
    assert [(gpu.id, gpu.index, gpu.bus_id) for gpu in node.gpus][1:3] == [
        ("GPU1", None, "0002:00:00.0"),
        ("GPU2", None, "0003:00:00.0"),
    ]
    assert node.gpus[2].cpus == tuple(range(48, 96))  # ffffffff,ffff0000,00000000
    assert node.nics[3] == topo.Nic("NIC3", None, "0104:00:00.0", (1,))
    assert (labels(node)["GPU0", "GPU1"], labels(node)["GPU1", "GPU2"]) == ("PIX", "SYS")
    assert (node.partial, node.warnings) == (False, ())


def gpu(dev: int, bus: str, inside: str = "") -> str:
    return f'<pci busid="{bus}" class="0x030200"><gpu dev="{dev}" sm="80">{inside}</gpu></pci>'


def system(*cpus: str) -> str:
    return "<system>" + "".join(f'<cpu numaid="{i}">{cpu}</cpu>' for i, cpu in enumerate(cpus)) + "</system>"


def test_read_direct_links_of_both_ends_must_agree() -> None:
    """4 x A100: NV4 to each peer; GPU 2 tells only two links to GPU 0, GPU 3 tells nothing."""
    buses = [f"0000:0{i}:00.0" for i in range(4)]

    def links(mine: int) -> str:
        peers = [(b, 2 if (mine, i) == (2, 0) else 4) for i, b in enumerate(buses) if i != mine]
        return "".join(f'<nvlink target="{b}" count="{n}" tclass="0x030200"/>' for b, n in peers)

    node = read(system("".join(gpu(i, b, links(i) if i < 3 else "") for i, b in enumerate(buses))))
    found = labels(node)
    assert (found["GPU0", "GPU1"], found["GPU0", "GPU3"], found["GPU0", "GPU2"]) == ("NV4", "NV4", "NODE")
    assert "GPU0 tells 4 links to GPU2, which tells 2" in node.warnings[0]


def test_read_virtual_nvswitch_and_link_to_the_cpu() -> None:
    """GB300: 18 links to a switch that is no device; 5 C2C links of 44712 MB/s. One GPU's NVLinks are gone."""
    c2c = '<c2c bw="44712" count="5"/>'
    link = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
    node = read(system(gpu(0, "0008:06:00.0", link + c2c) + gpu(1, "0009:06:00.0", c2c), gpu(2, "0018:06:00.0", link)))
    assert [gpu.host_gbps for gpu in node.gpus] == [pytest.approx(223.56), pytest.approx(223.56), None]
    assert labels(node) == {("GPU0", "GPU1"): "NODE", ("GPU0", "GPU2"): "NV18", ("GPU1", "GPU2"): "SYS"}
    assert node.warnings == ("GPU1 has 0 NVLinks to the switches, the others 18: 18 are down",)


def test_read_unknown_numa_node_is_near_nothing() -> None:
    text = "<system><cpu numaid='-1'>" + gpu(0, "0000:05:00.0") + gpu(1, "0000:06:00.0") + "</cpu></system>"
    node = read(text)
    assert ([gpu.numa for gpu in node.gpus], node.links, node.partial) == ([None, None], (), True)


def test_read_dump_of_several_hosts_gives_the_first() -> None:
    cpu = '<cpu numaid="0" host_hash="0x{}">{}</cpu>'
    node = read(f"<system>{cpu.format(1, gpu(0, '0000:05:00.0'))}{cpu.format(2, gpu(0, '0000:05:00.0'))}</system>")
    assert [gpu.bus_id for gpu in node.gpus] == ["0000:05:00.0"]
    assert "2 hosts" in node.warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        '<system><gpu dev="0"><nvlink target="1" count="12" bw="25.0"/></gpu><gpu dev="1"/></system>',
        '<system><gpu dev="0"><pci busid="0000:01:00.0"/></gpu><gpu dev="1"><cpu affinity="0-23"/></gpu></system>',
        '<system><cpu numaid="zero" affinity="0-23"><gpu dev="0"/><gpu dev="1"/><net name="mlx5_0"/></cpu></system>',
        '<system><cpu><pci busid="0000:01.0"><gpu dev="0"/></pci><pci busid="2"><gpu dev="0"/></pci></cpu></system>',
    ],
)
def test_read_invented_file_is_warned_about(text: str) -> None:
    node = read(text)
    assert len(node.gpus) == 2
    assert not any(link.type is L.NVLINK for link in node.links)
    assert node.warnings


@pytest.mark.parametrize(
    ("text", "words"),
    [("<graphs/>", "plan"), ("<system/>", "no CPU"), ("<a/>", "not a topology"), ("<system><gpu>", "no element")],
)
def test_read_other_documents_are_refused(text: str, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words):
        read(text)


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [DUMP, VENDOR])
def test_write_what_was_read_is_read_again(text: str) -> None:
    node = msgspec.structs.replace(read(text), warnings=())
    again = msgspec.structs.replace(read(nccl_xml_write.write(node)), warnings=())
    assert again == node


def test_write_matrix_makes_up_switches_for_near_pairs() -> None:
    """pcie-8: on each socket two switches with two GPUs below one host bridge (PIX, PXB)."""
    read_ = nvidia_smi.read_matrix((TOPO / "pcie-8.txt").read_text(), source="m", name="n1")
    gpus = tuple(msgspec.structs.replace(g, bus_id=f"00000000:{0x10 + g.index:02X}:00.0") for g in read_.gpus)  # type: ignore[operator]
    written = nccl_xml_write.write(msgspec.structs.replace(read_, gpus=gpus))
    found = labels(read(written))
    assert {pair: kind for pair, kind in found.items() if pair[1].startswith("GPU")} == {
        (link.a, link.b): link.label for link in read_.links if link.b.startswith("GPU")
    }
    assert written.count('class="0x060400"') == 6
    assert "ffff:ff:00.1" in written


def test_write_mesh_and_xgmi_links_come_back() -> None:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, f"0000:0{i}:00.0", numa=(0,), sm=80) for i in range(3))
    links = (
        topo.Link("GPU0", "GPU1", L.NVLINK, 4),
        topo.Link("GPU0", "GPU2", L.XGMI),
        topo.Link("GPU1", "GPU2", L.NODE),
    )
    node = topo.NodeTopology("n1", "nccl", gpus, links=links, numa_nodes=(topo.NumaNode(0),))
    assert read(nccl_xml_write.write(node)) == node


def test_write_gpu_without_address_is_refused() -> None:
    with pytest.raises(errors.RequestError, match="address of GPU0"):
        nccl_xml_write.write(topo.NodeTopology("n1", "x", (topo.Gpu("GPU0"),)))
