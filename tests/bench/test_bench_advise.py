"""`placer place` without the process: advice, one search and the indices, on 10,000 nodes with 5,000 running jobs.

Nodes are 8 x A100 behind NVSwitch, racks of 32, spines of 8 racks. The cluster is a third idle; `full` leaves no whole
node, so that the job has to wait and a start is estimated.
"""

from __future__ import annotations

import functools
import random
import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from placer.advice import advise
from placer.advice import types as advice
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, features, job, job_sets, shapes
from placer.placement import types as plan
from placer.topology import catalog, fabric
from placer.topology import types as topo

NODES, JOBS = 10_000, 5_000
SLOTS = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(8))
TAKEN = 1_800_000_000


@functools.cache
def snapshot(*, full: bool = False) -> cluster.ClusterSnapshot:
    """Jobs of 1, 2, 4 and 8 GPUs a node on 1 to 8 nodes, their GPUs anywhere; a few nodes are drained."""
    draw = random.Random(7)
    names = tuple(f"gpu{i:05d}" for i in range(NODES))
    where = {name: {"rack": f"rack{i // 32:03d}", "spine": f"spine{i // 256:02d}"} for i, name in enumerate(names)}
    machine = catalog.find("hgx-a100-8", 8)
    assert machine is not None
    free = [list(range(8)) for _ in names]
    order = draw.sample(range(NODES), NODES)
    jobs = []
    if full:  # every node gives one GPU to a job of its own first
        jobs = [_job(draw, i, ((names[i], (free[i].pop(draw.randrange(8)),)),)) for i in range(NODES)]
    for number in range(JOBS):
        count, size = draw.choice([1, 1, 1, 1, 2, 4, 8]), draw.choice([1, 2, 4, 8, 8])
        chosen = [order[(number * 7 + k) % NODES] for k in range(count)]
        held = []
        for i in chosen:
            gpus = tuple(sorted(draw.sample(free[i], min(size, len(free[i])))))
            free[i] = [gpu for gpu in free[i] if gpu not in gpus]
            held.append((names[i], gpus))
        jobs.append(_job(draw, len(jobs), tuple(held)))
    return cluster.ClusterSnapshot(
        source=cluster.Source("slurm", "25.11.0", TAKEN),
        topology=topo.ClusterTopology(
            names,
            (machine,),
            (0,) * NODES,
            fabric.from_node_domains(["rack", "spine"], where, source="made", kind="tree"),
        ),
        nodes=tuple(
            cluster.NodeState(
                name=name,
                gpus=SLOTS,
                cpus=128,
                memory_mib=1_000_000,
                sockets=2,
                cores_per_socket=64,
                threads_per_core=1,
                partitions=("gpu",),
                features=("a100", "ib"),
                condition=cluster.NodeCondition.DRAINED if i % 97 == 0 else cluster.NodeCondition.UP,
            )
            for i, name in enumerate(names)
        ),
        jobs=tuple(jobs),
        partitions=(cluster.Partition(name="gpu", nodes=names, default=True, default_cpus_per_gpu=8),),
    )


def _job(draw: random.Random, number: int, held: tuple[tuple[str, tuple[int, ...]], ...]) -> cluster.Job:
    size = max(len(gpus) for _, gpus in held)
    return cluster.Job(
        id=str(number + 1),
        state=cluster.JobState.RUNNING,
        partition="gpu",
        ends=TAKEN + draw.randrange(60, 86_400),
        request=cluster.JobRequest(nodes=len(held), gpus_per_node=size, cpus_per_gpu=8, memory_per_gpu_mib=100_000),
        allocations=tuple(
            cluster.Allocation(
                name,
                gpus=gpus,
                gpu_count=len(gpus),
                cpus=8 * len(gpus),
                cpu_ids=tuple(cpu for gpu in gpus for cpu in range(16 * gpu, 16 * gpu + 8)),
                memory_mib=100_000 * len(gpus),
            )
            for name, gpus in held
        ),
    )


