"""Recorded submissions and steps of real Slurm, as fixtures and, where PLACER_DATA is, as a whole."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from placer import ranges
from placer.cli import _simulate_slurm
from placer.slurm_model import types as model

REPOSITORY = pathlib.Path(__file__).parents[3]
FIXTURES = REPOSITORY / "fixtures" / "slurm_choices"
DATA = pathlib.Path(os.environ.get("PLACER_DATA", REPOSITORY.parent / "shared" / "data")) / "slurm_choices"

Record = dict[str, Any]
Grants = dict[str, tuple[tuple[int, ...], tuple[int, ...]]]


@pytest.fixture(scope="session")
def cluster() -> _simulate_slurm.Cluster:
    return _simulate_slurm._read_cluster(FIXTURES / "conf")


@pytest.fixture(scope="session")
def sample() -> Callable[[str], list[Record]]:
    """The lines of a fixture file."""
    return lambda name: [json.loads(line) for line in (FIXTURES / name).read_text().splitlines()]


@pytest.fixture(scope="session")
def whole() -> Callable[[str], list[Record]]:
    """The lines of a file of the whole recordings; skips without them."""

    def read(name: str) -> list[Record]:
        if not (DATA / name).exists():
            pytest.skip(f"no recordings under {DATA}: set PLACER_DATA")
        return [json.loads(line) for line in (DATA / name).read_text().splitlines()]

    return read


@pytest.fixture(scope="session")
def recorded() -> Callable[[Record], tuple[str, Grants]]:
    """Outcome, and GPUs and CPU ids of each node, as Slurm printed them."""

    def read(line: Record) -> tuple[str, Grants]:
        result = line["result"]
        if result["state"] == "running":
            nodes = result["nodes"].items()
            return "running", {name: (tuple(sorted(g["gpus"])), ranges.parse(g["cpus"])) for name, g in nodes}
        never = result["state"] == "rejected" or result["reason"] in {"PartitionConfig", "JobHeldAdmin"}
        return ("never" if never else "waits"), {}

    return read


@pytest.fixture(scope="session")
def predicted(cluster: _simulate_slurm.Cluster) -> Callable[[Record], tuple[str, Grants]]:
    """The same as the model has it."""

    def predict(line: Record) -> tuple[str, Grants]:
        choice: model.Choice
        _, choice = _simulate_slurm.answer(json.dumps(line), cluster, source="recording", number=1)
        return choice.verdict.value, {grant.node: (grant.gpus, grant.cpus) for grant in choice.nodes}

    return predict
