"""Replays against a plain one that keeps no tables, and the laws that hold for every run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from placer.placement import fgd, packing, packing_fragments
from placer.placement import packing_nodes as nodes_of
from placer.simulation import experiment, floor, openb, policies, replay, report

MODELS = ("A10", "T4")


def cluster(seed: int) -> tuple[list[openb.Node], list[openb.Pod]]:
    """Nine small nodes, and pods for about 130 % of their GPUs."""
    draw = np.random.default_rng(seed)
    nodes = [
        openb.Node(f"n{i}", int(draw.choice([8000, 16000, 32000])), 64000, int(draw.choice([1, 2, 4])), MODELS[i % 2])
        for i in range(9)
    ]
    pods: list[openb.Pod] = []
    while sum(pod.demand_milli for pod in pods) < 1300 * sum(node.gpu_count for node in nodes):
        kind = [(0, 0), (1000, 1), (1000, 2), (470, 1), (810, 1), (190, 1)][int(draw.integers(6))]
        models = ("T4",) if draw.random() < 0.2 and kind[1] else ()
        cpu, memory = int(draw.choice([500, 2000, 4000])), int(draw.choice([1000, 9000]))
        pods.append(openb.Pod(f"p{len(pods)}", cpu, memory, *kind, models))
    return nodes, pods


def plain(
    nodes: list[openb.Node],
    pods: list[openb.Pod],
    order: list[int],
    score: Callable[[fgd.Pod, list[int], int, str], tuple[float, int]],
) -> list[int]:
    """The node of each pod, or -1: every node scored anew for every pod."""
    cpu = [n.cpu_milli for n in nodes]
    memory = [n.memory_mib for n in nodes]
    gpus = [[1000] * n.gpu_count for n in nodes]
    placed = []
    for pod in pods:
        kind = fgd.Pod(pod.cpu_milli, pod.gpu_milli, pod.gpu_count)
        best: tuple[float, int, int] | None = None
        for n in order:
            room = sum(g >= pod.gpu_milli for g in gpus[n]) >= pod.gpu_count
            allowed = not pod.models or nodes[n].model in pod.models
            if not (room and allowed and cpu[n] >= pod.cpu_milli and memory[n] >= pod.memory_mib):
                continue
            value, gpu = score(kind, gpus[n], cpu[n], nodes[n].model)
            if best is None or value > best[0]:
                best = (value, n, gpu)
        placed.append(best[1] if best else -1)
        if best is None:
            continue
        _, n, gpu = best
        cpu[n] -= pod.cpu_milli
        memory[n] -= pod.memory_mib
        chosen = [gpu] if pod.gpu_count == 1 else [i for i, g in enumerate(gpus[n]) if g >= 1000][: pod.gpu_count]
        for i in chosen:
            gpus[n][i] -= pod.gpu_milli
    return placed


def after(pod: fgd.Pod, gpus: list[int], gpu: int) -> list[int]:
    chosen = [gpu] if pod.gpu_count == 1 else [i for i, g in enumerate(gpus) if g >= 1000][: pod.gpu_count]
    return [g - pod.gpu_milli if i in chosen else g for i, g in enumerate(gpus)]


def choices(pod: fgd.Pod, gpus: list[int]) -> list[int]:
    return [i for i, g in enumerate(gpus) if g >= pod.gpu_milli] if pod.gpu_count == 1 else [-1]


@pytest.mark.parametrize("seed", range(6))
def test_replay_of_fgd_equals_a_plain_one(seed: int) -> None:
    nodes, pods = cluster(seed)
    mix = fgd.typical([floor.kind_of(pod) for pod in pods])

    def score(pod: fgd.Pod, gpus: list[int], cpu: int, model: str) -> tuple[float, int]:
        before = fgd.expected(cpu, gpus, model, mix)
        values = {
            i: int(
                100
                / (1 + np.exp(-(before - fgd.expected(cpu - pod.cpu_milli, after(pod, gpus, i), model, mix)) / 1000))
            )
            for i in choices(pod, gpus)
        }
        gpu = max(values, key=lambda i: (values[i], -i))
        return values[gpu], gpu

    order = np.random.default_rng(seed).permutation(len(nodes))
    policy = policies.Fgd(packing_fragments.Fragments(mix, MODELS, 4))
    trail = replay.Replay(nodes, pods, policy, order, MODELS).run()
    assert trail.node.tolist() == plain(nodes, pods, order.tolist(), score)


@pytest.mark.parametrize("seed", range(6))
def test_replay_of_best_fit_equals_a_plain_one(seed: int) -> None:
    nodes, pods = cluster(seed)

    def score(pod: fgd.Pod, gpus: list[int], cpu: int, model: str) -> tuple[float, int]:
        del model
        left = (cpu - pod.cpu_milli) / 128000 * 0.5 + (sum(gpus) - pod.gpu_milli * pod.gpu_count) / 8000 * 0.5
        return int((1 - left) * 100), min(choices(pod, gpus), key=lambda i: (gpus[i], i))

    order = np.arange(len(nodes))
    trail = replay.Replay(nodes, pods, policies.BestFit(), order, MODELS).run()
    assert trail.node.tolist() == plain(nodes, pods, order.tolist(), score)


@pytest.mark.parametrize("policy", experiment.POLICIES)
@pytest.mark.parametrize("migrate", [0.0, 10.0])
def test_replay_ends_in_a_state_that_its_placements_explain(policy: str, migrate: float) -> None:
    """Nothing is below zero, sums match, and no dropped pod would fit in the end: nothing ever leaves."""
    nodes, pods = cluster(3)
    lab = experiment.Experiment(nodes, pods, experiment.Setting(migrate_pct=migrate))
    order, arrived, _ = lab.arrive(1)
    trail = lab.replay(policy, 1)
    final = trail.states.nodes(trail.final)
    assert final.cpu_milli.min() >= 0
    assert final.gpu_milli.min() >= 0
    there = trail.node >= 0
    used = sum(pod.demand_milli for pod, t in zip(arrived, there, strict=True) if t)
    assert trail.capacity_milli - int(final.gpu_milli.sum()) == used == int(trail.used_milli[-1])
    free_cpu = sum(n.cpu_milli for n in nodes) - sum(p.cpu_milli for p, t in zip(arrived, there, strict=True) if t)
    assert int(final.cpu_milli.sum()) == free_cpu
    if migrate:
        return  # a move may open a hole for a pod that was dropped before
    memory = np.array([nodes[i].memory_mib for i in order])
    for pod, t, n in zip(arrived, there, trail.node, strict=True):
        if t:
            memory[order.tolist().index(int(n))] -= pod.memory_mib
    assert memory.min() >= 0
    for pod, t in zip(arrived, there, strict=True):
        if not t:
            allowed = np.array([not pod.models or lab.models[m] in pod.models for m in final.model])
            fits = nodes_of.fits(final, floor.kind_of(pod)) & (memory >= pod.memory_mib) & allowed
            assert not fits.any(), pod


def test_replay_is_the_same_every_time() -> None:
    nodes, pods = cluster(4)
    for policy in experiment.POLICIES:
        runs = [experiment.Experiment(nodes, pods).run(policy, 7) for _ in range(2)]
        assert runs[0] == runs[1]


def test_replay_stops_at_a_thousand_and_one_pods_a_node() -> None:
    nodes = [openb.Node("n", 10**9, 10**9, 1, "")]
    pods = [openb.Pod(f"p{i}", 1, 1, 0, 0) for i in range(1003)]
    trail = replay.Replay(nodes, pods, policies.BestFit(), np.array([0]), ("",)).run()
    assert trail.node.tolist() == [0] * 1001 + [-1, -1]


def test_columns_are_means_over_the_events_of_a_load() -> None:
    """Two GPUs; pods of 500, 1000, 6, 500 and 800: arrived 25, 75, 75.3, 100.3, 140.3 %; the last does not fit."""
    nodes = [openb.Node("n", 64000, 64000, 2, "")]
    pods = [openb.Pod(f"p{i}", 1000, 1, u, 1) for i, u in enumerate([500, 1000, 6, 490, 800])]
    mix = (fgd.Weighted(fgd.Pod(1000, 1000, 1), 1.0),)
    trail = replay.Replay(nodes, pods, policies.BestFit(), np.array([0]), ("",)).run()
    run = report.summarise(trail, packing_fragments.Fragments(mix, [""], 2), policy="best-fit", seed=1)
    # after the second pod 500 of 2000 are left on a GPU that a whole pod cannot use: 25 %, then 24.7 %, then 0.2 %
    assert [
        (c.arrived_pct, c.allocated_pct, c.fragmented_pct) for c in run.columns if c.arrived_pct in {25, 75, 100, 140}
    ] == [
        (25, 25.0, 25.0),
        (75, 75.15, 24.85),
        (100, 99.8, 0.2),
        (140, 99.8, 0.2),
    ]
    # where no pod came: as after the last pod before, an empty cluster at first
    assert [(c.arrived_pct, c.allocated_pct) for c in run.columns if c.arrived_pct in {0, 24, 26, 74, 76, 99, 139}] == [
        (0, 0.0), (24, 0.0), (26, 25.0), (74, 25.0), (76, 75.3), (99, 75.3), (139, 99.8),
    ]  # fmt: skip
    assert (run.pods, run.dropped_pods) == (5, 1)


def test_means_are_over_seeds_and_loads_that_all_have() -> None:
    runs = [
        report.Run("fgd", 1, (report.Column(100, 95.0, 4.0), report.Column(130, 96.0, 4.0)), 9, 1),
        report.Run("fgd", 2, (report.Column(100, 93.0, 5.0),), 9, 1),
    ]
    assert report.means(runs) == (report.Mean("fgd", 100, 6.0, 1.4142, 4.5),)


def test_migration_moves_one_pod_to_make_room() -> None:
    """A 470 alone on each of two GPUs: a whole pod fits after one of them has joined the other."""
    nodes = [openb.Node(f"n{i}", 64000, 64000, 1, "") for i in range(2)]
    pods = [openb.Pod("a", 1000, 1, 470, 1), openb.Pod("b", 1000, 1, 600, 1), openb.Pod("c", 1000, 1, 400, 1)]

    class Spread(policies.Published):
        """The emptiest node first."""

        def score(self, nodes: policies.Nodes, pod: fgd.Pod) -> policies.Scores:
            return policies.Scores(nodes.gpu_milli.sum(axis=1) * 1.0, nodes_of.tightest(nodes.gpu_milli, pod))

    def lost(nodes: policies.Nodes) -> policies.Floats:
        return np.asarray((nodes.gpu_milli.sum(axis=1) % 1000) / 1000)

    whole = openb.Pod("d", 1000, 1, 530, 1)
    for moves, placed in ((0, [0, 1, 0, -1]), (1, [0, 1, 0, 0])):
        trail = replay.Replay(
            nodes, [*pods, whole], Spread(), np.array([0, 1]), ("",), moves=moves, potential=lost
        ).run()
        assert trail.node.tolist() == placed
        assert trail.migrations == moves


def test_placer_needs_no_luck_with_the_order_of_nodes() -> None:
    nodes, pods = cluster(5)
    lab = experiment.Experiment(nodes, pods)
    assert isinstance(lab.rule, packing.Rule)
    used = {
        int(
            replay.Replay(nodes, pods, lab.rule, np.random.default_rng(s).permutation(9), lab.models)
            .run()
            .used_milli[-1]
        )
        for s in range(5)
    }
    assert len(used) == 1
