"""Slurm's own expectations of GPUs bound to sockets, on a node of 2 sockets x 8 cores x 2 threads and 3 + 3 GPUs.

The requests and what `scontrol -d show job` must print are those of its testsuite/python/tests/test_144_8.py, which
is about the newest release.
"""

from __future__ import annotations

import pytest

from placer import ranges
from placer.slurm import submission
from placer.slurm_model import ask, predict, types
from placer.slurm_model.release import R26
from placer.topology import types as topo

MACHINES = tuple(
    types.Machine(
        name=name,
        sockets=2,
        cores_per_socket=8,
        threads=2,
        memory_mib=1000,
        devices=tuple(types.Device(socket=i // 3) for i in range(6)),
    )
    for name in ("n1", "n2")
)


def _given(options: str) -> list[tuple[str, str]]:
    words = [*options.split(), "--gres-flags=enforce-binding", "job.sh"]
    found = submission.read(words, {}, lambda _name: b"#!/bin/sh\n")
    asked = ask.build(found.request, R26, tasks_said=found.gives("ntasks"))
    choice = predict.predict(MACHINES, [types.NodeLoad()] * 2, topo.Fabric(), asked)
    return [(ranges.format(grant.cpus), ranges.format(grant.gpus)) for grant in choice.nodes]


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ("-n2 --tres-per-task=gres/gpu:3", [("0-1,16-17", "0-5")]),
        ("--ntasks-per-node=2 -N1 -c2 --tres-per-task=gres/gpu:2", [("0-1,16-17", "0-1,3-4")]),
        ("--gres=gpu:4 -n1 -c2", [("0-1,16-17", "0-1,3-4")]),
        ("--gpus=2 --cpus-per-gpu=1", [("0-1", "0-1")]),
        ("-N1 --gpus-per-task=3 -n1 --cpus-per-gpu=2", [("0-5", "0-2")]),
        ("-n1 --gpus=6 -N1", [("0-1,16-17", "0-5")]),
        ("-N2 --gpus-per-task=3 -n2 --cpus-per-gpu=2", [("0-5", "0-2"), ("0-5", "0-2")]),
    ],
)
def test_predict_bound_gpus_as_upstream_expects(options: str, nodes: list[tuple[str, str]]) -> None:
    assert _given(options) == nodes


def test_predict_job_totals_are_not_balanced_over_nodes() -> None:
    assert [gpus for _, gpus in _given("-N2 --gpus=6 -n2")] == ["0-4", "0"]
