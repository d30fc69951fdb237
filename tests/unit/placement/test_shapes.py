from __future__ import annotations

from typing import Any

import pytest

from placer import errors
from placer.cluster import types as cluster
from placer.placement import shapes


def of(
    defaults: cluster.Partition | None = None, *, most_gpus: int = 8, most_nodes: int = 6, **asked: Any
) -> tuple[shapes.Shape, ...]:
    request = cluster.JobRequest(**asked)
    return shapes.of(request, most_gpus=most_gpus, most_nodes=most_nodes, defaults=defaults)


def test_of_nodes_and_gpus_per_node_is_one_shape() -> None:
    assert of(nodes=2, gpus_per_node=4, ntasks_per_node=4, cpus_per_task=8) == (
        shapes.Shape(2, shapes.Demand(gpus=4, cpus=32, memory_mib=0, tasks=4), 0, 8),
    )


def test_of_total_gpus_gives_every_even_shape_that_nodes_can_hold() -> None:
    *found, filled = of(gpus=16, most_nodes=20)
    assert (filled.fill, filled.gpus, filled.demand.gpus, filled.exactly) == (16, 16, 1, False)
    assert [(s.count, s.demand.gpus) for s in found] == [(2, 8), (4, 4), (8, 2), (16, 1)]


def test_of_total_gpus_that_do_not_divide_gives_the_uneven_shape() -> None:
    *found, _filled = of(gpus=11, most_nodes=6)
    assert [(s.count, s.demand.gpus, s.extra, s.gpus) for s in found] == [(2, 5, 1, 11)]


def test_of_total_on_fixed_nodes_is_spread_evenly() -> None:
    even, filled = of(gpus=7, nodes=2)
    assert (even.count, even.demand.gpus, even.extra) == (2, 3, 1)
    assert (filled.count, filled.fill, filled.exactly) == (2, 7, True)


def test_of_gpus_per_task_counts_tasks() -> None:
    even, filled = of(gpus_per_task=1, ntasks=8, nodes=2)
    assert (even.count, even.demand.gpus, even.demand.tasks) == (2, 4, 4)
    assert (filled.fill, filled.demand.gpus, [step.tasks for step in filled.steps]) == (8, 1, [1, 2, 3, 4, 5, 6, 7, 8])


def test_of_node_range_gives_each_count() -> None:
    assert [s.count for s in of(nodes=2, nodes_max=4, gpus_per_node=8)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("asked", "memory"),
    [
        ({"memory_per_node_mib": 1000}, 1000),
        ({"memory_per_gpu_mib": 100}, 400),
        ({"memory_per_cpu_mib": 10, "cpus_per_task": 6}, 60),
        ({"whole_memory": True}, None),
        ({}, 500),
    ],
)
def test_of_memory_by_node_gpu_cpu_or_partition_default(asked: dict[str, Any], memory: int | None) -> None:
    partition = cluster.Partition(name="gpu", default_memory_per_node_mib=500)
    (shape,) = of(partition, nodes=1, gpus_per_node=4, **asked)
    assert shape.demand.memory_mib == memory


def test_of_no_memory_where_the_partition_gives_all_of_it() -> None:
    partition = cluster.Partition(name="gpu", default_whole_memory=True)
    assert of(partition, nodes=1, gpus_per_node=4)[0].demand.memory_mib is None
    assert of(partition, nodes=1, gpus_per_node=4, memory_per_node_mib=10)[0].demand.memory_mib == 10


def test_of_gpus_per_socket_counts_sockets() -> None:
    assert of(nodes=1, gpus_per_socket=2, sockets_per_node=2)[0].demand.gpus == 4


def test_of_default_cpus_per_gpu_applies_only_without_cpus_of_the_job() -> None:
    partition = cluster.Partition(name="gpu", default_cpus_per_gpu=14)
    assert of(partition, nodes=1, gpus_per_node=4)[0].demand.cpus == 56
    assert of(partition, nodes=1, gpus_per_node=4, cpus_per_task=2)[0].demand.cpus == 2


@pytest.mark.parametrize(
    "asked",
    [
        {"nodes": 2, "gpus_per_node": 4, "gpus": 7},
        {"nodes": 0},
        {"gpus": -1},
        {"nodes": 4, "nodes_max": 2},
        {"gpus": 7, "gpus_per_node": 2, "nodes": 3, "nodes_max": None},
        {"gpu_share": 500},
    ],
)
def test_of_contradictions_are_request_errors(asked: dict[str, Any]) -> None:
    with pytest.raises(errors.RequestError):
        of(**asked)


@pytest.mark.parametrize(
    "asked",
    [  # each refused by sbatch 22.05 as an invalid generic resource specification
        {"nodes": 1, "gpus": 1, "gpus_per_node": 2},
        {"gpus": 5, "gpus_per_node": 2},
        {"ntasks": 4, "gpus_per_task": 2, "gpus": 4},
        {"gpus": 5, "gpus_per_task": 2},
        {"nodes": 2, "gpus": 4, "gpus_per_task": 4},
        {"nodes": 4, "gpus": 2},
        {"nodes": 1, "ntasks": 4, "gpus_per_task": 1, "gpus_per_node": 2},
        {"nodes": 2, "ntasks": 3, "ntasks_per_node": 1},
    ],
)
def test_of_counts_that_contradict_each_other_raises_request_error(asked: dict[str, Any]) -> None:
    with pytest.raises(errors.RequestError):
        of(**asked)


def test_of_fewer_tasks_than_nodes_takes_as_many_nodes_as_tasks() -> None:
    assert [s.count for s in of(nodes=4, ntasks=2, gpus_per_node=1)] == [2]


def test_of_tasks_per_node_with_tasks_is_the_most_of_each_node() -> None:
    assert [s.count for s in of(gpus=8, ntasks=4, ntasks_per_node=2)] == [2, 4]


def test_of_tasks_that_cannot_be_dealt_evenly_keep_their_gpus_together() -> None:
    (filled,) = of(nodes=2, ntasks=3, gpus_per_task=2)
    assert (filled.fill, filled.demand.gpus) == (6, 2)
    assert [(step.gpus, step.tasks) for step in filled.steps] == [(2, 1), (4, 2), (6, 3)]
