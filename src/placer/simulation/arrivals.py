"""The order in which pods arrive, and how many, as FGD's published experiments have it.

The list is sorted by name and shuffled. When the pods ask for less than `load` times the cluster's GPUs, pods drawn
from the original list with replacement are appended, until the next one's demand *on one GPU* would exceed the target
(so a pod of several GPUs may overshoot it). When they ask for more, random pods are taken out.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from placer import errors
from placer.simulation import openb


def arrange(pods: Sequence[openb.Pod], capacity_milli: int, load: float, rng: np.random.Generator) -> list[openb.Pod]:
    """The pods in the order of their arrival. `capacity_milli` counts the cluster's GPUs in thousandths.

    Raises InputError when the load is not positive or the list cannot be tuned to it.
    """
    target = load * capacity_milli
    total = sum(pod.demand_milli for pod in pods)
    if not load > 0 or not total or not capacity_milli:
        raise errors.InputError("a load above 0 needs GPUs and pods that ask for some", hint="--load 1.3")
    by_name = sorted(pods, key=lambda pod: pod.name)
    order = [by_name[i] for i in rng.permutation(len(by_name))]
    return _inflate(order, pods, total, target, rng) if total < target else _deflate(order, total, target, rng)


def _inflate(
    order: list[openb.Pod], pods: Sequence[openb.Pod], total: int, target: float, rng: np.random.Generator
) -> list[openb.Pod]:
    copies = 0
    while True:
        pod = pods[int(rng.integers(len(pods)))]
        if total + pod.gpu_milli > target:
            return order
        total += pod.demand_milli
        order.append(msgspec.structs.replace(pod, name=f"{pod.name}-tuned-{copies}"))
        copies += 1


def _deflate(order: list[openb.Pod], total: int, target: float, rng: np.random.Generator) -> list[openb.Pod]:
    while total > target:
        total -= order.pop(int(rng.integers(len(order)))).demand_milli
    return order


def tie_order(count: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The order in which equal nodes are preferred: one random permutation for the whole run.

    The published simulator prefixes each node's name with a random number and lets the smallest name win.
    """
    return rng.permutation(count).astype(np.int64)
