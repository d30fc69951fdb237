"""Migration plans on snapshots: who may move, where to, which GPUs, and what nobody can carry out."""

from __future__ import annotations

import random

import msgspec
import pytest

from placer import errors
from placer.advice import migration
from placer.cluster import types as cluster
from placer.placement import types as plan

SLOTS = tuple(cluster.GpuSlot(index=i) for i in range(8))
NOW = 1_800_000_000


def job(name: str, node: str, gpus: tuple[int, ...], **more: object) -> cluster.Job:
    held = cluster.Allocation(node, gpus=gpus, gpu_count=len(gpus), cpus=4 * len(gpus), memory_mib=10 * len(gpus))
    one = cluster.Job(id=name, state=cluster.JobState.RUNNING, preemptible=True, started=NOW - 60, allocations=(held,))
    return msgspec.structs.replace(one, **more)


def snapshot(*jobs: cluster.Job, nodes: int = 3, system: str = "manual") -> cluster.ClusterSnapshot:
    return cluster.ClusterSnapshot(
        source=cluster.Source(system, "", NOW),
        nodes=tuple(cluster.NodeState(name=f"gpu{i}", gpus=SLOTS, cpus=32, memory_mib=80) for i in range(1, nodes + 1)),
        jobs=jobs,
    )


THREE = (
    job("1", "gpu1", (0, 1, 2, 3)),
    job("2", "gpu1", (4, 5)),
    job("3", "gpu1", (6,)),
    job("4", "gpu2", (0, 1, 2, 3)),
    job("5", "gpu2", (4, 5)),
    job("6", "gpu3", (0, 1, 2, 3)),
    job("7", "gpu3", (4, 5)),
    job("8", "gpu3", (6,)),
)
PENDING = cluster.Job(id="9", request=cluster.JobRequest(nodes=1, gpus_per_node=4, cpus_per_gpu=4))


def test_migration_two_moves_free_four_gpus_on_the_second_node() -> None:
    whole = snapshot(*THREE, PENDING)
    found = migration.make_room(whole, migration.request_of(whole, "9"))
    assert [(m.step, m.job, m.source, m.source_gpus, m.target, m.target_gpus) for m in found.moves] == [
        (1, "3", "gpu1", (6,), "gpu3", (7,)),
        (2, "5", "gpu2", (4, 5), "gpu1", (6, 7)),
    ]
    assert found.targets == (("gpu2", (4, 5, 6, 7)),)
    assert (found.jobs, found.gpus, found.solve.termination) == (2, 3, plan.Termination.OPTIMAL)


def test_migration_moves_only_preemptible_jobs_unless_told() -> None:
    fixed = [msgspec.structs.replace(one, preemptible=False) for one in THREE]
    request = PENDING.request
    none = migration.make_room(snapshot(*fixed), request)
    assert (none.fits, none.solve.termination) == (False, plan.Termination.INFEASIBLE)
    assert none.notes == ("job 1, 2, 3, 4, 5 and 3 more stays: it is not preemptible (`--move-all` allows it)",)
    everything = migration.make_room(snapshot(*fixed), request, migration.Options(move_all=True))
    assert everything.jobs == 2
    assert everything.solve.objective == pytest.approx(202.03)


def test_migration_preemptible_job_goes_first_even_if_larger() -> None:
    jobs = (
        job("1", "gpu1", (0,), preemptible=False),
        job("2", "gpu2", (0, 1, 2, 3)),
        job("3", "gpu3", tuple(range(4)), preemptible=False),
    )
    request = cluster.JobRequest(nodes=1, gpus_per_node=8)
    found = migration.make_room(snapshot(*jobs), request, migration.Options(move_all=True))
    assert [move.job for move in found.moves] == ["2"]


def test_migration_of_equal_jobs_the_younger_one_moves() -> None:
    jobs = (job("1", "gpu1", (0,), started=NOW - 90_000), job("2", "gpu2", (0,)), job("3", "gpu3", (0, 1)))
    found = migration.make_room(snapshot(*jobs), cluster.JobRequest(nodes=1, gpus_per_node=8))
    assert [move.job for move in found.moves] == ["2"]


def test_migration_job_keeps_to_its_own_partition_and_type() -> None:
    """gpu3 has room, but is of another partition than the job that has to leave."""
    base = snapshot(job("1", "gpu1", (0,), partition="a"), job("2", "gpu2", tuple(range(8)), preemptible=False))
    nodes = tuple(
        msgspec.structs.replace(node, partitions=("b" if node.name == "gpu3" else "a",)) for node in base.nodes
    )
    partitions = (cluster.Partition(name="a"), cluster.Partition(name="b"))
    here = msgspec.structs.replace(base, nodes=nodes, partitions=partitions)
    found = migration.make_room(here, cluster.JobRequest(nodes=1, gpus_per_node=8, partition="a"))
    assert found.solve.termination is plan.Termination.INFEASIBLE


def test_migration_exclusive_job_leaves_no_room_beside_it() -> None:
    alone = job("1", "gpu1", (0,), request=cluster.JobRequest(exclusive=True), preemptible=False)
    jobs = (alone, job("2", "gpu2", (0, 1)), job("3", "gpu3", tuple(range(8)), preemptible=False))
    found = migration.make_room(snapshot(*jobs), cluster.JobRequest(nodes=1, gpus_per_node=8))
    assert found.solve.termination is plan.Termination.INFEASIBLE  # job 2 finds no node


def test_migration_commands_are_slurms_own() -> None:
    whole = snapshot(*THREE, PENDING, system="slurm")
    found = migration.make_room(whole, PENDING.request)
    assert found.commands == (
        "scontrol requeuehold 3",
        "scontrol update JobId=3 ReqNodeList=gpu3",
        "scontrol release 3",
        "scontrol requeuehold 5",
        "scontrol update JobId=5 ReqNodeList=gpu1",
        "scontrol release 5",
    )


def test_migration_unknown_or_running_job_is_refused() -> None:
    for name, words in (("77", "no job `77`"), ("1", "runs already")):
        with pytest.raises(errors.RequestError, match=words):
            migration.request_of(snapshot(*THREE), name)


def test_migration_shuffled_snapshot_gives_the_same_plan() -> None:
    first = migration.make_room(snapshot(*THREE), PENDING.request)
    for seed in range(5):
        draw = random.Random(seed)
        mixed = snapshot(*draw.sample(THREE, len(THREE)))
        nodes = tuple(draw.sample(mixed.nodes, 3))
        assert migration.make_room(msgspec.structs.replace(mixed, nodes=nodes), PENDING.request) == first


def test_migration_leaves_a_node_alone_that_has_given_more_than_it_has() -> None:
    """gpu1's jobs hold more memory than it has, so what job 1 gives back would not be free."""
    over = job(
        "1", "gpu1", (0,), allocations=(cluster.Allocation("gpu1", gpus=(0,), gpu_count=1, cpus=1, memory_mib=90),)
    )
    jobs = (over, job("2", "gpu2", (0, 1, 2)), job("3", "gpu3", tuple(range(8)), preemptible=False))
    found = migration.make_room(snapshot(*jobs), cluster.JobRequest(nodes=1, gpus_per_node=8))
    assert found.solve.termination is plan.Termination.INFEASIBLE
    assert "job 1 stays: a node of it has given more than it has" in found.notes
