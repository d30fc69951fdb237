"""A controller beside its workers, heterogeneous components and spares, on a cluster that can be checked by eye.

s1 ── r1: n1 n2 n3 n4      s2 ── r3: n9 … n12      8 GPUs a node; the root above s1 and s2 is not known (Slurm)
   └─ r2: n5 n6 n7 n8         └─ r4: n13 … n16
"""

from __future__ import annotations

import msgspec
import pytest

from placer import errors
from placer.cluster import types as cluster
from placer.placement import features, job, job_sets, shapes
from placer.placement import types as plan
from placer.topology import catalog, fabric
from placer.topology import types as topo

NAMES = tuple(f"n{i}" for i in range(1, 17))
SLOTS = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(8))


def site(**taken: tuple[int, ...]) -> job.Site:
    machine = catalog.find("hgx-a100-8", 8)
    assert machine is not None
    where = {name: {"rack": f"r{1 + i // 4}", "spine": f"s{1 + i // 8}"} for i, name in enumerate(NAMES)}
    state = cluster.ClusterSnapshot(
        source=cluster.Source("slurm", "25.11.0", None),
        topology=topo.ClusterTopology(
            NAMES,
            (machine,),
            (0,) * len(NAMES),
            fabric.from_node_domains(["rack", "spine"], where, source="test", kind="tree"),
        ),
        nodes=tuple(cluster.NodeState(name=name, gpus=SLOTS, cpus=64, memory_mib=1000) for name in NAMES),
        jobs=tuple(
            cluster.Job(
                id=name,
                state=cluster.JobState.RUNNING,
                allocations=(cluster.Allocation(name, gpus=gpus, gpu_count=len(gpus)),),
            )
            for name, gpus in taken.items()
        ),
    )
    return job.site(state)


def pods(name: str, count: int, gpus: int, spares: int = 0, **asked: object) -> job_sets.PodSet:
    request = cluster.JobRequest(nodes=count, gpus_per_node=gpus, **asked)  # type: ignore[arg-type]
    (variant,) = features.parse(request.constraint)
    (shape, *_) = shapes.of(request, most_gpus=8, most_nodes=16)
    return job_sets.PodSet(name, job.Question(request, shape, variant), spares)


def names(found: plan.Placement | None) -> list[str]:
    assert found is not None
    return [node.name for node in found.nodes]


def test_search_controller_goes_to_a_broken_node_of_the_workers_rack() -> None:
    where = site(n1=(0,), n9=(0, 1, 2, 3), n14=tuple(range(8)))
    found = job_sets.search(where, [pods("controller", 1, 1), pods("workers", 3, 8)])
    controller, workers = found.sets
    # Only r1 and r3 hold three whole nodes and a broken one; one of n1's 7 free GPUs spoils no pair and no four.
    assert found.solve.termination is plan.Termination.OPTIMAL
    assert (names(controller.placement), names(workers.placement)) == (["n1"], ["n2", "n3", "n4"])
    assert found.prediction is not None
    assert dict(found.prediction.domains) == {"rack": 1, "spine": 1}
    assert [len(node.gpus) for node in (*controller.placement.nodes, *workers.placement.nodes)] == [1, 8, 8, 8]  # type: ignore[union-attr]


def test_search_required_level_holds_for_all_sets_together() -> None:
    rack = cluster.TopologyConstraint(required="rack")
    sets = [pods("a", 2, 8), pods("b", 2, 4)]
    busy = {name: tuple(range(8)) for name in ("n1", "n5", "n9")}
    found = job_sets.search(site(**busy), sets, topology=rack)
    assert sorted(names(found.sets[0].placement) + names(found.sets[1].placement)) == ["n13", "n14", "n15", "n16"]
    full = job_sets.search(site(**busy, n13=(0, 1, 2, 3, 4)), sets, topology=rack)
    assert full.solve.termination is plan.Termination.INFEASIBLE
    assert [one.placement for one in full.sets] == [None, None]
    assert [dict(one.fits.excluded) for one in full.sets] == [{"gpus": 4}, {"gpus": 4}]
    assert job_sets.search(site(**busy), sets, topology=rack, empty=True).sets[0].placement is not None


def test_search_sets_that_only_fit_under_different_spines_do_not_fit() -> None:
    busy = {name: tuple(range(8)) for name in NAMES if name not in {"n1", "n2", "n16"}}
    found = job_sets.search(site(**busy), [pods("a", 2, 8), pods("b", 1, 8)])
    assert found.solve.termination is plan.Termination.INFEASIBLE


def test_search_spares_lie_in_the_same_domain_and_leave_the_rest_whole() -> None:
    busy = {name: tuple(range(8)) for name in ("n1", "n2", "n3", "n9", "n10")}
    found = job_sets.search(
        site(**busy), [pods("workers", 4, 8, spares=1)], topology=cluster.TopologyConstraint(required="spine")
    )
    (workers,) = found.sets
    assert (names(workers.placement), names(workers.spares)) == (["n5", "n6", "n7", "n8"], ["n4"])


def test_search_no_node_is_given_twice() -> None:
    found = job_sets.search(site(), [pods("a", 5, 8), pods("b", 2, 1), pods("c", 1, 4)])
    everyone = [name for one in found.sets for name in names(one.placement)]
    assert len(everyone) == len(set(everyone)) == 8


def test_search_one_set_equals_one_job() -> None:
    where = site(n2=(0, 1), n3=(5,), n11=(1, 2, 3, 4))
    one = pods("all", 3, 4)
    alone = job.search(where, one.question)
    found = job_sets.search(where, [one])
    assert found.sets[0].placement == alone.placement
    assert msgspec.structs.replace(found.solve, method="") == msgspec.structs.replace(alone.solve, method="")


def test_search_listed_node_is_held_by_its_set() -> None:
    found = job_sets.search(site(), [pods("a", 2, 8), pods("b", 1, 8, nodelist="n11")])
    assert names(found.sets[1].placement) == ["n11"]
    assert set(names(found.sets[0].placement)) <= {"n9", "n10", "n12"}


@pytest.mark.parametrize("asked", [{"switches": 2}, {"constraint": "[ib*1]"}])
def test_search_what_only_a_job_by_itself_can_have_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(errors.RequestError, match="`a`"):
        job_sets.search(site(), [pods("a", 2, 8, **asked)])  # type: ignore[arg-type]
