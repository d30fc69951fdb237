"""`placer simulate openb` and `merge`: the document's keys, parts that make the whole, faults that are told."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any
from xml.etree import ElementTree as ET

import click.testing
import pytest
import yaml

from placer import errors
from placer.cli import cmd_simulate

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},32000,65536,4,T4\n" for i in range(6))
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
    f"p{i},{2000 + 500 * (i % 4)},1024,{0 if i % 7 == 0 else 1},{(0 if i % 7 == 0 else (470, 810, 1000)[i % 3])},\n"
    for i in range(40)
)


@pytest.fixture
def files(tmp_path: pathlib.Path) -> list[str]:
    (tmp_path / "nodes.csv").write_text(NODES, encoding="utf-8")
    (tmp_path / "pods.csv.gz").write_bytes(gzip.compress(PODS.encode()))
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv.gz")]


def simulate(*words: str) -> str:
    result = click.testing.CliRunner().invoke(cmd_simulate.command, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*words: str) -> dict[str, Any]:
    found = json.loads(simulate(*words))
    assert isinstance(found, dict)
    return found


def test_openb_document_has_the_promised_keys(files: list[str]) -> None:
    found = document(
        "openb", *files, "--policy", "fgd", "--policy", "placer", "--seeds", "1-3", "--floor", "-o", "json"
    )
    assert (found["apiVersion"], found["kind"]) == ("placer/v1", "SimulationReport")
    assert [(run["policy"], run["seed"]) for run in found["runs"]] == [
        (p, s) for p in ("fgd", "placer") for s in (1, 2, 3)
    ]
    arrived = found["runs"][0]["arrived"]
    assert all(set(load) == {"allocated_pct", "fragmented_pct"} for load in arrived.values())
    assert found["runs"][0]["migrated_pods"] == 0
    assert {"unallocated_pct", "sd"} <= set(found["mean"]["placer"]["100"])
    assert [bound["seed"] for bound in found["floor"]] == [1, 2, 3]
    least = {bound["seed"]: bound["any_pct"] for bound in found["floor"]}
    for run in found["runs"]:
        last = run["arrived"][max(run["arrived"], key=int)]
        assert last["allocated_pct"] <= 100 - least[run["seed"]] + 0.01


def test_openb_without_policies_runs_all_seven(files: list[str]) -> None:
    lines = simulate("openb", *files, "--seeds", "5").splitlines()
    assert lines[0] == "unallocated GPU %, 24 GPUs on 6 nodes, 1 seed, by arrived %"
    assert [line.split()[0] for line in lines[2:]] == [
        "random", "dotprod", "gpu-clustering", "gpu-packing", "best-fit", "fgd", "placer",
    ]  # fmt: skip


def test_merge_of_the_parts_is_the_whole(files: list[str], tmp_path: pathlib.Path) -> None:
    options = [*files, "--policy", "best-fit", "--policy", "placer", "--seeds", "1,3-4", "--migrate", "5", "--floor"]
    whole = document("openb", *options, "-o", "json")
    names = []
    for i, form in ((3, "json"), (1, "yaml"), (2, "json")):
        names.append(str(tmp_path / f"part-{i}"))
        text = simulate("openb", *options, "--shard", f"{i}/3", *(["-o", form] if form == "yaml" else []))
        pathlib.Path(names[-1]).write_text(text, encoding="utf-8")
        assert yaml.safe_load(text)["shard"] == f"{i}/3"
    assert document("merge", *names, "-o", "json") == whole


def test_svg_of_a_run_is_a_drawing(files: list[str]) -> None:
    svg = simulate("openb", *files, "--policy", "placer", "--seeds", "1", "-o", "svg")
    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 - our own text


def test_admission_control_tells_what_it_declined(files: list[str]) -> None:
    found = document("openb", *files, "--policy", "placer", "--seeds", "1", "--decline-after", "0", "-o", "json")
    assert found["runs"][0]["declined_pods"] > 0
    assert found["setting"]["decline_after_pct"] == 0.0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--seeds", "9-1"], "a range runs upwards"),
        (["--seeds", "a"], "whole numbers"),
        (["--seeds", "1-99999"], "at most 10000"),
        (["--shard", "0/4"], "wants I/N"),
        (["--shard", "5/4"], "wants I/N"),
        (["--load", "0"], "above 0"),
        (["--load", "nan"], "above 0"),
        (["--pods", "missing.csv"], "missing.csv"),
    ],
)
def test_openb_refuses_what_makes_no_sense(files: list[str], more: list[str], words: str) -> None:
    with pytest.raises(errors.PlacerError, match=words):
        simulate("openb", *files, *more)


def test_merge_refuses_gaps_repeats_and_other_runs(files: list[str], tmp_path: pathlib.Path) -> None:
    def part(name: str, *more: str) -> str:
        path = tmp_path / name
        path.write_text(simulate("openb", *files, "--policy", "fgd", "--seeds", "1-2", *more), encoding="utf-8")
        return str(path)

    first = part("a", "--shard", "1/2")
    with pytest.raises(errors.InputError, match="1 of 2 runs are missing, the first is fgd with seed 2"):
        simulate("merge", first)
    with pytest.raises(errors.InputError, match="is there twice"):
        simulate("merge", first, first)
    with pytest.raises(errors.InputError, match="differ in inputs or options"):
        simulate("merge", first, part("b", "--shard", "2/2", "--load", "1.2"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "not a SimulationReport"),
        ("[", "broken"),
        ('{"apiVersion": "placer/v1", "kind": "SimulationReport"}', "setting"),
        ('{"apiVersion": "placer/v2", "kind": "SimulationReport"}', "apiVersion"),
    ],
)
def test_merge_refuses_what_is_no_part(tmp_path: pathlib.Path, text: str, words: str) -> None:
    path = tmp_path / "part"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(errors.InputError, match=words):
        simulate("merge", str(path))
