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
    ("text", "warning"),
    [
        (
            MATRIX.replace("PIX", "PXB"),
            "the link of GPU0 to NIC0 is PIX by matrix and PXB by other: the former is taken",
        ),
        (
            MATRIX.replace("NV4", "NV2"),
            "the link of GPU0 to GPU1 is NV4 by matrix and NV2 by other: the former is taken",
        ),
        (MATRIX.replace("\t1\n", "\t3\n"), "the NUMA node of GPU1 is 1 by matrix and 3 by other: the former is taken"),
        (
            MATRIX.replace("0-3\t1", "2-5\t1"),
            "the CPU list of a GPU is 0-3 by matrix and 2-5 by other: the former is taken",
        ),
    ],
)
def test_merge_contradiction_is_a_warning_that_names_both_sources(text: str, warning: str) -> None:
    other = msgspec.structs.replace(matrix(text), source="other")
    found = merge.merge([matrix(), other], name="n1")
    assert warning in found.warnings
    assert (found.gpus, found.links) == (matrix().gpus, matrix().links)
    assert merge.merge([other, matrix()], name="n1") == found


def test_merge_of_matrices_with_other_gpus_is_an_error() -> None:
    other = msgspec.structs.replace(matrix("\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n"), source="other")
    with pytest.raises(errors.InputError, match="matrix and other contradict each other: 2 and 1 GPUs"):
        merge.merge([matrix(), other], name="n1")


def test_merge_counts_contradictions_of_one_kind() -> None:
    other = msgspec.structs.replace(matrix(MATRIX.replace("PIX", "NODE").replace("SYS", "NODE")), source="other")
    found = merge.merge([matrix(), other], name="n1")
    assert [text for text in found.warnings if "the link of" in text] == [
        "the link of GPU0 to NIC0 is PIX by matrix and NODE by other: the former is taken (and 1 more of the kind)"
    ]


def test_merge_joins_gpus_by_address_whatever_their_numbers() -> None:
    host = topo.NodeTopology(
        "n1", "host", tuple(topo.Gpu(f"GPU{i}", i, f"0000:{i + 1:02x}:00.0", model=f"m{i}") for i in range(4))
    )
    # A container sees the third and fourth GPU as 0 and 1, and writes the domain with eight digits.
    inside = topo.NodeTopology(
        "n1",
        "job",
        (topo.Gpu("GPU0", 0, "00000000:03:00.0", "GPU-c"), topo.Gpu("GPU1", 1, "00000000:04:00.0", "GPU-d")),
        links=(topo.Link("GPU0", "GPU1", topo.LinkType.NVLINK, 12),),
    )
    found = merge.merge([host, inside], name="n1")
    assert [(gpu.id, gpu.index, gpu.bus_id, gpu.uuid, gpu.model) for gpu in found.gpus] == [
        ("GPU0", 0, "0000:01:00.0", None, "m0"),
        ("GPU1", 1, "0000:02:00.0", None, "m1"),
        ("GPU2", 2, "0000:03:00.0", "GPU-c", "m2"),
        ("GPU3", 3, "0000:04:00.0", "GPU-d", "m3"),
    ]
    assert found.links == (topo.Link("GPU2", "GPU3", topo.LinkType.NVLINK, 12),)
    assert (
        "the number of GPU2 is 2 by host and 0 by job: the former is taken (and 1 more of the kind)" in found.warnings
    )


def test_merge_joins_address_and_uuid_through_a_third_source() -> None:
    by_address = topo.NodeTopology("n", "a", (topo.Gpu("x", bus_id="0000:01:00.0", numa=(1,)),))
    by_uuid = topo.NodeTopology("n", "b", (topo.Gpu("y", uuid="GPU-1", model="m"),))
    both = topo.NodeTopology("n", "c", (topo.Gpu("GPU0", 0, "0000:01:00.0", "GPU-1"),))
    (gpu,) = merge.merge([by_address, by_uuid, both], name="n").gpus
    assert gpu == topo.Gpu("GPU0", 0, "0000:01:00.0", "GPU-1", "m", (1,))


def test_merge_of_another_node_with_the_same_addresses_is_an_error() -> None:
    one, other = (
        topo.NodeTopology("n", f"{word}.xml", (topo.Gpu("GPU0", 0, "0000:01:00.0", f"GPU-{word}"),)) for word in "ab"
    )
    with pytest.raises(errors.InputError, match=r"a\.xml and b\.xml are about different nodes"):
        merge.merge([one, other], name="n")


def test_merge_joins_a_matrix_by_number_only_when_counts_and_order_agree() -> None:
    joined = merge.merge([matrix(), query()], name="n")
    assert joined.assumed == (
        "GPUs of matrix are those of query by their numbers: both list 2, in the order of their PCI addresses",
    )
    shuffled = msgspec.structs.replace(
        query(), gpus=tuple(msgspec.structs.replace(gpu, index=1 - (gpu.index or 0)) for gpu in query().gpus)
    )
    more = msgspec.structs.replace(query(), gpus=(*query().gpus, topo.Gpu("GPU2", 2, "0002:01:00.0")))
    for other in (shuffled, more):
        found = merge.merge([matrix(), other], name="n")
        assert (len(found.gpus), found.links, found.partial) == (len(other.gpus), (), True)
        assert any("which is which cannot be told" in text for text in found.warnings)


