"""The hooks in deploy/slurm, run by real sbatch and slurmctld: advice is added, a broken placer stops nothing."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
from tests.slurm.conftest import Cluster

from placer.sandbox import slurm
from placer.slurm import submission

pytestmark = pytest.mark.real_slurm

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "slurm"
JOB = ("-p", "gpu", "-N2", "--gpus-per-node=4", "--mem=10G", "-t", "10")


def _program(path: pathlib.Path, text: str) -> pathlib.Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def _placer(folder: pathlib.Path) -> pathlib.Path:
    run = f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m placer "$@"\n'
    return _program(folder / "placer", run)


def _needs(name: str) -> None:
    folders = pathlib.Path("/usr/lib").glob(f"*/slurm*/{name}")
    if not any(folders):
        pytest.skip(f"this Slurm has no {name}; install slurm-wlm-basic-plugins")


@pytest.fixture
def filtered(slurm_sandbox: Cluster, tmp_path: pathlib.Path) -> dict[str, str]:
    """The environment of a login node with cli_filter.lua."""
    _needs("cli_filter_lua.so")
    etc = tmp_path / "etc"
    shutil.copytree(slurm_sandbox.directory / "etc", etc)
    with (etc / "slurm.conf").open("a") as file:
        file.write("CliFilterPlugins=lua\n")
    source = (DEPLOY / "cli_filter.lua").read_text()
    (etc / "cli_filter.lua").write_text(source.replace("local SECONDS = 3 ", "local SECONDS = 30 "))
    return slurm_sandbox.environ | {"SLURM_CONF": str(etc / "slurm.conf"), "PLACER_COMMAND": str(_placer(tmp_path))}


def _submit(environ: dict[str, str], *argv: str, script: str | None = None) -> str:
    words = ["sbatch", "--parsable", "-o", "/dev/null", *argv]
    words += [script] if script else ["--wrap", "sleep 600"]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _fields(cluster: Cluster, job: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in cluster.run("scontrol", "show", "job", job).split())


def test_cli_filter_pins_nodes_that_are_free_now(slurm_sandbox: Cluster, filtered: dict[str, str]) -> None:
    fields = _fields(slurm_sandbox, _submit(filtered, *JOB))
    assert fields["ReqNodeList"] in {"gpu[01-02]", "gpu[03-04]"}


def test_cli_filter_reads_the_directives_of_a_script(
    slurm_sandbox: Cluster, filtered: dict[str, str], tmp_path: pathlib.Path
) -> None:
    comment = '#SBATCH --comment=\'say "nodes":"7" twice\'\n'
    script = _program(tmp_path / "a job.sh", f"#!/bin/sh\n#SBATCH {' '.join(JOB)} --hold\n{comment}sleep 600\n")
    fields = _fields(slurm_sandbox, _submit(filtered, script=str(script)))
    assert (fields["ReqNodeList"], fields["Switches"]) == ("(null)", "1@00:05:00")  # a held job is not pinned
    assert fields["NumNodes"] == "2-2"


@pytest.mark.parametrize(
    "placer",
    ["exit 1", "echo --nodelist=gpu01; exit 1", "kill -9 $$", "printf '\\0\\377'", None],
)
def test_cli_filter_with_a_broken_placer_submits_the_job_as_it_is(
    slurm_sandbox: Cluster, filtered: dict[str, str], tmp_path: pathlib.Path, placer: str | None
) -> None:
    if placer is None:
        filtered |= {"PLACER_COMMAND": "/nowhere/placer"}
    else:
        _program(tmp_path / "placer", f"#!/bin/sh\n{placer}\n")
    assert _fields(slurm_sandbox, _submit(filtered, *JOB))["ReqNodeList"] == "(null)"


def test_cli_filter_with_a_placer_that_hangs_waits_no_longer_than_its_limit(
    slurm_sandbox: Cluster, filtered: dict[str, str], tmp_path: pathlib.Path
) -> None:
    _program(tmp_path / "placer", "#!/bin/sh\nsleep 300\n")
    shutil.copy(DEPLOY / "cli_filter.lua", tmp_path / "etc" / "cli_filter.lua")
    started = time.monotonic()
    job = _submit(filtered, *JOB)
    assert 2.5 < time.monotonic() - started < 20
    assert _fields(slurm_sandbox, job)["ReqNodeList"] == "(null)"


@pytest.mark.parametrize(
    ("environ", "argv"), [({"PLACER_SBATCH_OFF": "1"}, JOB), ({}, ("-p", "gpu", "-N2", "-n2", "--mem=1G"))]
)
def test_cli_filter_leaves_alone_who_turned_it_off_and_who_wants_no_gpus(
    slurm_sandbox: Cluster,
    filtered: dict[str, str],
    tmp_path: pathlib.Path,
    environ: dict[str, str],
    argv: tuple[str, ...],
) -> None:
    mark = tmp_path / "called"
    _program(tmp_path / "placer", f"#!/bin/sh\ntouch {mark}\n")
    _submit(filtered | environ, *argv)
    assert not mark.exists()


def test_cli_filter_of_each_release_asks_for_what_the_job_asks_for(
    slurm_release: Cluster, tmp_path: pathlib.Path
) -> None:
    if not slurm_release.release >= (24, 11):
        _needs("cli_filter_lua.so")
    etc = tmp_path / "etc"
    shutil.copytree(slurm_release.directory / "etc", etc)
    with (etc / "slurm.conf").open("a") as file:
        file.write("CliFilterPlugins=lua\n")
    shutil.copy(DEPLOY / "cli_filter.lua", etc)
    asked = tmp_path / "asked"
    placer = _program(tmp_path / "placer", f'#!/bin/sh\nprintf "%s\\n" "$@" > {asked}\necho --exclude=gpu04\n')
    environ = slurm_release.environ | {"SLURM_CONF": str(etc / "slurm.conf"), "PLACER_COMMAND": str(placer)}
    options = ("-p", "gpu", "-N2", "--gres=gpu:a100:3", "-c4", "--mem=10G", "-t", "2:00:00", "--exclusive", "-n4")
    fields = _fields(slurm_release, _submit(environ, *options))
    assert fields["ExcNodeList"] == "gpu04"
    words = asked.read_text().splitlines()
    found = submission.read(words[words.index("--placer-timeout=2.5") + 1 :], {}, lambda _name: b"").request
    assert (found.nodes, found.gpus_per_node, found.gpu_type, found.ntasks) == (2, 3, "a100", 4)
    assert (found.cpus_per_task, found.memory_per_node_mib, found.time_limit) == (4, 10240, 7200)
    assert (found.partition, found.exclusive) == ("gpu", True)


def test_job_submit_adds_wishes_from_a_snapshot_and_survives_a_broken_placer(
    slurm_installed: None, tmp_path: pathlib.Path
) -> None:
    _needs("job_submit_lua.so")
    home = tmp_path / "sandbox"
    slurm.up(home)
    try:
        cluster = Cluster(home)
        placer, snapshot = _placer(tmp_path), tmp_path / "snapshot.json"
        source = (DEPLOY / "job_submit.lua").read_text()
        source = source.replace('PLACER = "placer"', f'PLACER = "{placer}"').replace("SECONDS = 1 ", "SECONDS = 30 ")
        source = source.replace('"/var/lib/placer/snapshot.json"', f'"{snapshot}"')
        (home / "etc" / "job_submit.lua").write_text(source)
        with (home / "etc" / "slurm.conf").open("a") as file:
            file.write("JobSubmitPlugins=lua\n")
        cluster.run("scontrol", "reconfigure")
        cluster.until(lambda: "JobSubmitPlugins" if "lua" in _setting(cluster, "JobSubmitPlugins") else "")
        assert "Switches" not in _fields(cluster, _submit(cluster.environ, *JOB))  # no snapshot yet
        environ = cluster.environ | {"PYTHONPATH": str(ROOT / "src")}
        argv = [sys.executable, "-m", "placer", "snapshot", "take", str(snapshot)]
        subprocess.run(argv, env=environ, check=True, capture_output=True, timeout=60)
        fields = _fields(cluster, _submit(cluster.environ, *JOB))
        assert (fields["Switches"], fields["ReqNodeList"]) == ("1@00:05:00", "(null)")
        _program(placer, "#!/bin/sh\necho --switches=1@5:00\nexit 9\n")
        assert "Switches" not in _fields(cluster, _submit(cluster.environ, *JOB))
        os.utime(snapshot, (1_000_000_000, 1_000_000_000))
        _program(placer, "#!/bin/sh\necho --switches=1@5:00\n")
        assert "Switches" not in _fields(cluster, _submit(cluster.environ, *JOB))  # too old
    finally:
        slurm.down(home)


def _setting(cluster: Cluster, name: str) -> str:
    lines = cluster.run("scontrol", "show", "config").splitlines()
    return next((line for line in lines if line.startswith(name)), "")
