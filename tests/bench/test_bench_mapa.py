"""MAPA's comparison over 20 seeds: seconds of a replay, and the gain over preserve on the same jobs."""

from __future__ import annotations

import os
import pathlib
import random

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from placer.simulation import mapa, mapa_ahead, mapa_server

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))
MACHINES = ("dgx-v", "dgx-p", "summit", "torus-2d", "cubeMesh-16")
JOBS = 300
PRESERVE = next(policy for policy in mapa.PUBLISHED if policy.name == "preserve")


@pytest.mark.parametrize("policy", [mapa_ahead.online(), mapa_ahead.look_ahead(3)], ids=["online", "look-ahead"])
@pytest.mark.parametrize("machine", MACHINES)
def test_gain_over_preserve(benchmark: BenchmarkFixture, machine: str, policy: mapa.Policy) -> None:
    path = DATA / "mapa" / "topologies.json"
    if not path.is_file():
        pytest.skip(f"no {path}: set PLACER_DATA")
    servers = mapa_server.parse(path.read_text(), source=path.name)
    tables = mapa_server.Tables(next(server for server in servers if server.name == machine))
    queues = [mapa.draw(random.Random(seed), JOBS) for seed in range(100, 120)]
    runs = [mapa.replay(tables, queue, policy) for queue in queues[1:]]
    first = benchmark.pedantic(mapa.replay, (tables, queues[0], policy), rounds=1)  # type: ignore[no-untyped-call]
    runs.insert(0, first)
    gains = np.array(
        [np.mean(run) - np.mean(mapa.replay(tables, q, PRESERVE)) for run, q in zip(runs, queues, strict=True)]
    )
    found = mapa.summary([value for run in runs for value in run])
    benchmark.extra_info["mean, p25, min"] = f"{found.mean:.2f} {found.p25:.1f} {found.min:.1f}"
    benchmark.extra_info["gain over preserve"] = (
        f"{gains.mean():+.2f}, below in {int((gains < -1e-9).sum())} of 20 seeds"
    )
    assert gains.mean() > -1e-9
