"""Several sources about one node, and what nvidia-smi says about each GPU."""

from __future__ import annotations

import msgspec
import pytest

from placer import errors
from placer.topology import types as topo
from placer.topology.readers import merge, nvidia_query, nvidia_smi, sysfs

MATRIX = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tPIX\t0-3\t0-2\nGPU1\tNV4\t X \tSYS\t0-3\t1\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)
QUERY = (
    "0, 00000000:3B:00.0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA A100-SXM4-80GB, 81920\n"
    "1, 00000001:5E:00.0, [N/A], [Unknown Error], [N/A]\n"
)


def matrix(text: str = MATRIX) -> topo.NodeTopology:
    return nvidia_smi.read_matrix(text, source="matrix", name="n1")


def query() -> topo.NodeTopology:
    return nvidia_query.read(QUERY, source="query", name="n1")


def machine() -> topo.NodeTopology:
    files = {
        "devices/system/node/node0/cpulist": "0-3",
        "devices/system/node/node1/cpulist": "4-7",
        "devices/system/node/node2/cpulist": "",
        "class/infiniband/mlx5_0/device/numa_node": "1",
    }
    return sysfs.read(files, source="sysfs", name="n1")


def test_query_names_address_uuid_model_and_memory() -> None:
    first, second = query().gpus
    assert first == topo.Gpu(
        "GPU0",
        0,
        "0000:3b:00.0",
        "GPU-11111111-2222-3333-4444-555555555555",
        "NVIDIA A100-SXM4-80GB",
        memory_mib=81920,
    )
    assert second == topo.Gpu("GPU1", 1, "0001:5e:00.0")


@pytest.mark.parametrize("text", ["", "No devices were found\n", "0, a\n", "\x00,,,,\n"])
def test_query_without_gpus_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError):
        nvidia_query.read(text, source="query", name="n1")


def test_merge_joins_what_each_source_tells() -> None:
    found = merge.merge([matrix(), query(), machine()], name="n9")
    assert found.name == "n9"
    assert found.gpus[0].bus_id == "0000:3b:00.0"
    assert [gpu.numa for gpu in found.gpus] == [(0, 1), (1,)]  # node 2 has no CPUs
    assert found.nics == (topo.Nic("NIC0", "mlx5_0", numa=(1,)),)
    assert len(found.numa_nodes) == 3
    assert not found.partial


def test_merge_keeps_nvlink_over_the_path_below_it() -> None:
    paths = matrix(MATRIX.replace("NV4", "SYS"))
    assert merge.merge([paths, matrix()], name="n1").links[0].label == "NV4"
    assert merge.merge([matrix(), paths], name="n1").links[0].label == "NV4"


def test_merge_intersects_numa_lists() -> None:
    other = msgspec.structs.replace(matrix(), gpus=tuple(topo.Gpu(f"GPU{i}", numa=(1, 5)) for i in range(2)))
    assert [gpu.numa for gpu in merge.merge([matrix(), other], name="n1").gpus] == [(1,), (1,)]


@pytest.mark.parametrize(
    "text",
    [
        MATRIX.replace("PIX", "PXB"),
        MATRIX.replace("NV4", "NV2"),
        MATRIX.replace("\t1\n", "\t3\n"),
        MATRIX.replace("0-3\t1", "0-7\t1"),
        "\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n",
    ],
)
def test_merge_contradiction_names_both_sources(text: str) -> None:
    other = msgspec.structs.replace(matrix(text), source="other")
    with pytest.raises(errors.InputError, match="matrix and other contradict each other"):
        merge.merge([matrix(), other], name="n1")
