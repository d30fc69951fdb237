"""What Slurm itself gives: the prediction in a snapshot, its needless splits, and the option that avoids them.

The expectations are the recorded ones: on an empty DGX-1V, 24.11 and later give `--gres=gpu:2` GPUs 0 and 1 (one
NVLink) and `--gpus=2` GPUs 0 and 3 (two), 22.05 gives 0 and 3 either way.
"""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from placer import errors, ranges
from placer.advice import given
from placer.cluster import recording
from placer.cluster import types as cluster
from placer.slurm import gres_conf, snapshot
from placer.slurm_model import types as model
from placer.topology import types as topo

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures"


def _dgx1(version: str, *, held: tuple[cluster.Allocation, ...] = (), kind: str = "b1") -> cluster.ClusterSnapshot:
    """One node of the recordings, with what a job of `held` has on it."""
    gres = gres_conf.read((FIXTURES / "slurm_choices" / "conf" / "gres.conf").read_text(), source="gres.conf")
    devices = gres.devices(kind)
    cores = 20 if kind == "b1" else 32
    wiring = gres_conf.topology(kind, devices, gres_conf.Shape(2, cores, 2), source="gres.conf")
    node = cluster.NodeState(
        name=kind,
        gpus=tuple(cluster.GpuSlot(i, device.type) for i, device in enumerate(devices)),
        cpus=4 * cores,
        memory_mib=100_000,
        partitions=("p",),
        sockets=2,
        cores_per_socket=cores,
        threads_per_core=2,
        cpus_used=sum(a.cpus for a in held),
    )
    return cluster.ClusterSnapshot(
        source=cluster.Source("slurm", version),
        topology=topo.ClusterTopology((kind,), (wiring,), (0,)),
        nodes=(node,),
        jobs=(cluster.Job(id="1", state=cluster.JobState.RUNNING, allocations=held),) if held else (),
        partitions=(cluster.Partition(name="p", nodes=(kind,), default=True),),
    )


TWO = cluster.JobRequest(nodes=1, gpus_per_node=2, memory_per_node_mib=1000)


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
def test_given_pair_of_an_empty_dgx1_is_split_and_the_option_that_avoids_it_named(version: str) -> None:
    found = given.given(_dgx1(version), TWO)
    assert found.nodes[0].gpus == (0, 1)
    assert found.splits == ("b1: GPUs 0-1 (1 socket, 1 NVLink) although 0,3 (1 socket, 2 NVLinks) are free",)
    assert found.avoid == "--gpus=2 instead of GPUs per node"
    assert found.recorded


def test_given_pair_of_an_empty_dgx1_is_whole_on_the_oldest_release() -> None:
    found = given.given(_dgx1("22.05.8"), TWO)
    assert (found.nodes[0].gpus, found.splits, found.avoid) == ((0, 3), (), None)


def test_given_release_that_was_not_recorded_says_so() -> None:
    assert given.given(_dgx1("25.05.1"), TWO).recorded is False


def test_given_pair_over_two_sockets_although_one_has_room() -> None:
    # Recorded: with GPUs 2-6 and these CPUs held, `-N1 --gpus-per-node=2 -n4` gives GPUs 0 and 7, CPUs 42-43,66-67.
    cpus = ranges.parse("0-41,64-65,68-77")
    held = (cluster.Allocation("a1", (2, 3, 4, 5, 6), 5, len(cpus), cpus),)
    found = given.given(_dgx1("24.11.5", held=held, kind="a1"), msgspec.structs.replace(TWO, ntasks=4))
    assert (found.nodes[0].gpus, found.nodes[0].cpus) == ((0, 7), (42, 43, 66, 67))
    assert found.splits == ("a1: GPUs 0,7 (2 sockets, 0 NVLinks) although 0-1 (1 socket, 0 NVLinks) are free",)


def test_given_job_that_does_not_fit_waits_or_never_runs() -> None:
    held = (cluster.Allocation("b1", tuple(range(7)), 7, 2, (0, 1)),)
    assert given.given(_dgx1("24.11.5", held=held), TWO).outcome is model.Verdict.WAITS
    nine = msgspec.structs.replace(TWO, gpus_per_node=9)
    assert given.given(_dgx1("24.11.5"), nine).outcome is model.Verdict.NEVER


@pytest.mark.parametrize(
    ("held", "request_", "why"),
    [
        ((cluster.Allocation("b1", (0,), 1, 2, None),), TWO, "which cores of b1"),
        ((cluster.Allocation("b1", None, 1, 2, (0, 1)),), TWO, "which cores of b1"),
        ((), msgspec.structs.replace(TWO, memory_per_cpu_mib=5), "memory per CPU"),
        ((), msgspec.structs.replace(TWO, reservation="r"), "reservations"),
        ((), msgspec.structs.replace(TWO, constraint="[a*2&b*1]"), "reservations, and constraints"),
    ],
)
def test_given_what_the_snapshot_or_the_rules_do_not_tell_is_not_predicted(
    held: tuple[cluster.Allocation, ...], request_: cluster.JobRequest, why: str
) -> None:
    found = given.given(_dgx1("24.11.5", held=held), request_)
    assert (found.outcome, found.nodes) == (None, ())
    assert found.why.startswith(why)


def test_given_nodes_that_are_down_excluded_or_without_the_feature_do_not_count() -> None:
    base = _dgx1("24.11.5")
    down = msgspec.structs.replace(base.nodes[0], condition=cluster.NodeCondition.DOWN)
    assert given.given(msgspec.structs.replace(base, nodes=(down,)), TWO).outcome is model.Verdict.NEVER
    for change in ({"exclude": "b1"}, {"constraint": "ib"}, {"partition": "q"}):
        other = msgspec.structs.replace(TWO, **change)
        asked = msgspec.structs.replace(base, partitions=(*base.partitions, cluster.Partition(name="q")))
        assert given.given(asked, other).outcome is model.Verdict.NEVER


def test_given_bad_constraint_is_a_parse_error() -> None:
    with pytest.raises(errors.ParseError):
        given.given(_dgx1("24.11.5"), msgspec.structs.replace(TWO, constraint="a&"))


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_given_recorded_clusters_grant_only_free_gpus(version: str) -> None:
    folder = FIXTURES / "slurm" / version
    if not folder.is_dir():
        pytest.skip(f"no recording of {version} among the fixtures")
    entries = tuple((file.name, file.read_text()) for file in sorted(folder.iterdir()) if file.is_file())
    whole = snapshot.build(recording.Recording(version, entries))
    found = given.given(whole, cluster.JobRequest(nodes=1, gpus_per_node=1, memory_per_node_mib=100))
    used = {node.name: set(node.gpus_used) for node in whole.nodes}
    assert found.outcome is model.Verdict.RUNNING
    assert all(not used[grant.node] & set(grant.gpus) for grant in found.nodes)
