"""On every saved node topology: the chosen sets against brute force and against what the device plugin may answer."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib

import numpy as np
import pytest

from placer import errors, ranges
from placer.placement import bandwidth, gpuset, plugin_model, plugin_scores, wiring
from placer.topology import types as topo
from placer.topology.readers import sniff

DATA = pathlib.Path(os.environ.get("PLACER_DATA", pathlib.Path(__file__).parents[4] / "shared" / "data"))
FILES = sorted((DATA / "topo").glob("*.txt"))
SAMPLE = 12  # free masks of each size of a machine with more than ten GPUs


@functools.cache
def _distinct() -> tuple[tuple[str, topo.NodeTopology], ...]:
    """Each wiring once: many of the files are the same machine printed by other tools."""
    seen: dict[tuple[object, ...], tuple[str, topo.NodeTopology]] = {}
    for file in FILES:
        try:
            node = sniff.read(file.read_text(errors="replace"), source=file.name, name="n")
        except errors.ParseError:
            continue
        if len(node.gpus) > 1:
            seen.setdefault((wiring.of(node), plugin_scores.of_node(node)), (file.stem, node))
    return tuple(seen.values())


def _masks(count: int, size: int) -> list[int]:
    if count <= 10:
        return [mask for mask in range(1 << count) if mask.bit_count() >= size]
    draws = np.random.default_rng(size)
    picked = [int(mask) for mask in draws.integers(0, 1 << count, 10 * SAMPLE) if int(mask).bit_count() >= size]
    return [(1 << count) - 1, *picked[:SAMPLE]]


MISSING = pytest.mark.skipif(not FILES, reason=f"no topologies under {DATA / 'topo'}: set PLACER_DATA")
NAMES = [name for name, _ in _distinct()] or ["none"]


@MISSING
def test_saved_topologies_are_of_many_machines() -> None:
    assert len(_distinct()) >= 20


@MISSING
@pytest.mark.parametrize("name", NAMES)
def test_best_saved_topology_equals_brute_force_and_never_below_the_plugin(name: str) -> None:
    node = dict(_distinct())[name]
    wired, view = wiring.of(node), plugin_scores.of_node(node)
    count = max(wired.index) + 1
    at = {gpu: p for p, gpu in enumerate(view.gpus)}
    table = gpuset.SetTable(node, count)

    @functools.cache
    def rated(mask: int) -> float:
        value = bandwidth.of_set(wired, ranges.from_mask(mask)).busbw_gbps
        return -1.0 if value is None else value

    known = ranges.to_mask(wired.index)
    for size in range(2, len(wired.index) + 1):
        if count > 10 and size not in {2, 3, 4, 8, 16}:
            continue
        masks = [mask & known for mask in _masks(count, size) if (mask & known).bit_count() >= size]
        chosen, busbw, _ = table.best_many(np.array(masks, dtype=np.int64), size)
        for mask, ours, told in zip(masks, chosen, busbw, strict=True):
            free = ranges.from_mask(mask)
            best = max(rated(ranges.to_mask(s)) for s in itertools.combinations(free, size))
            assert rated(int(ours)) == pytest.approx(best, abs=1e-6), (name, size, free)
            assert (best == -1.0) == bool(np.isnan(told))
            if best >= 0:
                assert told == pytest.approx(best, abs=1e-6)
            for answer in plugin_model.possible(view.scores, [at[gpu] for gpu in free], size):
                theirs = rated(ranges.to_mask([view.gpus[p] for p in answer]))
                assert rated(int(ours)) >= theirs - 1e-6, (name, size, free)
