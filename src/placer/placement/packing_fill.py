"""Homogeneous fill: what stays free when a node is filled with one type of pod only, on average over the types.

    H(n) = Σ_j h_j (G_n − q_j u_j k_j),  q_j = min(N_j(n), c / c_j)

with N_j the pods that the GPUs alone would hold (Σ_i ⌊g_i/u_j⌋ for a share, ⌊idle GPUs / k_j⌋ else). c/c_j is *not*
rounded down, so H sees CPU running out before it has: eight idle GPUs with 32 CPUs are fine in FGD's eyes for a pod of
12 CPUs, while H says that 5.3 of them are lost. Only types count that the node's model may run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placer.placement import fgd, packing_holes
from placer.placement import packing_nodes as packing

Ints = packing.Ints
Floats = packing.Floats


class Fill:
    """H of one mix (weights h_j) on a cluster with these models.

    `columns` (STEPS + 1, K) is what one GPU with g steps free adds to the K different counts; H takes their sums.
    """

    def __init__(self, mix: Sequence[fgd.Weighted], models: Sequence[str]) -> None:
        merged: dict[tuple[int, int, int], Floats] = {}
        for w in mix:
            allowed = np.array([not w.pod.models or model in w.pod.models for model in models], dtype=np.float64)
            key = (max(w.pod.cpu_milli, fgd.UNSAID_CPU_MILLI), w.pod.gpu_milli, w.pod.gpu_count)
            merged[key] = merged.get(key, np.zeros(len(models))) + w.share * allowed
        sizes = sorted({u for _, u, k in merged if k == 1 and u < packing.WHOLE})
        several = sorted({k for _, u, k in merged if k > 1 or u >= packing.WHOLE})
        grid = np.arange(packing_holes.STEPS + 1) * packing_holes.GRID
        self.columns = np.stack([grid // u for u in sizes] + [grid // packing.WHOLE], axis=1).astype(np.float64)
        self._column = np.array([*range(len(sizes)), *[len(sizes)] * len(several)], dtype=np.int64)
        self._by = np.array([1.0] * len(sizes) + [float(k) for k in several])
        shares = {u: i for i, u in enumerate(sizes)}
        whole = {k: len(sizes) + i for i, k in enumerate(several)}
        keys = sorted(merged)
        self._slot = np.array([shares[u] if k == 1 and u in shares else whole[k] for _, u, k in keys], dtype=np.int64)
        self._per_cpu = np.array([1.0 / c for c, _, _ in keys])
        weights = np.array([merged[key] for key in keys]).reshape(len(keys), len(models)).T
        self._total = weights.sum(axis=1)
        self._taken = weights * np.array([float(u * k) for _, u, k in keys])
        self._same = bool((self._taken == self._taken[:1]).all())

    def of(self, cpu_milli: Ints, gpu_sum: Ints, model: Ints, counts: Floats) -> Floats:
        """(B,) H in thousandths of a GPU; `counts` (B, K) are the sums of `columns` over a node's GPUs."""
        held = np.floor(counts.take(self._column, axis=1) / self._by)
        filled = np.minimum(held[:, self._slot], cpu_milli[:, None] * self._per_cpu)
        taken = filled @ self._taken[0] if self._same else np.einsum("bt,bt->b", filled, self._taken[model])
        left: Floats = self._total[model] * gpu_sum - taken
        return left
