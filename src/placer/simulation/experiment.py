"""A cluster, a list of pods and a load, against any policy and seed: the published experiment in one object."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np

from placer.placement import fgd, packing, packing_fragments
from placer.placement import packing_nodes as nodes_of
from placer.simulation import admission, arrivals, floor, migration, openb, policies, replay, report

POLICIES: Final = ("random", "dotprod", "gpu-clustering", "gpu-packing", "best-fit", "fgd", "placer")


class Setting(msgspec.Struct, frozen=True):
    """`load`: demand in units of the cluster's GPUs. `migrate_pct`: moves allowed, in % of the pods that come.

    `decline_after_pct`: arrived % from which admission control declines pods; None = nothing is declined.
    """

    load: float = 1.3
    migrate_pct: float = 0.0
    decline_after_pct: float | None = None


class Experiment:
    """What all runs share is prepared once, when it is first needed."""

    def __init__(self, nodes: Sequence[openb.Node], pods: Sequence[openb.Pod], setting: Setting | None = None) -> None:
        self.nodes, self.pods, self.setting = nodes, pods, setting or Setting()
        self.models = tuple(sorted({node.model for node in nodes}))
        self.capacity_milli = sum(node.gpu_count for node in nodes) * nodes_of.WHOLE
        self._gpus = max(node.gpu_count for node in nodes)

    @functools.cached_property
    def fragments(self) -> packing_fragments.Fragments:
        """F_n(M) of the typical pods of the original list."""
        return packing_fragments.Fragments(fgd.typical(map(floor.kind_of, self.pods)), self.models, self._gpus)

    @functools.cached_property
    def rule(self) -> packing.Rule:
        """placer's rule for the mix of the original list."""
        mix = packing.whole_mix(map(floor.kind_of, self.pods))
        counted = Counter((node.model, node.cpu_milli, node.gpu_count) for node in self.nodes)
        return packing.Rule(mix, [packing.Shape(*shape, count) for shape, count in sorted(counted.items())])

    @functools.cached_property
    def chances(self) -> dict[fgd.Pod, float]:
        """What admission control accepts of each type."""
        return admission.chances(self.nodes, self.pods)

    def arrive(self, seed: int) -> tuple[nodes_of.Ints, list[openb.Pod], np.random.Generator]:
        """The order of ties, the pods in their order, and the generator after both draws; the same for all policies."""
        rng = np.random.default_rng(seed)
        order = arrivals.tie_order(len(self.nodes), rng)
        return order, arrivals.arrange(self.pods, self.capacity_milli, self.setting.load, rng), rng

    def replay(self, policy: str, seed: int) -> replay.Trail:
        """One run."""
        order, pods, rng = self.arrive(seed)
        after = self.setting.decline_after_pct
        accept = None
        if after is not None:
            limit = after / 100 * self.capacity_milli
            accept = admission.accept(pods, self.chances, after_milli=limit, rng=rng)
        moves = int(len(pods) * self.setting.migrate_pct / 100)
        chosen, potential = self._policy(policy, rng)
        return replay.Replay(
            self.nodes, pods, chosen, order, self.models, accept=accept, moves=moves, potential=potential
        ).run()

    def run(self, policy: str, seed: int) -> report.Run:
        """One run, summed up."""
        return report.summarise(self.replay(policy, seed), self.fragments, policy=policy, seed=seed)

    def floor(self, seed: int) -> floor.Floor:
        """What no policy can beat on this seed's arrivals."""
        return floor.floor(self.nodes, self.arrive(seed)[1])

    def _policy(self, name: str, rng: np.random.Generator) -> tuple[policies.Policy, migration.Potential]:
        """A policy by its name in `POLICIES`, and what its migrations are weighed by: Φ of the rule, or F_n(M)."""
        if name == "placer":
            return self.rule, self.rule.potential
        make: dict[str, Callable[[], policies.Policy]] = {
            "random": lambda: policies.Random(rng),
            "dotprod": policies.DotProd,
            "gpu-clustering": policies.GpuClustering,
            "gpu-packing": policies.GpuPacking,
            "best-fit": policies.BestFit,
            "fgd": lambda: policies.Fgd(self.fragments),
        }
        return make[name](), self._fragmentation

    def _fragmentation(self, nodes: nodes_of.Nodes) -> nodes_of.Floats:
        lost: nodes_of.Floats = self.fragments.of(nodes.cpu_milli, nodes.gpu_milli, nodes.model) / nodes_of.WHOLE
        return lost
