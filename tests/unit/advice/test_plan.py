"""A plan for the queue of a small cluster: two racks of two nodes with 8 GPUs each."""

from __future__ import annotations

import random

import msgspec
import pytest

from placer.advice import plan, queue_entries
from placer.advice import queue_types as advice
from placer.cluster import types as cluster
from placer.topology import fabric
from placer.topology import types as topo

NAMES = ("n1", "n2", "n3", "n4")
FABRIC = fabric.from_node_domains(["leaf"], {n: {"leaf": f"leaf{1 + i // 2}"} for i, n in enumerate(NAMES)}, source="t")
SLOTS = tuple(cluster.GpuSlot(index=i) for i in range(8))
NOW = 1_800_000_000


def node(name: str, **more: object) -> cluster.NodeState:
    return msgspec.structs.replace(cluster.NodeState(name=name, gpus=SLOTS, cpus=32, memory_mib=800), **more)


def waiting(name: str, nodes: int, gpus: int, **more: object) -> cluster.Job:
    request = cluster.JobRequest(nodes=nodes, gpus_per_node=gpus, memory_per_node_mib=gpus * 100)
    job = cluster.Job(id=name, priority=10, time_limit=600, request=request)
    return msgspec.structs.replace(job, **more)


def running(name: str, *held: tuple[str, tuple[int, ...]], ends: int = NOW + 3600) -> cluster.Job:
    allocations = tuple(
        cluster.Allocation(n, gpus=gpus, gpu_count=len(gpus), cpus=len(gpus), memory_mib=100 * len(gpus))
        for n, gpus in held
    )
    return cluster.Job(id=name, state=cluster.JobState.RUNNING, ends=ends, allocations=allocations)


def snapshot(*jobs: cluster.Job) -> cluster.ClusterSnapshot:
    return cluster.ClusterSnapshot(
        source=cluster.Source("manual", "", NOW),
        topology=topo.ClusterTopology(NAMES, (), (-1,) * 4, FABRIC),
        nodes=tuple(node(n) for n in NAMES),
        jobs=jobs,
    )


def told(found: advice.QueuePlan) -> dict[str, tuple[str, list[str]]]:
    return {
        job.id: (job.choice.value, [n.name for n in job.placement.nodes] if job.placement is not None else [])
        for job in found.jobs
    }


FULL = tuple(range(8))


def test_plan_starts_what_fits_and_tells_when_the_rest_could() -> None:
    found = plan.plan_queue(snapshot(running("1", ("n1", FULL), ("n2", FULL)), waiting("2", 2, 8), waiting("3", 2, 8)))
    assert told(found) == {"2": ("start", ["n3", "n4"]), "3": ("wait", [])}
    (second,) = [job for job in found.jobs if job.id == "3"]
    assert second.start is not None
    assert second.start.earliest is not None
    assert 600 <= second.start.earliest - NOW <= 600 + advice.Options().horizon // 96 + 1
    assert second.reason == "2 x 8 GPUs would fit now, but jobs of more value take the room"
    assert (found.value, found.gpus_started, found.gpus_free) == (16.0, 16, 16)


def test_plan_does_not_decide_held_dependent_and_later_jobs() -> None:
    jobs = (
        waiting("2", 1, 1, state=cluster.JobState.HELD, reason="JobHeldUser"),
        waiting("3", 1, 1, dependency="afterok:1"),
        waiting("4", 1, 1, reason="BeginTime"),
        waiting("5", 1, 1, reason="QOSMaxGRESPerUser"),
    )
    found = plan.plan_queue(snapshot(*jobs))
    assert [(job.choice.value, job.reason) for job in found.jobs] == [
        ("wait", "held (JobHeldUser)"),
        ("wait", "waits for other jobs (afterok:1)"),
        ("wait", "its begin time has not come"),
        ("wait", "the scheduler holds it back (QOSMaxGRESPerUser)"),
    ]
    assert (found.value, found.solve.termination) == (0.0, "optimal")


def test_plan_array_is_one_line_with_its_own_limit() -> None:
    found = plan.plan_queue(snapshot(waiting("7", 1, 1, alias="7_[1-20%6]"), running("9", ("n1", (0,)))))
    (line,) = found.jobs
    assert (line.tasks, line.of, line.choice) == (6, 20, advice.Choice.START)
    assert line.placement is not None
    assert len(line.placement.nodes) == 6
    assert line.reason == "6 of 20 tasks fit now; the array's own limit holds 14 back"


