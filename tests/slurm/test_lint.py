"""Lint against the real sbatch of each release: what it says would be refused is refused, and nothing else is."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from placer.slurm import lint
from placer.slurm import lint_types as types

pytestmark = pytest.mark.real_slurm

DIRECTIVES = """\
-N1
--gres=gpu:2 --gpus-per-node=2
--gres=gpu:2 --gpus-per-node=4
--gres=gpu:a100:2 --gpus-per-node=2
--gres=gpu:a100:2 --gpus-per-node=a100:2
--gres=gpu:2 --gpus=2
--gres=gpu:2 --gpus-per-task=1 -n2
--cpus-per-gpu=2 --cpus-per-task=2 --gpus=2
--cpus-per-gpu=2
--exclusive --oversubscribe
-s --exclusive
--exclusive=topo
--gpus-per-socket=1
--gpus-per-socket=1 --sockets-per-node=2
--gpus-per-task=1
--gpus-per-task=1 -n2
--gpus-per-task=1 -N2
--gpus-per-task=1 --ntasks-per-node=2
--gres-flags=enforce-binding --gpus=1
--ntasks-per-gpu=2 --gpus=2
--ntasks-per-gpu=2 --gpus-per-task=1
--ntasks-per-gpu=2 --ntasks-per-node=2 --gpus=2
--segment=2 -N2
--segment=2 -N3
--segment=4 -N2
--tres-per-task=gres/gpu:1 -n1
--tres-per-task=gres/gpu:1
--tres-per-task=gres/gpu:1 -n2 --gpus-per-task=1
--tres-per-task=cpu:2 -n2 -c2
--tres-per-task=cpu:2 -n2 --cpus-per-gpu=2 --gpus=2
--spread-segments --segment=1 -N1
--mem-per-gpu=1G --mem=1G --gpus=1
--mem-per-gpu=1G
--mem=1G --mem-per-cpu=1G
--tres-bind=gres/gpu:none --gpus=1
--power=x
--gpu-per-node=2
-n eight
--switches=1""".splitlines()


def test_check_says_refused_exactly_where_sbatch_refuses(slurm_release, tmp_path: pathlib.Path) -> None:  # type: ignore[no-untyped-def]
    wrong = []
    for directive in DIRECTIVES:
        script = f"#!/bin/sh\n#SBATCH {directive}\ntrue\n".encode()
        path = tmp_path / "job.sh"
        path.write_bytes(script)
        argv = ["sbatch", "--test-only", str(path)]
        done = subprocess.run(argv, env=slurm_release.environ, capture_output=True, text=True, timeout=60)
        said = lint.check(script, environ={}, site=types.Site(slurm_release.release))
        if said.refused is not (done.returncode != 0):
            wrong.append((directive, done.stderr.strip(), [remark.text for remark in said.remarks]))
    assert wrong == []


def test_fix_of_missed_directives_gives_what_they_ask_for(slurm_release, tmp_path: pathlib.Path) -> None:  # type: ignore[no-untyped-def]
    data = b"#!/bin/sh\n#sbatch --nodes=2\n # SBATCH --gpus-per-node=3\n#SBATCH -J a#b\nset -e\n#SBATCH -t 7\ntrue\n"
    path = tmp_path / "job.sh"
    path.write_bytes(lint.fix(data, environ={}))
    job = slurm_release.run("sbatch", "--parsable", "--hold", "-o", os.devnull, str(path)).split(";")[0].strip()
    said = dict(word.partition("=")[::2] for word in slurm_release.run("scontrol", "show", "job", job).split())
    assert (said["NumNodes"], said["JobName"], said["TimeLimit"]) == ("2-2", "a#b", "00:07:00")
    assert said["TresPerNode"].endswith("gpu:3")
