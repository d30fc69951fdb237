"""Shapes by predicted end, on a cluster whose bandwidths are known from published sweeps.

Four nodes of 8 x A100 behind NVSwitch, each GPU with a NIC of 200 Gbit/s: 8 GPUs of a node exchange 235 GB/s (model:
240, the port total), 4 and 4 of two nodes 4 x 24 = 96 GB/s.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from placer.advice import advise, finish, reshape
from placer.cluster import types as cluster
from placer.placement import shapes
from placer.topology import fabric
from placer.topology import types as topo

TAKEN = 1_800_000_000
HOUR = 3600
NAMES = ("gpu1", "gpu2", "gpu3", "gpu4")
SLOTS = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(8))
GPUS = tuple(topo.Gpu(id=f"GPU{i}", index=i, model="a100", numa=(i // 4,)) for i in range(8))
NVLINKS = tuple(topo.Link(f"GPU{i}", f"GPU{j}", topo.LinkType.NVLINK, 12) for i in range(8) for j in range(i + 1, 8))
TO_NICS = tuple(
    topo.Link(f"GPU{i}", f"NIC{j}", topo.LinkType.PXB if i == j else topo.LinkType.SYS)
    for i in range(8)
    for j in range(8)
)


def _cluster(
    *held: tuple[str, int], rdma: bool | None = None, ends: int | None = TAKEN + 2 * HOUR, nics: bool = True
) -> cluster.ClusterSnapshot:
    """The cluster with one running job for each (node, number of its GPUs)."""
    adapters = tuple(topo.Nic(id=f"NIC{i}", name=f"mlx5_{i}", speed_gbits=200.0, rdma=rdma) for i in range(8))
    links = (*NVLINKS, *TO_NICS) if nics else NVLINKS
    machine = topo.NodeTopology(name="a100", source="test", gpus=GPUS, nics=adapters if nics else (), links=links)
    where = {name: {"leaf": "leaf1"} for name in NAMES}
    jobs = tuple(
        cluster.Job(
            id=str(i),
            state=cluster.JobState.RUNNING,
            ends=ends,
            allocations=(cluster.Allocation(node, gpus=tuple(range(gpus)), gpu_count=gpus, cpus=gpus),),
        )
        for i, (node, gpus) in enumerate(held)
    )
    return cluster.ClusterSnapshot(
        source=cluster.Source("slurm", "24.11", TAKEN),
        topology=topo.ClusterTopology(
            NAMES, (machine,), (0,) * 4, fabric.from_node_domains(["leaf"], where, source="test", kind="tree")
        ),
        nodes=tuple(cluster.NodeState(name=name, gpus=SLOTS, cpus=64, memory_mib=1000) for name in NAMES),
        jobs=jobs,
    )


def _compare(snapshot: cluster.ClusterSnapshot, **asked: Any) -> finish.Comparison | str:
    request = cluster.JobRequest(**({"time_limit": 4 * HOUR} | asked))
    return finish.compare(snapshot, request, advise.advise(snapshot, request))


def _shape(way: finish.Way) -> tuple[int, int]:
    return way.nodes, way.gpus_per_node


HALF_FULL = [(name, 4) for name in NAMES]


def test_compare_of_a_shape_that_waits_takes_one_that_starts_now() -> None:
    found = _compare(_cluster(*HALF_FULL), nodes=1, gpus_per_node=8)
    assert isinstance(found, finish.Comparison)
    assert found.asked.starts == finish.Range(0, 2 * HOUR)
    assert found.asked.ends == finish.Range(4 * HOUR, 6 * HOUR)
    assert (_shape(found.best), found.best.starts) == ((2, 4), finish.Range(0, 0))
    # at most 15 % of a step is waited for, and becomes 240 / 96 = 2.5 times as long
    assert found.best.relative.low == 1
    assert found.best.relative.high == pytest.approx(1 + 0.15 * 1.5, abs=0.01)
    assert found.best.ends is not None
    assert found.best.ends.high == pytest.approx(4 * HOUR * 1.225, rel=0.01)


def test_compare_of_two_shapes_that_start_now_takes_the_faster() -> None:
    found = _compare(_cluster(), nodes=2, gpus_per_node=4, ntasks_per_node=4)
    assert isinstance(found, finish.Comparison)
    assert _shape(found.best) == (1, 8)
    assert found.best.relative.high == 1
    assert found.best.relative.low == pytest.approx(1 - 0.15 * (1 - 96 / 240), abs=0.01)
    assert (found.best.request.nodes, found.best.request.ntasks_per_node) == (1, 8)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"workload": cluster.Workload.ALLTOALL}, "half of the step could take 2.5 times as long"),
        ({"time_limit": None}, "a slower shape only pays against a known run time"),
        ({"time_limit": 400 * HOUR}, "20 hours lost in the middle for one gained"),
    ],
)
def test_compare_keeps_the_asked_shape_where_another_may_end_later(changes: dict[str, Any], why: str) -> None:
    found = _compare(_cluster(*HALF_FULL), **({"nodes": 1, "gpus_per_node": 8} | changes))
    assert isinstance(found, finish.Comparison)
    assert not found.changes, why


def test_compare_without_rdma_takes_no_more_nodes() -> None:
    found = _compare(_cluster(*HALF_FULL, rdma=False), nodes=1, gpus_per_node=8)
    assert isinstance(found, finish.Comparison)
    assert not found.changes
    assert all(way.relative.high > finish.SLOWEST for way in found.others)


@pytest.mark.parametrize(("asked", "taken"), [((2, 4), True), ((4, 2), True), ((1, 8), False)])
def test_compare_with_an_unknown_network_takes_one_node_with_nvswitch(asked: tuple[int, int], taken: bool) -> None:
    # 240 GB/s within a node; 4 GPUs of a node send at most 4 x 48 = 192 GB/s to others, whatever their NICs
    found = _compare(_cluster(nics=False), nodes=asked[0], gpus_per_node=asked[1])
    assert isinstance(found, finish.Comparison)
    assert (_shape(found.best) == (1, 8), found.changes) == (True, taken)


def test_compare_of_independent_ranks_looks_at_the_start_alone() -> None:
    found = _compare(
        _cluster(*HALF_FULL), nodes=1, gpus_per_node=8, workload=cluster.Workload.INDEPENDENT, time_limit=None
    )
    assert isinstance(found, finish.Comparison)
    assert found.changes
    assert found.best.relative == finish.Range(1, 1)


def test_compare_where_no_end_is_known_takes_what_starts_now() -> None:
    found = _compare(_cluster(*HALF_FULL, ends=None), nodes=1, gpus_per_node=8)
    assert isinstance(found, finish.Comparison)
    assert found.asked.starts.high == math.inf
    assert _shape(found.best) == (2, 4)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"nodes": 2, "gpus_per_node": 4, "nodelist": "gpu1"}, "named"),
        ({"nodes": 2, "gpus_per_node": 4, "exclusive": True}, "whole nodes"),
        ({"nodes": 1, "gpus_per_node": 1}, "one GPU"),
        ({"nodes": 2, "gpus_per_node": 64}, "never fits"),
        ({"nodes": 1, "gpus_per_socket": 4, "sockets_per_node": 2}, "sockets"),
    ],
)
def test_compare_of_a_shape_that_is_fixed_says_why(asked: dict[str, Any], why: str) -> None:
    found = _compare(_cluster(), **asked)
    assert isinstance(found, str)
    assert why in found


SHAPE = shapes.Shape(2, shapes.Demand(4, 32, 100, 4))


@pytest.mark.parametrize(
    ("request_", "shape", "count", "expected"),
    [
        (
            {"nodes": 2, "gpus_per_node": 4, "ntasks_per_node": 4, "cpus_per_task": 8, "memory_per_node_mib": 100},
            SHAPE,
            1,
            {"nodes": 1, "gpus_per_node": 8, "ntasks_per_node": 8, "cpus_per_task": 8, "memory_per_node_mib": 200},
        ),
        (
            {"nodes": 2, "gpus_per_node": 4, "cpus_per_task": 32},
            shapes.Shape(2, shapes.Demand(4, 32, 100, 1)),
            4,
            {"nodes": 4, "gpus_per_node": 2, "cpus_per_task": 16},
        ),
        (
            {"nodes": 8, "gpus_per_node": 1},
            shapes.Shape(8, shapes.Demand(1, 1, 0, 1)),
            2,
            {"nodes": 2, "gpus_per_node": 4, "ntasks_per_node": 4},
        ),
        (
            {"ntasks": 8, "gpus_per_task": 1, "nodes": 2},
            SHAPE,
            4,
            {"nodes": 4, "ntasks": 8, "gpus_per_task": 1, "ntasks_per_node": 2},
        ),
        ({"nodes": 2, "gpus_per_node": 4, "ntasks_per_node": 3}, shapes.Shape(2, shapes.Demand(4, 3, 0, 3)), 4, None),
        ({"nodes": 2, "gpus_per_node": 4}, SHAPE, 3, None),
    ],
)  # fmt: skip
def test_on_nodes_keeps_what_the_job_gets_in_all(
    request_: dict[str, Any], shape: shapes.Shape, count: int, expected: dict[str, Any] | None
) -> None:
    found = reshape.on_nodes(cluster.JobRequest(**request_), shape, count)
    assert found == (None if expected is None else cluster.JobRequest(**expected))


def test_counts_are_the_divisors_that_fit_nearest_first() -> None:
    assert reshape.counts(16, 2, 8, 100) == (4, 8, 16)
    assert reshape.counts(8, 2, 8, 4) == (1, 4)
    assert reshape.counts(6, 6, 3, 100) == (3, 2)
