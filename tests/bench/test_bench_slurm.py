"""Reading a large Slurm: 10,000 nodes, 20,000 jobs, as text and as JSON."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from placer.cluster import recording as recordings
from placer.slurm import snapshot

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "slurm" / "26.05"
NODES, RUNNING, PENDING = 10_000, 15_000, 5_000


def _conf() -> tuple[tuple[str, str], ...]:
    switches = [f"SwitchName=leaf{i} Nodes=n[{i * 25 + 1:05}-{i * 25 + 25:05}]" for i in range(NODES // 25)]
    return (
        ("scontrol_show_config.txt", (FIXTURES / "scontrol_show_config.txt").read_text()),
        (
            "scontrol_show_partition.txt",
            f"PartitionName=gpu\n   Default=YES\n   Nodes=n[00001-{NODES:05}]\n   State=UP\n",
        ),
        ("gres.conf", f"NodeName=n[00001-{NODES:05}] Name=gpu Type=a100 File=/dev/nvidia[0-7] Cores=0-63\n"),
        ("topology.conf", "\n".join([*switches, f"SwitchName=spine Switches=leaf[0-{NODES // 25 - 1}]"]) + "\n"),
    )


def text_recording() -> recordings.Recording:
    node = re.split(r"(?m)^(?=NodeName=)", (FIXTURES / "scontrol_show_node_d.txt").read_text())[1]
    jobs = re.split(r"(?m)^(?=JobId=)", (FIXTURES / "scontrol_show_job_d.txt").read_text())[1:]
    nodes = "".join(node.replace("gpu01", f"n{i + 1:05}") for i in range(NODES))
    running = "".join(
        jobs[i // NODES].replace(f"JobId={i // NODES + 1} ", f"JobId={i + 1} ").replace("gpu01", f"n{i % NODES + 1:05}")
        for i in range(RUNNING)
    )
    pending = "".join(jobs[8].replace("JobId=9 ", f"JobId={RUNNING + i + 1} ") for i in range(PENDING))
    entries = (("scontrol_show_node_d.txt", nodes), ("scontrol_show_job_d.txt", running + pending))
    return recordings.Recording("bench", (*entries, *_conf()))


def json_recording() -> recordings.Recording:
    def load(name: str, key: str) -> list[dict[str, Any]]:
        return list(json.loads((FIXTURES / name).read_text())[key])

    meta = '{"meta": {"slurm": {"release": "26.05.5"}}, '
    node = json.dumps(load("scontrol_show_nodes_json.txt", "nodes")[0])
    jobs = load("scontrol_show_jobs_json.txt", "jobs")
    nodes = ",".join(node.replace("gpu01", f"n{i + 1:05}") for i in range(NODES))
    kinds, pending = [json.dumps(one) for one in jobs[:2]], json.dumps(jobs[8])
    parts = [
        kinds[i // NODES]
        .replace(f'"job_id": {i // NODES + 1},', f'"job_id": {i + 1},')
        .replace("gpu01", f"n{i % NODES + 1:05}")
        for i in range(RUNNING)
    ] + [pending.replace('"job_id": 9,', f'"job_id": {RUNNING + i + 1},') for i in range(PENDING)]
    entries = (
        ("scontrol_show_nodes_json.txt", f'{meta}"nodes": [{nodes}]}}'),
        ("scontrol_show_jobs_json.txt", f'{meta}"jobs": [{",".join(parts)}]}}'),
    )
    return recordings.Recording("bench", (*entries, *_conf()))


@pytest.mark.parametrize("form", ["text", "json"])
def test_bench_build_10000_nodes_20000_jobs(benchmark: Any, form: str) -> None:
    recording = text_recording() if form == "text" else json_recording()
    benchmark.extra_info["mib"] = sum(len(text) for _, text in recording.entries) >> 20
    made = benchmark.pedantic(snapshot.build, (recording,), rounds=3)
    assert made.left_out == ()
    assert (len(made.nodes), len(made.jobs)) == (NODES, RUNNING + PENDING)
