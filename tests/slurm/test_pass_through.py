"""`placer sbatch` is sbatch: status, output, and the job's script and environment are those of a direct call."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from tests.slurm.clusters import Cluster

pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(600)]

ENVIRONMENT = 'env -0 >"$SLURM_SUBMIT_DIR/env.${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"'
QUOTED = f'{ENVIRONMENT} # "x"'
SCRIPT = f"#!/bin/bash\n#SBATCH --output=/dev/null --mem=100M\n{ENVIRONMENT}\n"
GPUS = SCRIPT.replace("--mem", "--gpus-per-node=2 --ntasks-per-node=2 --mem")


class Case(NamedTuple):
    """One submission. `standard_input` None = closed as for a daemon's child."""

    cli: str
    script: str | bytes = SCRIPT
    env: str = ""
    standard_input: str = ""
    runs: bool = True  # on its own, at once: its environment can be compared
    newer: bool = False  # tried on every release


CASES = (
    Case("job.sh", newer=True),
    Case("job.sh", GPUS, newer=True),
    Case("-N2 job.sh", GPUS, newer=True),
    Case("--gpus=2 -n2 job.sh a 'b c' '' --gpus=9 '$HOME'", newer=True),
    Case("./job.sh x"),
    Case("--parsable job.sh", GPUS, newer=True),
    Case("--quiet job.sh", GPUS, runs=False),
    Case("-Q --parsable -N2 job.sh", GPUS, runs=False),
    Case("-HN1 job.sh", GPUS, runs=False),
    Case("--test-only job.sh", GPUS, runs=False),
    Case("--test-only -N99 job.sh", GPUS, runs=False),
    Case("--wait job.sh", GPUS, newer=True),
    Case("--wait job.sh", SCRIPT + "exit 7\n", newer=True),
    Case("", "", standard_input=GPUS, newer=True),
    Case("-n1 -J stdin", "", standard_input=SCRIPT),
    Case("", "", standard_input="", runs=False),
    Case(f"--mem=100M -o /dev/null --wrap={shlex.quote(ENVIRONMENT)}", newer=True),
    Case(f"--mem=100M -o /dev/null --gpus=1 --wrap {shlex.quote(QUOTED)}"),
    Case("--wrap=hostname job.sh", runs=False),
    Case("-a 1-3%1 job.sh", GPUS, newer=True),
    Case("--array=x job.sh", GPUS, runs=False),
    Case("-n1 : -n1 -p old job.sh", newer=True),
    Case("job.sh", SCRIPT.replace("\nenv", "\n#SBATCH hetjob\n#SBATCH -n2 --mem=100M\nenv")),
    Case("--export=NONE job.sh", GPUS, "KEEP=me", newer=True),
    Case("--export=NONE,A=1 job.sh", GPUS, "KEEP=me"),
    Case("--export=ALL,A='x y' job.sh", GPUS, "KEEP='a b'"),
    Case("--export=KEEP job.sh", GPUS, "KEEP=1 DROP=2"),
    Case("job.sh", GPUS, "SBATCH_EXPORT=NONE KEEP=1"),
    Case("job.sh", GPUS, "'NL=one\ntwo' 'QUOTE=\"'\\''' EMPTY= UNICODE=ü☃", newer=True),
    Case("job.sh", GPUS, "LC_ALL=C LANG=C PYTHONPATH=/nowhere PYTHONHOME="),
    Case("job.sh", GPUS, "SLURM_JOB_ID=77 SLURM_NTASKS=5 SLURM_GPUS=3 SLURM_JOB_NAME=outer"),
    Case("job.sh", SCRIPT, "SBATCH_JOB_NAME=env SBATCH_TIMELIMIT=5 SBATCH_GRES=gpu:1", newer=True),
    Case("-n2 job.sh", SCRIPT, "SLURM_HOSTFILE=hosts"),
    Case("--chdir=/ job.sh", GPUS),
    Case("-D /nowhere/at/all job.sh", SCRIPT.replace("#SBATCH", "#"), runs=False),
    Case("-J 'a b' --comment='ü \"x\"' job.sh", GPUS),
    Case("--begin=now+1hour job.sh", GPUS, runs=False),
    Case("--dependency=afterok:1 job.sh", GPUS, runs=False),
    Case("--nice=5 --requeue --signal=B:USR1@60 job.sh", GPUS),
    Case("-w gpu02 job.sh", GPUS),
    Case("-x gpu01 job.sh", GPUS),
    Case("-N 7 job.sh", GPUS, runs=False),
    Case("-p nowhere job.sh", GPUS, runs=False, newer=True),
    Case("--gres=gpu:none:1 job.sh", runs=False),
    Case("--bogus job.sh", GPUS, runs=False, newer=True),
    Case("-n job.sh", GPUS, runs=False),
    Case("--mem=x job.sh", GPUS, runs=False),
    Case("--gres=gpu:2 --gpus-per-node=2 job.sh", runs=False, newer=True),
    Case("-n 2 none.sh", runs=False, newer=True),
    Case("job.sh", "hostname\n", runs=False),
    Case("job.sh", "", runs=False),
    Case("job.sh", b"\x7fELF\x00\x01\x02", runs=False),
    Case("job.sh", SCRIPT.replace("\n", "\r\n"), runs=False, newer=True),
    Case("job.sh", GPUS.replace("#SBATCH", "#SBATCH --job-name='open"), runs=False),
    Case("job.sh", GPUS + "#" * 100_000 + "\n" + "x=ü☃\n"),
    Case("job.sh", GPUS.encode() + b"# \xff\xfe not UTF-8\n", newer=True),
    Case("--version", runs=False, newer=True),
    Case("--help -n2", runs=False),
    Case("--usage", runs=False),
    Case("-v -n1 job.sh"),
    Case("-M nowhere job.sh", GPUS, runs=False),
)

