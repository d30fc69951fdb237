"""Prolog and epilog with a stand-in for nvidia-smi: what they keep, and that they never fail a job."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time

import pytest

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy" / "slurm"
MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"


class Node:
    """A node with a directory of topologies and programs of its own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.topo = folder / "topo"
        self.topo.mkdir()
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("logger", 'echo "$@" > "$0.said"')
        self.prints(MATRIX)

    def program(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def prints(self, matrix: str) -> None:
        (self.bin / "matrix").write_text(matrix)
        self.program("nvidia-smi", 'cat "$(dirname "$0")/matrix"; echo x >> "$0.calls"')

    def run(self, script: str) -> int:
        environ = {"PATH": f"{self.bin}:/usr/bin:/bin", "PLACER_TOPO_DIR": str(self.topo), "SLURMD_NODENAME": "n1"}
        return subprocess.run(["sh", str(DEPLOY / script)], env=environ, timeout=30).returncode

    def kept(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.topo.iterdir() if path.name != ".n1.checked"}

    @property
    def calls(self) -> int:
        path = self.bin / "nvidia-smi.calls"
        return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def node(tmp_path: pathlib.Path) -> Node:
    return Node(tmp_path)


def test_prolog_keeps_the_topology_and_asks_once(node: Node) -> None:
    assert (node.run("prolog.sh"), node.run("prolog.sh")) == (0, 0)
    assert node.kept() == {"n1.txt": MATRIX}
    assert node.calls == 1
    old = time.time() - 40 * 86400
    os.utime(node.topo / "n1.txt", (old, old))
    assert node.run("prolog.sh") == 0
    assert node.calls == 2


@pytest.mark.parametrize("answer", ["exit 9", "echo half; kill -9 $$", "echo No devices were found"])
def test_prolog_with_a_broken_nvidia_smi_keeps_nothing_and_starts_the_job(node: Node, answer: str) -> None:
    node.program("nvidia-smi", answer)
    assert node.run("prolog.sh") == 0
    assert node.kept() == {}


def test_prolog_without_a_directory_starts_the_job(node: Node) -> None:
    node.topo.rmdir()
    assert (node.run("prolog.sh"), node.run("epilog.sh")) == (0, 0)


def test_epilog_of_an_unchanged_node_says_nothing(node: Node) -> None:
    node.run("prolog.sh")
    assert (node.run("epilog.sh"), node.run("epilog.sh")) == (0, 0)
    assert node.kept() == {"n1.txt": MATRIX}
    assert node.calls == 2  # once by the prolog, once in a day by the epilog


def test_epilog_of_a_changed_node_keeps_both_and_logs_the_command(node: Node) -> None:
    node.run("prolog.sh")
    node.prints(MATRIX.replace("NV4", "SYS"))
    assert node.run("epilog.sh") == 0
    assert node.kept() == {"n1.txt": MATRIX, "n1.changed": MATRIX.replace("NV4", "SYS")}
    said = (node.bin / "logger.said").read_text()
    assert f"placer topo diff {node.topo}/n1.txt {node.topo}/n1.changed" in said
