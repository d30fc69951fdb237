"""The numbers of section 1, each worked out by hand from the rules."""

from __future__ import annotations

import pytest

from placer.cluster import types as cluster
from placer.slurm_model import ask, release
from placer.slurm_model.release import R22, R24, R26


def _request(**fields: object) -> cluster.JobRequest:
    return cluster.JobRequest(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "which", "n"),
    [
        ({"ntasks": 6}, R24, (6, True)),
        ({"nodes": 2, "sockets_per_node": 2}, R24, (4, True)),
        ({"nodes": 3, "threads_per_core": 1}, R26, (3, True)),
        ({"nodes": 1, "nodes_max": 2, "threads_per_core": 1}, R24, (0, False)),  # a range of nodes sets no tasks
        ({"nodelist": "a1", "threads_per_core": 1}, R24, (1, True)),
        ({"nodes": 2, "ntasks_per_node": 3}, R24, (6, False)),
        ({"nodes": 2, "ntasks_per_node": 3}, R22, (6, True)),
        ({"nodes": 2, "ntasks_per_node": 3, "threads_per_core": 1}, R24, (6, False)),
        ({"gpus_per_node": 4}, R26, (0, False)),
    ],
)
def test_build_tasks_follow_from_the_options(
    fields: dict[str, object], which: release.Release, n: tuple[int, bool]
) -> None:
    asked = ask.build(_request(**fields), which)
    assert (asked.n, asked.n_set) == n


def test_build_tasks_that_follow_from_gpus_are_not_given_ones() -> None:
    request = _request(gpus=2, ntasks=6, ntasks_per_gpu=3, cpus_per_task=3)
    assert ask.build(request, R24, tasks_said=False).n_set is False
    assert ask.build(request, R24, tasks_said=True).n_set is True


@pytest.mark.parametrize(
    ("fields", "which", "cpus"),
    [
        ({"ntasks": 4, "cpus_per_task": 3}, R22, 12),
        ({"nodes": 2, "cpus_per_task": 3}, R24, 6),
        ({"nodes": 2, "ntasks_per_node": 4, "cpus_per_task": 2}, R26, 16),
        ({"nodes": 2, "gpus_per_node": 4, "cpus_per_gpu": 8}, R24, 64),
        ({"nodes": 2, "gpus_per_node": 4, "cpus_per_gpu": 8}, R22, 2),  # 22.05 does not count CPUs of GPUs here
        ({"ntasks": 2, "gpus_per_task": 3, "cpus_per_gpu": 4}, R24, 24),
    ],
)
def test_build_least_cpus_of_the_job(fields: dict[str, object], which: release.Release, cpus: int) -> None:
    assert ask.build(_request(**fields), which).min_cpus == cpus


def test_build_cpus_of_a_tasks_gpus_are_forgotten_where_the_gpus_have_a_type() -> None:
    asked = {"ntasks": 2, "gpus_per_task": 3, "cpus_per_gpu": 4}
    assert ask.build(_request(**asked), R24).cpt == 12
    assert ask.build(_request(**asked, gpu_type="a100"), R24).cpt == 1


@pytest.mark.parametrize(
    ("fields", "which", "most"),
    [
        ({"nodes": 4, "ntasks": 3}, R24, 3),
        ({"nodes": 2, "nodes_max": 8, "gpus": 5}, R24, 5),
        ({"ntasks": 3}, R24, None),
        ({"ntasks": 3}, R26, 3),
    ],
)
def test_build_most_nodes(fields: dict[str, object], which: release.Release, most: int | None) -> None:
    assert ask.build(_request(**fields), which).nodes_max == most


def test_build_fewer_gpus_than_nodes_is_refused() -> None:
    assert ask.build(_request(nodes=2, gpus=1), R22).refused == "fewer GPUs than nodes"


def test_build_hint_and_sockets_undo_each_other_by_release() -> None:
    request = _request(
        nodes=1, gpus_per_socket=2, sockets_per_node=2, hint="nomultithread", threads_per_core=1, ntasks=2
    )
    assert ask.build(request, R22).refused
    assert ask.build(request, R24).refused
    newest = ask.build(request, R26)
    assert (newest.refused, newest.one_thread, newest.s) == (None, False, 2)


@pytest.mark.parametrize(
    ("version", "which"),
    [("22.05.8", R22), ("23.11", R22), ("24.05.1", R24), ("slurm 24.11.5", R24), ("25.11.7", R24), ("26.05.5", R26),
     ("27.11", R26), ("", R26)],
)  # fmt: skip
def test_release_of_a_version_is_the_recorded_one_before_it(version: str, which: release.Release) -> None:
    assert release.of(version) is which


def test_release_is_recorded_only_for_the_three() -> None:
    assert [v for v in ("22.05.8", "23.11", "24.11", "25.11", "26.05.5") if release.is_recorded(v)] == [
        "22.05.8", "24.11", "26.05.5",
    ]  # fmt: skip
