"""NUMA nodes and cores from sysfs texts."""

from __future__ import annotations

import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import sysfs

CPU = "devices/system/cpu/cpu{}/topology/{}"
NODE = "devices/system/node/node{}/{}"


def tree() -> dict[str, str]:
    """Two sockets, two cores each, two threads a core: CPU c and c + 4 share a core; node 2 is memory only."""
    files = {CPU.format(c, "thread_siblings_list"): f"{c % 4},{c % 4 + 4}\n" for c in range(8)}
    files |= {CPU.format(c, "physical_package_id"): f"{c % 4 // 2}\n" for c in range(8)}
    for node, cpus in enumerate(("0-1,4-5", "2-3,6-7", "")):
        files[NODE.format(node, "cpulist")] = cpus + "\n"
        files[NODE.format(node, "meminfo")] = (
            f"Node {node} MemTotal:       {(node + 1) * 1048576} kB\nNode {node} MemFree: 1 kB\n"
        )
    return files | {
        "class/infiniband/mlx5_0/device/numa_node": "1\n",
        "class/infiniband/mlx5_1/device/numa_node": "-1\n",
    }


def test_read_two_sockets_gives_nodes_cores_and_adapters() -> None:
    found = sysfs.read(tree(), source="/sys", name="n1")
    assert found.numa_nodes == (
        topo.NumaNode(0, (0, 1, 4, 5), 1024, 0),
        topo.NumaNode(1, (2, 3, 6, 7), 2048, 1),
        topo.NumaNode(2, (), 3072, None),
    )
    assert found.cores == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert found.nics == (topo.Nic("mlx5_0", "mlx5_0", numa=(1,)), topo.Nic("mlx5_1", "mlx5_1"))
    assert (found.partial, found.warnings) == (False, ())


def test_read_missing_files_are_named() -> None:
    found = sysfs.read({}, source="/sys", name="n1")
    assert (found.numa_nodes, found.cores, found.partial) == ((), (), True)
    assert len(found.warnings) == 2


def test_read_broken_values_stay_unknown() -> None:
    files = tree() | {NODE.format(0, "cpulist"): "0-9999999", CPU.format(1, "thread_siblings_list"): "x"}
    found = sysfs.read(files, source="/sys", name="n1")
    assert found.numa_nodes[0].cpus is None
    assert any("node0" in text for text in found.warnings)
    assert any("cpu1" in text for text in found.warnings)


def test_read_listing_joins_the_lines_of_a_file() -> None:
    text = "".join(f"/sys/{path}:{line}\n" for path, body in tree().items() for line in body.splitlines())
    assert sysfs.read_listing(text, source="s", name="n1") == sysfs.read(tree(), source="s", name="n1")


def test_read_listing_without_a_node_is_a_parse_error() -> None:
    with pytest.raises(errors.ParseError, match="no NUMA node"):
        sysfs.read_listing("/sys/devices/system/node/node0/distance:10\n", source="s", name="n1")
