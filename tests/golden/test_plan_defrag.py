"""The answers of `placer plan` and `placer defrag` on the recorded cluster, as a person and a script see them."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from placer.cli import cmd_defrag, cmd_plan

CLUSTER = ["--snapshot", "fixtures/slurm/24.11", "--topo-dir", "fixtures/slurm/topo"]
PLANS = {"weights": [], "tiers": ["--priorities", "tiers"], "one reserved": ["--reserve", "1"]}
MOVES = {
    "a waiting job": ["--for", "14", "--move-all"],
    "two nodes of one leaf": ["--nodes", "2", "--gpus-per-node", "4", "--mem", "1G", "--within", "leaf", "--move-all"],
    "fits already": ["--nodes", "2", "--gpus-per-node", "4", "--mem", "1G"],
    "no plan": ["--for", "9"],
}


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Run where the fixtures are, without the configuration of the person who runs the tests."""
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PLACER_CONFIG", raising=False)


@pytest.mark.parametrize("words", PLANS.values(), ids=PLANS.keys())
def test_plan_table(words: list[str], capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert cmd_plan.command.main([*words, *CLUSTER], standalone_mode=False) == 0
    assert re.sub(r" in [\d.]+ ms", " in TIME", capsys.readouterr().out) == snapshot


def test_plan_document_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert cmd_plan.command.main([*CLUSTER, "-o", "json"], standalone_mode=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["apiVersion"], found["kind"]) == ("placer/v1", "QueuePlan")
    assert {job["decision"] for job in found["jobs"]} == {"start", "wait"}
    assert all({"id", "decision", "placement", "reason"} <= set(job) for job in found["jobs"])
    assert all((job["placement"] is not None) == (job["decision"] == "start") for job in found["jobs"])
    assert found["solve"]["termination"] == "optimal"
    assert found["solve"]["bound"] >= found["solve"]["objective"] == found["value"] >= found["greedy_value"]


@pytest.mark.parametrize("words", MOVES.values(), ids=MOVES.keys())
def test_defrag_table(words: list[str], capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    code = cmd_defrag.command.main([*words, *CLUSTER], standalone_mode=False)
    out = re.sub(r" in [\d.]+ ms", " in TIME", capsys.readouterr().out)
    assert f"exit {code}\n{out}" == snapshot


def test_defrag_document_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    assert cmd_defrag.command.main([*MOVES["a waiting job"], *CLUSTER, "-o", "json"], standalone_mode=False) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["apiVersion"], found["kind"]) == ("placer/v1", "MigrationPlan")
    assert set(found["moves"][0]) == {"step", "job", "from", "to"}
    assert set(found["moves"][0]["from"]) == set(found["moves"][0]["to"]) == {"node", "gpus"}
    assert found["cost"]["jobs"] == len({move["job"] for move in found["moves"]})
    assert found["cost"]["gpus"] == sum(len(move["from"]["gpus"]) for move in found["moves"])
    assert found["solve"]["gap"] == 0.0


def test_defrag_without_a_plan_is_infeasible_and_exits_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert cmd_defrag.command.main([*MOVES["no plan"], *CLUSTER, "-o", "json"], standalone_mode=False) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["moves"], found["placement"], found["solve"]["termination"]) == ([], None, "infeasible")
