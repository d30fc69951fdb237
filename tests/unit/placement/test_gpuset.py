"""The table's choices against a brute force written apart from it: every size and free mask of five machines."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from placer.cluster import types as cluster
from placer.placement import bandwidth, gpuset, wiring
from placer.topology import links
from placer.topology import types as topo

L = topo.LinkType
Set = tuple[int, ...]


class Case(msgspec.Struct, frozen=True):
    """A machine with what the test says of it: bandwidth of a set (None = unknown) and distance of a pair."""

    machine: topo.NodeTopology
    host: links.Host
    bandwidth: Callable[[Set], float | None]
    distance: Callable[[int, int], int]


def _node(
    count: int, relation: Callable[[int, int], tuple[topo.LinkType, int]], model: str, numa: Set
) -> topo.NodeTopology:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model=model, numa=(numa[i],)) for i in range(count))
    pairs = tuple(topo.Link(f"GPU{a}", f"GPU{b}", *relation(a, b)) for a, b in itertools.combinations(range(count), 2))
    return topo.NodeTopology("n", "test", gpus=gpus, links=pairs)


HALVES = (0, 0, 0, 0, 1, 1, 1, 1)


def _nvswitch() -> Case:
    """H200: ring 370.8 up to four GPUs, then 0.85 x 370.8 x 2(k-1)/(k+1)."""
    values = {2: 370.8, 3: 370.8, 4: 370.8, 5: 420.24, 6: 450.257, 7: 472.77, 8: 490.28}
    return Case(
        _node(8, lambda _a, _b: (L.NVLINK, 18), "h200", HALVES),
        links.Host(),
        lambda s: values[len(s)],
        lambda a, b: int(HALVES[a] != HALVES[b]),
    )


def _pcie() -> Case:
    """Two Broadwell sockets of two PCIe 3 switches of two GPUs."""

    def kind(a: int, b: int) -> tuple[topo.LinkType, int]:
        return (L.PIX if a // 2 == b // 2 else L.PXB if a // 4 == b // 4 else L.SYS), 0

    return Case(
        _node(8, kind, "p100", HALVES),
        links.Host(links.Cpu.INTEL_BROADWELL, 3),
        lambda s: 12.0 if len({g // 4 for g in s}) == 1 else 6.0,
        lambda a, b: {L.PIX: 10, L.PXB: 20}.get(kind(a, b)[0], 201),
    )


def _bridged() -> Case:
    """A100 PCIe: four bridged pairs on two Skylake sockets."""

    def kind(a: int, b: int) -> tuple[topo.LinkType, int]:
        if a // 2 == b // 2:
            return L.NVLINK, 12
        return (L.NODE if a // 4 == b // 4 else L.SYS), 0

    def value(s: Set) -> float:
        if len(s) == 2 and s[0] // 2 == s[1] // 2:
            return 235.0
        return 20.0 if len({g // 4 for g in s}) == 1 else 10.0

    return Case(
        _node(8, kind, "a100", HALVES),
        links.Host(links.Cpu.INTEL_SKYLAKE, 4),
        value,
        lambda a, b: {L.NVLINK: 0, L.NODE: 60}.get(kind(a, b)[0], 201),
    )


def _numa_only() -> Case:
    """RTX 4090s whose matrix says SYS for every pair; only NUMA tells the sockets apart, unevenly."""
    numa = (1, 0, 0, 0, 0, 1)
    return Case(
        _node(6, lambda _a, _b: (L.SYS, 0), "rtx4090", numa),
        links.Host(links.Cpu.AMD_ZEN2, 4),
        lambda _s: 16.0,
        lambda a, b: 200 + int(numa[a] != numa[b]),
    )


def _dgx1v() -> Case:
    """The hybrid cube mesh; bandwidths by the model, which has its own tests against published values."""
    double = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    single = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}

    def kind(a: int, b: int) -> tuple[topo.LinkType, int]:
        pair = (min(a, b), max(a, b))
        return (L.NVLINK, 2) if pair in double else (L.NVLINK, 1) if pair in single else (L.SYS, 0)

    machine = _node(8, kind, "v100", HALVES)
    wired = wiring.of(machine)
    return Case(
        machine,
        links.Host(),
        lambda s: bandwidth.of_set(wired, s).busbw_gbps,
        lambda a, b: (0 if kind(a, b)[0] is L.NVLINK else 200) + int(HALVES[a] != HALVES[b]),
    )


CASES = {"nvswitch": _nvswitch(), "pcie": _pcie(), "bridged": _bridged(), "numa-only": _numa_only(), "dgx1v": _dgx1v()}


class Brute:
    """Objective by definition: bandwidth, locality, damage, lowest indices."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.count = len(case.machine.gpus)
        self.families: list[tuple[int, list[frozenset[int]]]] = []
        for size in (s for s in (1, 2, 4, 8, 16) if s <= self.count):
            sets = list(itertools.combinations(range(self.count), size))
            top = max(self.speed(s) for s in sets)
            fast = [s for s in sets if self.speed(s) > top - 1e-3]
            nearest = min(self.spread(s) for s in fast)
            self.families.append((size, [frozenset(s) for s in fast]))
            self.families.append((size, [frozenset(s) for s in fast if self.spread(s) == nearest]))

    def speed(self, s: Set) -> float:
        value = self.case.bandwidth(s) if len(s) > 1 else None
        return -1.0 if value is None else round(value, 3)

    def spread(self, s: Set) -> int:
        return sum(self.case.distance(a, b) for a, b in itertools.combinations(s, 2))

    @functools.cache  # noqa: B019 - lives as long as the test module
    def held(self, free: frozenset[int]) -> int:
        return sum(size * self.most(number, free) for number, (size, _) in enumerate(self.families))

    @functools.cache  # noqa: B019
    def most(self, number: int, free: frozenset[int]) -> int:
        size, sets = self.families[number]
        if len(free) < size:
            return 0
        if len(sets) == len(list(itertools.combinations(range(self.count), size))):
            return len(free) // size
        first = min(free)
        takes = [1 + self.most(number, free - s) for s in sets if first in s and s <= free]
        return max([self.most(number, free - {first}), *takes])

    def damage(self, free: Set, s: Set) -> int:
        lost = self.held(frozenset(free)) - self.held(frozenset(free) - frozenset(s))
        return lost * 1000 // len(self.families)

    def best(self, free: Set, size: int) -> Set:
        return min(
            itertools.combinations(free, size),
            key=lambda s: (-self.speed(s), self.spread(s), self.damage(free, s), s),
        )


