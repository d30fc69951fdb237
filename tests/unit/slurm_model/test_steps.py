"""What each task sees: recorded steps, and the cases of Slurm's own test suite."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from placer import errors
from placer.slurm_model import release as releases
from placer.slurm_model import steps

RELEASES = ("22.05", "24.11", "26.05")
R26 = releases.R26
Record = dict[str, Any]
Lines = Callable[[str], list[Record]]


def _number(options: list[str], *names: str) -> int | None:
    for option in options:
        name, _, value = option.partition("=")
        if name in names:
            return int(value.rpartition(":")[2])
    return None


def _binding(options: list[str]) -> steps.Binding:
    text = next((option.partition("=")[2] for option in options if option.startswith("--gpu-bind=")), None)
    if text is not None:
        return steps.parse(text)
    for name, kind in (("--gpus-per-task", "per_task"), ("--ntasks-per-gpu", "single")):
        if (k := _number(options, name)) is not None:
            return steps.parse(f"{kind}:{k}")
    return steps.Binding()


def _step(line: Record) -> tuple[list[str], tuple[int, ...]]:
    """Options of the step and its GPUs: of a `salloc` step predicted, of a direct one all that its tasks saw."""
    release = releases.of(line["release"])
    if line["how"] == "step":
        options = line["step_opts"]
        held = steps.step_gpus(
            line["job_gpus"],
            release=release,
            total=_number(options, "--gpus"),
            per_node=_number(options, "--gpus-per-node", "--gres"),
            per_task=_number(options, "--gpus-per-task"),
            local_tasks=len(line["tasks"]),
        )
        return options, held
    return line["opts"], tuple({int(gpu) for task in line["tasks"] for gpu in task["cvd"].split(",") if gpu})


def _wrong(lines: list[Record]) -> list[str]:
    wrong = []
    for line in lines:
        if "error" in line:
            continue
        options, held = _step(line)
        release = releases.of(line["release"])
        views = steps.views(held, len(line["tasks"]), _binding(options), release=release)
        mine = {i: steps.visible(view, constrained=False) for i, view in enumerate(views)}
        if mine != {task["local"]: task["cvd"] for task in line["tasks"]}:
            wrong.append(json.dumps(line))
    return wrong


@pytest.mark.parametrize("release", RELEASES)
def test_views_sample_of_every_binding_as_recorded(release: str, sample: Lines) -> None:
    lines = sample(f"steps-{release}.jsonl")
    assert len(lines) >= 15
    assert _wrong(lines) == []


@pytest.mark.parametrize("release", RELEASES)
def test_views_whole_recording_as_recorded(release: str, whole: Lines) -> None:
    assert _wrong(whole(f"steps-{release}.jsonl")) == []


@pytest.mark.parametrize("release", ["22.05", "26.05"])
def test_views_direct_steps_on_free_nodes_show_the_predicted_gpus(
    release: str, whole: Lines, predicted: Callable[[Record], tuple[str, Any]]
) -> None:
    """The job's own GPUs are predicted too, so that the whole chain from options to CUDA_VISIBLE_DEVICES holds."""
    right = every = 0
    for line in whole(f"steps-{release}.jsonl"):
        if line["how"] == "step" or "error" in line:
            continue
        busy = {"9": {"gpus": line["busy"]["gpus"], "cpus": line["busy"]["cpus"], "mem": 0}}
        options = [o for o in line["opts"] if not o.startswith("--gpu-bind")]
        case = {"release": release, "kind": line["kind"], "seq": 0, "i": 0, "opts": [*options, "-w", line["node"]]}
        _, nodes = predicted({**case, "state": {line["node"]: busy}})
        gpus = nodes[line["node"]][0]
        views = steps.views(gpus, len(line["tasks"]), _binding(line["opts"]), release=releases.of(release))
        shown = {i: steps.visible(view, constrained=False) for i, view in enumerate(views)}
        right += shown == {task["local"]: task["cvd"] for task in line["tasks"]}
        every += 1
    assert every > 130
    assert right >= 0.97 * every  # a few nodes held a job that the recording does not tell


