"""PCI devices, GPUs and adapters from sysfs."""

from __future__ import annotations

import pathlib

from placer.topology import types as topo
from placer.topology.readers import sysfs

FIXTURE = pathlib.Path(__file__).parents[3] / "fixtures" / "topo" / "tools" / "sysfs-4.txt"
PCI = "bus/pci/devices/{}/{}"


def node() -> topo.NodeTopology:
    return sysfs.read_listing(FIXTURE.read_text(), source="s", name="n1")


def test_read_listing_gives_gpus_by_class_and_vendor() -> None:
    """The server's own display (vendor 1a03) is none; -1 is no NUMA node, and then the CPU list tells nothing."""
    gpus = node().gpus
    assert [gpu.bus_id for gpu in gpus] == ["0000:1a:00.0", "0000:1b:00.0", "0000:af:00.0", "0001:00:00.0"]
    assert [gpu.numa for gpu in gpus] == [(0,), (0,), (1,), None]
    assert [gpu.cpus for gpu in gpus] == [(0, 1, 4, 5), (0, 1, 4, 5), (2, 3, 6, 7), None]
    assert [gpu.index for gpu in gpus] == [None] * 4
    state = (gpus[1].pcie_gen, gpus[1].pcie_gen_max, gpus[1].pcie_width, gpus[1].pcie_width_max)
    assert state == (1, 4, 8, 16)
    assert node().warnings == ("GPU1: its PCIe link runs with 8 of 16 lanes",)


def test_read_listing_bus_numbers_make_the_tree() -> None:
    """17:00.0 root port > 18:00.0 switch > 19:08.0 and 19:10.0 > the two GPUs; mlx5_0 below another root port."""
    found = {(link.a, link.b): link.label for link in node().links}
    assert found["GPU0", "GPU1"] == "PIX"
    assert found["GPU0", "mlx5_0"] == "PHB"
    assert (found["GPU0", "GPU2"], found["GPU0", "eno1"]) == ("SYS", "NODE")
    assert not any("GPU3" in pair for pair in found)
    assert node().switches == (topo.PcieSwitch("0000:18:00.0", ("GPU0", "GPU1"), None, (0,)),)
    assert node().partial


def test_read_listing_adapters_with_speed_and_without_their_ethernet_side() -> None:
    assert node().nics == (
        topo.Nic("mlx5_0", "mlx5_0", "0000:1d:00.0", (0,), 200.0),
        topo.Nic("eno1", None, "0000:04:00.0", (0,), 10.0, rdma=False),
    )


def test_read_listing_of_a_copied_tree_is_the_same() -> None:
    copy = FIXTURE.read_text().replace("/sys/", "backup/node7/sys/")
    assert sysfs.read_listing(copy, source="s", name="n1") == node()


def test_read_bridges_in_a_circle_end() -> None:
    files = {}
    for address, below in (("0000:01:00.0", "2"), ("0000:02:00.0", "1"), ("0000:02:01.0", None)):
        files[PCI.format(address, "class")] = "0x060400" if below else "0x030200"
        files[PCI.format(address, "vendor")] = "0x10de"
        if below:
            files[PCI.format(address, "secondary_bus_number")] = below
    assert [gpu.bus_id for gpu in sysfs.read(files, source="s", name="n").gpus] == ["0000:02:01.0"]


def test_read_amd_accelerators_are_gpus_and_their_bridges_are_none() -> None:
    files = {}
    for address, pci_class, vendor in (
        ("0000:05:00.0", "0x120000", "0x1002"),
        ("0000:06:00.0", "0x038000", "0x1002"),
        ("0000:07:00.0", "0x040300", "0x1002"),
        ("0000:08:00.0", "0x120000", "0x8086"),
    ):
        files[PCI.format(address, "class")] = pci_class
        files[PCI.format(address, "vendor")] = vendor
    found = sysfs.read(files, source="s", name="n").gpus
    assert [gpu.bus_id for gpu in found] == ["0000:05:00.0", "0000:06:00.0"]
