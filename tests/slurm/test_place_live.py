"""Advice and the wrapper against a real slurmctld: what is advised is what `scontrol show job` then tells."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.slurm.conftest import Cluster

SCRIPT = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --mem=10G
#SBATCH --time=10:00
#SBATCH --output=/dev/null
sleep 600
"""

pytestmark = pytest.mark.real_slurm


@pytest.fixture
def script(tmp_path: pathlib.Path) -> pathlib.Path:
    """A 2-node script with 4 GPUs on each."""
    path = tmp_path / "train.sbatch"
    path.write_text(SCRIPT)
    return path


def placer(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """Run placer as a person at the sandbox's shell does, with its topologies configured."""
    config = cluster.directory / "placer.yaml"
    config.write_text(f"topo_dir: {cluster.topo_dir}\n")
    environ = {**cluster.environ, "PLACER_CONFIG": str(config), "PLACER_SBATCH_TIMEOUT": "30"}
    argv = [sys.executable, "-m", "placer", *words]
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=120)


def details(cluster: Cluster, job: str) -> dict[str, str]:
    """Node -> GPU indices as `scontrol show job -d` prints them."""
    text = cluster.run("scontrol", "show", "job", "-d", job)
    return {
        name: indices
        for nodes, indices in re.findall(r"^\s+Nodes=(\S+) .*GRES=gpu:\w+:\d+\(IDX:([\d,-]+)\)", text, re.MULTILINE)
        for name in cluster.run("scontrol", "show", "hostnames", nodes).split()
    }


def submitted(cluster: Cluster, done: subprocess.CompletedProcess[str]) -> str:
    """The id of the job that the wrapper submitted, once it runs."""
    assert done.returncode == 0, done.stderr
    job = done.stdout.split()[-1]
    cluster.wait(job, "RUNNING")
    return job


def test_sbatch_two_nodes_go_under_one_switch(slurm_sandbox: Cluster, script: pathlib.Path) -> None:
    # One node of leaf1 is nearly full, so only gpu03 and gpu04 under leaf2 are a pair.
    slurm_sandbox.wait(slurm_sandbox.submit("-w", "gpu01", "--gpus-per-node=6", "--mem=10G"), "RUNNING")
    advice = json.loads(placer(slurm_sandbox, "place", str(script), "-o", "json").stdout)
    assert advice["predicted"]["domains"]["leaf"] == 1
    assert [node["name"] for node in advice["placement"]["nodes"]] == ["gpu03", "gpu04"]
    assert (advice["solve"]["termination"], advice["solve"]["gap"]) == ("optimal", 0)
    job = submitted(slurm_sandbox, placer(slurm_sandbox, "sbatch", str(script)))
    assert sorted(details(slurm_sandbox, job)) == ["gpu03", "gpu04"]


def test_sbatch_gpu_sets_are_whole_sockets_where_possible(slurm_sandbox: Cluster, script: pathlib.Path) -> None:
    # gpu02 has its second socket free, gpu01 has two GPUs on each: the first is a whole group, the second is not.
    for node, gpus in (("gpu02", 4), ("gpu01", 4)):
        slurm_sandbox.wait(slurm_sandbox.submit("-w", node, f"--gpus-per-node={gpus}", "--mem=10G"), "RUNNING")
    advice = json.loads(placer(slurm_sandbox, "place", str(script), "-o", "json").stdout)
    for node in advice["placement"]["nodes"]:
        assert sorted(node["gpus"]) in ([0, 1, 2, 3], [4, 5, 6, 7])
    job = submitted(slurm_sandbox, placer(slurm_sandbox, "sbatch", str(script)))
    given = details(slurm_sandbox, job)
    assert set(given) == {node["name"] for node in advice["placement"]["nodes"]}
    assert set(given.values()) <= {"0-3", "4-7"}


@pytest.mark.parametrize("options", [[], ["--parsable"], ["--test-only"]])
def test_sbatch_stdout_is_that_of_sbatch(slurm_sandbox: Cluster, script: pathlib.Path, options: list[str]) -> None:
    plain = subprocess.run(
        ["sbatch", *options, str(script)], env=slurm_sandbox.environ, capture_output=True, text=True, timeout=60
    )
    wrapped = placer(slurm_sandbox, "sbatch", *options, str(script))
    # The ids of two jobs differ, and nothing else may.
    number = r"\d+"
    assert re.sub(number, "N", wrapped.stdout) == re.sub(number, "N", plain.stdout)
    assert wrapped.returncode == plain.returncode == 0


def test_sbatch_busy_cluster_gets_no_nodelist(slurm_sandbox: Cluster, script: pathlib.Path) -> None:
    slurm_sandbox.wait(slurm_sandbox.submit("-N", "4", "--gpus-per-node=8", "--exclusive", "--mem=10G"), "RUNNING")
    dry = placer(slurm_sandbox, "sbatch", "--placer-dry-run", str(script))
    words = shlex.split(dry.stdout)
    assert (words[0], words[-1]) == ("sbatch", str(script))
    assert not any(word.startswith(("--nodelist", "-w")) for word in words)


def test_sbatch_free_cluster_pins_the_nodes_that_place_names(slurm_sandbox: Cluster, script: pathlib.Path) -> None:
    advice = json.loads(placer(slurm_sandbox, "place", str(script), "-o", "json").stdout)
    names = ",".join(node["name"] for node in advice["placement"]["nodes"])
    words = shlex.split(placer(slurm_sandbox, "sbatch", "--placer-dry-run", str(script)).stdout)
    pinned = [word.partition("=")[2] for word in words if word.startswith("--nodelist=")]
    if pinned:  # Slurm alone might have no other choice, then nothing is added
        expanded = slurm_sandbox.run("scontrol", "show", "hostnames", pinned[0]).split()
        assert ",".join(expanded) == names


def test_place_job_larger_than_the_cluster_exits_3(slurm_sandbox: Cluster) -> None:
    done = placer(slurm_sandbox, "place", "--nodes", "5", "--gpus-per-node", "8", "--mem", "10G", "-o", "json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (3, "never-fits")


def test_place_full_cluster_tells_when_it_starts(slurm_sandbox: Cluster) -> None:
    job = slurm_sandbox.submit("-N", "4", "--gpus-per-node=8", "--mem=10G", "--time=30:00")
    slurm_sandbox.wait(job, "RUNNING")
    done = placer(slurm_sandbox, "place", "--nodes", "2", "--gpus-per-node", "8", "--mem", "10G", "-o", "json")
    advice = json.loads(done.stdout)
    assert (done.returncode, advice["verdict"]) == (3, "must-wait")
    text = slurm_sandbox.run("scontrol", "show", "job", job)
    ends = re.search(r"EndTime=(\S+)", text)
    assert ends is not None
    assert advice["start"]["earliest"] == f"{ends[1]}Z"


def test_place_without_slurmctld_exits_4_and_sbatch_still_runs(
    slurm_sandbox: Cluster, script: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    broken = tmp_path / "slurm.conf"
    lines = (slurm_sandbox.directory / "etc" / "slurm.conf").read_text().splitlines()
    broken.write_text("\n".join("SlurmctldPort=1" if x.startswith("SlurmctldPort") else x for x in lines))
    gone = type(slurm_sandbox)(slurm_sandbox.directory)
    gone.environ = {**slurm_sandbox.environ, "SLURM_CONF": str(broken)}
    done = placer(gone, "place", "--timeout", "3", "--nodes", "1", "--gpus-per-node", "1")
    assert done.returncode == 4
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
