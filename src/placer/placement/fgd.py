"""The fragmentation measure of FGD (Weng et al., "Beware of Fragmentation", USENIX ATC 2023), exactly as published.

A node n has c CPU (thousandths) left and g_1 … g_G thousandths of each GPU, G_n = Σ g_i. A pod m wants CPU c_m, u_m
thousandths on each of k_m GPUs, of certain models or any. What m cannot use of n is

    F_n(m) = Σ_{g_i < u_m} g_i   if the model suits, u_m > 0, at least k_m GPUs have g_i >= u_m, and c >= c_m
           = G_n                 else (also for a pod without GPUs)

and F_n(M) = Σ_m p_m F_n(m) over the typical pods M with shares p_m. Memory is no part of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

TYPICAL_SHARE = 0.95
"""Typical pods are the most frequent types that together make up this share of all pods."""

UNSAID_CPU_MILLI = 100
"""A pod that asks for no CPU counts with so much (Kubernetes' non-zero request)."""


class Pod(msgspec.Struct, frozen=True, order=True):
    """A pod type: CPU and GPU in thousandths; fewer than 1000 of a GPU means a share of one. `models` () = any."""

    cpu_milli: int
    gpu_milli: int
    gpu_count: int
    models: tuple[str, ...] = ()


class Weighted(msgspec.Struct, frozen=True):
    """A pod type and its share of all pods."""

    pod: Pod
    share: float


Mix = tuple[Weighted, ...]


def typical(pods: Iterable[Pod]) -> Mix:
    """The typical pods: types by count, most first, equal counts by the larger type, until 95 % of all pods are in.

    Shares are renormalised. No pods give no mix.
    """
    counts = Counter(msgspec.structs.replace(p, cpu_milli=UNSAID_CPU_MILLI) if p.cpu_milli == 0 else p for p in pods)
    total = counts.total()
    chosen: list[tuple[Pod, int]] = []
    covered = 0
    for pod, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= TYPICAL_SHARE * total:
            break
        chosen.append((pod, count))
        covered += count
    return tuple(Weighted(pod, count / covered) for pod, count in chosen)


def fragment(cpu_milli: int, gpu_milli: Sequence[int], model: str, pod: Pod) -> int:
    """F_n(m), thousandths of a GPU. `gpu_milli` is what is left of each GPU, `model` the node's ("" = unknown)."""
    wanted = pod.gpu_milli
    suits = not pod.models or model in pod.models
    enough = sum(g >= wanted for g in gpu_milli) >= pod.gpu_count
    if wanted and suits and enough and cpu_milli >= pod.cpu_milli:
        return sum(g for g in gpu_milli if g < wanted)
    return sum(gpu_milli)


def expected(cpu_milli: int, gpu_milli: Sequence[int], model: str, mix: Mix) -> float:
    """F_n(M), thousandths of a GPU."""
    return sum(weighted.share * fragment(cpu_milli, gpu_milli, model, weighted.pod) for weighted in mix)
