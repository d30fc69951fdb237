"""`placer salloc` and `placer srun` against stand-ins that write down what they were given."""

from __future__ import annotations

import pathlib
import shlex
import subprocess
import sys

import pytest

from placer.cli import _sbatch_kin
from placer.slurm import sbatch_options

ROOT = pathlib.Path(__file__).parents[3]
NODES = """\
apiVersion: placer/v1
kind: ClusterSnapshot
source: {system: slurm, version: "24.11.5", taken: "2026-01-31T12:00:00Z"}
levels: []
nodes:
- {name: "gpu[1-4]", gpus: {count: 8, type: a100}, machine: dgx-a100, cpus: 128, memory: 1000G, partitions: [gpu]}
"""


def _run(
    folder: pathlib.Path, program: str, *argv: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    (folder / "cluster.yaml").write_text(NODES)
    stand_in = folder / program
    stand_in.write_text('#!/bin/sh\necho "$0" | sed \'s:.*/::\'\nfor word; do echo "$word"; done\nexit 3\n')
    stand_in.chmod(0o755)
    environment = {
        "PATH": f"{folder}:/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT / "src"),
        "PLACER_SBATCH_SNAPSHOT": str(folder / "cluster.yaml"),
        "PLACER_SBATCH_TIMEOUT": "30",
        **(environ or {}),
    }
    code = f"from placer.cli import cmd_{program}, main; main.cli.add_command(cmd_{program}.command, '{program}'); "
    code += f"main.VERBS['{program}'] = ''; main.run()"
    command = [sys.executable, "-c", code, program, *argv]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("program", "argv", "environ", "added"),
    [
        ("salloc", ["-p", "gpu", "-N1", "--gpus-per-node=4", "-t", "10"], {}, "--nodelist=gpu1"),
        ("salloc", ["-I60", "-K", "--no-shell", "-N1", "--gpus=1", "sh", "-N2"], {}, "--nodelist=gpu1"),
        ("salloc", ["-N1", "hostname"], {"SALLOC_GPUS_PER_NODE": "4"}, "--nodelist=gpu1"),
        ("salloc", ["-N1", "hostname"], {"SBATCH_GPUS_PER_NODE": "4"}, None),
        ("salloc", ["-N1", "hostname"], {}, None),
        ("srun", ["-N1", "-G4", "-l", "--mpi=pmix", "-W", "30", "python", "-N9"], {}, "--nodelist=gpu1"),
        ("srun", ["-N1", "-G4", "x"], {"SLURM_JOB_ID": "7"}, None),
        ("srun", ["-N1", "-G4", "-r1", "x"], {}, None),
        ("srun", ["-N1", "-G4", "--of-tomorrow", "x"], {}, None),
        ("srun", ["-N1", "-G4", ":", "-N1", "x"], {}, None),
        ("srun", ["-N1", "-G4", "x"], {"PLACER_SBATCH_OFF": "1"}, None),
        ("srun", ["-N", "many", "-G4", "x"], {}, None),
        ("srun", ["-w", "gpu3", "-N1", "-G4", "x"], {}, None),
    ],
)
def test_program_gets_its_words_and_what_is_added_before_them(
    tmp_path: pathlib.Path, program: str, argv: list[str], environ: dict[str, str], added: str | None
) -> None:
    done = _run(tmp_path, program, *argv, environ=environ)
    assert done.returncode == 3
    assert done.stdout.splitlines() == [program, *([added] if added else []), *argv]


def test_dry_run_prints_the_command(tmp_path: pathlib.Path) -> None:
    done = _run(tmp_path, "srun", "--placer-dry-run", "-N1", "--gres=gpu:8", "sh", "-c", "a b")
    assert shlex.split(done.stdout) == ["srun", "--nodelist=gpu1", "-N1", "--gres=gpu:8", "sh", "-c", "a b"]


@pytest.mark.parametrize("program", ["salloc", "srun"])
def test_options_have_each_name_and_letter_once(program: str) -> None:
    table = _sbatch_kin.options(program)
    names, letters = [o.name for o in table], [o.short for o in table if o.short]
    assert len(names) == len(set(names))
    assert len(letters) == len(set(letters))
    assert {"nodes", "gpus-per-node", "nodelist", "gres"} <= set(names)
    assert len(table) > len(sbatch_options.OPTIONS) * 0.9
