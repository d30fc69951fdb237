"""What advice says when its time runs out, by a clock that only moves when it is read."""

from __future__ import annotations

import itertools
import random

import msgspec
import pytest

from placer.advice import advise, start
from placer.advice import types as advice
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import types as plan
from placer.topology import catalog, fabric
from placer.topology import types as topo

NAMES = tuple(f"gpu{i:03d}" for i in range(200))
SLOTS = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(8))


def snapshot(*, full: bool = False) -> cluster.ClusterSnapshot:
    """200 nodes, racks of 10, spines of 5 racks, GPUs taken here and there; `full` takes one of each node at least."""
    draw = random.Random(3)
    machine = catalog.find("hgx-a100-8", 8)
    assert machine is not None
    where = {name: {"rack": f"r{i // 10:02d}", "spine": f"s{i // 50}"} for i, name in enumerate(NAMES)}
    held = [tuple(draw.sample(range(8), draw.choice([1, 4] if full else [0, 0, 2, 4]))) for _ in NAMES]
    return cluster.ClusterSnapshot(
        source=cluster.Source("slurm", "25.11.0", 1_800_000_000),
        topology=topo.ClusterTopology(
            NAMES,
            (machine,),
            (0,) * len(NAMES),
            fabric.from_node_domains(["rack", "spine"], where, source="test", kind="tree"),
        ),
        nodes=tuple(
            cluster.NodeState(name=name, gpus=SLOTS, cpus=128, memory_mib=1000, features=("even",) if i % 2 else ())
            for i, name in enumerate(NAMES)
        ),
        jobs=tuple(
            cluster.Job(
                id=str(i),
                state=cluster.JobState.RUNNING,
                ends=1_800_000_060 + 60 * i,
                allocations=(cluster.Allocation(name, gpus=gpus, gpu_count=len(gpus), cpus=len(gpus)),),
            )
            for i, (name, gpus) in enumerate(zip(NAMES, held, strict=True))
            if gpus
        ),
    )


def limits(seconds: float, step: float = 100e-6) -> plan.SolveLimits:
    """A clock that goes on by `step` at each look."""
    ticks = itertools.count()
    return plan.SolveLimits(seconds=seconds, clock=lambda: step * next(ticks))


REQUESTS = (
    cluster.JobRequest(nodes=24, gpus_per_node=8),
    cluster.JobRequest(nodes=24, gpus_per_node=4, topology=cluster.TopologyConstraint(preferred="rack")),
    cluster.JobRequest(gpus=96),
    cluster.JobRequest(nodes=9, gpus_per_node=8, constraint="[even*7]", switches=3),
    cluster.JobRequest(nodes=45, gpus_per_node=4),
    cluster.JobRequest(nodes=300, gpus_per_node=8),
)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_advise_at_any_deadline_is_valid_and_its_bound_holds(
    request_: cluster.JobRequest, seconds: float, full: bool
) -> None:
    state = snapshot(full=full)
    exact = advise.advise(state, request_)
    found = advise.advise(state, request_, advice.Options(limits=limits(seconds)))
    solve = found.solve
    assert exact.solve.termination in {plan.Termination.OPTIMAL, plan.Termination.INFEASIBLE}
    if found.placement is None:
        assert solve.termination in {plan.Termination.LIMIT, plan.Termination.INFEASIBLE}
        if solve.termination is plan.Termination.INFEASIBLE:
            assert exact.placement is None
            assert found.verdict in {exact.verdict, advice.Verdict.MUST_WAIT}
        return
    assert exact.placement is not None
    _assert_free(state, found.placement)
    assert solve.objective is not None
    assert solve.bound is not None
    assert exact.solve.objective is not None
    assert solve.bound <= min(solve.objective, exact.solve.objective)
    assert solve.gap == pytest.approx((solve.objective - solve.bound) / solve.objective)
    if solve.termination is plan.Termination.OPTIMAL:
        assert (found.placement, found.score, solve.objective) == (exact.placement, exact.score, exact.solve.objective)
    else:
        assert solve.termination is plan.Termination.LIMIT
        assert "a better placement or shape may exist: time limit" in found.notes


