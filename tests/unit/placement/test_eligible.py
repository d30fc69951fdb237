from __future__ import annotations

import pytest

from placer import errors
from placer.cluster import capacity
from placer.cluster import types as cluster
from placer.placement import eligible, features, shapes

A100 = tuple(cluster.GpuSlot(index=i, type="a100") for i in range(8))
V100 = tuple(cluster.GpuSlot(index=i, type="v100") for i in range(4))
NODES = (
    cluster.NodeState(name="gpu1", gpus=A100, cpus=128, memory_mib=1000, partitions=("gpu",), features=("ib",)),
    cluster.NodeState(name="gpu2", gpus=A100, cpus=128, memory_mib=1000, partitions=("gpu",), features=("ib",)),
    cluster.NodeState(
        name="gpu3", gpus=A100, cpus=128, memory_mib=1000, partitions=("gpu",), condition=cluster.NodeCondition.DRAINED
    ),
    cluster.NodeState(
        name="gpu4", gpus=A100, cpus=128, memory_mib=1000, partitions=("gpu",), condition=cluster.NodeCondition.DOWN
    ),
    cluster.NodeState(name="old1", gpus=V100, cpus=32, memory_mib=500, partitions=("old",)),
    cluster.NodeState(name="cpu1", cpus=64, memory_mib=500, partitions=("gpu",)),
)
RUNNING = cluster.Job(
    id="1",
    state=cluster.JobState.RUNNING,
    allocations=(cluster.Allocation("gpu1", gpus=(0, 1, 2, 3, 4), gpu_count=5, cpus=100, memory_mib=100),),
)
PARTITIONS = (cluster.Partition(name="gpu", default=True), cluster.Partition(name="old"))
SNAPSHOT = cluster.ClusterSnapshot(nodes=NODES, jobs=(RUNNING,), partitions=PARTITIONS)


def check(
    gpus: int = 0, cpus: int = 1, memory: int | None = 0, count: int = 1, empty: bool = False, **asked: object
) -> tuple[str, dict[str, int]]:
    request = cluster.JobRequest(**asked)  # type: ignore[arg-type]
    (variant,) = features.parse(request.constraint)
    want = eligible.wanted(SNAPSHOT, request, variant, count)
    found = eligible.check(capacity.of(SNAPSHOT), want, shapes.Demand(gpus, cpus, memory, 1), empty=empty)
    assert found.fits.nodes_total == 6
    assert found.fits.nodes_fit + sum(n for _, n in found.fits.excluded) == 6
    return " ".join(NODES[p].name for p in found.positions), dict(found.fits.excluded)


def test_check_counts_the_first_reason_of_every_node() -> None:
    assert check(gpus=4) == ("gpu2", {"partition": 1, "drained": 1, "down": 1, "node-shape": 1, "gpus": 1})


def test_check_empty_asks_what_could_ever_fit() -> None:
    assert check(gpus=8, empty=True) == ("gpu1 gpu2 gpu3 gpu4", {"partition": 1, "node-shape": 1})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"gpus": 2, "cpus": 60}, ("gpu2", "cpu")),
        ({"gpus": 2, "memory": 950}, ("gpu2", "memory")),
        ({"gpus": 2, "memory": None}, ("gpu2", "memory")),
        ({"gpus": 2, "exclusive": True}, ("gpu2", "in use")),
        ({"gpus": 2, "exclude": "gpu2"}, ("gpu1", "excluded")),
        ({"gpus": 2, "nodelist": "gpu2"}, ("gpu2", "nodelist")),
        ({"gpus": 2, "gpu_type": "h200"}, ("", "gpu-type")),
        ({"gpus": 2, "constraint": "nvme"}, ("", "features")),
    ],
)
def test_check_one_reason(asked: dict[str, object], expected: tuple[str, str]) -> None:
    names, excluded = check(**asked)  # type: ignore[arg-type]
    assert names == expected[0]
    assert excluded[expected[1]] >= 1


def test_check_masks_hold_free_gpus_only() -> None:
    want = eligible.wanted(SNAPSHOT, cluster.JobRequest(), features.ANY, 1)
    found = eligible.check(capacity.of(SNAPSHOT), want, shapes.Demand(1, 1, 0, 1))
    assert dict(zip((NODES[p].name for p in found.positions), found.masks, strict=True)) == {
        "gpu1": 0b11100000,
        "gpu2": 0xFF,
    }


def test_forced_a_list_shorter_than_the_job_must_be_held() -> None:
    want = eligible.wanted(SNAPSHOT, cluster.JobRequest(nodelist="gpu2"), features.ANY, 2)
    found = eligible.check(capacity.of(SNAPSHOT), want, shapes.Demand(1, 1, 0, 1))
    assert [NODES[p].name for p in found.positions] == ["gpu1", "gpu2"]
    assert eligible.forced(capacity.of(SNAPSHOT), want, found.positions).tolist() == [False, True]


@pytest.mark.parametrize("asked", [{"partition": "nope"}, {"nodelist": "gpu9"}, {"exclude": "gpu[1-9]"}])
def test_wanted_unknown_names_are_request_errors(asked: dict[str, str]) -> None:
    request = cluster.JobRequest(**asked)  # type: ignore[arg-type]
    with pytest.raises(errors.RequestError):
        eligible.wanted(SNAPSHOT, request, features.ANY, 1)


@pytest.mark.parametrize(
    ("partition", "asked", "now", "ever"),
    [
        ({"up": False}, {}, "partition down", None),
        ({"max_time": 3600}, {"time_limit": 3601}, "partition limit", "partition limit"),
        ({"max_time": 3600}, {"time_limit": 3600}, None, None),
        ({"max_nodes": 1}, {}, "partition limit", "partition limit"),
    ],
)
def test_check_of_a_partition_that_is_down_or_too_small_says_so(
    partition: dict[str, object], asked: dict[str, object], now: str | None, ever: str | None
) -> None:
    only = cluster.Partition(name="gpu", default=True, **partition)  # type: ignore[arg-type]
    snapshot = cluster.ClusterSnapshot(nodes=NODES[1:2], partitions=(only,))
    want = eligible.wanted(snapshot, cluster.JobRequest(**asked), features.ANY, 2)  # type: ignore[arg-type]
    for empty, reason in ((False, now), (True, ever)):
        found = eligible.check(capacity.of(snapshot), want, shapes.Demand(1, 1, 0, 1), empty=empty)
        assert found.fits.excluded == (((reason, 1),) if reason else ())


def test_lacking_a_node_of_the_list_that_cannot_take_its_part() -> None:
    free = capacity.of(SNAPSHOT)
    want = eligible.wanted(SNAPSHOT, cluster.JobRequest(nodelist="gpu[2-3]"), features.ANY, 2)
    assert eligible.lacking(free, want, eligible.check(free, want, shapes.Demand(1, 1, 0, 1)).positions)
    assert not eligible.lacking(free, want, eligible.check(free, want, shapes.Demand(1, 1, 0, 1), empty=True).positions)
