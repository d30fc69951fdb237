"""GPU sets: 10,000 nodes at once, and the tables they are read from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from placer.placement import gpuset
from placer.topology import types as topo

L = topo.LinkType
CUBE_MESH = {(0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 5): 2, (2, 3): 2, (4, 7): 2, (5, 6): 2, (6, 7): 2} | {
    (0, 1): 1,
    (0, 2): 1,
    (1, 3): 1,
    (2, 6): 1,
    (3, 7): 1,
    (4, 5): 1,
    (4, 6): 1,
    (5, 7): 1,
}


def _machine(name: str) -> topo.NodeTopology:
    gpus = tuple(
        topo.Gpu(f"GPU{i}", i, model="h100" if name == "nvswitch" else "v100", numa=(i // 4,)) for i in range(8)
    )

    def link(a: int, b: int) -> topo.Link:
        if name == "nvswitch":
            return topo.Link(f"GPU{a}", f"GPU{b}", L.NVLINK, 18)
        if name == "cube-mesh" and (a, b) in CUBE_MESH:
            return topo.Link(f"GPU{a}", f"GPU{b}", L.NVLINK, CUBE_MESH[a, b])
        near = L.PIX if a // 2 == b // 2 else L.PXB
        return topo.Link(f"GPU{a}", f"GPU{b}", near if name == "pcie" and a // 4 == b // 4 else L.SYS)

    return topo.NodeTopology(
        name, "bench", gpus=gpus, links=tuple(link(a, b) for a, b in itertools.combinations(range(8), 2))
    )


@pytest.mark.parametrize("size", [2, 4])
def test_gpu_set_of_10000_nodes(benchmark: BenchmarkFixture, size: int) -> None:
    table = gpuset.SetTable(_machine("nvswitch"), 8)
    masks = np.random.default_rng(1).integers(0, 256, 10_000, dtype=np.int64)
    table.best_many(masks, size)
    chosen, _, _ = benchmark(table.best_many, masks, size)
    assert len(chosen) == 10_000


@pytest.mark.parametrize("name", ["nvswitch", "pcie", "cube-mesh"])
def test_tables_of_all_sizes_of_8_gpus(benchmark: BenchmarkFixture, name: str) -> None:
    machine = _machine(name)
    masks = np.arange(256, dtype=np.int64)

    def build() -> float:
        table = gpuset.SetTable(machine, 8)
        return float(sum(table.best_many(masks, size)[2].sum() for size in range(1, 9)))

    assert benchmark(build) > 0


def test_one_set_of_16_gpus(benchmark: BenchmarkFixture) -> None:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model="v100", numa=(i // 8,)) for i in range(16))
    pairs = tuple(topo.Link(a.id, b.id, L.NVLINK, 6) for a, b in itertools.combinations(gpus, 2))
    machine = topo.NodeTopology("dgx-2", "bench", gpus=gpus, links=pairs)

    def first() -> int:
        found = gpuset.SetTable(machine, 16).best(0xF7EF, 8)
        return found.mask if found is not None else 0

    assert benchmark(first).bit_count() == 8
