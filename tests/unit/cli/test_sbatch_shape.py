"""`--placer-shape`: which options change a job's shape, and where the command line forbids it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from placer.advice import finish
from placer.cli import _sbatch_shape
from placer.cluster import types as cluster
from placer.slurm import submission
from placer.slurm import submission_types as submissions

NOW = finish.Range(0.0, 0.0)

CLUSTER = """\
apiVersion: placer/v1
kind: ClusterSnapshot
source: {system: slurm, version: "24.11.5", taken: "2026-01-31T12:00:00Z"}
levels: [leaf]
nodes:
- name: gpu[1-4]
  gpus: {count: 8, type: a100}
  machine: dgx-a100
  cpus: 128
  memory: 1000G
  domains: {leaf: leaf1}
  partitions: [gpu]
jobs:
"""
JOB = """\
- id: "{0}"
  state: running
  partition: gpu
  submitted: "2026-01-31T11:00:00Z"
  started: "2026-01-31T11:00:00Z"
  time_limit: 10800
  request: {{nodes: 1, gpus_per_node: 4}}
  allocations:
  - {{node: gpu{0}, gpus: [0, 1, 2, 3], cpus: 32, memory: 100G}}
"""


def _submission(*argv: str, script: str = "", environ: dict[str, str] | None = None) -> submissions.Submission:
    text = f"#!/bin/sh\n#SBATCH {script}\n".encode()
    return submission.read([*argv, "job.sh"], environ or {}, lambda _name: text)


def _compared(job: submissions.Submission, best: cluster.JobRequest) -> finish.Comparison:
    asked = finish.Way(job.request, 2, 4, finish.Range(0, 7200), finish.Range(1, 1), 96.0, 3600.0)
    way = finish.Way(best, 1, 8, NOW, finish.Range(0.9, 1), 235.0, 3600.0)
    return finish.Comparison(asked, (way,), way)


ONE_NODE = cluster.JobRequest(nodes=1, gpus_per_node=8, ntasks_per_node=8)


@pytest.mark.parametrize(
    ("script", "environ", "best", "added"),
    [
        (
            "-N2 --gpus-per-node=4 --ntasks-per-node=4",
            {},
            ONE_NODE,
            ("--nodes=1", "--gpus-per-node=8", "--ntasks-per-node=8"),
        ),
        ("-N2 --gres=gpu:a100:4,nvme:1", {}, cluster.JobRequest(nodes=1, gpus_per_node=8, gpu_type="a100"), None),
        (
            "-N2 --gres=gpu:a100:4",
            {},
            cluster.JobRequest(nodes=1, gpus_per_node=8, gpu_type="a100"),
            ("--nodes=1", "--gres=gpu:a100:8"),
        ),
        (
            "-N2 -n8",
            {"SBATCH_GPUS_PER_NODE": "4"},
            cluster.JobRequest(nodes=1, gpus_per_node=8, ntasks=8, ntasks_per_node=8),
            ("--nodes=1", "--gpus-per-node=8", "--ntasks-per-node=8"),
        ),
        (
            "-N2 --gpus-per-node=4 -c32 --mem=100G",
            {},
            cluster.JobRequest(nodes=1, gpus_per_node=8, cpus_per_task=64, memory_per_node_mib=204800),
            ("--nodes=1", "--gpus-per-node=8", "--cpus-per-task=64", "--mem=204800M"),
        ),
        (
            "-N2 -n8 --gpus-per-task=1",
            {},
            cluster.JobRequest(nodes=1, ntasks=8, gpus_per_task=1, ntasks_per_node=8),
            ("--nodes=1", "--ntasks-per-node=8"),
        ),
    ],
)
def test_change_says_the_new_shape_in_the_words_of_the_old_one(
    script: str, environ: dict[str, str], best: cluster.JobRequest, added: tuple[str, ...] | None
) -> None:
    job = _submission(script=script, environ=environ)
    found = _sbatch_shape.change(_compared(job, best), job)
    if added is None:
        assert found.additions == ()
        assert found.notice is not None
        return
    assert tuple(addition.option for addition in found.additions) == added
    assert found.submission is not None
    # what sbatch then reads is the shape that was meant
    again = _submission(*added, script=script, environ=environ).request
    assert (again.nodes, again.gpus_per_node, again.ntasks_per_node) == (
        best.nodes,
        best.gpus_per_node,
        best.ntasks_per_node,
    )
    assert (again.cpus_per_task, again.memory_per_node_mib) == (best.cpus_per_task, best.memory_per_node_mib)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("-N2",), "`-N2` on the command line is stronger"),
        (("--gpus-per-node=4",), "`--gpus-per-node=4` on the command line is stronger"),
        (("--segment=2",), "`--segment` is given"),
    ],
)
def test_change_against_the_command_line_changes_nothing_and_says_so(argv: tuple[str, ...], reason: str) -> None:
    job = _submission(*argv, script="-N2 --gpus-per-node=4 --ntasks-per-node=4")
    found = _sbatch_shape.change(_compared(job, ONE_NODE), job)
    assert found.additions == ()
    assert found.submission is None
    assert found.notice is not None
    assert reason in found.notice


def _sbatch(folder: pathlib.Path, script: str, *argv: str) -> subprocess.CompletedProcess[str]:
    (folder / "cluster.yaml").write_text(CLUSTER + "".join(JOB.format(i) for i in range(1, 5)))
    (folder / "job.sh").write_text(f"#!/bin/sh\n#SBATCH {script}\nsrun x\n")
    words = ["sbatch", "--placer-dry-run", "--placer-timeout=30", "--placer-snapshot=cluster.yaml", *argv, "job.sh"]
    environ = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": str(pathlib.Path(__file__).parents[3] / "src"),
    }
    return subprocess.run(
        [sys.executable, "-m", "placer", *words], env=environ, cwd=folder, capture_output=True, text=True, timeout=60
    )


def test_sbatch_with_shape_takes_halves_of_nodes_for_a_whole_one_that_waits(tmp_path: pathlib.Path) -> None:
    script = "-p gpu -N1 --gpus-per-node=8 --ntasks-per-node=8 --mem=200G -t 8:00:00"
    plain = _sbatch(tmp_path, script)
    assert plain.stdout == "sbatch job.sh\n"
    shaped = _sbatch(tmp_path, script, "--placer-shape")
    assert shaped.stdout == (
        "sbatch --nodes=2 --gpus-per-node=4 --ntasks-per-node=4 --mem=102400M '--nodelist=gpu[1-2]' job.sh\n"
    )
    assert shaped.stderr.startswith("placer: 2 nodes x 4 GPUs instead of 1 node x 8 GPUs: starts now, runs ")
    assert _sbatch(tmp_path, script, "--placer-shape", "-N1").stdout == "sbatch -N1 job.sh\n"
