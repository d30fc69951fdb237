"""Machines of the catalogue in snapshot documents: wired, and said to be assumed."""

from __future__ import annotations

import pathlib

import pytest

from placer.cli import _sources, main
from placer.files import config

DOCUMENT = """\
apiVersion: placer/v1
kind: ClusterSnapshot
nodes:
- {name: "gpu[01-02]", gpus: {count: 8, type: a100}, machine: dgx-a100, cpus: 256, memory: 1000G}
- {name: gpu03, gpus: {count: 4, type: a100}, machine: dgx-a100, cpus: 256, memory: 1000G}
- {name: gpu04, machine: Standard_ND96isr_H100_v5, cpus: 96, memory: 1000G}
"""


@pytest.fixture
def document(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "snapshot.yaml"
    path.write_text(DOCUMENT)
    return str(path)


def test_read_wires_nodes_of_the_catalogue_and_says_so(document: str) -> None:
    found = _sources.read(_sources.SourceOptions(snapshot=document), config.Config())
    machines = [found.topology.machines[n].machine if n >= 0 else None for n in found.topology.machine_of]
    assert machines == ["dgx-a100", "dgx-a100", None, "nd-h100-v5"]  # no DGX A100 has 4 GPUs
    assert len(found.nodes[3].gpus) == 8
    assert any(text.startswith("gpu[01-02]: wiring from the catalogue: dgx-a100 (") for text in found.assumptions)
    assert any(text.startswith("gpu04: wiring from the catalogue: nd-h100-v5 (") for text in found.assumptions)


def test_place_on_a_machine_of_the_catalogue_predicts_its_bandwidth(
    document: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.invoke(["place", "--gpus", "8", "--snapshot", document]) == 0
    out = capsys.readouterr().out
    assert "all-reduce 235 GB/s" in out or "all-reduce 490" in out
