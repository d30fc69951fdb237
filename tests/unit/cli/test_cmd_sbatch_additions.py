"""Which options are added, decided by hand for each situation of a small cluster: two leaves of four nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from placer.advice import types as advice
from placer.cli import _sbatch_additions, _sbatch_own
from placer.cluster import types as cluster
from placer.errors import UsageError
from placer.placement import shapes
from placer.placement import types as plan
from placer.slurm import submission
from placer.slurm import submission_types as submissions
from placer.topology import types as topo

NAMES = tuple(f"n{i}" for i in range(1, 9))
TREE = topo.Fabric(
    levels=(topo.Level("leaf"), topo.Level("spine")),
    domains=(
        topo.Domain("s1", 0, NAMES[:4], "top"),
        topo.Domain("s2", 0, NAMES[4:], "top"),
        topo.Domain("top", 1, NAMES),
    ),
    kind="tree",
)
SNAPSHOT = cluster.ClusterSnapshot(
    source=cluster.Source("slurm", "24.11"),
    topology=topo.ClusterTopology(NAMES, (), (-1,) * 8, TREE),
    nodes=tuple(
        cluster.NodeState(name, tuple(cluster.GpuSlot(g) for g in range(8)), 64, 1000, partitions=("gpu",))
        for name in NAMES
    ),
    partitions=(cluster.Partition(name="gpu", nodes=NAMES), cluster.Partition(name="cpu", nodes=("c1",))),
)


def _advice(names: tuple[str, ...] = ("n1", "n2"), *, fit: int = 8, leaves: int = 1, **changes: Any) -> advice.Advice:
    found = advice.Advice(
        verdict=advice.Verdict.FITS_NOW,
        shape=shapes.Shape(len(names), shapes.Demand(4, 4, 0, 4)),
        solve=plan.SolveResult("tree", plan.Termination.OPTIMAL),
        fits=plan.Fits(fit, 8),
        placement=plan.Placement(tuple(plan.NodePlacement(name, (0, 1, 2, 3)) for name in names)),
        prediction=plan.Prediction(200.0, None, (("leaf", leaves), ("spine", 1))),
    )
    return msgspec.structs.replace(found, **changes)


WAIT: dict[str, Any] = {"verdict": advice.Verdict.MUST_WAIT, "placement": None, "prediction": None}


def _submission(*argv: str, script: str = "") -> submissions.Submission:
    words = argv or ("-N2", "--gpus-per-node=4")
    return submission.read([*words, "job.sh"], {}, lambda _name: f"#!/bin/sh\n{script}\n".encode())


def _added(
    found: advice.Advice, job: submissions.Submission, snapshot: cluster.ClusterSnapshot = SNAPSHOT, *, pin: bool = True
) -> list[str]:
    decision = _sbatch_additions.decide(found, snapshot, job, allow_pin=pin)
    assert all(addition.reason for addition in decision.additions)
    return [addition.option for addition in decision.additions]


def test_decide_for_nodes_that_are_free_now_pins_them() -> None:
    assert _added(_advice(), _submission()) == ["--nodelist=n[1-2]"]


def test_decide_for_one_gpu_on_one_node_pins_it() -> None:
    assert _added(_advice(("n3",)), _submission("--gres=gpu:1")) == ["--nodelist=n3"]


@pytest.mark.parametrize(
    "argv",
    [
        ["-N2-4", "--gpus-per-node=4"],
        ["--gpus=8"],
        ["-n8", "--gpus-per-task=1"],
        ["-N2", "--gpus-per-node=4", "--array=0-9"],
        ["-N2", "--gpus-per-node=4", "--begin=now+1hour"],
        ["-N2", "--gpus-per-node=4", "-d", "afterok:1"],
        ["-N2", "--gpus-per-node=4", "--hold"],
        ["-N2", "--gpus-per-node=4", "--gres=shard:1"],
    ],
)
def test_decide_for_a_job_that_must_stay_free_wishes_for_one_switch(argv: list[str]) -> None:
    assert _added(_advice(), _submission(*argv)) == ["--switches=1@5:00"]


def test_decide_for_a_total_that_fills_nodes_unevenly_does_not_make_it_wait_for_one_switch() -> None:
    uneven = shapes.Shape(2, shapes.Demand(5, 1, 0, 1), extra=1)
    filled = shapes.Shape(2, shapes.Demand(1, 1, 0, 1), fill=11, exactly=False)
    for shape in (uneven, filled):
        assert _added(_advice(shape=shape), _submission("--gpus=11")) == []
    assert _added(_advice(shape=uneven), _submission("--gpus=11", "-N2"), pin=False) == ["--switches=1@5:00"]


@pytest.mark.parametrize("option", ["-wn1", "--switches=2", "--segment=1", "--spread-job"])
def test_decide_never_says_again_what_the_user_said(option: str) -> None:
    added = _added(_advice(), _submission("-N2", "--gpus-per-node=4", option), pin=False)
    assert not any(word.startswith("--switches") for word in added)
    in_script = _submission("-N2", script=f"#SBATCH --gpus-per-node=4 {option}")
    assert not any(word.startswith(option[:5]) for word in _added(_advice(), in_script))


def _with_job(**fields: Any) -> cluster.ClusterSnapshot:
    waiting = cluster.Job(id="5", **({"partition": "gpu", "reason": "Resources"} | fields))
    return msgspec.structs.replace(SNAPSHOT, jobs=(waiting,))


@pytest.mark.parametrize(
    ("fields", "pinned"),
    [
        ({}, False),
        ({"reason": "Priority"}, False),
        ({"partition": "cpu,gpu"}, False),
        ({"partition": "cpu"}, True),
        ({"reason": "Dependency"}, True),
        ({"reason": "JobHeldUser"}, True),
        ({"reason": "BeginTime"}, True),
        ({"state": cluster.JobState.RUNNING}, True),
        ({"state": cluster.JobState.HELD}, True),
    ],
)
def test_decide_with_a_job_in_the_queue_pins_only_what_nobody_waits_for(fields: dict[str, Any], pinned: bool) -> None:
    added = _added(_advice(), _submission(), _with_job(**fields))
    assert added == (["--nodelist=n[1-2]"] if pinned else ["--switches=1@5:00"])


def test_decide_without_pins_wishes() -> None:
    assert _added(_advice(), _submission(), pin=False) == ["--switches=1@5:00"]


def test_decide_with_a_snapshot_that_lacks_something_pins_nothing() -> None:
    snapshot = msgspec.structs.replace(SNAPSHOT, left_out=("squeue said nothing",))
    assert _added(_advice(), _submission(), snapshot) == ["--switches=1@5:00"]


def test_decide_where_slurm_has_no_choice_pins_nothing() -> None:
    assert not any(word.startswith("--nodelist") for word in _added(_advice(fit=2), _submission()))


def test_decide_for_a_placement_over_two_leaves_does_not_make_it_wait_for_one() -> None:
    assert _added(_advice(("n4", "n5"), leaves=2), _submission(), pin=False) == []


@pytest.mark.parametrize(
    ("script", "option"),
    [
        ("", "--switches=1@5:00"),
        ("#PLACER --preferred leaf", "--switches=1@5:00"),
        ("#PLACER --required leaf", "--switches=1@1-0"),
    ],
)
def test_decide_for_a_job_that_waits_pins_nothing(script: str, option: str) -> None:
    job = _submission("-N2", "--gpus-per-node=4", script=script)
    assert _added(_advice(**WAIT), job) == [option]


def test_decide_for_a_job_larger_than_a_leaf_wishes_nothing() -> None:
    large = _advice(NAMES[:5], **WAIT)
    assert _added(large, _submission("-N5", "--gpus-per-node=4")) == []


@pytest.mark.parametrize(
    "change",
    [
        {"topology": topo.ClusterTopology(NAMES, (), (-1,) * 8)},
        {"topology": topo.ClusterTopology(NAMES, (), (-1,) * 8, msgspec.structs.replace(TREE, kind="block"))},
        {"settings": (("TopologyPlugin", "topology/default"),)},
    ],
)
def test_decide_without_a_switch_tree_asks_for_no_switch(change: dict[str, Any]) -> None:
    assert _added(_advice(**WAIT), _submission(), msgspec.structs.replace(SNAPSHOT, **change)) == []


def test_decide_for_a_job_that_never_fits_adds_nothing() -> None:
    never = _advice(**(WAIT | {"verdict": advice.Verdict.NEVER_FITS}))
    assert _added(never, _submission()) == []


def _machine(kind: topo.LinkType, lanes: int) -> topo.NodeTopology:
    gpus = tuple(topo.Gpu(id=f"GPU{i}", index=i, model="NVIDIA A100-SXM4-40GB", numa=(0,)) for i in range(8))
    pairs = [(a, b) for a in range(8) for b in range(a)]
    links = tuple(topo.Link(a=f"GPU{b}", b=f"GPU{a}", type=kind, lanes=lanes) for a, b in pairs)
    return topo.NodeTopology(name="m", source="test", gpus=gpus, links=links)


def _two_kinds(slow: int) -> cluster.ClusterSnapshot:
    machines = (_machine(topo.LinkType.NVLINK, 12), _machine(topo.LinkType.SYS, 0))
    of = (1,) * slow + (0,) * (8 - slow)
    return msgspec.structs.replace(SNAPSHOT, topology=topo.ClusterTopology(NAMES, machines, of, TREE))


@pytest.mark.parametrize(("slow", "excluded"), [(0, []), (1, ["--exclude=n1"]), (2, ["--exclude=n[1-2]"]), (3, [])])
def test_decide_for_a_job_that_waits_excludes_few_badly_wired_nodes(slow: int, excluded: list[str]) -> None:
    one = _advice(("n5",), **WAIT)
    assert _added(one, _submission("-N1", "--gpus-per-node=4"), _two_kinds(slow)) == excluded


@pytest.mark.parametrize("extra", [["-xn8"], ["-Cib"], ["-wn7"]])
def test_decide_with_nodes_chosen_by_the_user_excludes_none(extra: list[str]) -> None:
    one = _advice(("n5",), **WAIT)
    assert _added(one, _submission("-N1", "--gpus-per-node=4", *extra), _two_kinds(1)) == []


def test_decide_for_independent_ranks_excludes_none() -> None:
    job = _submission("-N1", "--gpus-per-node=4", script="#PLACER --workload independent")
    assert _added(_advice(("n5",), **WAIT), job, _two_kinds(1)) == []


@pytest.mark.parametrize(
    ("argv", "environ", "own", "rest"),
    [
        (["-N2", "--placer-off", "j", "--placer-off"], {}, {"off": True}, ["-N2", "j", "--placer-off"]),
        (["--placer-timeout", "5", "--placer-snapshot=s"], {}, {"timeout": 5.0, "snapshot": "s"}, []),
        (["-J", "--placer-off", "j"], {}, {}, ["-J", "--placer-off", "j"]),
        (["-N1", ":", "--placer-strict", "-N2", "j"], {}, {"strict": True}, ["-N1", ":", "-N2", "j"]),
        (["--", "--placer-off"], {}, {}, ["--", "--placer-off"]),
        (["j"], {"PLACER_SBATCH_PIN": "0"}, {"pin": False}, ["j"]),
        (["j"], {"PLACER_SBATCH_NO_PIN": "1"}, {"pin": False}, ["j"]),
        (["--placer-pin", "j"], {"PLACER_SBATCH_PIN": "0"}, {}, ["j"]),
        (["--placer-no-pin", "j"], {"PLACER_SBATCH_PIN": "1"}, {"pin": False}, ["j"]),
        (["j"], {"PLACER_SBATCH_DRY_RUN": "yes", "PLACER_SBATCH_EXPLAIN": "false"}, {"dry_run": True}, ["j"]),
        (["j"], {"PLACER_SBATCH_TIMEOUT": "9"}, {"timeout": 9.0}, ["j"]),
        (["j"], {"PLACER_SBATCH_SNAPSHOT": "x"}, {"snapshot": "x"}, ["j"]),
    ],
)  # fmt: skip
def test_take_of_own_options_leaves_the_rest(
    argv: list[str], environ: dict[str, str], own: dict[str, Any], rest: list[str]
) -> None:
    assert _sbatch_own.take(argv, environ) == (_sbatch_own.Own(**own), rest)


@pytest.mark.parametrize(
    "argv", [["--placer-on"], ["--placer-timeout=0"], ["--placer-timeout=x"], ["--placer-timeout"]]
)
def test_take_of_a_wrong_own_option_is_a_usage_error(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        _sbatch_own.take(argv, {})
