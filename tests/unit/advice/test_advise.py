"""Advice on a small cluster whose answers can be worked out by hand.

spine ── leaf1 ── gpu1 gpu2        8 x A100 behind NVSwitch, two sockets, a NIC a GPU pair at 200 Gbit/s
      └─ leaf2 ── gpu3 gpu4
"""

from __future__ import annotations

import msgspec
import pytest

from placer import errors
from placer.advice import advise
from placer.advice import types as advice
from placer.cluster import types as cluster
from placer.topology import fabric
from placer.topology import types as topo

GPUS = tuple(
    topo.Gpu(id=f"GPU{i}", index=i, model="a100", numa=(i // 4,), cpus=tuple(range(32 * (i // 4), 32 * (i // 4) + 32)))
    for i in range(8)
)
NICS = tuple(topo.Nic(id=f"NIC{i}", name=f"mlx5_{i}", speed_gbits=200.0) for i in range(4))
LINKS = (
    *(topo.Link(f"GPU{i}", f"GPU{j}", topo.LinkType.NVLINK, 12) for i in range(8) for j in range(i + 1, 8)),
    *(
        topo.Link(f"GPU{i}", f"NIC{j}", topo.LinkType.PXB if i // 2 == j else topo.LinkType.SYS)
        for i in range(8)
        for j in range(4)
    ),
)
MACHINE = topo.NodeTopology(name="a100", source="test", gpus=GPUS, nics=NICS, links=LINKS)
NAMES = ("gpu1", "gpu2", "gpu3", "gpu4")
WHERE = {n: {"leaf": f"leaf{1 + i // 2}", "spine": "s1"} for i, n in enumerate(NAMES)}
FABRIC = fabric.from_node_domains(["leaf", "spine"], WHERE, source="test", kind="tree")
SLOTS = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(8))
EMPTY = cluster.ClusterSnapshot(
    source=cluster.Source("slurm", "24.11.5", 1_800_000_000),
    topology=topo.ClusterTopology(NAMES, (MACHINE,), (0, 0, 0, 0), FABRIC),
    nodes=tuple(
        cluster.NodeState(
            name=n, gpus=SLOTS, cpus=64, memory_mib=1000, sockets=2, cores_per_socket=32, threads_per_core=1
        )
        for n in NAMES
    ),
)


def busy(*held: tuple[str, tuple[int, ...]], ends: int = 1_800_003_600) -> cluster.ClusterSnapshot:
    """The cluster with one running job for each (node, GPUs), the first ends first."""
    jobs = tuple(
        cluster.Job(
            id=str(i + 1),
            state=cluster.JobState.RUNNING,
            ends=ends + i,
            allocations=(cluster.Allocation(node, gpus=gpus, gpu_count=len(gpus), cpus=len(gpus)),),
        )
        for i, (node, gpus) in enumerate(held)
    )
    return msgspec.structs.replace(EMPTY, jobs=jobs)


def names(found: advice.Advice) -> list[str]:
    assert found.placement is not None
    return [node.name for node in found.placement.nodes]


def test_advise_two_nodes_go_under_one_leaf() -> None:
    found = advise.advise(busy(("gpu1", (0, 1, 2, 3, 4, 5))), cluster.JobRequest(nodes=2, gpus_per_node=4))
    assert (found.verdict, names(found)) == (advice.Verdict.FITS_NOW, ["gpu3", "gpu4"])
    assert found.solve.termination == "optimal"
    assert found.solve.gap == 0
    assert found.prediction is not None
    assert dict(found.prediction.domains) == {"leaf": 1, "spine": 1}


def test_advise_takes_the_free_half_of_a_node_rather_than_break_a_whole_one() -> None:
    found = advise.advise(busy(("gpu2", (0, 1, 2, 3))), cluster.JobRequest(nodes=1, gpus_per_node=4))
    assert found.placement is not None
    assert [(n.name, sorted(n.gpus)) for n in found.placement.nodes] == [("gpu2", [4, 5, 6, 7])]


def test_advise_predicts_the_published_bandwidths() -> None:
    inside = advise.advise(EMPTY, cluster.JobRequest(nodes=1, gpus_per_node=8)).prediction
    across = advise.advise(EMPTY, cluster.JobRequest(nodes=2, gpus_per_node=8)).prediction
    assert inside is not None
    assert across is not None
    assert inside.allreduce_busbw_gbps == pytest.approx(235)  # NCCL's cap for an A100's 12 links
    assert across.allreduce_busbw_gbps == pytest.approx(96)  # four NICs of 200 Gbit/s, 12 GB/s for each 100
    assert across.limited_by == "network adapters"


def test_advise_ranks_get_their_own_gpu_and_cores_near_it() -> None:
    found = advise.advise(EMPTY, cluster.JobRequest(nodes=2, gpus_per_node=8, ntasks_per_node=8, cpus_per_task=8))
    assert found.placement is not None
    ranks = [rank for node in found.placement.nodes for rank in node.ranks]
    assert [rank.rank for rank in ranks] == list(range(16))
    for node in found.placement.nodes:
        assert sorted(gpu for rank in node.ranks for gpu in rank.gpus) == list(range(8))
        cores = [cpu for rank in node.ranks for cpu in rank.cpus]
        assert len(cores) == len(set(cores)) == 64
        for rank in node.ranks:
            socket = rank.gpus[0] // 4
            assert set(rank.cpus) <= set(range(32 * socket, 32 * socket + 32))


def test_advise_required_level_that_has_no_room_waits() -> None:
    state = busy(("gpu1", tuple(range(8))), ("gpu3", tuple(range(8))))
    request = cluster.JobRequest(nodes=2, gpus_per_node=8)
    assert names(advise.advise(state, request)) == ["gpu2", "gpu4"]
    strict = msgspec.structs.replace(request, topology=cluster.TopologyConstraint(required="leaf"))
    found = advise.advise(state, strict)
    assert (found.verdict, found.placement) == (advice.Verdict.MUST_WAIT, None)
    assert found.fits.nodes_fit == 2
    assert dict(found.fits.excluded) == {"gpus": 2}
    assert found.start is not None
    assert found.start.earliest == 1_800_003_600  # the job on gpu1 ends first; then leaf1 is free


def test_advise_start_is_the_first_sufficient_end() -> None:
    held = [(name, tuple(range(8))) for name in ("gpu4", "gpu1", "gpu2", "gpu3")]
    found = advise.advise(busy(*held), cluster.JobRequest(nodes=3, gpus_per_node=8))
    assert found.verdict is advice.Verdict.MUST_WAIT
    assert found.start is not None
    assert found.start.earliest == 1_800_003_602  # the third end


def test_advise_larger_than_the_cluster_never_fits() -> None:
    found = advise.advise(EMPTY, cluster.JobRequest(nodes=5, gpus_per_node=8))
    assert (found.verdict, found.placement) == (advice.Verdict.NEVER_FITS, None)
    wide = advise.advise(EMPTY, cluster.JobRequest(nodes=1, gpus_per_node=9))
    assert (wide.verdict, dict(wide.fits.excluded)) == (advice.Verdict.NEVER_FITS, {"node-shape": 4})


def test_advise_total_of_gpus_chooses_the_faster_shape() -> None:
    found = advise.advise(EMPTY, cluster.JobRequest(gpus=8))
    assert found.shape.count == 1
    assert {len(a.placement.nodes) for a in found.alternatives} >= {2}


def test_advise_uneven_total_gives_every_gpu() -> None:
    found = advise.advise(EMPTY, cluster.JobRequest(gpus=11))
    assert found.placement is not None
    assert sorted(len(node.gpus) for node in found.placement.nodes) == [5, 6]
    assert found.solve.termination == "optimal"


def test_advise_alternatives_say_what_they_lose() -> None:
    found = advise.advise(EMPTY, cluster.JobRequest(nodes=1, gpus_per_node=8), advice.Options(alternatives=3))
    assert 1 <= len(found.alternatives) <= 3
    assert all(a.why_not for a in found.alternatives)
    slower = [a for a in found.alternatives if len(a.placement.nodes) == 2]
    assert slower
    assert "48 GB/s, slower than 235 GB/s" in slower[0].why_not  # two of the four NICs are near four GPUs


def test_advise_counted_features_are_kept() -> None:
    nodes = tuple(msgspec.structs.replace(n, features=("ib",) if n.name == "gpu4" else ()) for n in EMPTY.nodes)
    state = msgspec.structs.replace(EMPTY, nodes=nodes)
    found = advise.advise(state, cluster.JobRequest(nodes=2, gpus_per_node=8, constraint="[ib*1]"))
    assert "gpu4" in names(found)


def test_advise_switches_is_a_number_of_leaves() -> None:
    request = cluster.JobRequest(nodes=3, gpus_per_node=8)
    assert advise.advise(EMPTY, request).verdict is advice.Verdict.FITS_NOW
    one = advise.advise(EMPTY, msgspec.structs.replace(request, switches=1))
    two = advise.advise(EMPTY, msgspec.structs.replace(request, switches=2))
    assert (one.verdict, two.verdict) == (advice.Verdict.NEVER_FITS, advice.Verdict.FITS_NOW)


def test_advise_unknown_level_lists_the_levels() -> None:
    request = cluster.JobRequest(nodes=2, gpus_per_node=8, topology=cluster.TopologyConstraint(required="rack"))
    with pytest.raises(errors.RequestError, match="leaf, spine"):
        advise.advise(EMPTY, request)


def test_advise_is_the_same_for_shuffled_jobs() -> None:
    state = busy(("gpu1", (0, 3)), ("gpu3", (1,)), ("gpu4", (5, 6)))
    turned = msgspec.structs.replace(state, jobs=state.jobs[::-1])
    request = cluster.JobRequest(nodes=2, gpus_per_node=4)
    assert advise.advise(state, request) == advise.advise(turned, request)


def test_advise_a_job_of_several_partitions_stays_in_one() -> None:
    where = {"gpu1": "a", "gpu2": "b", "gpu3": "b", "gpu4": "a"}
    nodes = tuple(msgspec.structs.replace(node, partitions=(where[node.name],)) for node in EMPTY.nodes)
    partitions = (cluster.Partition(name="a", default=True), cluster.Partition(name="b"))
    snapshot = msgspec.structs.replace(EMPTY, nodes=nodes, partitions=partitions)
    asked = cluster.JobRequest(nodes=2, gpus_per_node=8, partition="a,b")
    assert names(advise.advise(snapshot, asked)) in (["gpu1", "gpu4"], ["gpu2", "gpu3"])
    three = advise.advise(snapshot, cluster.JobRequest(nodes=3, gpus_per_node=8, partition="a,b"))
    assert three.verdict is advice.Verdict.NEVER_FITS


def test_advise_a_listed_node_without_room_waits_for_it() -> None:
    snapshot = busy(("gpu1", (0, 1, 2, 3, 4, 5)))
    for nodes in (None, 2):  # sbatch takes at least the nodes of its list
        asked = cluster.JobRequest(nodes=nodes, gpus_per_node=4, nodelist="gpu[1-2]")
        assert advise.advise(snapshot, asked).verdict is advice.Verdict.MUST_WAIT
    with pytest.raises(errors.RequestError, match="names 2 nodes"):
        advise.advise(snapshot, cluster.JobRequest(nodes=1, gpus_per_node=4, nodelist="gpu[1-2]"))


def test_advise_commands_ask_for_what_the_job_asks_for() -> None:
    asked = cluster.JobRequest(
        nodes=2, gpus_per_node=4, cpus_per_gpu=2, memory_per_gpu_mib=100, time_limit=7200, exclude="gpu4"
    )
    command = advise.advise(EMPTY, asked).commands[0]
    assert command == (
        "sbatch '--nodelist=gpu[1-2]' --nodes=2 --gpus-per-node=4 --cpus-per-gpu=2 --mem-per-gpu=100M --exclude=gpu4 "
        "--time=02:00:00 SCRIPT"
    )


def test_advise_node_with_more_gpus_than_a_mask_has_bits_gives_the_first_ones() -> None:
    slots = tuple(cluster.GpuSlot(index=i) for i in range(100))
    state = cluster.ClusterSnapshot(nodes=(cluster.NodeState(name="n", gpus=slots, cpus=100, memory_mib=10),))
    fits = advise.advise(state, cluster.JobRequest(nodes=1, gpus_per_node=63)).placement
    assert fits is not None
    assert fits.nodes[0].gpus == tuple(range(63))
    assert advise.advise(state, cluster.JobRequest(nodes=1, gpus_per_node=64)).verdict is advice.Verdict.NEVER_FITS
