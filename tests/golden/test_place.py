"""The answers of `placer place` on the recorded cluster, whole, as a person and a script see them."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from syrupy.assertion import SnapshotAssertion

from placer.cli import main

CLUSTER = ["--snapshot", "fixtures/slurm/24.11", "--topo-dir", "fixtures/slurm/topo"]
CASES = {
    "script that fits": ["fixtures/jobs/train.sbatch"],
    "one GPU goes to a broken node": ["--gpus", "1", "--mem", "10G"],
    "uneven total": ["--gpus", "11", "--mem", "10G"],
    "has to wait": ["--nodes", "3", "--gpus-per-node", "8", "--mem", "10G"],
    "never fits": ["--nodes", "7", "--gpus-per-node", "8", "--mem", "10G"],
    "V100 mesh pair": [
        "--partition",
        "old",
        "--gpus",
        "2",
        "--ntasks-per-node",
        "2",
        "--cpus-per-task",
        "4",
        "--mem",
        "10G",
    ],
    "required leaf has no room": ["--nodes", "2", "--gpus-per-node", "4", "--mem", "10G", "--required", "leaf"],
}


@pytest.fixture(autouse=True)
def at_root(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Run where the fixtures are, without the configuration of the person who runs the tests."""
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PLACER_CONFIG", raising=False)


@pytest.mark.parametrize("words", CASES.values(), ids=CASES.keys())
def test_place_table(words: list[str], capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    code = main.invoke(["place", *words, *CLUSTER])
    out = re.sub(r" in [\d.]+ ms", " in TIME", capsys.readouterr().out)
    assert f"exit {code}\n{out}" == snapshot


@pytest.mark.parametrize("words", CASES.values(), ids=CASES.keys())
def test_place_json(words: list[str], capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    code = main.invoke(["place", *words, *CLUSTER, "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    document["solve"]["seconds"] = 0
    assert code == (0 if document["verdict"] == "fits-now" else 3)
    assert json.dumps(document, indent=1) == snapshot


def test_place_json_and_yaml_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    words = ["place", "fixtures/jobs/train.sbatch", *CLUSTER]
    main.invoke([*words, "-o", "json"])
    as_json = json.loads(capsys.readouterr().out)
    main.invoke([*words, "-o", "yaml"])
    as_yaml = yaml.safe_load(capsys.readouterr().out)
    as_json["solve"]["seconds"] = as_yaml["solve"]["seconds"] = 0
    assert as_json == as_yaml
    assert list(as_json)[:2] == ["apiVersion", "kind"]