OF_THE_PLACE = re.compile(
    r"SLURM\w*(?:JOB_?ID|NODE_?LIST|NODENAME|TASK_PID|_TIME|GPUS|TOPOLOGY_ADDR|CPUS_ON_NODE|JOB_CPUS_PER_NODE|GTIDS|SLUID)"
    r"|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ROCR_VISIBLE_DEVICES|ZE_AFFINITY_MASK|HOSTNAME|TMPDIR|_PLACER_SBATCH"
)
"""Variables that tell which job it is and what it was given. The last is placer's mark for an sbatch that is a script,
as those of the newer releases here are."""


class Outcome(NamedTuple):
    """What a caller sees, and the ids of the jobs."""

    status: int
    stdout: str
    stderr: str
    job: str | None


def submit(slurm: Cluster, case: Case, folder: pathlib.Path, program: list[str]) -> Outcome:
    """Run one of the two programs; what differs from job to job is made equal."""
    environ = {**slurm.environ, **dict(word.split("=", 1) for word in shlex.split(case.env))}
    environ |= {"PLACER_CONFIG": str(folder / "placer.yaml"), "PLACER_SBATCH_TIMEOUT": "30"}
    argv = [*program, *shlex.split(case.cli)]
    done = subprocess.run(
        argv, env=environ, cwd=folder, input=case.standard_input.encode(), capture_output=True, timeout=120
    )
    stdout, stderr = done.stdout.decode(), done.stderr.decode()
    told = [line for line in stderr.splitlines() if not line.startswith("warning: placer: ")]
    assert len(stderr.splitlines()) - len(told) <= 1, stderr
    number = re.search(r"^(?:Submitted batch job )?(\d+)$", stdout, re.MULTILINE)
    return Outcome(done.returncode, _same(stdout), _same("\n".join(told)), number[1] if number else None)


def _same(text: str) -> str:
    """Numbers and times of a job as N; where `--test-only` would run it is the advice itself."""
    return re.sub(r"\d+", "N", re.sub(r"on nodes \S+", "on nodes …", text))


def lay(case: Case, folder: pathlib.Path, slurm: Cluster) -> None:
    folder.mkdir()
    (folder / "job.sh").write_bytes(case.script if isinstance(case.script, bytes) else case.script.encode())
    (folder / "hosts").write_text("gpu01\ngpu02\n")
    (folder / "placer.yaml").write_text(f"topo_dir: {slurm.topo_dir}\n")


def held_script(slurm: Cluster, job: str) -> bytes:
    """The script as slurmctld holds it."""
    argv = ["scontrol", "write", "batch_script", job, "-"]
    return subprocess.run(argv, env=slurm.environ, capture_output=True, timeout=60, check=True).stdout


def environment(folder: pathlib.Path, job: str) -> dict[str, str]:
    """What the job's script saw."""
    words = (folder / f"env.{job}").read_bytes().decode().split("\0")
    variables = dict(word.split("=", 1) for word in words if word)
    return {name: value for name, value in variables.items() if not OF_THE_PLACE.search(name)}


def test_submissions_pass_through_as_they_are(slurm_release: Cluster, tmp_path: pathlib.Path) -> None:
    newest = slurm_release.release >= (23, 0)
    cases = [case for case in CASES if case.newer or not newest]
    assert len(cases) >= (15 if newest else 50)
    placer = [sys.executable, "-m", "placer", "sbatch"]
    pairs: list[tuple[pathlib.Path, Case, str, str]] = []
    for number, case in enumerate(cases):
        place = tmp_path / str(number)
        lay(case, place, slurm_release)
        plain = submit(slurm_release, case, place, ["sbatch"])
        wrapped = submit(slurm_release, case, place, placer)
        assert wrapped[:3] == plain[:3], case
        assert (wrapped.job is None) == (plain.job is None)
        if plain.job is not None and wrapped.job is not None:
            pairs.append((place, case, plain.job, wrapped.job))
            assert held_script(slurm_release, wrapped.job) == held_script(slurm_release, plain.job), case
    ran = [(place, case, first, second) for place, case, first, second in pairs if case.runs]
    expected = [place / f"env.{job}" for place, _, *jobs in ran for job in jobs]
    slurm_release.until(lambda: "all" if all(p.exists() and p.stat().st_size for p in expected) else "", seconds=120)
    for place, case, first, second in ran:
        assert environment(place, second) == environment(place, first), case
    assert [case for case in cases if case.runs and case not in {one for _, one, *_ in ran}] == []
