"""What `placer plan` and `placer defrag` refuse, and what they say of an empty or unknown cluster."""

from __future__ import annotations

import json
import pathlib

import pytest

from placer import errors
from placer.cli import cmd_defrag, cmd_plan

EMPTY = "apiVersion: placer/v1\nkind: ClusterSnapshot\nnodes: []\njobs: []\n"


@pytest.fixture
def empty(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "empty.yaml"
    path.write_text(EMPTY)
    return str(path)


def test_defrag_without_a_request_is_a_usage_error(empty: str) -> None:
    with pytest.raises(errors.UsageError, match="nothing is asked for"):
        cmd_defrag.command.main(["--snapshot", empty], standalone_mode=False)


def test_defrag_for_a_job_and_options_exclude_each_other(empty: str) -> None:
    with pytest.raises(errors.UsageError, match="exclude each other"):
        cmd_defrag.command.main(["--snapshot", empty, "--for", "1", "--nodes", "2"], standalone_mode=False)


def test_defrag_unknown_level_names_those_there_are(empty: str) -> None:
    with pytest.raises(errors.RequestError, match="no level `leaf` for `within`"):
        cmd_defrag.command.main(
            ["--snapshot", empty, "--nodes", "2", "--gpus-per-node", "1", "--within", "leaf"], standalone_mode=False
        )


def test_defrag_on_a_cluster_without_nodes_is_infeasible(empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--snapshot", empty, "--nodes", "1", "--gpus-per-node", "1", "-o", "json"]
    assert cmd_defrag.command.main(words, standalone_mode=False) == 3
    assert json.loads(capsys.readouterr().out)["solve"]["termination"] == "infeasible"


def test_plan_of_an_empty_queue_is_empty(empty: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cmd_plan.command.main(["--snapshot", empty], standalone_mode=False) == 0
    assert capsys.readouterr().out.startswith("no job waits\n")


@pytest.mark.parametrize("release", ["22.05", "25.11", "26.05"])
def test_plan_and_defrag_read_every_release(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = ["--snapshot", str(pathlib.Path(__file__).parents[3] / "fixtures" / "slurm" / release), "-o", "json"]
    assert cmd_plan.command.main(source, standalone_mode=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["value"] >= found["greedy_value"] > 0
    assert cmd_defrag.command.main([*source, "--for", "9", "--move-all"], standalone_mode=False) in {0, 3}
    assert json.loads(capsys.readouterr().out)["solve"]["termination"] in {"optimal", "infeasible"}
