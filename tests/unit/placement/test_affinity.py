"""Rank bindings against mappings that other tools publish or that follow from the machine by hand."""

import os
import pathlib
from collections.abc import Sequence

import pytest

from placer import ranges
from placer.cluster import types as cluster
from placer.placement import affinity
from placer.placement import types as plan
from placer.topology import types as topo
from placer.topology.readers import sniff

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[3] / "../shared/data"))


def machine(gpu_cpus: Sequence[str | None], numa: list[int] | None = None, **rest: object) -> topo.NodeTopology:
    """A node as the affinity columns of `nvidia-smi topo -m` tell it."""
    return topo.NodeTopology(
        name="n",
        source="hand",
        gpus=tuple(
            topo.Gpu(
                f"GPU{i}",
                i,
                cpus=None if text is None else ranges.parse(text),
                numa=None if numa is None else (numa[i],),
            )
            for i, text in enumerate(gpu_cpus)
        ),
        **rest,  # type: ignore[arg-type]
    )


def cpu_lists(result: affinity.AffinityResult) -> list[str]:
    return [ranges.format(rank.cpus) for rank in result.ranks]


def test_bind_8_h100_gives_the_contiguous_mapping_of_gpu_affinity() -> None:
    # reference: gpu_affinity's unique_contiguous on 8 x H100, ranks 0, 3 and 4
    node = machine(["0-51,104-155"] * 4 + ["52-103,156-207"] * 4, [0] * 4 + [1] * 4)
    result = affinity.bind(node, range(8), 8, first_rank=8)
    lists = cpu_lists(result)
    assert lists[0] == "0-12,104-116"
    assert lists[3] == "39-51,143-155"
    assert lists[4] == "52-64,156-168"
    assert [rank.rank for rank in result.ranks] == list(range(8, 16))
    assert [rank.gpus for rank in result.ranks] == [(i,) for i in range(8)]
    assert [rank.memory_nodes for rank in result.ranks] == [(0,)] * 4 + [(1,)] * 4
    assert result.solve.termination is plan.Termination.OPTIMAL
    assert result.solve.method == "closed-form"
    assert any("104 apart" in warning for warning in result.warnings)


def test_bind_4_a100_on_odd_numa_nodes_stays_on_them() -> None:
    # a public thread: 128 cores in 8 NUMA nodes, GPUs on 1, 3, 5, 7; Slurm bound 0-31,128-159 and so on
    near = ["16-31,144-159", "48-63,176-191", "80-95,208-223", "112-127,240-255"]
    result = affinity.bind(machine(list(near), [1, 3, 5, 7]), range(4), 4, cpuset=range(256))
    assert cpu_lists(result) == near
    assert [rank.memory_nodes for rank in result.ranks] == [(1,), (3,), (5,), (7,)]


def test_bind_with_a_share_smaller_than_the_numa_node_takes_its_first_cores() -> None:
    near: list[str | None] = ["16-31,144-159", "48-63,176-191", "80-95,208-223", "112-127,240-255"]
    result = affinity.bind(machine(near, [1, 3, 5, 7]), range(4), 4, cpus_per_rank=16)
    assert cpu_lists(result) == ["16-23,144-151", "48-55,176-183", "80-87,208-215", "112-119,240-247"]


def test_bind_dgx_a100_follows_its_unusual_numa_order_and_gives_each_gpu_its_own_nic() -> None:
    path = DATA / "topo/dgx-a100-8gpu-mlx5-names-numa3-first-tabs.txt"
    if not path.exists():
        pytest.skip(f"{path} is not there; PLACER_DATA names its directory")
    node = sniff.read(path.read_text(), source=path.name, name="dgx")
    result = affinity.bind(node, range(8), 8)
    # NUMA 3,3,1,1,7,7,5,5: 16 cores each, 8 for each of two GPUs
    assert cpu_lists(result) == [
        "48-55,176-183",
        "56-63,184-191",
        "16-23,144-151",
        "24-31,152-159",
        "112-119,240-247",
        "120-127,248-255",
        "80-87,208-215",
        "88-95,216-223",
    ]
    assert [rank.memory_nodes for rank in result.ranks] == [(3,), (3,), (1,), (1,), (7,), (7,), (5,), (5,)]
    # by the matrix: GPUs 0,1 PXB mlx5_0,1; 2,3 mlx5_2,3; 4,5 mlx5_6,7; 6,7 mlx5_8,9 (4,5,10,11 are SYS to all)
    nics = [rank.nics for rank in result.ranks]
    assert [set(nics[i] + nics[i + 1]) for i in (0, 2, 4, 6)] == [
        {"mlx5_0", "mlx5_1"},
        {"mlx5_2", "mlx5_3"},
        {"mlx5_6", "mlx5_7"},
        {"mlx5_8", "mlx5_9"},
    ]
    assert result.solve.method == "closed-form"