def _assert_free(state: cluster.ClusterSnapshot, placement: plan.Placement) -> None:
    taken = {a.node: set(a.gpus or ()) for j in state.jobs for a in j.allocations}
    assert len({node.name for node in placement.nodes}) == len(placement.nodes)
    for node in placement.nodes:
        assert not taken.get(node.name, set()) & set(node.gpus)


def test_advise_without_time_says_what_was_not_searched() -> None:
    found = advise.advise(snapshot(), cluster.JobRequest(gpus=8), advice.Options(limits=limits(0.0)))
    assert found.verdict is advice.Verdict.FITS_NOW
    assert found.solve.termination is plan.Termination.LIMIT
    assert found.solve.bound == 5  # one rack, 1, and one spine, 4
    assert found.prediction is not None
    assert found.prediction.step_penalty_pct is None
    assert found.alternatives == ()
    assert found.notes[:3] == (
        "a better placement or shape may exist: time limit",
        "the best placement on an empty cluster was not searched to the end: time limit",
        "alternatives were not searched: time limit",
    )


def test_advise_that_must_wait_without_time_estimates_no_start() -> None:
    request = cluster.JobRequest(nodes=24, gpus_per_node=8)
    found = advise.advise(snapshot(full=True), request, advice.Options(limits=limits(0.0)))
    assert found.verdict is advice.Verdict.MUST_WAIT
    assert found.start == advice.Start(None, "not estimated: time limit of the search")
    assert found.notes[0] == "alternatives were not searched: time limit"


def test_advise_that_no_shape_was_found_for_in_time_is_never_called_impossible() -> None:
    request = cluster.JobRequest(nodes=50, nodes_max=60, gpus_per_node=8)  # a spine has 50 nodes
    assert advise.advise(snapshot(full=True), request).verdict is advice.Verdict.MUST_WAIT
    request = msgspec.structs.replace(request, nodes=51)
    assert advise.advise(snapshot(full=True), request).verdict is advice.Verdict.NEVER_FITS
    late = advise.advise(snapshot(full=True), request, advice.Options(limits=limits(0.0)))
    assert (late.verdict, late.solve.termination) == (advice.Verdict.MUST_WAIT, plan.Termination.LIMIT)
    assert "whether it could ever fit was not searched to the end: time limit" in late.notes


def test_advise_seconds_are_those_of_the_whole_search() -> None:
    looks = itertools.count()
    clock = plan.SolveLimits(seconds=None, clock=lambda: float(next(looks)))
    found = advise.advise(snapshot(), REQUESTS[0], advice.Options(limits=clock))
    assert found.solve.seconds == next(looks) - 1


@pytest.mark.parametrize("ends", [1, 2, 7, 40])
def test_estimate_by_bisection_equals_trying_every_end(ends: int) -> None:
    jobs = tuple(
        cluster.Job(
            id=str(i),
            state=cluster.JobState.RUNNING,
            ends=1000 + i,
            allocations=(cluster.Allocation("n", gpus=(i,), gpu_count=1, cpus=1),),
        )
        for i in range(ends)
    )
    slots = tuple(cluster.GpuSlot(index=i) for i in range(ends))
    state = cluster.ClusterSnapshot(nodes=(cluster.NodeState(name="n", gpus=slots, cpus=ends),), jobs=jobs)
    free = capacity.of(state)
    for want in range(1, ends + 1):
        found = start.estimate(state, free, lambda then, want=want: then.nodes[0].gpus >= want)  # type: ignore[misc]
        assert found.earliest == 1000 + want - 1


def test_estimate_cut_short_gives_an_end_that_is_enough() -> None:
    jobs = tuple(
        cluster.Job(
            id=str(i),
            state=cluster.JobState.RUNNING,
            ends=1000 + i,
            allocations=(cluster.Allocation("n", gpus=(i,), gpu_count=1, cpus=1),),
        )
        for i in range(8)
    )
    state = cluster.ClusterSnapshot(nodes=(cluster.NodeState(name="n", gpus=SLOTS, cpus=8),), jobs=jobs)
    answers = iter([True, False, None])
    found = start.estimate(state, capacity.of(state), lambda _: next(answers))
    assert found.earliest == 1007
    assert "an earlier end may be enough: time limit" in found.basis
