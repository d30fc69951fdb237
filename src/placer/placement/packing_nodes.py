"""Nodes as arrays, and where on a node a pod's GPUs may lie: what every packing rule looks at."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from placer.placement import fgd

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

WHOLE: Final = 1000
"""Thousandths of one GPU."""

NO_GPU: Final = -1
"""Stands for the GPU of a pod that wants none, or several (which are the ones with least left that suffice)."""


class Nodes(msgspec.Struct, frozen=True):
    """B nodes of up to G GPUs each.

    `cpu_milli` (B,) and `gpu_milli` (B, G) are what is free; a GPU that a node does not have counts 0. `model` (B,) are
    indices into the caller's list of models. `gpus` (B,) counts a node's GPUs, `classes` (B,) has bit k set where a pod
    of k whole GPUs runs, bit 0 for a share.
    """

    cpu_milli: Ints
    gpu_milli: Ints
    model: Ints
    gpus: Ints
    classes: Ints


class Scores(msgspec.Struct, frozen=True):
    """`value` (B,): higher is better. `gpu` (B,): the GPU for a pod of one, `NO_GPU` for other pods."""

    value: Floats
    gpu: Ints


class Options(msgspec.Struct, frozen=True):
    """C ways to place one pod: `row` (C,) the node, ascending; `gpu` (C,); `after` (C, G) what is then free."""

    row: Ints
    gpu: Ints
    after: Ints


def fits(nodes: Nodes, pod: fgd.Pod) -> Bools:
    """(B,) whether CPU and GPUs suffice. The model and memory are for the caller to look at."""
    enough = nodes.cpu_milli >= pod.cpu_milli
    if pod.gpu_count:
        enough &= (nodes.gpu_milli >= pod.gpu_milli).sum(axis=1) >= pod.gpu_count
    return enough


def options(gpu_milli: Ints, pod: fgd.Pod) -> Options:
    """Every way that matters, on nodes that the pod fits on.

    A share may go to any GPU with room; of GPUs with equal room only the first counts. A pod of k GPUs takes the k with
    least left that suffice, the first ones of equals.
    """
    rows = np.arange(len(gpu_milli))
    if pod.gpu_count == 0:
        return Options(rows, np.full(len(rows), NO_GPU), gpu_milli)
    if pod.gpu_count > 1:
        return Options(rows, np.full(len(rows), NO_GPU), gpu_milli - several(gpu_milli, pod) * pod.gpu_milli)
    room = gpu_milli >= pod.gpu_milli
    if pod.gpu_milli >= WHOLE:
        gpu = room.argmax(axis=1)
    else:
        room &= ~_repeats(gpu_milli)
        rows, gpu = np.nonzero(room)
    after = gpu_milli[rows]
    after[np.arange(len(rows)), gpu] -= pod.gpu_milli
    return Options(rows, gpu, after)


def several(gpu_milli: Ints, pod: fgd.Pod) -> Bools:
    """(B, G) which GPUs a pod of one or more takes: those with least left that suffice, the first ones of equals."""
    room = gpu_milli >= pod.gpu_milli
    if pod.gpu_milli >= WHOLE:  # all with room are equal
        chosen: Bools = room & (room.cumsum(axis=1) <= pod.gpu_count)
        return chosen
    order = np.argsort(np.where(room, gpu_milli, WHOLE + 1), axis=1, kind="stable")
    chosen = np.zeros(gpu_milli.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order[:, : pod.gpu_count], True, axis=1)
    return chosen


def tightest(gpu_milli: Ints, pod: fgd.Pod) -> Ints:
    """(B,) for a pod of one GPU the one with least left that suffices, the first of equals; `NO_GPU` for other pods."""
    if pod.gpu_count != 1:
        return np.full(len(gpu_milli), NO_GPU)
    tight: Ints = np.where(gpu_milli >= pod.gpu_milli, gpu_milli, WHOLE + 1).argmin(axis=1)
    return tight


def best(found: Options, value: Floats, shape: tuple[int, int]) -> Scores:
    """The best option of each of `shape` = (B, G) nodes, the first GPU of equals; each node has at least one."""
    if len(found.row) == shape[0]:  # one option a node
        return Scores(value, found.gpu)
    table = np.full(shape, -np.inf)
    table[found.row, found.gpu] = value
    gpu = table.argmax(axis=1)
    return Scores(table[np.arange(shape[0]), gpu], gpu)


def _repeats(gpu_milli: Ints) -> Bools:
    """(B, G) whether an earlier GPU of the node has as much left."""
    count = gpu_milli.shape[1]
    earlier = np.tri(count, k=-1, dtype=np.bool_)
    same: Bools = ((gpu_milli[:, :, None] == gpu_milli[:, None, :]) & earlier).any(axis=2)
    return same