REQUESTS = {
    "64 x 8": cluster.JobRequest(nodes=64, gpus_per_node=8),
    "16 x 4": cluster.JobRequest(nodes=16, gpus_per_node=4, cpus_per_gpu=4),
    "1 GPU": cluster.JobRequest(nodes=1, gpus_per_node=1),
    "--gpus 128": cluster.JobRequest(gpus=128),
    "64 x 8 prefer rack": cluster.JobRequest(
        nodes=64, gpus_per_node=8, topology=cluster.TopologyConstraint(preferred="rack")
    ),
    "--constraint": cluster.JobRequest(nodes=64, gpus_per_node=8, constraint="a100&ib"),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_bench_advice_10000_nodes(benchmark: BenchmarkFixture, request_: cluster.JobRequest) -> None:
    options = advice.Options(limits=plan.SolveLimits(seconds=5.0, clock=time.monotonic))
    found = benchmark(advise.advise, snapshot(), request_, options)
    benchmark.extra_info.update(budget_ms=600, verdict=found.verdict, alternatives=len(found.alternatives))
    assert found.verdict is advice.Verdict.FITS_NOW
    assert found.solve.termination == "optimal"


def test_bench_advice_10000_nodes_must_wait(benchmark: BenchmarkFixture) -> None:
    state = snapshot(full=True)
    options = advice.Options(limits=plan.SolveLimits(seconds=5.0, clock=time.monotonic))
    found = benchmark(advise.advise, state, REQUESTS["64 x 8"], options)
    benchmark.extra_info.update(budget_ms=1000, start=found.start.basis if found.start else "")
    assert found.verdict is advice.Verdict.MUST_WAIT
    assert found.start is not None
    assert found.start.earliest is not None


def test_bench_site_10000_nodes(benchmark: BenchmarkFixture) -> None:
    site = benchmark(job.site, snapshot())
    benchmark.extra_info.update(budget_ms=150)
    assert len(site.free.nodes) == NODES


def test_bench_free_amounts_10000_nodes(benchmark: BenchmarkFixture) -> None:
    free = benchmark(capacity.of, snapshot())
    assert sum(node.gpus for node in free.nodes) == 8 * NODES - sum(
        len(a.gpus or ()) for j in snapshot().jobs for a in j.allocations
    )


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_bench_search_10000_nodes(benchmark: BenchmarkFixture, request_: cluster.JobRequest) -> None:
    site = job.site(snapshot())
    limits = plan.SolveLimits(seconds=5.0, clock=time.monotonic)
    question = advise.ask(site, request_, limits)[0]
    found = benchmark(job.search, site, question)
    benchmark.extra_info.update(budget_ms=30, candidates=found.fits.nodes_fit)
    assert found.solve.termination == "optimal"


@pytest.mark.parametrize("workers", [4, 64])
def test_bench_controller_and_workers_10000_nodes(benchmark: BenchmarkFixture, workers: int) -> None:
    site = job.site(snapshot())
    requests = (cluster.JobRequest(nodes=1, gpus_per_node=1), cluster.JobRequest(nodes=workers, gpus_per_node=8))
    sets = [
        job_sets.PodSet(name, advise.ask(site, request, plan.SolveLimits())[0])
        for name, request in zip(("controller", "workers"), requests, strict=True)
    ]
    found = benchmark(job_sets.search, site, sets, topology=cluster.TopologyConstraint(required="spine"))
    benchmark.extra_info.update(objective=found.solve.objective)
    assert found.solve.termination == "optimal"


def test_bench_eligible_10000_nodes(benchmark: BenchmarkFixture) -> None:
    free = capacity.of(snapshot())
    want = eligible.wanted(snapshot(), REQUESTS["64 x 8"], features.ANY, 64)
    found = benchmark(eligible.check, free, want, shapes.Demand(8, 64, 0, 1))
    assert 1000 < len(found.positions) == found.fits.nodes_fit < NODES
