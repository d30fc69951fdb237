"""Siblings and locality against machines whose numbering is known."""

import pytest

from placer import ranges
from placer.placement import affinity_cores
from placer.topology import types as topo


@pytest.mark.parametrize(
    ("lists", "offset"),
    [
        (["0-51,104-155", "52-103,156-207"], 104),  # 2 x 52 cores with SMT
        (["48-63,176-191", "16-31,144-159"], 128),  # DGX A100
        (["0-15", "16-31"], None),  # no second range: SMT off, or not told
        (["0-31,64-95", "32-63"], None),  # only one of the sets is split
        (["0-3,8-11", "4-7,16-19"], None),  # two distances
        (["0,2,4,6,8,10", "1,3,5,7,9,11"], None),  # NUMA nodes by parity, nothing about siblings
        (["0-3,8-10"], None),
    ],
)
def test_sibling_offset_of_cpu_lists_is_that_of_the_machine(lists: list[str], offset: int | None) -> None:
    assert affinity_cores.sibling_offset([ranges.parse(text) for text in lists]) == offset


def node(*gpus: topo.Gpu, numa_nodes: tuple[topo.NumaNode, ...] = ()) -> topo.NodeTopology:
    return topo.NodeTopology(name="n", source="hand", gpus=gpus, numa_nodes=numa_nodes)


def test_cores_of_a_split_range_pairs_the_siblings_and_says_so() -> None:
    found = affinity_cores.cores_of(node(topo.Gpu("GPU0", 0, cpus=ranges.parse("0-1,4-5"))))
    assert found.cores == ((0, 4), (1, 5))
    assert found.note is not None
    assert "4 apart" in found.note


def test_cores_of_known_cores_keeps_them_and_adds_unnamed_cpus() -> None:
    machine = topo.NodeTopology(name="n", source="hand", cores=((0, 1), (2, 3)))
    assert affinity_cores.cores_of(machine, [3, 9]) == affinity_cores.CoreMap(((0, 1), (2, 3), (9,)))


def test_near_cpus_of_a_numa_node_that_another_gpu_describes() -> None:
    told = topo.Gpu("GPU0", 0, numa=(3,), cpus=(48, 49))
    machine = node(told, topo.Gpu("GPU1", 1, numa=(3,)), topo.Gpu("GPU2", 2, numa=(5,)), topo.Gpu("GPU3", 3))
    assert affinity_cores.near_cpus(machine, machine.gpus[1]) == affinity_cores.NearCpus(frozenset({48, 49}), True)
    assert affinity_cores.near_cpus(machine, machine.gpus[2]) is None
    assert affinity_cores.near_cpus(machine, machine.gpus[3]) is None


def test_near_cpus_of_several_numa_nodes_is_uncertain_unless_one_alone_has_cpus() -> None:
    numa_nodes = (topo.NumaNode(0, (0, 1)), topo.NumaNode(1, (2, 3)), topo.NumaNode(2, ()))
    machine = node(topo.Gpu("GPU0", 0, numa=(0, 1)), topo.Gpu("GPU1", 1, numa=(1, 2)), numa_nodes=numa_nodes)
    assert affinity_cores.near_cpus(machine, machine.gpus[0]) == affinity_cores.NearCpus(frozenset({0, 1, 2, 3}), False)
    assert affinity_cores.near_cpus(machine, machine.gpus[1]) == affinity_cores.NearCpus(frozenset({2, 3}), True)


def test_gpu_at_finds_by_index_not_by_position() -> None:
    machine = node(topo.Gpu("GPU4", 4), topo.Gpu("GPU0", 0))
    found = affinity_cores.gpu_at(machine, 0)
    assert found is not None
    assert found.id == "GPU0"
    assert affinity_cores.gpu_at(machine, 1) is None