def test_merge_takes_cpus_of_a_job_as_cpuset_not_as_the_machines_map() -> None:
    job = matrix(MATRIX.replace("0-3\t0-2", "1-2\t0").replace("0-3\t1", "5\t1"))
    found = merge.merge([job, machine()], name="n")
    assert [gpu.cpus for gpu in found.gpus] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert found.cpuset == (1, 2, 5)
    (warning,) = (text for text in found.warnings if "cpuset" in text)
    assert warning.startswith("CPUs 1-2 near a GPU by matrix are fewer than the 0-3 by sysfs: taken as the cpuset of")
    assert dict(found.origins)["gpus.cpus"] == "sysfs"


def test_merge_believes_nvml_before_sysfs_before_text_about_places() -> None:
    def part(tool: str, numa: int) -> topo.NodeTopology:
        gpu = topo.Gpu("GPU0", 0, "0000:01:00.0", numa=(numa,))
        return topo.NodeTopology("n", tool, (gpu,), tool=tool)

    parts = [part("matrix", 0), part("hwloc", 1), part("sysfs", 2), part("nvml", 3)]
    taken = [merge.merge(parts[:count], name="n").gpus[0].numa for count in (1, 2, 3, 4)]
    assert taken == [(0,), (1,), (2,), (3,)]


def test_merge_numa_unknown_to_sysfs_is_filled_by_nvml() -> None:
    sysfs_part = topo.NodeTopology("n", "sysfs", (topo.Gpu("GPU0", bus_id="0000:01:00.0"),), tool="sysfs")
    nvml_part = topo.NodeTopology("n", "nvml", (topo.Gpu("GPU0", 0, "0000:01:00.0", numa=(3,)),), tool="nvml")
    found = merge.merge([sysfs_part, nvml_part], name="n")
    assert (found.gpus[0].numa, dict(found.origins)["gpus.numa"], found.warnings) == ((3,), "nvml", ())


def test_merge_leaves_memory_nodes_of_grace_out_of_places() -> None:
    # GB200: 0 and 1 have CPUs; 2 is GPU0's memory, 10 that of GPU1; numbers have gaps.
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNV18\t0-71\t0,3-9,11-17\t\t2\nGPU1\tNV18\t X \t0-71\t0,3-9,11-17\t\t10\n"
    )
    nodes = tuple(topo.NumaNode(n, tuple(range(72 * n, 72 * n + 72)) if n < 2 else ()) for n in (0, 1, *range(2, 34)))
    found = merge.merge([matrix(text), topo.NodeTopology("n", "sys", numa_nodes=nodes, tool="sysfs")], name="n")
    assert [(gpu.numa, gpu.memory_numa) for gpu in found.gpus] == [((0,), 2), ((0,), 10)]
    alone = merge.merge([matrix(text.replace("0,3-9,11-17", "0,2,10"))], name="n")
    assert [gpu.numa for gpu in alone.gpus] == [(0,), (0,)]


def test_merge_a_gpu_that_any_source_calls_broken_is_broken() -> None:
    fine, broken = (
        topo.NodeTopology("n", word, (topo.Gpu("GPU0", 0, "0000:01:00.0", healthy=word == "fine"),))
        for word in ("fine", "broken")
    )
    found = merge.merge([fine, broken], name="n")
    assert found.gpus[0].healthy is False
    assert "the health of GPU0 is False by broken and True by fine: the former is taken" in found.warnings


def test_merge_host_bandwidth_of_c2c_is_kept() -> None:
    nccl = topo.NodeTopology("n", "nccl", (topo.Gpu("GPU0", bus_id="0000:01:00.0", host_gbps=450.0),))
    other = topo.NodeTopology("n", "xml", (topo.Gpu("GPU0", 0, "0000:01:00.0", model="NVIDIA GH200 480GB"),))
    assert merge.merge([nccl, other], name="n").gpus[0].host_gbps == 450.0


def test_merge_tells_where_each_fact_came_from() -> None:
    origins = dict(merge.merge([matrix(), query(), machine()], name="n").origins)
    assert origins["gpus.bus_id"] == "query"
    assert origins["links"] == "matrix"
    assert origins["numa_nodes.cpus"] == "sysfs"
    assert origins["gpus[GPU0].uuid"] == "query" if "gpus[GPU0].uuid" in origins else origins["gpus.uuid"] == "query"


def test_merge_pairs_without_peer_access_are_those_of_any_source() -> None:
    denied = msgspec.structs.replace(matrix(), source="p2p", links=(), nics=(), no_peer=(("GPU1", "GPU0"),))
    assert merge.merge([matrix(), denied], name="n").no_peer == (("GPU0", "GPU1"),)


def test_merge_an_adapter_known_by_address_and_by_name_is_one() -> None:
    verbs = topo.NodeTopology(
        "n", "sys", nics=(topo.Nic("mlx5_0", "mlx5_0", "0000:0c:00.0", (1,), 400.0, True),), tool="sysfs"
    )
    nccl = topo.NodeTopology(
        "n", "nccl", nics=(topo.Nic("NIC7", None, "0000:0c:00.0", speed_gbits=400.0),), tool="nccl"
    )
    found = merge.merge([matrix(), verbs, nccl], name="n")
    assert found.nics == (topo.Nic("NIC0", "mlx5_0", "0000:0c:00.0", (1,), 400.0, True),)
