"""hwloc's XML against hwloc's own tools, and against devices whose wiring is known."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

from placer import errors, ranges
from placer.topology import types as topo
from placer.topology.readers import hwloc_xml

TOOLS = pathlib.Path(__file__).parents[3] / "fixtures" / "topo" / "tools"
NVSWITCH = (TOOLS / "hwloc3-nvswitch-4.xml").read_text()

SYNTHETIC = (
    "package:1 core:1 pu:1",
    "package:2 numa:1 core:4 pu:2",
    "package:2 numa:2 core:6 pu:2",
    "numa:2 package:1 core:3 pu:2",
    "package:2 numa:2(memory=3GB) core:2 pu:1",
    "package:1 l3:2 numa:1 core:4 pu:2",
    "package:2 [numa(memory=4GB)] [numa(memory=1GB)] l3:2 core:2 pu:2",
    "group:2 package:2 numa:1 core:2 pu:4",
    "package:2 core:16 pu:2(indexes=0*32:1+32*32:1)",
    "package:4 numa:2 l2:2 core:1 pu:1",
)


def read(text: str) -> topo.NodeTopology:
    return hwloc_xml.read(text, source="hwloc", name="n1")


def run(*command: str) -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed: apt-get install hwloc")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


def calc(machine: list[str], *question: str) -> str:
    return run("hwloc-calc", *machine, *question)


def sets(machine: list[str], kind: str) -> dict[int, tuple[int, ...]]:
    """CPUs of each object of a kind by its OS number, as hwloc-calc tells them."""
    numbers = calc(machine, "--physical-output", "--intersect", kind, "all")
    return {
        int(number): ranges.parse(
            calc(machine, "--physical-input", "--physical-output", "-I", "pu", f"{kind}:{number}")
        )
        for number in numbers.split(",")
        if number
    }


def equals_hwloc(text: str, machine: list[str]) -> None:
    node = read(text)
    nodes = sets(machine, "numa")
    assert {numa.id: numa.cpus for numa in node.numa_nodes} == nodes
    cores = [
        ranges.parse(calc(machine, "--physical-output", "-I", "pu", f"core:{i}"))
        for i in range(int(calc(machine, "-N", "core", "all")))
    ]
    assert node.cores == tuple(sorted(cores))
    packages = sets(machine, "package")
    assert nodes
    assert cores
    assert packages
    holders = {
        numa: [package for package, inside in packages.items() if set(cpus) <= set(inside)]
        for numa, cpus in nodes.items()
    }
    assert {numa.id: numa.package for numa in node.numa_nodes} == {
        numa: found[0] if len(found) == 1 else None for numa, found in holders.items()
    }


@pytest.mark.parametrize("description", SYNTHETIC)
def test_read_synthetic_machine_equals_hwloc_calc(description: str) -> None:
    text = run("lstopo-no-graphics", "--input", description, "--of", "xml", "-")
    equals_hwloc(text, ["--input", description])


def test_read_this_machine_equals_hwloc_calc() -> None:
    equals_hwloc(run("lstopo-no-graphics", "--of", "xml", "-"), [])


def test_read_both_formats_of_one_machine_are_equal() -> None:
    second, third = (read((TOOLS / f"hwloc{i}-synthetic.xml").read_text()) for i in (2, 3))
    assert (second.numa_nodes, second.cores) == (third.numa_nodes, third.cores)
    # package:2 numa:2 core:6 pu:2, GB of memory each
    assert second.numa_nodes[3] == topo.NumaNode(3, tuple(range(36, 48)), 1024, 1)
    assert second.cores == tuple((i, i + 1) for i in range(0, 48, 2))
    assert not second.partial


def test_read_devices_give_gpus_switches_and_adapters() -> None:
    node = read(NVSWITCH)
    assert node.gpus[2] == topo.Gpu(
        "GPU2",
        2,
        "0000:b1:00.0",
        "GPU-00000002-1111-2222-3333-444444444444",
        "Tesla V100-SXM3-32GB",
        (1,),
        (2, 3),
    )
    assert node.nics == (
        topo.Nic("mlx5_0", "mlx5_0", "0000:32:00.0", (0,)),
        topo.Nic("mlx5_1", "mlx5_1", "0000:b5:00.0", (1,)),
    )
    assert node.switches == (
        topo.PcieSwitch("0000:2c:00.0", ("GPU0", "GPU1"), None, (0,)),
        topo.PcieSwitch("0000:af:00.0", ("GPU2", "GPU3"), None, (1,)),
    )


def test_read_nvswitch_bandwidths_give_lanes_to_every_peer() -> None:
    """Each GPU has 75000 MB/s to each of two switches: 2 x 3 links of 25000."""
    labels = {(link.a, link.b): link.label for link in read(NVSWITCH).links}
    assert [labels[f"GPU{a}", f"GPU{b}"] for a in range(4) for b in range(a + 1, 4)] == ["NV6"] * 6
    assert (labels["GPU0", "mlx5_0"], labels["GPU0", "mlx5_1"], labels["mlx5_0", "mlx5_1"]) == ("PHB", "SYS", "SYS")


def test_read_without_bandwidths_gives_the_pcie_paths() -> None:
    labels = {(link.a, link.b): link.label for link in read(NVSWITCH.replace("NVLinkBandwidth", "Other")).links}
    assert (labels["GPU0", "GPU1"], labels["GPU1", "GPU2"]) == ("PIX", "SYS")


def test_read_equal_types_and_links_to_the_cpu() -> None:
    """A P100 link is 20000 MB/s: two between the pairs, two to the CPU; one pair tells two different things."""
    start, _, end = NVSWITCH.partition("  <distances2hetero")
    matrix = (
        '<distances2hetero nbobjs="5" kind="25" name="NVLinkBandwidth">'
        "<indexes>OSDev:120 OSDev:121 OSDev:220 OSDev:221 Package:2</indexes><u64values>"
        "1000000 40000 0 20000 40000  40000 1000000 0 0 40000  0 0 1000000 40000 0  40000 0 40000 1000000 0"
        "  40000 40000 0 0 1000000</u64values></distances2hetero>"
    )
    text = (start + matrix + end.partition("</distances2hetero>")[2]).replace("Tesla V100-SXM3-32GB", "Tesla P100")
    node = read(text)
    labels = {(link.a, link.b): link.label for link in node.links}
    assert (labels["GPU0", "GPU1"], labels["GPU2", "GPU3"], labels["GPU0", "GPU3"]) == ("NV2", "NV2", "SYS")
    assert [gpu.host_gbps for gpu in node.gpus] == [40.0, 40.0, None, None]
    assert "GPU0 tells 1 links to GPU3, which tells 2" in node.warnings[0]


def test_read_lost_links_to_the_switches_are_noted() -> None:
    text = NVSWITCH.replace(">0 0 0 0 75000 75000 <", ">0 0 0 0 75000 25000 <", 1)
    node = read(text)
    assert next(link.label for link in node.links if (link.a, link.b) == ("GPU0", "GPU1")) == "NV4"
    assert node.warnings == ("GPU0 has 4 NVLinks to the switches, the others 6: 2 are down",)


def test_read_device_on_the_whole_machine_is_near_nothing() -> None:
    """In a virtual machine bridges hang on the machine, whose nodeset holds both NUMA nodes."""
    text = NVSWITCH.replace('nodeset="0x00000001"', 'nodeset="0x00000003"')
    assert [gpu.numa for gpu in read(text).gpus] == [(0, 1), (0, 1), (1,), (1,)]  # a package of two nodes
    moved = NVSWITCH.replace('<object type="Package"', '<object type="Package" gone="').partition("<distances2 ")[0]
    bridge = moved[
        moved.index('    <object type="Bridge"') : moved.index('    </object>\n    <object type="Package" gone')
    ]
    machine = NVSWITCH[: NVSWITCH.index('    <object type="Package"')]
    core = '<object type="Core" cpuset="0x1"/>'
    assert [gpu.numa for gpu in read(f"{machine}{core}{bridge}</object></topology>").gpus] == [None, None]


def test_read_gpu_memory_is_no_place_near_a_gpu() -> None:
    """GH200: the GPU's memory is a NUMA node, to which hwloc gives the CPUs of the package."""
    memory = (
        '<object type="NUMANode" subtype="GPUMemory" os_index="9" cpuset="0x00000003" nodeset="0x00000200" '
        'local_memory="102625181696"><info name="PCIBusID" value="0000:2e:00.0"/></object>'
    )
    text = NVSWITCH.replace('      <object type="Core"', memory + '      <object type="Core"', 1)
    text = text.replace('nodeset="0x00000001" complete', 'nodeset="0x00000201" complete')
    node = read(text)
    assert node.numa_nodes[2] == topo.NumaNode(9, (), 97871, 0)
    assert (node.gpus[0].memory_numa, node.gpus[0].numa, node.gpus[1].memory_numa) == (9, (0,), None)


def test_read_format_2_knows_adapters_by_their_number() -> None:
    text = NVSWITCH.replace('version="3.0"', 'version="2.0"').replace('osdev_type="32"', 'osdev_type="3"')
    assert [nic.name for nic in read(text).nics] == ["mlx5_0", "mlx5_1"]
    plain = read(text.replace('osdev_type="3"', 'osdev_type="0"'))
    assert [(nic.id, nic.name, nic.rdma) for nic in plain.nics][:1] == [("ib0", None, False)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<topology/>", "format 1"),
        ('<topology version="4.0"/>', r"format 4\.0"),
        ('<topology version="2.0"/>', "no machine"),
        ('<topology version="2.0"><object type="Machine"/></topology>', "no NUMA node"),
        ("<system/>", "not hwloc"),
    ],
)
def test_read_other_documents_are_refused(text: str, words: str) -> None:
    with pytest.raises(errors.ParseError, match=words):
        read(text)
