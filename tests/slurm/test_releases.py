"""Every supported release live: its snapshot is what its `scontrol` prints, and advice comes true on it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.slurm import releases

from placer import ranges
from placer.cluster import recording as recordings
from placer.cluster import types as cluster
from placer.slurm import client, snapshot

if TYPE_CHECKING:
    from tests.slurm.clusters import Cluster

pytestmark = pytest.mark.real_slurm


def busy(slurm: Cluster) -> list[str]:
    """Jobs of several kinds: two nodes, one type, whole nodes, an array, one that waits, one that is held."""
    running = [
        slurm.submit("-N2", "-wgpu[01-02]", "--gpus-per-node=3", "-c4", "--mem=10G", "-t20"),
        slurm.submit("-pold", "-N1", "--gres=gpu:v100:1", "--mem=1G"),
        slurm.submit("-wgpu03", "--exclusive", "--mem=0"),
        slurm.submit("-wgpu04", "-n3", "--gpus-per-task=1", "--mem-per-cpu=100M"),
    ]
    for job in running:
        slurm.wait(job, "RUNNING")
    waiting = [
        slurm.submit("-N4", "--gpus-per-node=8", "-t60"),
        slurm.submit("--hold", "-n8", "--gpus=8", "--array=1-6%2"),
    ]
    return running + waiting


def in_text(slurm: Cluster, taken: recordings.Recording) -> recordings.Recording:
    """The same moment, told by `scontrol show … -d` alone."""
    entries = dict(taken.entries)
    for name in (*snapshot.NODES_JSON, *snapshot.JOBS_JSON):
        entries.pop(name, None)
    environ = {**slurm.environ, "TZ": "UTC", "LC_ALL": "C"}
    for name, noun in ((snapshot.NODES_TEXT, "node"), (snapshot.JOBS_TEXT, "job")):
        argv = ["scontrol", "show", noun, "-d"]
        entries[name] = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True).stdout
    return msgspec.structs.replace(taken, entries=tuple(entries.items()))


def test_release_is_the_one_that_its_name_says(slurm_release: Cluster, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["release_session"]
    if name != "installed":
        assert slurm_release.release >= tuple(int(part) for part in name.split("."))


def test_snapshot_live_is_the_same_from_json_and_from_text(slurm_release: Cluster) -> None:
    busy(slurm_release)
    taken = client.record(environ=slurm_release.environ)
    has_json = any(name in dict(taken.entries) for name in snapshot.NODES_JSON)
    assert has_json == (slurm_release.release >= (24, 11))
    told = snapshot.build(taken)
    assert told.left_out == ()
    in_words = snapshot.build(in_text(slurm_release, taken))
    assert in_words.nodes == told.nodes
    assert in_words.jobs == told.jobs
    assert in_words == told


def test_snapshot_live_is_what_scontrol_prints(slurm_release: Cluster) -> None:
    jobs = busy(slurm_release)
    told = snapshot.build(client.record(environ=slurm_release.environ))
    blocks = slurm_release.run("scontrol", "show", "node", "-d").split("\n\n")
    said = {fields["NodeName"]: fields for block in blocks if (fields := dict(re.findall(r"(\S+?)=(\S+)", block)))}
    assert [node.name for node in told.nodes] == sorted(said)
    for node in told.nodes:
        fields = said[node.name]
        index = re.search(r"IDX:([0-9,-]+|N/A)", fields["GresUsed"])
        assert index is not None
        used = () if index[1] == "N/A" else ranges.parse(index[1])
        assert node.gpus_used == tuple(used)
        assert len(node.gpus) == int(fields["Gres"].split(":")[2].split("(")[0])
        assert (node.cpus, node.cpus_used) == (int(fields["CPUTot"]), int(fields["CPUAlloc"]))
        assert (node.memory_mib, node.memory_used_mib) == (int(fields["RealMemory"]), int(fields["AllocMem"]))
    running = {job.id for job in told.jobs if job.state is cluster.JobState.RUNNING}
    waiting = {job.id.partition("_")[0] for job in told.jobs if job.state is not cluster.JobState.RUNNING}
    assert (running, waiting) == (set(jobs[:4]), set(jobs[4:]))
    partitions = slurm_release.run("sinfo", "-h", "-o", "%R %D").split("\n")
    assert [f"{partition.name} {len(partition.nodes)}" for partition in told.partitions] == sorted(partitions)[1:]


SCRIPT = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4
#SBATCH --cpus-per-task=8 --mem=10G --time=10:00 --output=/dev/null
sleep 600
"""


def test_advice_comes_true(slurm_release: Cluster, tmp_path: pathlib.Path) -> None:
    # One node of leaf1 is nearly full, so only gpu03 and gpu04 under leaf2 are a pair.
    slurm_release.wait(slurm_release.submit("-w", "gpu01", "--gpus-per-node=6", "--mem=10G"), "RUNNING")
    script, config = tmp_path / "train.sbatch", tmp_path / "placer.yaml"
    script.write_text(SCRIPT)
    config.write_text(f"topo_dir: {slurm_release.topo_dir}\n")
    environ = {**slurm_release.environ, "PLACER_CONFIG": str(config), "PLACER_SBATCH_TIMEOUT": "30"}

    def placer(*words: str) -> str:
        argv = [sys.executable, "-m", "placer", *words, str(script)]
        done = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    advice = json.loads(placer("place", "-o", "json"))
    assert [node["name"] for node in advice["placement"]["nodes"]] == ["gpu03", "gpu04"]
    job = placer("sbatch", "--parsable").strip()
    slurm_release.wait(job, "RUNNING")
    text = slurm_release.run("scontrol", "show", "job", "-d", job)
    given = re.findall(r"^\s+Nodes=(\S+) .*GRES=gpu:\w+:\d+\(IDX:([\d,-]+)\)", text, re.MULTILINE)
    assert given == [("gpu[03-04]", "0-3")]


def test_a_killed_test_run_leaves_nothing_mounted(slurm_release: Cluster, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["release_session"]
    if name == "installed":
        pytest.skip("the installed release needs no root of its own")
    code = (
        "import os, signal\n"
        "from tests.slurm import releases\n"
        f"release = next(release for release in releases.NEWER if release.name == {name!r})\n"
        "with releases.entered(releases.root_of(release, releases.cache_directory(os.environ))) as words:\n"
        "    print(words[1], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    holder = pathlib.Path(done.stdout.strip().removeprefix("--mount=")).parent.parent
    assert holder.parent == pathlib.Path("/proc")
    slurm_release.until(lambda: "" if holder.exists() else "gone", seconds=10)
    cache = releases.cache_directory(os.environ)
    assert str(cache) not in pathlib.Path("/proc/self/mounts").read_text()