def test_bind_fewer_ranks_than_gpus_gives_runs_of_the_ring() -> None:
    node = machine(["0-7", "0-7", "8-15", "8-15"], [0, 0, 1, 1], cores=tuple((i,) for i in range(16)))
    result = affinity.bind(node, [2, 3, 0, 1], 2)
    assert [rank.gpus for rank in result.ranks] == [(2, 3), (0, 1)]
    assert cpu_lists(result) == ["8-15", "0-7"]
    one = affinity.bind(node, [0, 1, 2, 3], 1)
    assert one.ranks[0].gpus == (0, 1, 2, 3)
    assert cpu_lists(one) == ["0-15"]
    assert one.ranks[0].memory_nodes == (0, 1)


def test_bind_more_ranks_than_gpus_goes_round() -> None:
    node = machine(["0-7", "8-15"], [0, 1], cores=tuple((i,) for i in range(16)))
    result = affinity.bind(node, [0, 1], 4)
    assert [rank.gpus for rank in result.ranks] == [(0,), (1,), (0,), (1,)]
    assert cpu_lists(result) == ["0-3", "8-11", "4-7", "12-15"]


def test_deal_gpus_that_do_not_divide_gives_the_first_ranks_one_more() -> None:
    assert affinity.deal_gpus((5, 6, 7, 0, 1), 2) == ((5, 6, 7), (0, 1))
    assert affinity.deal_gpus((), 3) == ((), (), ())


def test_bind_to_a_cpuset_keeps_inside_it_and_borrows_far_cores_only_for_starving_ranks() -> None:
    # all 4 cores of the allocation are on socket 0, GPU 1 is on socket 1
    node = machine(["0-7", "8-15"], [0, 1], cores=tuple((i,) for i in range(16)))
    result = affinity.bind(node, [0, 1], 2, cpuset=[2, 3, 4, 5])
    assert sorted(cpu for rank in result.ranks for cpu in rank.cpus) == [2, 3, 4, 5]
    assert [len(rank.cpus) for rank in result.ranks] == [2, 2]
    far = {term.name: term.value for term in result.score}["cores_far"]
    assert far == 2


def test_bind_memory_of_a_starving_rank_is_near_its_cores_or_near_its_gpu_for_host_bound_work() -> None:
    node = machine(["0-7", "8-15"], [0, 1], cores=tuple((i,) for i in range(16)))
    usual = affinity.bind(node, [0, 1], 2, cpuset=[2, 3, 4, 5])
    assert usual.ranks[1].memory_nodes == (0,)
    host_bound = affinity.bind(node, [0, 1], 2, cpuset=[2, 3, 4, 5], workload=cluster.Workload.HOST_BOUND)
    assert host_bound.ranks[1].memory_nodes == (1,)


def test_bind_fewer_cores_than_ranks_shares_them_with_a_warning() -> None:
    node = machine(["0-3", "0-3", "0-3"], [0, 0, 0], cores=((0, 1), (2, 3)))
    result = affinity.bind(node, [0, 1, 2], 3)
    assert cpu_lists(result) == ["0-1", "2-3", "0-1"]
    assert any("3 ranks share 2 cores" in warning for warning in result.warnings)


def test_bind_more_cpus_than_there_are_gives_even_shares_with_a_warning() -> None:
    node = machine(["0-7", "0-7"], [0, 0], cores=tuple((i,) for i in range(8)))
    result = affinity.bind(node, [0, 1], 2, cpus_per_rank=6)
    assert cpu_lists(result) == ["0-3", "4-7"]
    assert any("do not fit" in warning for warning in result.warnings)


def test_bind_unknown_locality_is_not_taken_as_near() -> None:
    node = machine([None, None], None, cores=tuple((i,) for i in range(4)))
    result = affinity.bind(node, [0, 1], 2)
    assert cpu_lists(result) == ["0-1", "2-3"]
    terms = {term.name: term.value for term in result.score}
    assert terms["cores_unknown"] == 4
    assert any("is not known" in warning for warning in result.warnings)
    assert result.ranks[0].memory_nodes == ()


def test_bind_nothing_known_still_names_the_gpus() -> None:
    result = affinity.bind(None, [3, 1], 2)
    assert [rank.gpus for rank in result.ranks] == [(3,), (1,)]
    assert cpu_lists(result) == ["", ""]
    assert result.solve.termination is plan.Termination.OPTIMAL


def test_bind_gpu_with_several_numa_nodes_counts_their_cpus_as_uncertain() -> None:
    numa_nodes = (topo.NumaNode(0, (0, 1)), topo.NumaNode(1, (2, 3)), topo.NumaNode(2, (4, 5)))
    gpu = topo.Gpu("GPU0", 0, numa=(1, 2))
    node = topo.NodeTopology(
        name="n", source="hand", gpus=(gpu,), numa_nodes=numa_nodes, cores=tuple((i,) for i in range(6))
    )
    result = affinity.bind(node, [0], 1)
    assert cpu_lists(result) == ["2-5"]
    terms = {term.name: term.value for term in result.score}
    assert (terms["cores_far"], terms["cores_unknown"]) == (0, 4)


