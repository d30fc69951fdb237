"""One replay of the public trace: about 10,800 pods on 1,213 nodes, 130 % of its GPUs. Budget 5 s each."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from placer.files import traces
from placer.placement import packing
from placer.simulation import experiment, floor

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[3] / "shared" / "data"))


def setup(trace: str) -> experiment.Experiment:
    folder = DATA / "openb"
    if not folder.is_dir():
        pytest.skip("needs the public openb trace: set PLACER_DATA to the folder that holds openb/")
    nodes = traces.read_nodes(folder / "openb_node_list_gpu_node.csv")
    return experiment.Experiment(nodes, traces.read_pods(folder / f"openb_pod_list_{trace}.csv"))


@pytest.mark.parametrize("trace", ["default", "gpuspec33"])
@pytest.mark.parametrize("policy", ["fgd", "best-fit", "placer"])
def test_bench_replay(benchmark: Any, policy: str, trace: str) -> None:
    lab = setup(trace)
    lab.run(policy, 1)
    run = benchmark.pedantic(lab.run, args=(policy, 42), rounds=3)
    left = {c.arrived_pct: round(100 - c.allocated_pct, 2) for c in run.columns}
    benchmark.extra_info.update(budget_s=5, pods=run.pods, unallocated_pct_100=left[100], unallocated_pct_130=left[130])


def test_bench_learn_the_mix(benchmark: Any) -> None:
    lab = setup("default")
    mix = packing.whole_mix(map(floor.kind_of, lab.pods))
    shapes = [packing.Shape(node.model, node.cpu_milli, node.gpu_count) for node in lab.nodes]
    benchmark.pedantic(packing.Rule, args=(mix, shapes), rounds=3)
