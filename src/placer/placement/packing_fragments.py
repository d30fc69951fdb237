"""FGD's fragmentation of many nodes at once (`fgd` has its definition), by tables.

With W = Σ_m p_m and the condition S_m(n) = "the model suits, c >= c_m and at least k_m GPUs have g_i >= u_m",

    F_n(M) = W G_n − Σ_m p_m S_m(n) Σ_{g_i >= u_m} g_i

For pods of one GPU the sum over GPUs comes outside, since a GPU with g_i >= u_m is what S_m asks for:
Σ_i a(c, g_i) with a(c, g) = g Σ_{k_m = 1, c_m <= c, u_m <= g} p_m, a table over the steps of c and all g. For pods of
several GPUs of u thousandths it is b_u(c, #{g_i >= u}) Σ_{g_i >= u} g_i with b_u(c, n) = Σ_{k_m <= n, c_m <= c} p_m.
One table of each kind for each GPU model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placer.placement import fgd
from placer.placement import packing_nodes as packing

Ints = packing.Ints
Floats = packing.Floats


class Fragments:
    """F_n(M) of one mix on a cluster whose nodes have these models and up to `gpus` GPUs."""

    def __init__(self, mix: Sequence[fgd.Weighted], models: Sequence[str], gpus: int) -> None:
        wanting = [w for w in mix if w.pod.gpu_count and w.pod.gpu_milli]
        self.total = sum(w.share for w in mix)
        self.cpus = np.array(sorted({w.pod.cpu_milli for w in wanting}), dtype=np.int64)
        self.gpus = gpus
        ones = [w for w in wanting if w.pod.gpu_count == 1]
        self._single = self._one_gpu(ones, models)
        sizes = sorted({w.pod.gpu_milli for w in wanting if w.pod.gpu_count > 1})
        self._several = tuple((u, self._many_gpus(u, wanting, models)) for u in sizes)

    def _steps(self, pod: fgd.Pod) -> slice:
        """The CPU steps at which the pod's CPU suffices. Step r: r of `cpus` are at most what is free."""
        return slice(int(np.searchsorted(self.cpus, pod.cpu_milli)) + 1, None)

    def _one_gpu(self, mix: Sequence[fgd.Weighted], models: Sequence[str]) -> Floats:
        table = np.zeros((len(models), len(self.cpus) + 1, packing.WHOLE + 1))
        for w in mix:
            for i, model in enumerate(models):
                if not w.pod.models or model in w.pod.models:
                    table[i, self._steps(w.pod), w.pod.gpu_milli :] += w.share
        return (table * np.arange(packing.WHOLE + 1)).ravel()

    def _many_gpus(self, gpu_milli: int, mix: Sequence[fgd.Weighted], models: Sequence[str]) -> Floats:
        table = np.zeros((len(models), len(self.cpus) + 1, self.gpus + 1))
        for w in mix:
            if w.pod.gpu_count < 2 or w.pod.gpu_milli != gpu_milli:
                continue
            for i, model in enumerate(models):
                if not w.pod.models or model in w.pod.models:
                    table[i, self._steps(w.pod), w.pod.gpu_count :] += w.share
        return table.ravel()

    def of(self, cpu_milli: Ints, gpu_milli: Ints, model: Ints) -> Floats:
        """(B,) F_n(M) in thousandths of a GPU; arguments as in `packing_nodes.Nodes`."""
        step = model * (len(self.cpus) + 1) + np.searchsorted(self.cpus, cpu_milli, side="right")
        held = self._single.take(step[:, None] * (packing.WHOLE + 1) + gpu_milli).sum(axis=1)
        for size, table in self._several:
            room = gpu_milli >= size
            number = room.sum(axis=1)
            milli = number * size if size == packing.WHOLE else (gpu_milli * room).sum(axis=1)
            held += table.take(step * (self.gpus + 1) + number) * milli
        left: Floats = self.total * gpu_milli.sum(axis=1) - held
        return left