@pytest.mark.parametrize("name", CASES)
def test_best_every_size_and_free_mask_equals_brute_force(name: str) -> None:
    case = CASES[name]
    brute = Brute(case)
    table = gpuset.SetTable(case.machine, brute.count, host=case.host)
    for mask in range(1 << brute.count):
        free = tuple(i for i in range(brute.count) if mask >> i & 1)
        for size in range(1, brute.count + 1):
            found = table.best(mask, size)
            if size > len(free):
                assert found is None
                continue
            assert found is not None
            wanted = brute.best(free, size)
            assert tuple(sorted(found.order)) == gpuset.indices(found.mask) == wanted, (free, size)
            assert found.damage == brute.damage(free, wanted)
            assert found.locality == brute.spread(wanted)
            if size > 1:
                assert found.busbw_gbps == pytest.approx(case.bandwidth(wanted), abs=1e-3)
            else:
                assert (found.busbw_gbps, found.limited_by) == (None, "single GPU")


def test_best_sixteen_gpus_sampled_equals_brute_force() -> None:
    """DGX-2: sixteen V100 on NVSwitch, 120 GB/s any set; the boards of eight are the sockets."""
    numa = (0,) * 8 + (1,) * 8
    case = Case(
        _node(16, lambda _a, _b: (L.NVLINK, 6), "v100", numa),
        links.Host(),
        lambda _s: 120.0,
        lambda a, b: int(numa[a] != numa[b]),
    )
    brute = Brute(case)
    table = gpuset.SetTable(case.machine, 16)
    rng = np.random.default_rng(20260131)
    for _ in range(12):
        free = tuple(sorted(int(g) for g in rng.choice(16, size=int(rng.integers(2, 10)), replace=False)))
        mask = sum(1 << g for g in free)
        for size in range(1, len(free) + 1):
            found = table.best(mask, size)
            assert found is not None
            assert gpuset.indices(found.mask) == brute.best(free, size)