def test_bind_gb200_memory_nodes_without_cpus_are_no_place_for_cores_or_memory() -> None:
    # GB200: GPU memory shows as NUMA nodes without CPUs; `NUMA Affinity` lists them beside the CPU's own node
    numa_nodes = (
        topo.NumaNode(0, tuple(range(72)), memory_mib=480_000),
        topo.NumaNode(1, tuple(range(72, 144)), memory_mib=480_000),
        topo.NumaNode(2, (), memory_mib=189_000),
        topo.NumaNode(10, (), memory_mib=189_000),
    )
    gpus = (topo.Gpu("GPU0", 0, numa=(0, 2), memory_numa=2), topo.Gpu("GPU1", 1, numa=(1, 10), memory_numa=10))
    node = topo.NodeTopology(
        name="n", source="hand", gpus=gpus, numa_nodes=numa_nodes, cores=tuple((i,) for i in range(144))
    )
    result = affinity.bind(node, [0, 1], 2)
    assert cpu_lists(result) == ["0-71", "72-143"]
    assert [rank.memory_nodes for rank in result.ranks] == [(0,), (1,)]


def test_bind_ranks_without_gpus_share_the_machine_numa_node_by_numa_node() -> None:
    numa_nodes = (topo.NumaNode(0, tuple(range(18))), topo.NumaNode(1, tuple(range(18, 36))))
    node = topo.NodeTopology(name="n", source="hand", numa_nodes=numa_nodes, cores=tuple((i,) for i in range(36)))
    # reference: mpibind on a machine of 2 NUMA nodes x 18 cores without GPUs, 2 tasks
    assert cpu_lists(affinity.bind(node, [], 2)) == ["0-17", "18-35"]


def test_bind_one_nic_for_two_gpus_is_shared_rather_than_another_socket() -> None:
    links = (
        topo.Link("GPU0", "NIC0", topo.LinkType.PIX),
        topo.Link("GPU1", "NIC0", topo.LinkType.PIX),
        topo.Link("GPU0", "NIC1", topo.LinkType.SYS),
        topo.Link("GPU1", "NIC1", topo.LinkType.SYS),
    )
    nics = (topo.Nic("NIC0", "mlx5_0"), topo.Nic("NIC1", "mlx5_1"))
    result = affinity.bind(machine([None, None], None, links=links, nics=nics), [0, 1], 2)
    assert [rank.nics for rank in result.ranks] == [("mlx5_0",), ("mlx5_0",)]
    # the same two GPUs with the second NIC behind another host bridge of the socket: one each
    near = (*links[:2], *(topo.Link(link.a, link.b, topo.LinkType.NODE) for link in links[2:]))
    result = affinity.bind(machine([None, None], None, links=near, nics=nics), [0, 1], 2)
    assert sorted(rank.nics[0] for rank in result.ranks) == ["mlx5_0", "mlx5_1"]


def test_bind_nics_without_names_are_not_chosen() -> None:
    node = machine([None], None, nics=(topo.Nic("NIC0"),), links=(topo.Link("GPU0", "NIC0", topo.LinkType.PIX),))
    result = affinity.bind(node, [0], 1)
    assert result.ranks[0].nics == ()
    assert any("no names" in warning for warning in result.warnings)


def test_bind_two_ranks_on_power9_get_a_socket_each() -> None:
    # reference: mpibind on coral-lassen, 2 tasks, smt 4: 8-87 with GPUs 0,1 and 96-175 with GPUs 2,3
    cores = tuple(tuple(range(first, first + 4)) for first in (*range(8, 88, 4), *range(96, 176, 4)))
    numa_nodes = (topo.NumaNode(0, tuple(range(8, 88))), topo.NumaNode(8, tuple(range(96, 176))))
    node = machine([None] * 4, [0, 0, 8, 8], cores=cores, numa_nodes=numa_nodes)
    result = affinity.bind(node, [0, 1, 2, 3], 2)
    assert cpu_lists(result) == ["8-87", "96-175"]
    assert [rank.gpus for rank in result.ranks] == [(0, 1), (2, 3)]
    assert [rank.memory_nodes for rank in result.ranks] == [(0,), (8,)]


def test_bind_eight_ranks_on_four_gpus_use_the_cores_near_them_alone() -> None:
    # reference: mpibind on epyc-corona, 8 tasks, gpu_optim: 8 NUMA nodes of 6 cores, GPUs on 1, 2, 5, 7
    numa_nodes = tuple(topo.NumaNode(i, tuple(range(6 * i, 6 * i + 6))) for i in range(8))
    cores = tuple((i,) for i in range(48))
    node = machine([None] * 4, [1, 2, 5, 7], cores=cores, numa_nodes=numa_nodes)
    result = affinity.bind(node, [0, 1, 2, 3], 8)
    assert {(rank.gpus[0], ranges.format(rank.cpus)) for rank in result.ranks} == {
        (0, "6-8"),
        (0, "9-11"),
        (1, "12-14"),
        (1, "15-17"),
        (2, "30-32"),
        (2, "33-35"),
        (3, "42-44"),
        (3, "45-47"),
    }