# --- two sockets, CPUs 0-15 and 16-31, GPUs 0-1 and 2-3 (slurm.md 3.1)

NEAR = {gpu: frozenset(range(16) if gpu < 2 else range(16, 32)) for gpu in range(4)}


def _locality(*tasks: range) -> steps.Locality:
    return steps.Locality(tuple(frozenset(cpus) for cpus in tasks), NEAR)


def test_views_closest_shows_the_gpus_of_the_tasks_socket() -> None:
    where = _locality(range(4), range(16, 20))
    assert steps.views(range(4), 2, steps.parse("closest"), release=R26, locality=where) == ((0, 1), (2, 3))


def test_views_per_task_of_four_tasks_on_one_socket_gives_remote_gpus() -> None:
    where = _locality(range(4), range(4, 8), range(8, 12), range(12, 16))
    assert steps.views(range(4), 4, steps.parse("per_task:1"), release=R26, locality=where) == ((0,), (1,), (2,), (3,))


def test_views_single_of_cyclic_tasks_fills_two_slots_of_a_gpu() -> None:
    cyclic = steps.Locality(
        tuple(frozenset(range(16)) if i % 2 == 0 else frozenset(range(16, 32)) for i in range(8)), NEAR
    )
    found = steps.views(range(4), 8, steps.parse("single:2"), release=R26, locality=cyclic)
    assert [view[0] for view in found] == [0, 2, 0, 2, 1, 3, 1, 3]


def test_views_map_gpu_under_a_device_cgroup_every_task_reads_zero() -> None:
    found = steps.views(range(4), 4, steps.parse("map_gpu:1,0,3,2"), release=R26, constrained=True)
    assert found == ((1,), (0,), (3,), (2,))
    assert [steps.visible(view, constrained=True) for view in found] == ["0"] * 4


def test_views_mask_gpu_under_a_device_cgroup_reads_renumbered() -> None:
    found = steps.views(range(4), 4, steps.parse("mask_gpu:0x3,0x2,0x5,0xF"), release=R26, constrained=True)
    assert [steps.visible(view, constrained=True) for view in found] == ["0,1", "0", "0,1", "0,1,2,3"]


def test_views_mask_gpu_under_a_device_cgroup_counts_within_the_steps_gpus() -> None:
    assert steps.views((4, 5, 6), 2, steps.parse("mask_gpu:0x6"), release=R26, constrained=True) == ((5, 6), (5, 6))


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("none", steps.Binding(steps.Bind.NONE)),
        ("verbose,closest", steps.Binding(steps.Bind.CLOSEST)),
        ("verbose", steps.Binding()),
        ("v,single:3", steps.Binding(steps.Bind.SINGLE, (3,))),
        ("map_gpu:0,1*2", steps.Binding(steps.Bind.MAP, (0, 1, 1))),
        ("mask_gpu:0x3,12", steps.Binding(steps.Bind.MASK, (3, 12))),
    ],
)
def test_parse_reads_bindings(text: str, binding: steps.Binding) -> None:
    assert steps.parse(text) == binding


@pytest.mark.parametrize(
    "text",
    ["nearest", "closest:1", "single", "single:0", "per_task:1,2", "map_gpu:", "map_gpu:1*0", "mask_gpu:0xg", "all",
     "map_gpu:1_0", "map_gpu:0x", "map_gpu:1*99999", f"map_gpu:{'9' * 65}", "mask_gpu:-1"],
)  # fmt: skip
def test_parse_what_slurm_refuses_is_a_parse_error(text: str) -> None:
    with pytest.raises(errors.ParseError) as caught:
        steps.parse(text)
    assert re.search("--gpu-bind", caught.value.message)
