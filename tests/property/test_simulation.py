"""What holds for any trace: reading is total, and replays keep their books."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from placer import errors
from placer.placement import fgd
from placer.simulation import experiment, floor, openb

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
CELLS = st.text(st.characters(codec="utf-8"), max_size=8) | st.integers(-5, 2000).map(str)
ROWS = st.lists(st.lists(CELLS, max_size=7).map(",".join), max_size=6).map("\n".join)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | ROWS.map(lambda rows: HEADER + rows))
def test_parse_pods_gives_pods_or_a_parse_error(text: str) -> None:
    try:
        pods = openb.parse_pods(text, source="p.csv")
    except errors.ParseError:
        return
    assert all(0 <= pod.gpu_milli <= 1000 and (pod.gpu_count == 0) == (pod.gpu_milli == 0) for pod in pods)


NODE = st.builds(
    lambda cpu, gpus, model: openb.Node("", cpu * 1000, 64, gpus, model),
    st.integers(0, 40),
    st.integers(0, 4),
    st.sampled_from(["A", "B", ""]),
)
POD = st.builds(
    lambda cpu, memory, shape, models: openb.Pod("", cpu * 500, memory, shape[0], shape[1], models if shape[1] else ()),
    st.integers(0, 12),
    st.integers(0, 40),
    st.sampled_from([(0, 0), (1000, 1), (1000, 3), (333, 1), (505, 1), (810, 1), (250, 2)]),
    st.sampled_from([(), (), ("A",), ("A", "C")]),
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(NODE, min_size=1, max_size=5),
    st.lists(POD, min_size=1, max_size=25),
    st.sampled_from(experiment.POLICIES),
    st.sampled_from([0.0, 50.0]),
)
def test_replay_never_takes_what_is_not_there(
    nodes: list[openb.Node], pods: list[openb.Pod], policy: str, migrate: float
) -> None:
    nodes = [openb.Node(f"n{i}", n.cpu_milli, n.memory_mib, n.gpu_count, n.model) for i, n in enumerate(nodes)]
    pods = [
        openb.Pod(f"p{i}", p.cpu_milli, p.memory_mib, p.gpu_milli, p.gpu_count, p.models) for i, p in enumerate(pods)
    ]
    if not any(n.gpu_count for n in nodes) or not any(p.demand_milli for p in pods):
        return
    lab = experiment.Experiment(nodes, pods, experiment.Setting(load=1.2, migrate_pct=migrate))
    arrived = lab.arrive(1)[1]
    if not arrived:  # the first pod would exceed the load
        return
    trail = lab.replay(policy, 1)
    final = trail.states.nodes(trail.final)
    assert final.cpu_milli.min() >= 0
    assert final.gpu_milli.min() >= 0
    assert trail.capacity_milli - int(final.gpu_milli.sum()) == int(trail.used_milli[-1])
    assert (np.diff(trail.used_milli) >= 0).all()
    best = floor.Bound(nodes).pack({kind: 1.0 * n for kind, n in _counts(arrived).items()})
    assert best is not None
    assert int(trail.used_milli[-1]) <= best.used_milli + 0.01


def _counts(pods: list[openb.Pod]) -> dict[fgd.Pod, int]:
    found: dict[fgd.Pod, int] = {}
    for pod in pods:
        found[floor.kind_of(pod)] = found.get(floor.kind_of(pod), 0) + 1
    return found