@pytest.mark.parametrize("name", CASES)
def test_best_many_equals_best_of_each(name: str) -> None:
    case = CASES[name]
    table = gpuset.SetTable(case.machine, len(case.machine.gpus), host=case.host)
    masks = np.arange(1 << table.count, dtype=np.int64).reshape(2, -1)
    for size in range(1, table.count + 1):
        chosen, busbw, damage = table.best_many(masks, size)
        assert chosen.shape == busbw.shape == damage.shape == masks.shape
        for mask, got, speed, lost in zip(masks.flat, chosen.flat, busbw.flat, damage.flat, strict=True):
            found = table.best(int(mask), size)
            assert (int(got), int(lost)) == ((found.mask, found.damage) if found else (0, 0))
            if found is None or found.busbw_gbps is None:
                assert np.isnan(speed)
            else:
                assert float(speed) == found.busbw_gbps


def test_best_many_large_machine_equals_best_of_each() -> None:
    machine = _node(12, lambda a, b: (L.PIX if a // 4 == b // 4 else L.SYS, 0), "p100", (0,) * 4 + (1,) * 8)
    table = gpuset.SetTable(machine, 12)
    masks = np.array([0, 1, 0b111, 0b111100001111, 0b101010101010, 0b111100001111], dtype=np.int64)
    chosen, busbw, damage = table.best_many(masks, 3)
    found = [table.best(int(m), 3) for m in masks]
    assert chosen.tolist() == [f.mask if f else 0 for f in found]
    assert chosen[3] == 0b111
    assert busbw[3] == 12
    assert damage.tolist() == [f.damage if f else 0 for f in found]


def test_best_single_gpu_goes_to_a_broken_pair() -> None:
    """Free: a whole quad and one GPU of the other socket. The lone one is taken."""
    for name in ("nvswitch", "pcie", "dgx1v"):
        found = gpuset.SetTable(CASES[name].machine, 8).best(0b01001111, 1)
        assert found is not None
        assert found.order == (6,)


def test_best_pair_of_a_cube_mesh_is_a_double_link_in_an_exact_hole() -> None:
    found = gpuset.SetTable(CASES["dgx1v"].machine, 8).best(0b01101111, 2)
    assert found is not None
    assert (found.order, found.busbw_gbps) == ((5, 6), 40)


def test_best_without_a_topology_takes_the_lowest_and_says_so() -> None:
    table = gpuset.SetTable(None, 8)
    found = table.best(0b11010110, 3)
    assert found is not None
    assert (found.order, found.busbw_gbps, found.limited_by) == ((1, 2, 4), None, "unknown wiring")
    assert "chosen by index" in found.assumed[0]
    chosen, busbw, _ = table.best_many(np.array([0b11010110, 0b1]), 3)
    assert chosen.tolist() == [0b10110, 0]
    assert np.isnan(busbw).all()


def test_best_without_a_topology_and_many_slices_needs_no_enumeration() -> None:
    """A node that counts MIG slices as GPUs: 56 of them."""
    table = gpuset.SetTable(None, 56)
    found = table.best((1 << 56) - 1, 20)
    assert found is not None
    assert found.order == tuple(range(20))


def test_best_twenty_four_gpus_looks_at_neighbours_and_says_so() -> None:
    machine = _node(24, lambda a, b: (L.PIX if a % 2 == b % 2 else L.SYS, 0), "t4", tuple(i % 2 for i in range(24)))
    found = gpuset.SetTable(machine, 24).best((1 << 24) - 1, 12)
    assert found is not None
    assert not found.exact
    assert len({g % 2 for g in found.order}) == 1


def test_best_knows_numa_where_no_matrix_is_told() -> None:
    gpus = tuple(topo.Gpu(f"GPU{i}", i, model="a100", numa=(i % 2,)) for i in range(4))
    machine = topo.NodeTopology("n", "gres.conf", gpus=gpus)
    found = gpuset.SetTable(machine, 4).best(0b1111, 2)
    assert found is not None
    assert found.order == (0, 2)


def test_best_unknown_locality_is_never_near() -> None:
    """GPU0 and GPU1 are not told where they are; GPU2 and GPU3 share a socket's far ends."""
    gpus = tuple(topo.Gpu(f"GPU{i}", i, numa=(0,) if i > 1 else (0, 1)) for i in range(4))
    machine = topo.NodeTopology("n", "t", gpus=gpus)
    found = gpuset.SetTable(machine, 4).best(0b1111, 2)
    assert found is not None
    assert found.order == (2, 3)


def test_best_more_gpus_than_the_matrix_tells_prefers_the_known() -> None:
    machine = _node(2, lambda _a, _b: (L.SYS, 0), "a100", (0, 1))
    found = gpuset.SetTable(machine, 4).best(0b1111, 2)
    assert found is not None
    assert found.order == (0, 1)
    other = gpuset.SetTable(machine, 4).best(0b1110, 2)
    assert other is not None
    assert other.busbw_gbps is None


def test_workload_host_bound_spreads_over_sockets() -> None:
    table = gpuset.SetTable(CASES["nvswitch"].machine, 8, workload=cluster.Workload.HOST_BOUND)
    found = table.best(0xFF, 2)
    assert found is not None
    assert found.order == (0, 4)


def test_workload_host_bound_spreads_on_a_large_machine_too() -> None:
    numa = (0,) * 8 + (1,) * 8
    machine = _node(16, lambda _a, _b: (L.NVLINK, 6), "v100", numa)
    found = gpuset.SetTable(machine, 16, workload=cluster.Workload.HOST_BOUND).best(0xFFFF, 4)
    assert found is not None
    assert sorted(g // 8 for g in found.order) == [0, 0, 1, 1]


def test_workload_independent_leaves_whole_pairs_first() -> None:
    """Free: quad 0-3, and 4 and 6 of two broken pairs: two independent ranks take the broken ones."""
    machine = CASES["bridged"].machine
    found = gpuset.SetTable(machine, 8, workload=cluster.Workload.INDEPENDENT).best(0b01011111, 2)
    assert found is not None
    assert found.order == (4, 6)
    together = gpuset.SetTable(machine, 8).best(0b01011111, 2)
    assert together is not None
    assert together.order == (0, 1)


def test_workload_alltoall_counts_no_in_network_reduction() -> None:
    found = gpuset.SetTable(CASES["nvswitch"].machine, 8, workload=cluster.Workload.ALLTOALL).best(0xFF, 8)
    assert found is not None
    assert found.busbw_gbps == pytest.approx(370.8)


def test_best_impossible_sizes_are_none() -> None:
    table = gpuset.SetTable(CASES["nvswitch"].machine, 8)
    assert table.best(0xFF, 0) is None
    assert table.best(0xFF, 9) is None
    assert table.best(0, 1) is None
    assert table.best(0xF00, 1) is None
    chosen, _, _ = table.best_many(np.array([0xFF]), 9)
    assert chosen.tolist() == [0]
