from __future__ import annotations

import msgspec

from placer.cluster import capacity
from placer.cluster import types as cluster


def node(name: str = "n1", gpus: int = 8, **changes: object) -> cluster.NodeState:
    slots = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(gpus))
    return cluster.NodeState(name=name, gpus=slots, cpus=64, memory_mib=1000, **changes)  # type: ignore[arg-type]


def job(*allocations: cluster.Allocation) -> cluster.Job:
    return cluster.Job(id="1", state=cluster.JobState.RUNNING, allocations=allocations)


def test_of_jobs_hold_indices_cpus_and_memory() -> None:
    held = cluster.Allocation("n1", gpus=(0, 1, 5), gpu_count=3, cpus=16, memory_mib=300)
    free = capacity.of(cluster.ClusterSnapshot(nodes=(node(),), jobs=(job(held),))).nodes[0]
    assert (free.gpu_mask, free.gpus, free.cpus, free.memory_mib) == (0b11011100, 5, 48, 700)


def test_of_node_reports_more_than_visible_jobs_hold() -> None:
    hidden = node(gpus_used=(2, 3), gpus_used_count=2, cpus_used=20, memory_used_mib=500)
    held = cluster.Allocation("n1", gpus=(3,), gpu_count=1, cpus=4, memory_mib=100)
    free = capacity.of(cluster.ClusterSnapshot(nodes=(hidden,), jobs=(job(held),))).nodes[0]
    assert (free.gpu_mask, free.unplaced, free.cpus, free.memory_mib) == (0b11110011, 0, 44, 500)


def test_of_unknown_indices_reduce_the_count_not_the_mask() -> None:
    held = cluster.Allocation("n1", gpus=None, gpu_count=3)
    free = capacity.of(cluster.ClusterSnapshot(nodes=(node(),), jobs=(job(held),))).nodes[0]
    assert (free.gpu_mask, free.unplaced, free.gpus) == (0b11111111, 3, 5)


def test_of_node_counts_used_gpus_without_indices() -> None:
    counted = node(gpus_used=(), gpus_used_count=6)
    free = capacity.of(cluster.ClusterSnapshot(nodes=(counted,))).nodes[0]
    assert (free.gpu_mask.bit_count(), free.unplaced, free.gpus) == (8, 6, 2)


def test_of_dead_gpu_removes_one_gpu_not_the_node() -> None:
    slots = tuple(cluster.GpuSlot(index=i, healthy=i != 4) for i in range(8))
    broken = cluster.NodeState(name="n1", gpus=slots, cpus=64, memory_mib=1000)
    free = capacity.of(cluster.ClusterSnapshot(nodes=(broken,))).nodes[0]
    assert (free.gpu_mask, free.gpus) == (0b11101111, 7)


def test_apply_then_release_gives_the_same_capacity() -> None:
    before = capacity.of(cluster.ClusterSnapshot(nodes=(node("n1"), node("n2"))))
    taken = (
        cluster.Allocation("n2", gpus=(6, 7), gpu_count=2, cpus=8, memory_mib=100),
        cluster.Allocation("gone", gpus=(0,)),
    )
    after = before.apply(taken)
    assert (after.nodes[1].gpu_mask, after.nodes[1].cpus, after.nodes[1].memory_mib) == (0b00111111, 56, 900)
    assert after.nodes[0] == before.nodes[0]
    assert after.release(taken) == before


def test_type_mask_compares_names_without_case() -> None:
    mixed = cluster.NodeState(
        name="f1", gpus=(cluster.GpuSlot(0, "A100"), cluster.GpuSlot(1, "v100"), cluster.GpuSlot(2))
    )
    assert [capacity.type_mask(mixed, kind) for kind in (None, "a100", "V100", "h100")] == [0b111, 0b001, 0b010, 0]


def test_columns_hold_the_same_amounts_and_survive_absurd_sums() -> None:
    held = cluster.Allocation("n1", gpus=(0, 1), gpu_count=2, cpus=2**62, memory_mib=300)
    free = capacity.of(cluster.ClusterSnapshot(nodes=(node("n1"), node("n2")), jobs=(job(held, held, held),)))
    assert free.columns.gpu_mask.tolist() == [0b11111100, 0b11111111]
    assert free.columns.memory_mib.tolist() == [100, 1000]
    assert free.columns.cpus.tolist() == [-(2**63) + 1, 64]


def test_classes_nodes_that_differ_in_name_and_use_only_are_one() -> None:
    nodes = (node("n1"), node("n2", cpus_used=7), node("n3", features=("ib",)), node("n4", gpus=4))
    held = (cluster.Allocation("n1", gpus=(0,), gpu_count=1),)
    free = capacity.of(cluster.ClusterSnapshot(nodes=nodes))
    for one in (free, free.apply(held), capacity.Capacity(free.nodes)):
        assert one.classes.of.tolist() == [0, 0, 1, 2]
        assert [found.name for found in one.classes.nodes] == ["n1", "n3", "n4"]
        assert one.classes.healthy.tolist() == [0xFF, 0xFF, 0xF]
        again = capacity.Capacity(one.nodes).columns
        for kept, made in zip(msgspec.structs.astuple(one.columns), msgspec.structs.astuple(again), strict=True):
            assert kept.tolist() == made.tolist()


def test_of_gpus_beyond_the_width_of_a_mask_are_left_alone() -> None:
    free = capacity.of(cluster.ClusterSnapshot(nodes=(node(gpus=100),)))
    assert free.nodes[0].gpus == free.columns.gpu_mask[0].item().bit_count() == 63