def test_plan_tasks_of_an_array_that_run_count_for_its_limit() -> None:
    task = msgspec.structs.replace(running("8", ("n1", (0,))), alias="7_1")
    (line,) = plan.plan_queue(snapshot(waiting("7", 1, 1, alias="7_[2-20%1]"), task)).jobs
    assert (line.choice, line.reason) == (advice.Choice.WAIT, "as many tasks of the array run as it allows (1)")


@pytest.mark.parametrize(
    ("text", "count"), [("1-20", 20), ("3", 1), ("1,4-6", 4), ("0-30:10", 4), ("1-3,...", 3), ("x", 1)]
)
def test_array_index_list_counts_its_tasks(text: str, count: int) -> None:
    (one,) = queue_entries.waiting(snapshot(waiting("7", 1, 1, alias=f"7_[{text}]")))
    assert one.of == count


def test_plan_components_of_a_heterogeneous_job_start_together() -> None:
    parts = (waiting("2", 3, 8, alias="2+0"), waiting("3", 1, 8, alias="2+1"))
    found = told(plan.plan_queue(snapshot(*parts)))
    assert [choice for choice, _ in found.values()] == ["start", "start"]
    assert sorted(n for _, nodes in found.values() for n in nodes) == list(NAMES)
    busy = told(plan.plan_queue(snapshot(*parts, running("1", ("n1", (0,))))))
    assert [choice for choice, _ in busy.values()] == ["wait", "wait"]


def test_plan_tiers_let_one_important_job_beat_many() -> None:
    jobs = (waiting("2", 4, 8, priority=2), *(waiting(str(i), 1, 8, priority=3 - 1) for i in (3, 4)))
    big = waiting("9", 1, 1, priority=3)
    assert told(plan.plan_queue(snapshot(*jobs, big), advice.Options(tiers=True)))["9"][0] == "start"
    assert told(plan.plan_queue(snapshot(*jobs, big)))["2"][0] == "start"


def test_plan_reserve_keeps_nodes_for_the_job_that_must_wait() -> None:
    """Job 2 needs all four nodes when job 1 ends; job 3 would run beyond that, job 4 ends before."""
    first = running("1", ("n1", FULL), ends=NOW + 1000)
    jobs = (
        waiting("2", 4, 8, priority=9),
        waiting("3", 1, 8, priority=5, time_limit=86_400),
        waiting("4", 1, 8, priority=5, time_limit=300),
    )
    free = told(plan.plan_queue(snapshot(first, *jobs)))
    kept = told(plan.plan_queue(snapshot(first, *jobs), advice.Options(reserve=1)))
    assert [free[i][0] for i in "234"] == ["wait", "start", "start"]
    assert [kept[i][0] for i in "234"] == ["wait", "wait", "start"]


def test_plan_request_that_cannot_be_read_is_told_not_raised() -> None:
    bad = waiting("2", 1, 1, request=cluster.JobRequest(nodes=1, partition="nowhere"))
    (line,) = plan.plan_queue(snapshot(bad)).jobs
    assert line.choice is advice.Choice.WAIT
    assert "nowhere" in line.reason


def test_plan_gpus_of_jobs_on_one_node_are_disjoint() -> None:
    found = plan.plan_queue(snapshot(*(waiting(str(i), 1, 4) for i in range(2, 10))))
    taken: dict[str, list[int]] = {}
    for job in found.jobs:
        assert job.placement is not None
        for part in job.placement.nodes:
            taken.setdefault(part.name, []).extend(part.gpus)
    assert {name: sorted(gpus) for name, gpus in taken.items()} == {name: list(FULL) for name in NAMES}


def test_plan_shuffled_snapshot_gives_the_same_plan() -> None:
    jobs = [running("1", ("n2", (0, 1, 2))), *(waiting(str(i), 1 + i % 3, 1 << i % 4) for i in range(2, 14))]
    first = plan.plan_queue(snapshot(*jobs))
    for seed in range(5):
        draw = random.Random(seed)
        mixed = snapshot(*draw.sample(jobs, len(jobs)))
        nodes = tuple(draw.sample(mixed.nodes, len(mixed.nodes)))
        assert plan.plan_queue(msgspec.structs.replace(mixed, nodes=nodes)) == first
